# SPDX-License-Identifier: Apache-2.0
"""Spraying over a set of paths as in MRC (arXiv 2605.04333): the set's paths take turns; a mark swaps its path for
another candidate, a loss does and has the path left alone."""

from __future__ import annotations

from detour.base.structs import Int64, NativeRecord
from detour.hosts.paths.health import is_alive
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.tokens import TOKENS, draw, forget, pop, push
from detour.hosts.records import Config, QueuePair
from detour.hosts.rows import candidate_row
from detour.hosts.state import Handle


class SwapState(NativeRecord):
    """What a QP has of the scheme: the set."""

    tokens: Int64
    n_tokens: Int64


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Config, s: SwapState, news: PathNews, now: int) -> None:
    forget(s)


@hook
def on_idle(hs: Handle, i: int, q: QueuePair, p: Config, s: SwapState, news: PathNews, now: int) -> None:
    forget(s)


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Config, s: SwapState, news: PathNews, now: int) -> int:
    """The set is drawn when it is first used."""
    while s.n_tokens < min(TOKENS, q.n_cand):
        push(s, draw(hs, i, q, 0, q.n_cand, now))
    cand = pop(s)
    if not is_alive(hs, i, cand, now):
        cand = draw(hs, i, q, 0, q.n_cand, now)
    push(s, cand)
    return cand


@hook
def _swap(hs: Handle, i: int, q: QueuePair, s: SwapState, cand: int, now: int) -> None:
    """Another candidate takes the place of `cand` in the set."""
    for _ in range(s.n_tokens):
        one = pop(s)
        push(s, draw(hs, i, q, 0, q.n_cand, now) if one == cand else one)


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Config, s: SwapState, news: PathNews, now: int) -> None:
    if news.marked:
        _swap(hs, i, q, s, news.cand, now)


@hook
def on_lost(hs: Handle, i: int, q: QueuePair, p: Config, s: SwapState, news: PathNews, now: int) -> None:
    candidate_row(hs, i, news.cand).answered = now + p.spray_dead_ps
    _swap(hs, i, q, s, news.cand, now)


SWAPPING_PATHS = PathScheme(
    None, SwapState, (on_candidates, on_idle, choose, on_answer, on_lost), name="swapping", sprays=True
)
