# SPDX-License-Identifier: Apache-2.0
"""Index of entries: the memory that compiled lookups search, for each kind of table.

Exact tables have one hash table. LPM tables have one for each prefix length in use, a *group*, the longest first.
Ternary and range tables have bit-sliced blocks (`sliced.py`), the one with the highest rank first: a search ends when
no later one can do better.
"""

from __future__ import annotations

import bisect
import struct
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler import slots
from detour.engine.compiler.model import KeyField
from detour.engine.compiler.slots import KeyLayout, key_nibbles
from detour.engine.tables.hashing import HashGroup, PackedKey
from detour.engine.tables.keys import Match
from detour.engine.tables.rows import Rows
from detour.engine.tables.sliced import Blocks, Coder

_WORD = 0xFFFFFFFFFFFFFFFF


class ExactIndex:
    """One hash table over the whole key."""

    def __init__(self, sw: NDArray[np.int64], slot: int, layout: KeyLayout, fields: tuple[KeyField, ...]) -> None:
        self._sw, self._slot = sw, slot
        self._group = HashGroup(layout.words, filtered=False)
        self._publish()

    def _publish(self) -> None:
        self._sw[self._slot + slots.HASH_BASE] = self._group.address
        self._sw[self._slot + slots.HASH_MASK] = self._group.mask
        self._sw[self._slot + slots.ENTRY_COUNT] = self._group.count

    def add(self, match: Match, rank: int, row: int) -> None:
        """Make the key lead to that record."""
        self._group.put(match.key, row)
        self._publish()

    def remove(self, match: Match, rank: int, row: int) -> None:
        self._group.remove(match.key)
        self._publish()


class _Ranked(Protocol):
    """An item of an ordered search: `top` is its highest rank, or more."""

    top: int

    def row(self) -> tuple[int, ...]:
        """Return the item's row in native memory."""
        ...


class _Order:
    """The items that a table's lookup searches, the highest rank first, and their rows in native memory."""

    def __init__(self, sw: NDArray[np.int64], slot: int, words: int = 0) -> None:
        """`words`: of a row behind its head."""
        self._sw, self._slot = sw, slot
        self._rows = Rows(sw, slot + slots.GROUPS, slots.GROUP_HEAD + words)
        self._order: list[_Ranked] = []
        sw[slot + slots.GROUP_COUNT] = 0  # a table that was cleared had groups, and its new rows hold no addresses

    def rank(self, item: _Ranked, top: int) -> None:
        """Change an item's highest rank. 0: it is not there, as a new one."""
        if item.top == top:
            return
        if item.top:
            self._take_out(item)
        item.top = top
        if top:
            self._put_in(item)

    def write(self, item: _Ranked) -> None:
        """Write an item's changed row to native memory."""
        self._write(self._position(item))

    def _position(self, item: _Ranked) -> int:
        at = bisect.bisect_left(self._order, -item.top, key=_descending)
        while self._order[at] is not item:
            at += 1
        return at

    def _take_out(self, item: _Ranked) -> None:
        at = self._position(item)
        del self._order[at]
        rows, count = self._rows.array, len(self._order)
        rows[at:count] = rows[at + 1 : count + 1]
        self._sw[self._slot + slots.GROUP_COUNT] = count

    def _put_in(self, item: _Ranked) -> None:
        at = bisect.bisect_left(self._order, -item.top, key=_descending)
        self._order.insert(at, item)
        count = len(self._order)
        self._rows.reserve(count)
        rows = self._rows.array
        rows[at + 1 : count] = rows[at : count - 1].copy()
        self._write(at)
        self._sw[self._slot + slots.GROUP_COUNT] = count

    def _write(self, position: int) -> None:
        self._rows.write(position * self._rows.stride, self._order[position].row())


def _descending(item: _Ranked) -> int:
    return -item.top


class _Prefixes:
    """The hash table of the entries whose prefix has one length."""

    def __init__(self, mask: PackedKey) -> None:
        self.mask, self.top = mask, 0
        self.hash = HashGroup(len(mask))

    def row(self) -> tuple[int, ...]:
        return (self.hash.address, self.hash.mask, self.top, *self.mask)


class PrefixIndex:
    """LPM tables: a group for each prefix length, whose rank is the length."""

    def __init__(self, sw: NDArray[np.int64], slot: int, layout: KeyLayout, fields: tuple[KeyField, ...]) -> None:
        self._groups: dict[PackedKey, _Prefixes] = {}
        self._order = _Order(sw, slot, layout.words)

    def add(self, match: Match, rank: int, row: int) -> None:
        """Make packets that match find that record."""
        group = self._groups.get(match.mask)
        if group is None:
            group = self._groups[match.mask] = _Prefixes(match.mask)
            self._order.rank(group, rank)
        if group.hash.put(match.key, row):
            self._order.write(group)

    def remove(self, match: Match, rank: int, row: int) -> None:
        group = self._groups[match.mask]
        group.hash.remove(match.key)
        if not group.hash.count:
            self._order.rank(group, 0)
            del self._groups[match.mask]


class RankedIndex:
    """Ternary and range tables."""

    def __init__(self, sw: NDArray[np.int64], slot: int, layout: KeyLayout, fields: tuple[KeyField, ...]) -> None:
        self._layout, self._fields = layout, fields
        nibbles, row = key_nibbles(layout, fields), slots.leaf_row(layout)
        self._coder = Coder(nibbles, layout.words + layout.range_words)
        self._blocks = Blocks(nibbles, row, _Order(sw, slot).rank)
        self._row = struct.Struct(f"={row}Q")

    def add(self, match: Match, rank: int, row: int) -> None:
        """Make packets that match find that record, unless they find a higher rank."""
        limits = self._limits(match) if match.bounds else ()
        words = self._row.pack(row, rank, *match.key, *match.mask, *limits)
        self._blocks.put(self._code(match), rank, words)

    def remove(self, match: Match, rank: int, row: int) -> None:
        self._blocks.take(self._code(match), rank)

    def _limits(self, match: Match) -> list[int]:
        """The words of the lower ends of its ranges, then those of the upper ones."""
        places = [self._layout.places[i].words for i in self._layout.ranges]
        return [
            word
            for side in (0, 1)
            for bound, words in zip(match.bounds, places, strict=True)
            for word in _split(bound[side], words)
        ]

    def _code(self, match: Match) -> bytes:
        """Return the code that a block compares, of key and mask, with ranges as the prefixes that both of their ends
        have."""
        keys, masks = match.key, match.mask
        for (low, high), i in zip(match.bounds, self._layout.ranges, strict=True):
            bits, words = self._fields[i].bits, self._layout.places[i].words
            size = (low ^ high).bit_length()
            prefix = ((1 << bits) - 1) >> size << size
            keys, masks = keys + _split(low & prefix, words), masks + _split(prefix, words)
        return self._coder.code(keys, masks)


def _split(value: int, count: int) -> PackedKey:
    return (value,) if count == 1 else tuple((value >> (64 * i)) & _WORD for i in range(count))
