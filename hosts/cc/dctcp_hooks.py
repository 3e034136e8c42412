# SPDX-License-Identifier: Apache-2.0
"""DCTCP (RFC 8257) for TCP. (That of queue pairs is compiled into the hosts, `dctcp`.)"""

from __future__ import annotations

from dataclasses import dataclass

from detour.hosts.cc.own import CongestionAlgorithm, hook


@dataclass(frozen=True)
class DctcpParameters:
    """`g`: weight of a window's marks in their average (section 4.2)."""

    g: float = 0.0625


@hook
def on_path(p, s, q, packet, now):
    s.alpha = 1.0


@hook
def measure(p, s, q, packet):
    """The share of bytes that were marked, once a window (section 3.3)."""
    s.acked += packet.bytes
    if packet.marked > 0:
        s.marked += packet.bytes
    if packet.txn >= s.window_end:
        s.alpha += p.g * (s.marked / s.acked - s.alpha)
        s.acked = 0
        s.marked = 0
        s.window_end = q.next_txn


@hook
def on_acked(p, s, q, packet, now):
    s.timeouts = 0
    measure(p, s, q, packet)
    if packet.txn < s.recover:
        return
    if packet.marked > 0:
        q.cwnd = max(q.cwnd * (1.0 - s.alpha / 2.0), 2.0)
        q.ssthresh = q.cwnd
        s.recover = q.next_txn
    elif 2 * q.inflight < q.cwnd:
        return
    elif q.cwnd < q.ssthresh:
        q.cwnd = min(q.cwnd + 1.0, p.max_cwnd)
    else:
        q.cwnd = min(q.cwnd + 1.0 / q.cwnd, p.max_cwnd)


@hook
def on_lost(p, s, q, packet, now):
    """As TCP does (section 3.5)."""
    if packet.txn >= s.recover:
        q.ssthresh = max(q.inflight / 2.0, 2.0)
        q.cwnd = q.ssthresh
        s.recover = q.next_txn


@hook
def on_rto(p, s, q, packet, now):
    if s.timeouts == 0:
        q.ssthresh = max(q.inflight / 2.0, 2.0)
    s.timeouts += 1
    q.cwnd = 1.0
    s.recover = q.next_txn


@hook
def on_idle(p, s, q, packet, now):
    q.cwnd = min(q.cwnd, q.cwnd_initial)


DCTCP = CongestionAlgorithm(
    DctcpParameters(),
    {"alpha": float, "acked": int, "marked": int, "window_end": int, "recover": int, "timeouts": int},
    (on_path, on_acked, on_lost, on_rto, on_idle),
    name="dctcp",
)
