# SPDX-License-Identifier: Apache-2.0
"""Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020).

    detour sim --topo d1 --workload permutation --cc docs/examples/swift.py:SWIFT
    detour sim --topo d1 --workload permutation --cc docs/examples/swift.py:SWIFT:base_target_us=30

Algorithm 1 and section 3.5. The delay is a packet's round trip; hosts here take no time of their own, so there is no
window for the end host. The defaults of delays are ours, for links of 100 Gb/s and 1 us.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.hosts.cc.plugin import CongestionAlgorithm, hook

US = 1_000_000  # ps


@dataclass(frozen=True)
class SwiftParameters:
    base_target_us: float = 14.0  # of a round trip over no switch
    hop_us: float = 1.0  # more, for every switch that the packet passed (topology-based scaling)
    ai: float = 1.0  # packets a round trip
    beta: float = 0.8  # of the excess delay
    max_mdf: float = 0.5  # a window loses at most this part at once
    fs_range_us: float = 10.0  # flow-based scaling: small windows may wait for longer
    fs_min_cwnd: float = 0.1
    fs_max_cwnd: float = 100.0
    least_cwnd: float = 0.01
    retx_reset: int = 5  # timeouts in a row after which the window starts again


@hook
def target_delay(p, s, hops):
    """In ps (section 3.5)."""
    alpha = p.fs_range_us / (1.0 / np.sqrt(p.fs_min_cwnd) - 1.0 / np.sqrt(p.fs_max_cwnd))
    scaled = alpha / np.sqrt(s.window) - alpha / np.sqrt(p.fs_max_cwnd)
    return US * (p.base_target_us + hops * p.hop_us + max(0.0, min(scaled, p.fs_range_us)))


@hook
def settle(p, s, q, before, now):
    """The end of Algorithm 1. What is below a packet is had by pacing."""
    s.window = min(max(s.window, p.least_cwnd), np.float64(p.max_cwnd))
    if s.window < before:
        s.decreased = now
    q.cwnd = max(s.window, 1.0)


@hook
def may_decrease(s, now):
    return now - s.decreased >= s.rtt


@hook
def on_path(p, s, q, packet, now):
    s.window = q.cwnd
    s.rtt = 0
    s.decreased = now
    s.timeouts = 0


@hook
def on_acked(p, s, q, packet, now):
    s.timeouts = 0
    if packet.rtt < 0:
        return
    before, s.rtt = s.window, packet.rtt
    target = target_delay(p, s, max(packet.hops, 0))
    if packet.rtt < target:
        s.window += p.ai / s.window if s.window >= 1 else p.ai
    elif may_decrease(s, now):
        s.window *= max(1.0 - p.beta * (packet.rtt - target) / packet.rtt, 1.0 - p.max_mdf)
    settle(p, s, q, before, now)


@hook
def on_lost(p, s, q, packet, now):
    s.timeouts = 0
    if may_decrease(s, now):
        before = s.window
        s.window *= 1.0 - p.max_mdf
        settle(p, s, q, before, now)


@hook
def on_rto(p, s, q, packet, now):
    s.timeouts += 1
    before = s.window
    if s.timeouts >= p.retx_reset:
        s.window = p.least_cwnd
    elif may_decrease(s, now):
        s.window *= 1.0 - p.max_mdf
    settle(p, s, q, before, now)


@hook
def on_sent(p, s, q, packet, now):
    if s.window < 1:
        q.pace_next = now + np.int64(s.rtt / s.window)


SWIFT = CongestionAlgorithm(
    SwiftParameters(),
    {"window": float, "rtt": int, "decreased": int, "timeouts": int},
    (on_path, on_sent, on_acked, on_lost, on_rto),
)
