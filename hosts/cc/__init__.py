# SPDX-License-Identifier: Apache-2.0
"""Congestion control, chosen per QP by `q.cc`.

The hooks below are all that a transport calls. They concern the QP's *current path*: what happens to packets of
an earlier path epoch is not reported, for a window and its feedback must belong to the same path (section II-B
of the non-shortest-path paper). `cfg` is the record of parameters, `q` the record of the QP, `nbytes` payload
bytes, `length` those of a frame, `txn` the place of the packet in question in the QP's order of transmissions;
`q.next_txn` is the next one. When a hook for an acknowledged packet runs, that packet still counts in
`q.inflight`.

The transport sends while `q.inflight < q.cwnd` (packets) and not before `q.pace_next`, and calls
`on_timer` when `q.cc_timer` (`MAX_TIME`: never) has passed. An algorithm adds its fields to `CC_FIELDS`
and a branch to every hook that it needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.jit import njit
from detour.base.times import MAX_TIME
from detour.hosts.cc import dcqcn, dctcp

CC_FIXED, CC_DCTCP, CC_DCQCN = 0, 1, 2
"""a window that never changes, for tests and baselines; RFC 8257; SIGCOMM 2015, a rate beside a window that never
changes"""


CC_FIELDS: list[tuple[str, Any]] = [
    ("cc", np.int64),  # which algorithm
    ("cwnd", np.float64),  # packets
    ("cwnd_initial", np.float64),
    ("ssthresh", np.float64),
    ("pace_next", np.int64),  # earliest time of the next packet, ps
    ("cc_timer", np.int64),  # when on_timer wants to be called, ps
    *dctcp.DCTCP_FIELDS,
    *dcqcn.DCQCN_FIELDS,
]


@njit
def on_path(cfg: Any, q: Any, window: float, now: int) -> None:
    """A path begins: slow start from `window` packets. For the first path of a QP that is its initial window, to
    which it also comes back after idle times."""
    if q.cwnd_initial == 0:
        q.cwnd_initial = window
    if q.cc == CC_DCTCP or q.cwnd == 0:
        q.cwnd = max(np.float64(cfg.min_cwnd), window)
    q.ssthresh = np.inf
    q.pace_next = 0
    q.cc_timer = MAX_TIME
    if q.cc == CC_DCTCP:
        dctcp.on_path(cfg, q)
    elif q.cc == CC_DCQCN:
        dcqcn.on_path(cfg, q, now)


@njit
def initial_window(cfg: Any, algorithm: int) -> float:
    """Packets that a connection starts with. With DCQCN only its rate limits it, and the room for what is in flight."""
    if algorithm == CC_DCQCN:
        return np.float64(cfg.window)
    return np.float64(cfg.line_rate_cwnd if cfg.line_rate_start else cfg.initial_cwnd)


@njit
def window(q: Any) -> float:
    """Packets a round trip."""
    return np.float64(q.inflight) if q.cc == CC_DCQCN else q.cwnd


@njit
def on_idle(cfg: Any, q: Any, now: int) -> None:
    """Sending begins after an idle time longer than the retransmission timeout."""
    if q.cc == CC_DCTCP:
        dctcp.on_idle(cfg, q)


@njit
def on_sent(cfg: Any, q: Any, length: int, txn: int, now: int) -> None:
    """A packet goes out; a paced algorithm sets `pace_next` here."""
    if q.cc == CC_DCQCN:
        dcqcn.on_sent(cfg, q, length, now)


@njit
def on_acked(cfg: Any, q: Any, nbytes: int, txn: int, empty: bool, now: int) -> None:
    """A packet has arrived; `empty`: the path has next to no queue. If it was marked, `on_ecn` was called before."""
    if q.cc == CC_DCTCP:
        dctcp.on_acked(cfg, q, nbytes, txn, empty)


@njit
def on_ecn(cfg: Any, q: Any, nbytes: int, txn: int, now: int) -> None:
    """A packet has arrived with a CE mark."""
    if q.cc == CC_DCTCP:
        dctcp.on_ecn(cfg, q, nbytes, txn)
    elif q.cc == CC_DCQCN and cfg.cnp_interval_ps == 0:
        dcqcn.on_notification(cfg, q, now)


@njit
def on_lost(cfg: Any, q: Any, txn: int, congested: bool, now: int) -> None:
    """A packet was found lost by a later one's arrival; `congested`: in a full queue, as far as the sender knows."""
    if q.cc == CC_DCTCP:
        dctcp.on_lost(cfg, q, txn, congested)


@njit
def on_spurious(cfg: Any, q: Any) -> None:
    """A packet that had been reported as lost, by `on_lost` or `on_rto`, has arrived."""
    if q.cc == CC_DCTCP:
        dctcp.on_spurious(cfg, q)


@njit
def on_rto(cfg: Any, q: Any, lost: int, now: int) -> None:
    """The retransmission timeout has passed, and so many packets in flight count as lost."""
    if q.cc == CC_DCTCP:
        dctcp.on_rto(cfg, q, lost)


@njit
def on_cnp(cfg: Any, q: Any, now: int) -> None:
    """A congestion notification packet has come (for rate-based algorithms)."""
    if q.cc == CC_DCQCN:
        dcqcn.on_notification(cfg, q, now)


@njit
def on_timer(cfg: Any, q: Any, now: int) -> None:
    """`q.cc_timer` has passed."""
    q.cc_timer = MAX_TIME
