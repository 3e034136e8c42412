# SPDX-License-Identifier: Apache-2.0
"""Tokens of a QP that sprays: paths that have answered and wait to be used again, a byte each in one word, the oldest
in the lowest. And how candidates are drawn that answer."""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.draws import random_below
from detour.hosts.paths.health import is_alive
from detour.hosts.records import QueuePair
from detour.hosts.rows import host_row
from detour.hosts.state import NIL, Handle

TOKENS = 7
"""tokens of a QP at most: what acknowledgements that come at once leave behind; more would be out of date"""
DRAW_TRIES = 4
"""random candidates looked at before one is taken that is left alone"""


@inner
def push(q: QueuePair, cand: int) -> None:
    """A token more, the youngest; with `TOKENS` of them the oldest is gone."""
    if q.n_tokens == TOKENS:
        q.tokens >>= 8
        q.n_tokens -= 1
    q.tokens |= cand << (8 * q.n_tokens)
    q.n_tokens += 1


@inner
def pop(q: QueuePair) -> int:
    """Takes the oldest token; there is one."""
    cand = q.tokens & 0xFF
    q.tokens >>= 8
    q.n_tokens -= 1
    return cand


@inner
def at(q: QueuePair, place: int) -> int:
    """The token at a place, 0 for the oldest."""
    return (q.tokens >> (8 * place)) & 0xFF


@inner
def insert(q: QueuePair, place: int, cand: int) -> None:
    """A token more at a place, those from there on move up; there are fewer than `TOKENS`."""
    low = q.tokens & ((1 << (8 * place)) - 1)
    q.tokens = (q.tokens >> (8 * place)) << (8 * place + 8) | cand << (8 * place) | low
    q.n_tokens += 1


@inner
def remove(q: QueuePair, place: int) -> None:
    """Takes the token at a place away."""
    low = q.tokens & ((1 << (8 * place)) - 1)
    q.tokens = (q.tokens >> (8 * place + 8)) << (8 * place) | low
    q.n_tokens -= 1


@inner
def forget(q: QueuePair) -> None:
    """What was known of paths is out of date."""
    q.tokens = 0
    q.n_tokens = 0
    q.short_wait = NIL
    q.detour_wait = NIL
    q.short_loss = 0
    q.detour_loss = 0


@inner
def draw(hs: Handle, i: int, q: QueuePair, first: int, count: int, now: int) -> int:
    """One of `count` candidates from `first` on, by chance; one that answers, if a few tries find it."""
    h, cand = host_row(hs, q.host), first
    for _ in range(DRAW_TRIES):
        cand = first + random_below(h, count)
        if is_alive(hs, i, cand, now):
            break
    return cand
