# SPDX-License-Identifier: Apache-2.0
"""DCTCP (RFC 8257) with the choices of Linux where the RFC leaves some; windows in packets
(docs/facts.md, "DCTCP").

* Section 3.3: alpha <- (1 - g) alpha + g F once a window, F the marked fraction of the bytes acknowledged in it;
  alpha starts at 1. The window shrinks by alpha / 2 at the first mark, at most once a window, not below
  `min_cwnd`; while the packets that were out at that time come back it does not grow (Linux' CWR state).
* Section 3.5: a loss halves the window, at most once a window, if it was a full queue as far as the sender knows
  (`transport.loss_classification`; not in the RFC). A timeout restarts slow start from `min_cwnd`. Either is undone
  if the packets arrive after all (RFC 4015).
* Slow start and congestion avoidance are RFC 5681's, and a window of which less than half is used does not grow
  (Linux' rule for slow start, here for both).
* Not in the RFC: with `empty_gain` a window that is used up grows by that fraction a round trip while its packets
  report that they met next to no queue. One packet a round trip takes a hundred of them, more than a millisecond,
  to fill half of a link that another sender has left.

A "window" ends when the first packet sent after its beginning is acknowledged; since transmissions, repeats
included, are numbered in order, `txn` tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.base.errors import DetourError
from detour.base.jit import float64
from detour.base.structs import Float64, Int64, NativeRecord
from detour.hosts.cc.plugin import CongestionAlgorithm, HostParameters, Packet, hook
from detour.hosts.config import check_numbers
from detour.hosts.records import Sender


@dataclass(frozen=True)
class DctcpParameters(HostParameters):
    """Parameters of queue pairs."""

    dctcp_g: float = 1 / 16
    """gain of the marked fraction's estimate (RFC 8257, 3.3)"""
    empty_gain: float = 0.0
    """fraction that the window grows by a round trip while the path is empty (not in RFC 8257; 0: one packet)"""

    def __post_init__(self) -> None:
        check_numbers(self, shares=("dctcp_g",))
        if not 0 <= self.empty_gain <= 1:
            raise DetourError(f"host parameter empty_gain is {self.empty_gain:g}; it must be from 0 to 1")


class DctcpState(NativeRecord):
    """DCTCP's state of a queue pair."""

    alpha: Float64
    acked: Int64  # bytes acknowledged in this window, and marked ones
    marked: Int64
    end: Int64  # the window ends with this transmission or a later one
    hold: Int64  # transmissions from this one on may cut the window again
    before: Float64  # window before the cut by a loss that may yet prove spurious, 0: there is none,
    before_ssthresh: Float64  # and its ssthresh
    doubt: Int64  # losses since then of which it is not known that they were spurious


class TcpDctcpState(NativeRecord):
    """DCTCP's state of a TCP connection (`dctcp_tcp`)."""

    alpha: Float64
    acked: Int64
    marked: Int64
    end: Int64
    recover: Int64
    timeouts: Int64


@hook
def measure(s: DctcpState | TcpDctcpState, q: Sender, packet: Packet, g: float) -> None:
    """Count an acknowledged packet; at the end of a window, take a new alpha."""
    s.acked += packet.bytes
    if packet.txn < s.end:
        return
    if s.acked > 0:
        s.alpha += g * (s.marked / s.acked - s.alpha)
    s.acked = 0
    s.marked = 0
    s.end = q.next_txn


@hook
def on_path(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    """Start afresh; whatever is sent from now on belongs to the first window."""
    s.alpha = 1.0
    s.hold = q.next_txn
    _begin_window(s, q)


@hook
def on_move(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    _begin_window(s, q)


@hook
def _begin_window(s: DctcpState, q: Sender) -> None:
    s.acked = 0
    s.marked = 0
    s.end = q.next_txn
    s.before = 0.0


@hook
def on_idle(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    """The window restarts, remembering three quarters of where it was (RFC 5681, 4.1; RFC 2861)."""
    if q.cwnd > q.cwnd_initial:
        q.ssthresh = max(q.ssthresh, 0.75 * q.cwnd) if q.ssthresh < np.inf else 0.75 * q.cwnd
        q.cwnd = q.cwnd_initial


@hook
def on_acked(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    """Counts, grows the window, and at its end takes a new alpha (section 3.3, steps 3 to 8)."""
    if packet.txn >= s.hold and 2 * q.inflight >= q.cwnd:
        step = 1.0 if q.cwnd < q.ssthresh else 1.0 / q.cwnd
        if packet.empty and q.inflight + 1 >= q.cwnd:
            step = max(step, p.empty_gain)
        q.cwnd = min(q.cwnd + step, float64(p.max_cwnd))
    measure(s, q, packet, p.dctcp_g)


@hook
def on_ecn(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    """Count the mark; the first one of a window shrinks it (section 3.3, step 9)."""
    s.marked += packet.bytes
    if packet.txn >= s.hold:
        s.before = 0.0
        _shrink(p, s, q, 1.0 - s.alpha / 2)


@hook
def on_lost(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    """Halve the window, if a queue was full, unless it was cut since the packet was sent (section 3.5, RFC 5681)."""
    if packet.congested and packet.txn >= s.hold:
        _remember(s, q)
        _shrink(p, s, q, 0.5)
    s.doubt += 1


@hook
def on_spurious(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    """Undo the last cut if all losses since then were spurious and no mark has cut the window besides (RFC 4015)."""
    s.doubt -= 1
    if s.doubt <= 0:
        _undo(p, s, q)


@hook
def on_spurious_timeout(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    """The last cut was for nothing."""
    _undo(p, s, q)


@hook
def _undo(p: DctcpParameters, s: DctcpState, q: Sender) -> None:
    if p.every_loss_cuts or s.before == 0:
        return
    q.cwnd = max(q.cwnd, s.before)
    q.ssthresh = max(q.ssthresh, s.before_ssthresh)
    s.before = 0.0


@hook
def on_rto(p: DctcpParameters, s: DctcpState, q: Sender, packet: Packet, now: int) -> None:
    """Slow start again, up to half of the window before the first timeout in a row (RFC 5681, 3.1; the floor is
    `min_cwnd`)."""
    if packet.timeouts <= 1:
        _remember(s, q)
        q.ssthresh = max(q.cwnd / 2, float64(p.min_cwnd))
    s.doubt += packet.lost
    q.cwnd = float64(p.min_cwnd)
    s.hold = q.next_txn


@hook
def _remember(s: DctcpState, q: Sender) -> None:
    """The window is about to be cut because of losses."""
    s.before = q.cwnd
    s.before_ssthresh = q.ssthresh
    s.doubt = 0


@hook
def _shrink(p: DctcpParameters, s: DctcpState, q: Sender, factor: float) -> None:
    q.cwnd = max(q.cwnd * factor, float64(p.min_cwnd))
    q.ssthresh = q.cwnd
    s.hold = q.next_txn


DCTCP = CongestionAlgorithm(
    DctcpParameters(),
    DctcpState,
    (on_path, on_move, on_idle, on_acked, on_ecn, on_lost, on_spurious, on_spurious_timeout, on_rto),
    name="dctcp",
    times=(),
    told=False,
)
"""of queue pairs"""
