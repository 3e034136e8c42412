# SPDX-License-Identifier: Apache-2.0
"""Spraying over a set of paths as in MRC (arXiv 2605.04333): the set's paths take turns; a mark swaps its path for
another candidate, a loss does and has the path left alone.

With `swap_paths` the set begins with so many neighbours in the list of candidates, as many of each plane, and no path
is in it twice: a mark changes nothing when no candidate is left, and a path that is left alone misses its turns.

Of candidate k `better` is the path at place k of the set."""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.jit import int64
from detour.base.structs import Int64, NativeRecord
from detour.hosts.config import check_numbers
from detour.hosts.draws import random_below
from detour.hosts.paths.health import is_alive
from detour.hosts.paths.plugin import PathNews, PathParameters, PathScheme, hook
from detour.hosts.paths.tokens import TOKENS, draw
from detour.hosts.records import QueuePair
from detour.hosts.rows import candidate_row, host_row
from detour.hosts.state import Handle


@dataclass(frozen=True)
class Parameters(PathParameters):
    """Parameters of the scheme."""

    swap_paths: int = 0
    """paths of a set; 0: seven, drawn by chance"""

    def __post_init__(self) -> None:
        check_numbers(self, ("swap_paths",))


class MrcState(NativeRecord):
    """The scheme's state of a QP. `size` 0: the set is drawn when it is first used."""

    turn: Int64  # the place whose turn it is
    size: Int64


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Parameters, s: MrcState, news: PathNews, now: int) -> None:
    s.size = 0


@hook
def on_idle(hs: Handle, i: int, q: QueuePair, p: Parameters, s: MrcState, news: PathNews, now: int) -> None:
    s.size = 0


@hook
def _draw_set(hs: Handle, i: int, q: QueuePair, p: Parameters, s: MrcState, now: int) -> None:
    s.turn = 0
    s.size = min(p.swap_paths if p.swap_paths > 0 else TOKENS, q.n_cand)
    first = random_below(host_row(hs, q.host), q.n_cand) if p.swap_paths > 0 else 0
    for place in range(s.size):
        cand = (first + place) % q.n_cand if p.swap_paths > 0 else draw(hs, i, q, 0, q.n_cand, now)
        candidate_row(hs, i, place).better = cand


@hook
def _another(hs: Handle, i: int, q: QueuePair, p: Parameters, s: MrcState, cand: int, now: int) -> int:
    """The candidate that takes the place of `cand` in the set."""
    other = draw(hs, i, q, 0, q.n_cand, now)
    if p.swap_paths > 0:
        for place in range(s.size):
            if candidate_row(hs, i, place).better == other:
                return cand
    return other


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Parameters, s: MrcState, news: PathNews, now: int) -> int:
    if s.size == 0:
        _draw_set(hs, i, q, p, s, now)
    cand = 0
    for _ in range(s.size):
        c = candidate_row(hs, i, s.turn)
        s.turn = (s.turn + 1) % s.size
        cand = int64(c.better)
        if is_alive(hs, i, cand, now):
            break
        cand = _another(hs, i, q, p, s, cand, now)
        c.better = cand
        if p.swap_paths == 0 or is_alive(hs, i, cand, now):
            break
    return cand


@hook
def _swap(hs: Handle, i: int, q: QueuePair, p: Parameters, s: MrcState, cand: int, now: int) -> None:
    """Another candidate takes the place of `cand` in the set."""
    for step in range(s.size):
        c = candidate_row(hs, i, (s.turn + step) % s.size)
        if c.better == cand:
            c.better = _another(hs, i, q, p, s, cand, now)


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Parameters, s: MrcState, news: PathNews, now: int) -> None:
    if news.marked:
        _swap(hs, i, q, p, s, news.cand, now)


@hook
def on_lost(hs: Handle, i: int, q: QueuePair, p: Parameters, s: MrcState, news: PathNews, now: int) -> None:
    candidate_row(hs, i, news.cand).answered = now + p.spray_dead_ps
    _swap(hs, i, q, p, s, news.cand, now)


MRC_LIKE = PathScheme(
    Parameters(), MrcState, (on_candidates, on_idle, choose, on_answer, on_lost), name="mrc-like", sprays=True
)
