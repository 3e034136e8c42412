# SPDX-License-Identifier: Apache-2.0
"""Mutations of packets as native code.

`work` is a uint8 array in which a packet is made; functions take its length so far and return the new one. `rng` is
a one-element uint64 array, the state of the generator. `seeds` are packets side by side: row `i` has its length in
`lengths[i]`. `words` are byte strings that the program compares with, each behind a byte with its length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.jit import inner, int64

_MIX = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)


@inner()
def draw(rng: Any) -> Any:
    """A number of 63 random bits (splitmix64)."""
    z = rng[0] + _MIX
    rng[0] = z
    z = (z ^ (z >> np.uint64(30))) * _FACTOR_1
    z = (z ^ (z >> np.uint64(27))) * _FACTOR_2
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(1))


@inner()
def below(rng: Any, limit: int) -> int:
    """A number in 0..limit-1; 0 if there is none."""
    return draw(rng) % limit if limit > 0 else 0


@inner()
def _flip(rng: Any, work: Any, length: int) -> int:
    for _ in range(1 + below(rng, 8)):
        if length > 0:
            work[below(rng, length)] ^= 1 << below(rng, 8)
    return length


@inner()
def _interesting(rng: Any, work: Any, length: int) -> int:
    """Bytes at the ends of their range, or any."""
    for _ in range(1 + below(rng, 4)):
        if length > 0:
            kind = below(rng, 5)
            value = 0
            if kind == 1:
                value = 255
            elif kind == 2:
                value = 128
            elif kind == 3:
                value = 127
            elif kind == 4:
                value = below(rng, 256)
            work[below(rng, length)] = value
    return length


@inner()
def _step(rng: Any, work: Any, length: int) -> int:
    """A byte a little greater or smaller: lengths, indices, counts of hops."""
    if length > 0:
        work[below(rng, length)] += below(rng, 9) - 4
    return length


@inner()
def _cut(rng: Any, length: int) -> int:
    return below(rng, length + 1) if below(rng, 3) else min(length, below(rng, 24))


@inner()
def _splice(rng: Any, work: Any, length: int, seeds: Any, lengths: Any, count: int) -> int:
    """A field, header or rest of another packet, often from the same place."""
    other = below(rng, count)
    size = min(1 + below(rng, 40), lengths[other]) if below(rng, 4) else lengths[other]
    at = below(rng, lengths[other] - size + 1)
    to = at if below(rng, 2) else below(rng, length + 1)
    if to > length:
        return length
    size = min(size, work.size - to)
    for i in range(size):
        work[to + i] = seeds[other, at + i]
    return max(length, to + size)


@inner()
def _insert(work: Any, length: int, to: int, size: int) -> int:
    """Makes room for `size` bytes at `to`."""
    for i in range(length - 1, to - 1, -1):
        work[i + size] = work[i]
    return length + size


@inner()
def _repeat(rng: Any, work: Any, length: int) -> int:
    """A header again and again, at its place."""
    if length == 0:
        return 0
    at = below(rng, length)
    size = 1 + below(rng, min(length - at, 64))
    for _ in range(1 + below(rng, 12)):
        if length + size <= work.size:
            length = _insert(work, length, at + size, size)
            for i in range(size):
                work[at + size + i] = work[at + i]
    return length


@inner()
def _delete(rng: Any, work: Any, length: int) -> int:
    at = below(rng, length)
    size = min(1 + below(rng, 40), length - at)
    for i in range(at, length - size):
        work[i] = work[i + size]
    return length - size


@inner()
def _word(rng: Any, work: Any, length: int, words: Any) -> int:
    """What the parser or a condition asks for, over or in between what is there."""
    chosen = below(rng, len(words))
    size = int64(words[chosen, 0])
    to = below(rng, length + 1)
    if length + size > work.size:
        return length
    if below(rng, 2) or to + size > length:
        length = _insert(work, length, to, size)
    for i in range(size):
        work[to + i] = words[chosen, 1 + i]
    return length


@inner()
def _grow(rng: Any, work: Any, length: int) -> int:
    """More bytes behind; now and then as many as there is room for."""
    room = work.size - length
    size = min(room, below(rng, 256)) if below(rng, 16) else below(rng, room + 1)
    if below(rng, 64) == 0:
        size = room
    value = draw(rng)
    for i in range(length, length + size):
        work[i] = value >> (i & 31)
    return length + size


@inner()
def _noise(rng: Any, work: Any) -> int:
    length = below(rng, min(work.size, 200) + 1)
    for i in range(length):
        work[i] = below(rng, 256)
    return length


@inner()
def _change(rng: Any, work: Any, length: int, seeds: Any, lengths: Any, count: int, words: Any) -> int:
    kind = below(rng, 32)
    if kind < 8:
        return _flip(rng, work, length)
    if kind < 12:
        return _interesting(rng, work, length)
    if kind < 15:
        return _step(rng, work, length)
    if kind < 18:
        return _cut(rng, length)
    if kind < 22:
        return _splice(rng, work, length, seeds, lengths, count)
    if kind < 24:
        return _repeat(rng, work, length)
    if kind < 26:
        return _delete(rng, work, length)
    if kind < 30:
        return _word(rng, work, length, words)
    return _grow(rng, work, length)


@inner()
def make_packet(rng: Any, work: Any, seeds: Any, lengths: Any, count: int, words: Any) -> int:
    """Makes the next packet of one of the first `count` seeds; returns its length, 0 to `work.size`."""
    if below(rng, 128) == 0:
        return _noise(rng, work)
    chosen = below(rng, count)
    length = lengths[chosen]
    for i in range(length):
        work[i] = seeds[chosen, i]
    for _ in range(below(rng, 5)):
        length = _change(rng, work, length, seeds, lengths, count, words)
    return length
