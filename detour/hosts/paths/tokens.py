# SPDX-License-Identifier: Apache-2.0
"""Tokens of a QP that sprays: paths that have answered and wait to be used again, a byte each in one word, the oldest
in the lowest. And how candidates are drawn that answer."""

from __future__ import annotations

from typing import Protocol

from detour.base.jit import inner
from detour.hosts.draws import random_below
from detour.hosts.paths.health import is_alive
from detour.hosts.records import QueuePair
from detour.hosts.rows import host_row
from detour.hosts.state import Handle

TOKENS = 7
"""tokens of a QP at most: what acknowledgements that come at once leave behind; more would be out of date"""
DRAW_TRIES = 4
"""random candidates looked at before one is taken that is left alone"""


class Tokens(Protocol):
    """Fields of schemes that keep tokens."""

    tokens: int
    n_tokens: int


@inner
def push(s: Tokens, cand: int) -> None:
    """A token more, the youngest; with `TOKENS` of them the oldest is gone."""
    if s.n_tokens == TOKENS:
        s.tokens >>= 8
        s.n_tokens -= 1
    s.tokens |= cand << (8 * s.n_tokens)
    s.n_tokens += 1


@inner
def pop(s: Tokens) -> int:
    """Take the oldest token; there is one."""
    cand = s.tokens & 0xFF
    s.tokens >>= 8
    s.n_tokens -= 1
    return cand


@inner
def at(s: Tokens, place: int) -> int:
    """The token at a place, 0 for the oldest."""
    return (s.tokens >> (8 * place)) & 0xFF


@inner
def insert(s: Tokens, place: int, cand: int) -> None:
    """A token more at a place, those from there on move up; there are fewer than `TOKENS`."""
    low = s.tokens & ((1 << (8 * place)) - 1)
    s.tokens = (s.tokens >> (8 * place)) << (8 * place + 8) | cand << (8 * place) | low
    s.n_tokens += 1


@inner
def remove(s: Tokens, place: int) -> None:
    """Take the token at a place away."""
    low = s.tokens & ((1 << (8 * place)) - 1)
    s.tokens = (s.tokens >> (8 * place + 8)) << (8 * place) | low
    s.n_tokens -= 1


@inner
def forget(s: Tokens) -> None:
    """There are none."""
    s.tokens = 0
    s.n_tokens = 0


@inner
def draw(hs: Handle, i: int, q: QueuePair, first: int, count: int, now: int) -> int:
    """One of `count` candidates from `first` on, by chance; one that answers, if a few tries find it."""
    h, cand = host_row(hs, q.host), first
    for _ in range(DRAW_TRIES):
        cand = first + random_below(h, count)
        if is_alive(hs, i, cand, now):
            break
    return cand
