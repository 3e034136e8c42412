# SPDX-License-Identifier: Apache-2.0
"""Rerouting by the NIC itself (SRv6 path placement paper, sections III-A and III-B): no controller, no probes.

A QP in the mode `MODE_REACT` has candidate paths, usually uSID lists, and stays on one of them until what comes back
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

from detour.base.jit import inner
from detour.hosts.paths import paths
from detour.hosts.records import QueuePair, ReceivedFrame
from detour.hosts.rows import candidate_row, cfg_row
from detour.hosts.state import MODE_REACT, NIL, Handle


@inner
def on_answer(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, now: int) -> None:
    """The answer in `f` is about a data packet of the current path and brings its delay and its mark."""
    if q.mode != MODE_REACT:
        return
    cfg = cfg_row(hs)
    lost = q.st_lost != q.react_lost
    q.react_lost = q.st_lost
    if now < q.react_hold:
        q.react_bad = 0
        q.react_base = f.delay
        return
    q.react_base = min(q.react_base, f.delay)
    if f.ce or (f.delay - q.react_base) * cfg.tick_ps >= cfg.react_delay_ps:
        q.react_bad += 1
    else:
        q.react_bad = 0
    if lost or q.react_bad >= cfg.react_answers:
        _leave(hs, i, q, now)


@inner
def on_dead_path(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Timeouts in a row: nothing comes back at all."""
    if q.mode == MODE_REACT:
        _leave(hs, i, q, now)


@inner
def _leave(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Moves to the path that was left longest ago, if there is one that may be taken."""
    penalty = cfg_row(hs).react_penalty_ps
    best = NIL
    for place in range(q.n_cand):
        left = candidate_row(hs, i, place).answered  # when it was left: nobody probes in this mode
        if place == q.cand or (left != NIL and now - left < penalty):
            continue
        if best == NIL or left < candidate_row(hs, i, best).answered:
            best = place
    q.react_bad = 0
    if best == NIL:
        return
    candidate_row(hs, i, q.cand).answered = now
    candidate_row(hs, i, best).delay = NIL  # what was measured there is out of date
    q.react_moved = now
    paths.move(hs, i, q, best, now)
