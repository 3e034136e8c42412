# SPDX-License-Identifier: Apache-2.0
"""Random numbers of native code: the Mersenne Twister (Matsumoto and Nishimura, ACM TOMACS 8(1), 1998), the same ones
as NumPy's `RandomState(seed)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.jit import allocating

_WORDS, _MIDDLE = 624, 397
_ALL, _UPPER, _LOWER = 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF


@allocating
def seeded(seed: int) -> Any:
    """The state, and behind it how many of its words have been used."""
    state = np.empty(_WORDS + 1, np.int64)
    word = np.int64(seed) & _ALL
    for i in range(_WORDS):
        state[i] = word
        word = (1812433253 * (word ^ (word >> 30)) + i + 1) & _ALL
    state[_WORDS] = _WORDS
    return state


@allocating
def _twist(state: Any) -> None:
    for i in range(_WORDS):
        word = (state[i] & _UPPER) | (state[(i + 1) % _WORDS] & _LOWER)
        state[i] = state[(i + _MIDDLE) % _WORDS] ^ (word >> 1) ^ (0x9908B0DF if word & 1 else 0)
    state[_WORDS] = 0


@allocating
def _word(state: Any) -> Any:
    if state[_WORDS] == _WORDS:
        _twist(state)
    y = state[state[_WORDS]]
    state[_WORDS] += 1
    y ^= y >> 11
    y ^= (y << 7) & 0x9D2C5680
    y ^= (y << 15) & 0xEFC60000
    return y ^ (y >> 18)


@allocating
def below(state: Any, limit: int) -> Any:
    """A number from 0 to `limit` - 1; `limit` is 2 at least."""
    mask = 1
    while mask < limit - 1:
        mask = 2 * mask + 1
    number = _word(state) & mask
    while number >= limit:
        number = _word(state) & mask
    return number
