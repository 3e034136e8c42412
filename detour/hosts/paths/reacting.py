# SPDX-License-Identifier: Apache-2.0
"""Rerouting by the NIC itself (SRv6 path placement paper, sections III-A and III-B): no controller, no probes.

A QP has candidate paths, usually uSID lists, and stays on one of them until what comes back
says that it is congested. An answer about a packet of the current path is *bad* if the packet was marked (ECN) or
waited in queues for `react_delay_ps` longer than the shortest wait on this path so far: a queue that stands, because
some of the sender's own packets arrived by two paths at once, is no reason to leave, one that grows is. `react_answers`
bad ones in a row, a packet found lost, or `dead_path_rtos` timeouts in a row make the sender rewrite its destination
address: it moves to the candidate that it has left longest ago, one that it never left first. Paths that it left less
than `react_penalty_ps` ago are not taken, so when all of them are congested it stays, and congestion control does what
it can. After a move nothing is judged for `react_hold_ps`.

The transport below carries on as after any change of path (`paths.move`): a new epoch, slow start; with selective
repeat nothing is lost or sent twice by it. Go-back-N is not made for this: a receiver that wants order drops what
overtakes, and the sender goes back.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.structs import Int64, NativeRecord
from detour.base.times import US
from detour.hosts.config import check_numbers
from detour.hosts.paths import paths
from detour.hosts.paths.plugin import PathNews, PathParameters, PathScheme, hook
from detour.hosts.records import QueuePair
from detour.hosts.rows import candidate_row
from detour.hosts.state import NIL, Handle


@dataclass(frozen=True)
class Parameters(PathParameters):
    """Parameters of the scheme."""

    react_delay_ps: int = 5 * US
    """a packet that waits for so much longer than before is a sign of congestion, as its mark is"""
    react_answers: int = 8
    """bad answers in a row that make the sender leave a path"""
    react_hold_ps: int = 20 * US
    """time after a move in which nothing is judged (two round trips at least)"""

    def __post_init__(self) -> None:
        check_numbers(self)


class ReactingState(NativeRecord):
    """The scheme's state of a QP."""

    bad: Int64  # bad answers in a row
    lost: Int64  # losses seen
    base: Int64  # least delay
    hold: Int64  # until when nothing is judged
    moved: Int64  # last move by congestion


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ReactingState, news: PathNews, now: int) -> None:
    s.bad = 0


@hook
def on_move(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ReactingState, news: PathNews, now: int) -> None:
    s.hold = now + max(p.react_hold_ps, 2 * q.srtt)


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ReactingState, news: PathNews, now: int) -> None:
    lost = q.st_lost != s.lost
    s.lost = q.st_lost
    if now < s.hold:
        s.bad = 0
        s.base = news.delay
        return
    s.base = min(s.base, news.delay)
    if news.marked or (news.delay - s.base) * p.tick_ps >= p.react_delay_ps:
        s.bad += 1
    else:
        s.bad = 0
    if lost or s.bad >= p.react_answers:
        _leave(hs, i, q, p, s, now)


@hook
def on_timeout(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ReactingState, news: PathNews, now: int) -> None:
    """Timeouts in a row: nothing comes back at all."""
    if q.epoch_rtos >= p.dead_path_rtos:
        _leave(hs, i, q, p, s, now)


@hook
def _leave(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ReactingState, now: int) -> None:
    """Move to the path that was left longest ago, if there is one that may be taken."""
    penalty = p.react_penalty_ps
    best = NIL
    for place in range(q.n_cand):
        left = candidate_row(hs, i, place).answered  # when it was left: nobody probes in this mode
        if place == q.cand or (left != NIL and now - left < penalty):
            continue
        if best == NIL or left < candidate_row(hs, i, best).answered:
            best = place
    s.bad = 0
    if best == NIL:
        return
    candidate_row(hs, i, q.cand).answered = now
    candidate_row(hs, i, best).delay = NIL  # what was measured there is out of date
    s.moved = now
    paths.move(hs, i, q, best, now)


REACTING = PathScheme(Parameters(), ReactingState, (on_candidates, on_move, on_answer, on_timeout), name="reacting")
