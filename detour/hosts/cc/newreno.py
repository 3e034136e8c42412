# SPDX-License-Identifier: Apache-2.0
"""NewReno: RFC 5681 (slow start, congestion avoidance), RFC 6582 (one reduction an episode), RFC 3168 (marks).

The window is in packets, counted as RFC 3465 counts bytes: each packet that has arrived adds one in slow start and its
part of one else. It does not grow while less than half of it is under way (RFC 5681, 4.1; RFC 7661). What is left of
it after a loss is whole packets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from detour.base.jit import float64
from detour.base.structs import Int64, NativeRecord
from detour.hosts.cc.plugin import CongestionAlgorithm, HostParameters, Packet, hook
from detour.hosts.records import Sender


@dataclass(frozen=True)
class NewRenoParameters(HostParameters):
    """`beta`: what is left of the window after a loss; `beta_ecn`: after a mark."""

    beta: float = 0.5
    beta_ecn: float = 0.5


class Recovery(Protocol):
    """Fields that senders with this recovery have."""

    recover: int
    timeouts: int


class RenoState(NativeRecord):
    """NewReno's state of a sender."""

    recover: Int64  # transmissions before this one do not change the window
    timeouts: Int64  # in a row


@hook
def grow(p: HostParameters, q: Sender) -> None:
    """A packet has arrived without a mark."""
    if 2 * q.inflight < q.cwnd:
        return
    step = 1.0 if q.cwnd < q.ssthresh else 1.0 / q.cwnd
    q.cwnd = min(q.cwnd + step, float64(p.max_cwnd))


@hook
def time_out(s: Recovery, q: Sender, window: float) -> None:
    """Slow start again, up to `window`. Of the same data only the first timeout counts (RFC 5681, 3.1)."""
    if s.timeouts == 0:
        q.ssthresh = max(window, 2.0)
    s.timeouts += 1
    q.cwnd = 1.0
    s.recover = q.next_txn


@hook
def _reduce_to(s: RenoState, q: Sender, window: float) -> None:
    """Once for all that was sent until now."""
    q.ssthresh = max(np.floor(window), 2.0)
    q.cwnd = q.ssthresh
    s.recover = q.next_txn


@hook
def on_acked(p: NewRenoParameters, s: RenoState, q: Sender, packet: Packet, now: int) -> None:
    s.timeouts = 0
    if packet.txn < s.recover:
        return
    if packet.marked > 0:
        _reduce_to(s, q, np.floor(q.cwnd) * p.beta_ecn)
    else:
        grow(p, q)


@hook
def on_lost(p: NewRenoParameters, s: RenoState, q: Sender, packet: Packet, now: int) -> None:
    if packet.txn >= s.recover:
        _reduce_to(s, q, q.inflight * p.beta)


@hook
def on_rto(p: NewRenoParameters, s: RenoState, q: Sender, packet: Packet, now: int) -> None:
    time_out(s, q, q.inflight * p.beta)


@hook
def on_idle(p: NewRenoParameters, s: RenoState, q: Sender, packet: Packet, now: int) -> None:
    q.cwnd = min(q.cwnd, q.cwnd_initial)


NEWRENO = CongestionAlgorithm(NewRenoParameters(), RenoState, (on_acked, on_lost, on_rto, on_idle), name="newreno")
