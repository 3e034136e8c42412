# SPDX-License-Identifier: Apache-2.0
"""Congestion control, chosen per QP by `q.cc`.

The hooks below are all that a transport calls. They concern the QP's *current path*: what happens to packets of
an earlier path epoch is not reported, for a window and its feedback must belong to the same path (section II-B
of the non-shortest-path paper). `cfg` is the record of parameters, `q` the record of the QP, `nbytes` payload
bytes, `length` those of a frame, `txn` the place of the packet in question in the QP's order of transmissions;
`q.next_txn` is the next one. When a hook for an acknowledged packet runs, that packet still counts in
`q.inflight`.

The transport sends while `q.inflight < q.cwnd` (packets) and not before `q.pace_next`, and calls
`on_timer` when `q.cc_timer` (`MAX_TIME`: never) has passed.

Three algorithms are compiled into the hosts: their fields are in `CC_FIELDS`, and each has a branch in every hook that
it needs. All others are plugged in (`own`, and `CC_REGISTRY` for their names): their hooks are called by address.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from detour.base import doors
from detour.base.errors import DetourError
from detour.base.jit import float64, inner
from detour.base.times import MAX_TIME
from detour.hosts.cc import dcqcn, dctcp, own
from detour.hosts.cc.cubic import CUBIC
from detour.hosts.cc.newreno import NEWRENO
from detour.hosts.cc.nscc import NSCC
from detour.hosts.cc.own import CongestionAlgorithm
from detour.hosts.records import Config, QueuePair, ReceivedFrame

CC_FIXED, CC_DCTCP, CC_DCQCN, CC_OWN = 0, 1, 2, 3
"""a window that never changes, for tests and baselines; RFC 8257; SIGCOMM 2015, a rate beside a window that never
changes; one that is plugged in"""


@inner
def on_path(cfg: Config, q: QueuePair, window: float, now: int) -> None:
    """A path begins: slow start from `window` packets. For the first path of a QP that is its initial window, to
    which it also comes back after idle times."""
    if q.cwnd_initial == 0:
        q.cwnd_initial = window
    if q.cc == CC_DCTCP or q.cc == CC_OWN or q.cwnd == 0:
        q.cwnd = max(float64(cfg.min_cwnd), window)
    q.ssthresh = np.inf
    q.pace_next = 0
    q.cc_timer = MAX_TIME
    if q.cc == CC_DCTCP:
        dctcp.on_path(cfg, q)
    elif q.cc == CC_DCQCN:
        dcqcn.on_path(cfg, q, now)
    elif q.cc == CC_OWN:
        own.call(q, own.HOOK_PATH, now)


@inner
def initial_window(cfg: Config, algorithm: int) -> float:
    """Packets that a connection starts with. With DCQCN only its rate limits it, and the room for what is in flight."""
    if algorithm == CC_DCQCN:
        return float64(cfg.window)
    return float64(cfg.line_rate_cwnd if cfg.line_rate_start else cfg.initial_cwnd)


@inner
def window(q: QueuePair) -> float:
    """Packets a round trip."""
    return float64(q.inflight) if q.cc == CC_DCQCN else q.cwnd


@inner
def on_idle(cfg: Config, q: QueuePair, now: int) -> None:
    """Sending begins after an idle time longer than the retransmission timeout."""
    if q.cc == CC_DCTCP:
        dctcp.on_idle(cfg, q)
    elif q.cc == CC_OWN:
        own.call(q, own.HOOK_IDLE, now)


@inner
def on_sent(cfg: Config, q: QueuePair, length: int, txn: int, now: int) -> None:
    """A packet goes out; a paced algorithm sets `pace_next` here."""
    if q.cc == CC_DCQCN:
        dcqcn.on_sent(cfg, q, length, now)
    elif q.cc == CC_OWN:
        packet = own.packet_of(q)
        packet.bytes = length
        packet.txn = txn
        own.call(q, own.HOOK_SENT, now)


@inner
def on_acked(cfg: Config, q: QueuePair, nbytes: int, txn: int, empty: bool, now: int) -> None:
    """A packet has arrived; `empty`: the path has next to no queue. If it was marked, `on_ecn` was called before; one
    that is plugged in reads it from the packet, of which `tell` has written the rest."""
    if q.cc == CC_DCTCP:
        dctcp.on_acked(cfg, q, nbytes, txn, empty)
    elif q.cc == CC_OWN:
        packet = own.packet_of(q)
        packet.bytes = nbytes
        packet.txn = txn
        own.call(q, own.HOOK_ACKED, now)


@inner
def on_ecn(cfg: Config, q: QueuePair, nbytes: int, txn: int, now: int) -> None:
    """A packet has arrived with a CE mark."""
    if q.cc == CC_DCTCP:
        dctcp.on_ecn(cfg, q, nbytes, txn)
    elif q.cc == CC_DCQCN and cfg.cnp_interval_ps == 0:
        dcqcn.on_notification(cfg, q, now)


@inner
def on_lost(cfg: Config, q: QueuePair, txn: int, congested: bool, now: int) -> None:
    """A packet was found lost by a later one's arrival; `congested`: in a full queue, as far as the sender knows."""
    if q.cc == CC_DCTCP:
        dctcp.on_lost(cfg, q, txn, congested)
    elif q.cc == CC_OWN:
        packet = own.packet_of(q)
        packet.txn = txn
        packet.congested = congested
        own.call(q, own.HOOK_LOST, now)


@inner
def on_spurious(cfg: Config, q: QueuePair, now: int = 0) -> None:
    """A packet that had been reported as lost, by `on_lost` or `on_rto`, has arrived."""
    if q.cc == CC_DCTCP:
        dctcp.on_spurious(cfg, q)
    elif q.cc == CC_OWN:
        own.call(q, own.HOOK_SPURIOUS, now)


@inner
def on_spurious_timeout(cfg: Config, q: QueuePair) -> None:
    """All that the timeout called lost has arrived, as far as it has not been sent again. (One that is plugged in has
    heard so from `on_spurious`.)"""
    if q.cc == CC_DCTCP:
        dctcp.undo(cfg, q)


@inner
def on_rto(cfg: Config, q: QueuePair, lost: int, now: int) -> None:
    """The retransmission timeout has passed, and so many packets in flight count as lost."""
    if q.cc == CC_DCTCP:
        dctcp.on_rto(cfg, q, lost)
    elif q.cc == CC_OWN:
        own.packet_of(q).lost = lost
        own.call(q, own.HOOK_RTO, now)


@inner
def on_cnp(cfg: Config, q: QueuePair, now: int) -> None:
    """A congestion notification packet has come (for rate-based algorithms)."""
    if q.cc == CC_DCQCN:
        dcqcn.on_notification(cfg, q, now)


@inner
def on_timer(cfg: Config, q: QueuePair, now: int) -> None:
    """`q.cc_timer` has passed."""
    q.cc_timer = MAX_TIME
    if q.cc == CC_OWN:
        own.call(q, own.HOOK_TIMER, now)


@inner
def tell(cfg: Config, q: QueuePair, f: ReceivedFrame, caused: bool, rtt: int) -> None:
    """Before `on_acked` of an algorithm that is plugged in: what is known of the packet. `caused`: the answer in `f` is
    about it; `rtt`: its round trip then."""
    packet = own.packet_of(q)
    packet.rtt = rtt if caused else -1
    known = caused and f.has_delay != 0
    packet.delay = f.delay * cfg.tick_ps if known else -1
    packet.hops = f.hops if known else -1
    packet.marked = f.ce if caused else 0


# -- by name ----------------------------------------------------------------------------------------------


def _adopt(name: str, found: Any) -> CongestionAlgorithm:
    if not isinstance(found, CongestionAlgorithm):
        raise DetourError(f"{name} is a {type(found).__name__}, and not a CongestionAlgorithm")
    return replace(found, name=doors.pinned(name))


CC_REGISTRY: doors.Registry[CongestionAlgorithm] = doors.Registry(
    "congestion_control",
    "congestion control",
    {
        "dctcp": CongestionAlgorithm(built_in=CC_DCTCP, name="dctcp"),
        "dcqcn": CongestionAlgorithm(built_in=CC_DCQCN, name="dcqcn"),
        "fixed": CongestionAlgorithm(built_in=CC_FIXED, name="fixed"),
        "newreno": NEWRENO,
        "cubic": CUBIC,
        "nscc": NSCC,
    },
    _adopt,
    any_case=True,
)


def algorithm(text: str) -> CongestionAlgorithm:
    """The congestion control that a text names: `dctcp`, `dcqcn`, `fixed`, `newreno`, `cubic`, `nscc`, one of an
    installed package (group `detour.congestion_control`), or `FILE.py:NAME`; with other parameters
    `FILE.py:NAME:target_us=30`.

    Raises:
        DetourError: there is none, or no such parameter.
    """
    name, rest = doors.split(text)
    return CC_REGISTRY.find(name).with_values(doors.values_of(text, rest))


def pinned(text: str) -> str:
    """The same text, checked, with a digest of the file that it names, if it does (`doors.pinned`).

    Raises:
        DetourError: see `algorithm`.
    """
    algorithm(text)
    name, rest = doors.split(text)
    return doors.pinned(name) + (f":{rest}" if rest else "")
