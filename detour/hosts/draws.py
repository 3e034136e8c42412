# SPDX-License-Identifier: Apache-2.0
"""Random numbers of a host (xorshift64)."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from detour.base.jit import inner, int64

BELOW = 1 << 31
"""Draws are whole numbers from 0 to below this."""


class _Generator(Protocol):
    rng: int


@inner()
def draw(h: _Generator) -> int:
    """The next number of a host."""
    x = h.rng
    x ^= x << 13
    x ^= (x >> 7) & 0x01FFFFFFFFFFFFFF
    x ^= x << 17
    h.rng = x
    return (x >> 16) & 0x7FFFFFFF


@inner()
def exponential(h: _Generator, mean: int) -> int:
    """The next exponentially distributed number."""
    return int64(-np.log((draw(h) + 0.5) / BELOW) * mean)


@inner
def random_below(h: _Generator, n: int) -> int:
    """The next number from 0 to below `n`."""
    return draw(h) % n
