# SPDX-License-Identifier: Apache-2.0
"""HPCC's window on what our switches say: Li et al., "HPCC: High Precision Congestion Control" (SIGCOMM 2019), 3.2.

    detour sim --topo d1 --workload permutation --cc docs/examples/hpcc_delay.py:HPCC_DELAY

HPCC's switches report queue and rate of every link. Here a packet has the sum of its queuing delays only. Where it
waited, the link was full: its use is U = 1 + delay / T, as in HPCC's equation 2 with txRate = B. Where it did not wait,
the use is not known, and `idle_use` stands for it. T is the shortest round trip that was seen on the path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.hosts.cc.plugin import CongestionAlgorithm, hook


@dataclass(frozen=True)
class HpccParameters:
    eta: float = 0.95  # use that is aimed at
    max_stage: int = 5  # round trips of additive increase before a multiplicative one
    ai: float = 0.5  # packets a round trip
    idle_use: float = 0.8  # of a link without queue
    empty_ns: int = 100  # a packet that waited for less has met no queue


@hook
def on_path(p, s, q, packet, now):
    s.reference = q.cwnd
    s.use = p.eta
    s.stage = 0
    s.base_rtt = 0
    s.last = now
    s.round_end = q.next_txn


@hook
def measure(p, s, packet, now):
    """MeasureInflight of Algorithm 1: a mean over a round trip."""
    if s.base_rtt == 0 or packet.rtt < s.base_rtt:
        s.base_rtt = packet.rtt
    use = 1.0 + packet.delay / s.base_rtt if packet.delay > 1000 * p.empty_ns else p.idle_use
    share = min(1.0, (now - s.last) / s.base_rtt)
    s.last = now
    s.use = (1.0 - share) * s.use + share * use


@hook
def on_acked(p, s, q, packet, now):
    """NewAck of Algorithm 1, with ComputeWind."""
    if packet.delay < 0 or packet.rtt <= 0:
        return
    measure(p, s, packet, now)
    ends = packet.txn >= s.round_end
    if s.use >= p.eta or s.stage >= p.max_stage:
        window = s.reference / (s.use / p.eta) + p.ai
        if ends:
            s.stage = 0
    else:
        window = s.reference + p.ai
        if ends:
            s.stage += 1
    q.cwnd = min(max(window, np.float64(p.min_cwnd)), np.float64(p.max_cwnd))
    if ends:
        s.reference = q.cwnd
        s.round_end = q.next_txn


@hook
def on_lost(p, s, q, packet, now):
    """HPCC is for fabrics that lose nothing. A full queue that did: half, once a round trip."""
    if packet.congested and packet.txn >= s.cut_end:
        s.cut_end = q.next_txn
        s.reference = q.cwnd = max(q.cwnd / 2, np.float64(p.min_cwnd))


@hook
def on_rto(p, s, q, packet, now):
    s.reference = q.cwnd = np.float64(p.min_cwnd)


@hook
def on_sent(p, s, q, packet, now):
    """Packets leave at window / T (3.2)."""
    if s.base_rtt > 0:
        q.pace_next = now + np.int64(s.base_rtt / q.cwnd)


HPCC_DELAY = CongestionAlgorithm(
    HpccParameters(),
    {"reference": float, "use": float, "stage": int, "base_rtt": int, "last": int, "round_end": int, "cut_end": int},
    (on_path, on_sent, on_acked, on_lost, on_rto),
)
