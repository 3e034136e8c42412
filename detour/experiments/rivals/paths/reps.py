# SPDX-License-Identifier: Apache-2.0
"""REPS (arXiv 2407.21625): an answer without a mark gives its path to another packet, all others are drawn at random;
after a timeout tokens are used without being used up (section 3.3)."""

from __future__ import annotations

from detour.base.structs import Int64, NativeRecord
from detour.hosts.paths.health import is_alive
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.tokens import TOKENS, draw, forget, pop, push
from detour.hosts.records import Config, QueuePair
from detour.hosts.state import Handle


class RepsState(NativeRecord):
    """The scheme's state of a QP."""

    frozen_until: Int64
    tokens: Int64
    n_tokens: Int64


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Config, s: RepsState, news: PathNews, now: int) -> None:
    forget(s)
    s.frozen_until = 0


@hook
def on_idle(hs: Handle, i: int, q: QueuePair, p: Config, s: RepsState, news: PathNews, now: int) -> None:
    forget(s)


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Config, s: RepsState, news: PathNews, now: int) -> int:
    if s.n_tokens and now < s.frozen_until:
        _push_again(s)
    while s.n_tokens:
        cand = pop(s)
        if is_alive(hs, i, cand, now):
            return cand
    return draw(hs, i, q, 0, q.n_cand, now)


@hook
def _push_again(s: RepsState) -> None:
    """The oldest token goes to the end as well, so that the one that is taken is not used up."""
    cand = s.tokens & 0xFF
    if s.n_tokens == TOKENS:
        pop(s)
        push(s, cand)
        s.tokens = (s.tokens << 8 | cand) & ((1 << 8 * TOKENS) - 1)
    else:
        push(s, cand)


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Config, s: RepsState, news: PathNews, now: int) -> None:
    if not news.marked:
        push(s, news.cand)


@hook
def on_timeout(hs: Handle, i: int, q: QueuePair, p: Config, s: RepsState, news: PathNews, now: int) -> None:
    """Nothing comes back at all: what there is is frozen."""
    s.frozen_until = now + p.spray_dead_ps


REPS = PathScheme(None, RepsState, (on_candidates, on_idle, choose, on_answer, on_timeout), name="reps", sprays=True)
