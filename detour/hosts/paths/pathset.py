# SPDX-License-Identifier: Apache-2.0
"""A weighted set of paths, sprayed packet by packet, with path health as in MRC 1.0 (OCP, 2026; arXiv 2605.04333).

* **Choice.** Paths take turns by smooth weighted round robin, so that after any number of packets each path has had its
  share to within a few. One that has more than its share, by weight, of packets in flight misses its turn: one that is
  slower to answer gets less. Where weights differ, it misses its turn from two packets above its share on.
* **Loss retires a path at once**: a packet that a later one of the path has overtaken, unless a full queue explains it,
  or silence while other paths answer. Trimmed packets say that a queue is full, and retire nothing.
* **A probe restores it, data must prove it.** A retired path is asked every two round trips until it answers. If it is
  retired again before ten packets on it were answered, it is asked half as often as the time before, down to one 64th.
* Where all paths are retired, an answer restores its own: then it is not the path that is to blame.

Of a candidate, `answered` is MAX_TIME while it is retired, and `ask_next` when it is asked then; `better` counts
answers to data since it was restored.
"""

from __future__ import annotations

from detour.base.structs import Int64, NativeRecord
from detour.hosts.draws import random_below
from detour.hosts.nic import activate
from detour.hosts.paths import health
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.probes import send_ptm
from detour.hosts.records import Candidate, Config, QueuePair
from detour.hosts.rows import candidate_row, host_row
from detour.hosts.state import MAX_TIME, Handle

_PROOF = 10
"""answers to data that a restored path owes"""
_UNEVEN = 2
"""packets in flight that a path may have above its share where weights differ"""
_ANY = 1 << 31
"""packets of which no path has more than its share"""


class SetState(NativeRecord):
    """The scheme's state of a QP."""

    turn: Int64  # the candidate that was last taken
    retired: Int64  # candidates
    weight: Int64  # of all paths that took turns last


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, news: PathNews, now: int) -> None:
    s.turn = random_below(host_row(hs, q.host), q.n_cand)
    s.retired = 0
    s.weight = 0
    for cand in range(q.n_cand):
        candidate_row(hs, i, cand).better = _PROOF


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, news: PathNews, now: int) -> int:
    flying, weight, paths, heaviest = 0, 0, 0, 0
    for cand in range(q.n_cand):
        if health.is_alive(hs, i, cand, now):
            c = candidate_row(hs, i, cand)
            flying += c.flying
            weight += c.weight
            paths += 1
            heaviest = max(heaviest, c.weight)
    if paths == 0:
        return s.turn
    if weight != s.weight:  # paths have been retired or restored
        s.weight = weight
        for cand in range(q.n_cand):
            candidate_row(hs, i, cand).credit = 0
    # Turns of unequal weights come unevenly, which is no sign of a slow path.
    more = _UNEVEN if heaviest * paths != weight else 0
    for _ in range(q.n_cand):
        _take_turn(hs, i, q, s, weight, _ANY, more, now)
        if _is_within_share(candidate_row(hs, i, s.turn), weight, flying, more):
            return s.turn
    _take_turn(hs, i, q, s, weight, flying, more, now)  # heavy paths missed all of these turns
    return s.turn


@hook
def _is_within_share(c: Candidate, weight: int, flying: int, more: int) -> bool:
    """Return whether a path has no more than its share of `flying` packets, and `more`, in flight."""
    return c.flying * weight <= flying * c.weight + more * weight


@hook
def _take_turn(hs: Handle, i: int, q: QueuePair, s: SetState, weight: int, flying: int, more: int, now: int) -> None:
    """Give every path that is within its share of `flying` packets its weight as credit, and the turn to the one with
    most, which pays all of them."""
    cand, best, most, paid = s.turn, s.turn, -MAX_TIME, 0
    for _ in range(q.n_cand):
        cand = cand + 1 if cand + 1 < q.n_cand else 0
        c = candidate_row(hs, i, cand)
        if health.is_alive(hs, i, cand, now) and _is_within_share(c, weight, flying, more):
            c.credit += c.weight
            paid += c.weight
            if c.credit > most:
                best, most = cand, c.credit
    candidate_row(hs, i, best).credit -= paid
    s.turn = best


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, news: PathNews, now: int) -> None:
    c = candidate_row(hs, i, news.cand)
    if c.answered != MAX_TIME:
        c.better = min(c.better + 1, _PROOF)
    elif s.retired == q.n_cand:
        _restore(s, c, now)


@hook
def on_lost(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, news: PathNews, now: int) -> None:
    if not news.congested:
        _retire(hs, i, q, p, s, news.cand, now)


@hook
def on_silent(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, news: PathNews, now: int) -> None:
    _retire(hs, i, q, p, s, news.cand, now)


@hook
def _retire(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, cand: int, now: int) -> None:
    c = candidate_row(hs, i, cand)
    if c.answered == MAX_TIME:
        return
    c.strikes = min(c.strikes + 1, health.DOUBLINGS) if c.better < _PROOF else 0
    c.answered = MAX_TIME
    s.retired += 1
    q.st_failovers += 1
    _ask(hs, i, q, p, cand, now)
    q.path_timer = min(q.path_timer, c.ask_next)


@hook
def _ask(hs: Handle, i: int, q: QueuePair, p: Config, cand: int, now: int) -> None:
    c = candidate_row(hs, i, cand)
    c.ask_next = now + (2 * max(q.srtt, p.min_silence_ps) << c.strikes)
    send_ptm(hs, i, q, cand)
    activate(hs, i, q)


@hook
def _restore(s: SetState, c: Candidate, now: int) -> None:
    c.answered = now
    c.better = 0
    health.on_data(c)
    s.retired -= 1


@hook
def on_timer(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, news: PathNews, now: int) -> None:
    """Probe retired paths; stop while there is nothing to send."""
    q.path_timer = MAX_TIME
    if q.snd_una == q.snd_end:
        return
    for cand in range(q.n_cand):
        c = candidate_row(hs, i, cand)
        if c.answered == MAX_TIME:
            if c.ask_next <= now:
                _ask(hs, i, q, p, cand, now)
            q.path_timer = min(q.path_timer, c.ask_next)


@hook
def on_new(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, news: PathNews, now: int) -> None:
    if s.retired > 0 and q.path_timer == MAX_TIME:
        q.path_timer = now


@hook
def on_probe(hs: Handle, i: int, q: QueuePair, p: Config, s: SetState, news: PathNews, now: int) -> None:
    c = candidate_row(hs, i, news.cand)
    if c.answered == MAX_TIME:
        _restore(s, c, now)


PATHSET = PathScheme(
    None,
    SetState,
    (on_candidates, choose, on_answer, on_lost, on_silent, on_timer, on_new, on_probe),
    name="pathset",
    times=(),
    sprays=True,
)
