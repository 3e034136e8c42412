# SPDX-License-Identifier: Apache-2.0
"""Open-addressing hash tables over packed keys: one for an exact table, one for each prefix length of an LPM table.

Linear probing, at most half full, deletion shifts back. Compiled code searches the same memory
(`compiler/lookup.py`), so the hash here and there must agree.

A packet meets most groups of an LPM table in vain, each time at another slot that the processor's cache
does not hold. So in front of their slots there is a filter (Bloom, 1970, with one hash function): half a byte for every
slot, of which at most one bit in eight is set, so that seven of eight such searches end at memory that stays in the
cache. An exact table is searched once, and mostly with success; it has none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler.slots import (
    FILTER_BIT_SHIFT,
    FILTER_LEAST,
    FILTER_SLOTS_SHIFT,
    FILTER_WORD_SHIFT,
    HASH_HEAD,
    HASH_MULTIPLIER,
    LINE_WORDS,
    spaced,
)

_WORD = (1 << 64) - 1
_STALE = 32
"""Removed keys whose bits may stay in a filter, beside as many as there are keys."""

PackedKey = tuple[int, ...]


def hash_key(key: PackedKey) -> int:
    """The hash of the words of a packed, masked key. Slots are chosen by its low bits, and prefixes have information in
    their words' high bits only: hence the shift before the multiplication, which carries upwards."""
    h = 0
    for word in key:
        h ^= word
        h = ((h ^ (h >> 32)) * HASH_MULTIPLIER) & _WORD
        h ^= h >> 32
    return h


def _hash_rows(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    h = np.zeros(len(keys), dtype=np.uint64)
    for column in range(keys.shape[1]):
        h ^= keys[:, column]
        h = (h ^ (h >> np.uint64(32))) * np.uint64(HASH_MULTIPLIER)
        h ^= h >> np.uint64(32)
    return h


class HashGroup:
    """A hash table. `value` 0 means an empty slot."""

    __slots__ = (
        *("array", "count", "end", "filter", "filter_mask", "filtered", "flat", "limit", "mask", "removed", "stride"),
    )

    def __init__(self, words: int, filtered: bool = True) -> None:
        """`words`: of a key. `filtered`: there is a filter in front of the slots."""
        self.end = HASH_HEAD + words  # of a slot's key
        self.stride, self.count = spaced(self.end), 0
        self.filtered = filtered
        self._allocate(8)

    def _allocate(self, capacity: int) -> None:
        self.mask = capacity - 1
        self.limit = capacity // 2
        self.filter_mask = (self.mask >> FILTER_SLOTS_SHIFT) | FILTER_LEAST
        self.removed = 0
        words, slots = (self.filter_mask + 1) * self.filtered, capacity * self.stride
        raw = np.zeros(words + slots + LINE_WORDS - 1, dtype=np.uint64)
        # Slots of at most 64 bytes lie in one line of the cache each if the first one begins at a line.
        first = words + (-(raw.ctypes.data // 8 + words) % LINE_WORDS)
        self.filter = raw[first - words : first]
        self.array = raw[first : first + slots].reshape(capacity, self.stride)
        self.flat = memoryview(self.array.reshape(-1))  # type: ignore[arg-type]

    @property
    def address(self) -> int:
        """Return where the slots begin. Word i of the filter is i + 1 words in front of that."""
        return self.array.ctypes.data

    def _admit(self, h: int) -> None:
        """Let the filter, if there is one, pass keys with that hash."""
        if not self.filtered:
            return
        at = self.filter_mask - ((h >> FILTER_WORD_SHIFT) & self.filter_mask)
        self.filter[at] |= np.uint64(1 << (h >> FILTER_BIT_SHIFT))

    def _admit_all(self, hashes: NDArray[np.uint64]) -> None:
        """Make the filter, if there is one, anew, for the keys with these hashes."""
        self.removed = 0
        if not self.filtered:
            return
        self.filter[:] = 0
        words = (hashes >> np.uint64(FILTER_WORD_SHIFT)) & np.uint64(self.filter_mask)
        bits = np.uint64(1) << (hashes >> np.uint64(FILTER_BIT_SHIFT))
        np.bitwise_or.at(self.filter, self.filter_mask - words.astype(np.int64), bits)

    def _slot(self, key: PackedKey, h: int) -> int:
        """Offset of the slot that has the key, whose hash is `h`, or, if none has, of the free one where it belongs."""
        flat, stride, mask = self.flat, self.stride, self.mask
        at = h & mask
        if len(key) == 1:
            word = key[0]
            while flat[at * stride] and flat[at * stride + HASH_HEAD] != word:
                at = (at + 1) & mask
            return at * stride
        while True:
            offset = at * stride
            if not flat[offset] or tuple(flat[offset + HASH_HEAD : offset + self.end]) == key:
                return offset
            at = (at + 1) & mask

    def put(self, key: PackedKey, value: int) -> bool:
        """Set the value of a key. True when the table moved and its address must be published again."""
        h = hash_key(key)
        flat, at = self.flat, self._slot(key, h)
        new = not flat[at]
        flat[at] = value
        if not new:
            return False
        for place, word in enumerate(key, at + HASH_HEAD):
            flat[place] = word
        self._admit(h)
        self.count += 1
        if self.count > self.limit:
            self._rebuild(2 * len(self.array))
            return True
        return False

    def remove(self, key: PackedKey) -> None:
        """Forget a key that is there; slots behind it that probed past it move back."""
        flat, stride, mask = self.flat, self.stride, self.mask
        hole = self._slot(key, hash_key(key)) // stride
        at = hole
        self.count -= 1
        while True:
            at = (at + 1) & mask
            offset = at * stride
            if not flat[offset]:
                break
            home = hash_key(tuple(flat[offset + HASH_HEAD : offset + self.end])) & mask
            if (at - home) & mask >= (at - hole) & mask:
                flat[hole * stride : (hole + 1) * stride] = flat[offset : offset + stride]
                hole = at
        flat[hole * stride] = 0
        self.removed += 1
        if self.filtered and self.removed > self.count + _STALE:
            self._admit_all(_hash_rows(self.array[self.array[:, 0] != 0][:, HASH_HEAD : self.end]))

    def _rebuild(self, capacity: int) -> None:
        old = self.array[self.array[:, 0] != 0]
        self._allocate(capacity)
        hashes = _hash_rows(old[:, HASH_HEAD : self.end])
        self._admit_all(hashes)
        home = (hashes & np.uint64(self.mask)).astype(np.int64)
        # Rows in order of their home take the first free slot at or after it: a running maximum finds
        # it for all at once, and what runs over the end wraps round by ordinary probing.
        order = np.argsort(home, kind="stable")
        steps = np.arange(len(order))
        place = np.maximum.accumulate(home[order] - steps) + steps
        inside = place < capacity
        self.array[place[inside]] = old[order[inside]]
        for row in old[order[~inside]]:
            key = tuple(int(word) for word in row[HASH_HEAD : self.end])
            at = self._slot(key, hash_key(key))
            self.flat[at : at + self.stride] = memoryview(row)
