# SPDX-License-Identifier: Apache-2.0
"""DCTCP (RFC 8257) of TCP connections: marks are measured as for queue pairs (`dctcp`), all else is NewReno's."""

from __future__ import annotations

from dataclasses import dataclass

from detour.hosts.cc.dctcp import TcpDctcpState, measure
from detour.hosts.cc.newreno import grow, on_idle, time_out
from detour.hosts.cc.plugin import CongestionAlgorithm, HostParameters, Packet, hook
from detour.hosts.records import Sender


@dataclass(frozen=True)
class DctcpParameters(HostParameters):
    """`g`: weight of a window's marks in their average (section 4.2)."""

    g: float = 0.0625


@hook
def on_path(p: DctcpParameters, s: TcpDctcpState, q: Sender, packet: Packet, now: int) -> None:
    s.alpha = 1.0


@hook
def on_acked(p: DctcpParameters, s: TcpDctcpState, q: Sender, packet: Packet, now: int) -> None:
    s.timeouts = 0
    if packet.marked > 0:
        s.marked += packet.bytes
    measure(s, q, packet, p.g)
    if packet.txn < s.recover:
        return
    if packet.marked > 0:
        _cut(s, q, q.cwnd * (1.0 - s.alpha / 2.0))
    else:
        grow(p, q)


@hook
def on_lost(p: DctcpParameters, s: TcpDctcpState, q: Sender, packet: Packet, now: int) -> None:
    """As TCP does (section 3.5)."""
    if packet.txn >= s.recover:
        _cut(s, q, q.inflight / 2.0)


@hook
def _cut(s: TcpDctcpState, q: Sender, window: float) -> None:
    q.cwnd = max(window, 2.0)
    q.ssthresh = q.cwnd
    s.recover = q.next_txn


@hook
def on_rto(p: DctcpParameters, s: TcpDctcpState, q: Sender, packet: Packet, now: int) -> None:
    time_out(s, q, q.inflight / 2.0)


DCTCP_OF_TCP = CongestionAlgorithm(
    DctcpParameters(), TcpDctcpState, (on_path, on_acked, on_lost, on_rto, on_idle), name="dctcp"
)
