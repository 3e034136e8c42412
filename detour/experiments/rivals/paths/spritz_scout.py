# SPDX-License-Identifier: Apache-2.0
"""Spritz-Scout (`spritz_spray`)."""

from __future__ import annotations

from detour.experiments.rivals.paths.spritz_spray import (
    Parameters,
    SpritzState,
    draw_by_weight,
    on_candidates,
    on_idle,
)
from detour.hosts.paths import tokens
from detour.hosts.paths.health import is_alive
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.tokens import TOKENS
from detour.hosts.records import QueuePair
from detour.hosts.state import NIL, Handle


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Parameters, s: SpritzState, news: PathNews, now: int) -> int:
    if s.sent > p.spritz_explore:
        s.sent = 0
        return draw_by_weight(hs, i, q, p, now)
    for place in range(s.n_tokens):
        cand = tokens.at(s, place)
        if is_alive(hs, i, cand, now):
            s.sent += 1
            return cand
    return draw_by_weight(hs, i, q, p, now)


@hook
def _place_of(s: SpritzState, cand: int) -> int:
    for place in range(s.n_tokens):
        if tokens.at(s, place) == cand:
            return place
    return NIL


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Parameters, s: SpritzState, news: PathNews, now: int) -> None:
    place = _place_of(s, news.cand)
    if not news.marked:
        if place == NIL and s.n_tokens < TOKENS:
            tokens.insert(s, _rank(s, news.cand), news.cand)
    elif place != NIL:
        s.marked += 1
        if s.marked > p.spritz_marks:
            _forget(s, place)


@hook
def _rank(s: SpritzState, cand: int) -> int:
    """Place of a candidate in order of length, which is that of the table."""
    place = 0
    while place < s.n_tokens and tokens.at(s, place) < cand:
        place += 1
    return place


@hook
def on_lost(hs: Handle, i: int, q: QueuePair, p: Parameters, s: SpritzState, news: PathNews, now: int) -> None:
    place = _place_of(s, news.cand)
    if place != NIL:
        _forget(s, place)


@hook
def _forget(s: SpritzState, place: int) -> None:
    """A packet was lost on a remembered path, or too many were marked."""
    s.marked = 0
    tokens.remove(s, place)


SPRITZ_SCOUT = PathScheme(
    Parameters(),
    SpritzState,
    (on_candidates, on_idle, choose, on_answer, on_lost),
    name="spritz-scout",
    sprays=True,
)
