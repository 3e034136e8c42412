# SPDX-License-Identifier: Apache-2.0
"""How entries are found: the memory that compiled lookups search, for each kind of table.

Entries with the same mask share a hash table, a *group*. Exact tables have one group, LPM tables one for each
prefix length in use. Ternary and range tables have one for each mask, the group with the highest rank first:
a search ends when no later group can do better.

Two things would make groups too many, and both are answered by *chains*. A range is not expanded into prefixes
but covered by at most two aligned blocks whose size is a power of two; and once a table has several masks, entries
go to groups with coarser masks (tuple merging: Daly et al., "TupleMerge", 2017). A slot of such a group holds a
chain of nodes, each with the whole key to compare, in order of rank. Chains are kept short: an entry that would
make one too long goes to a group with a finer mask.

An entry for which there is no group, when there are many, is *sliced*: it goes to bit-sliced blocks (`sliced.py`),
which stand among the groups. Where more entries are sliced than in chains, as in access control lists, groups with
chains are more to search than they are worth: their entries follow, a few with each insertion.
"""

from __future__ import annotations

import bisect
import struct
from itertools import islice, product
from operator import and_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler import slots
from detour.engine.compiler.model import KeyField
from detour.engine.compiler.slots import KeyLayout, KeyPlace, key_nibbles
from detour.engine.tables.hashing import HashGroup, PackedKey
from detour.engine.tables.keys import Match
from detour.engine.tables.rows import Handles, Rows
from detour.engine.tables.sliced import Block, Blocks, Coder

_MANY_GROUPS = 4  # from here on entries go to coarser groups
_LONG_CHAIN = 8
_MOST_GROUPS = 12  # from here on no mask gets one
_MOVED = 4  # entries that leave chains with an insertion, where most entries are sliced
_REMEMBERED = 4096
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
        """Makes the key lead to that record."""
        self._group.put(match.key, row, rank)
        self._publish()

    def remove(self, match: Match, rank: int, row: int) -> None:
        self._group.remove(match.key)
        self._publish()


class _Group:
    """A hash group with what is known of its ranks. `top` may be too high after deletions, never too low. A bucket is
    sorted (rank, value), the last one wins; its values are records or, in a chain, nodes. Groups of LPM tables have no
    buckets: a key is in them once."""

    __slots__ = ("buckets", "chained", "hash", "mask", "removed", "top")

    def __init__(self, mask: PackedKey, chained: bool) -> None:
        self.mask, self.chained = mask, chained
        self.hash = HashGroup(len(self.mask))
        self.top = 0
        self.removed = 0
        self.buckets: dict[PackedKey, list[tuple[int, int]]] = {}

    def row(self, words: int) -> tuple[int, ...]:
        return (self.hash.address, self.hash.mask, self.top, *self.mask)


class _Groups:
    """All groups of a table, in order of their highest rank, and their rows in native memory."""

    def __init__(self, sw: NDArray[np.int64], slot: int, words: int) -> None:
        self._sw, self._slot = sw, slot
        self._rows = Rows(sw, slot + slots.GROUPS, slots.GROUP_HEAD + words)
        self._by_mask: tuple[dict[PackedKey, _Group], dict[PackedKey, _Group]] = ({}, {})  # direct, chained
        self._order: list[_Group | Block] = []
        self._words = words
        sw[slot + slots.GROUP_COUNT] = 0  # a table that was cleared had groups, and its new rows hold no addresses

    def __len__(self) -> int:
        return len(self._by_mask[0]) + len(self._by_mask[1])

    def find(self, mask: PackedKey, chained: bool) -> _Group | None:
        return self._by_mask[chained].get(mask)

    def make(self, mask: PackedKey, chained: bool) -> _Group:
        """A new group; it appears in native memory with the first `raised`."""
        group = self._by_mask[chained][mask] = _Group(mask, chained)
        return group

    def raised(self, group: _Group, rank: int, moved: bool) -> None:
        """After an insertion: the group may have to go to the front, or its hash table moved."""
        if rank > group.top:
            if group.top:
                self._take_out(group)
            group.top = rank
            self._put_in(group)
        elif moved:
            self._write(self._position(group))

    def lowered(self, group: _Group) -> None:
        """After a deletion: an empty group goes; now and then the highest rank is found again."""
        if not group.hash.count:
            self._take_out(group)
            del self._by_mask[group.chained][group.mask]
            return
        group.removed += 1
        if group.buckets and group.removed > len(group.buckets) // 2:
            group.removed = 0
            top = max(bucket[-1][0] for bucket in group.buckets.values())
            if top < group.top:
                self._take_out(group)
                group.top = top
                self._put_in(group)

    def ranked(self, block: Block, top: int) -> None:
        """The highest rank of a block is another; 0: the block is empty and goes."""
        if block.top != top:
            if block.top:
                self._take_out(block)
            block.top = top
            if top:
                self._put_in(block)

    def _position(self, group: _Group | Block) -> int:
        at = bisect.bisect_left(self._order, -group.top, key=_descending)
        while self._order[at] is not group:
            at += 1
        return at

    def _take_out(self, group: _Group | Block) -> None:
        at = self._position(group)
        del self._order[at]
        rows, count = self._rows.array, len(self._order)
        rows[at:count] = rows[at + 1 : count + 1]
        self._sw[self._slot + slots.GROUP_COUNT] = count

    def _put_in(self, group: _Group | Block) -> None:
        at = bisect.bisect_left(self._order, -group.top, key=_descending)
        self._order.insert(at, group)
        count = len(self._order)
        self._rows.reserve(count)
        rows = self._rows.array
        rows[at + 1 : count] = rows[at : count - 1].copy()
        self._write(at)
        self._sw[self._slot + slots.GROUP_COUNT] = count

    def _write(self, position: int) -> None:
        self._rows.write(position * self._rows.stride, self._order[position].row(self._words))


def _descending(group: _Group | Block) -> int:
    return -group.top


class PrefixIndex:
    """LPM tables: a group for each prefix length, whose rank is the length."""

    def __init__(self, sw: NDArray[np.int64], slot: int, layout: KeyLayout, fields: tuple[KeyField, ...]) -> None:
        self._groups = _Groups(sw, slot, layout.words)

    def add(self, match: Match, rank: int, row: int) -> None:
        """Makes packets that match find that record."""
        group = self._groups.find(match.mask, False) or self._groups.make(match.mask, False)
        self._groups.raised(group, rank, group.hash.put(match.key, row, rank))

    def remove(self, match: Match, rank: int, row: int) -> None:
        group = self._groups.find(match.mask, False)
        assert group is not None
        group.hash.remove(match.key)
        self._groups.lowered(group)


class _Home(NamedTuple):
    """Where an entry (or, with ranges, one of its blocks) was put. `value` is a node or a direct record."""

    group: _Group
    key: PackedKey
    value: int


class RankedIndex:
    """Ternary and range tables. Words of a group's mask: the hashed fields, then the blocks of ranges."""

    def __init__(self, sw: NDArray[np.int64], slot: int, layout: KeyLayout, fields: tuple[KeyField, ...]) -> None:
        self._layout, self._fields = layout, fields
        self._words = layout.words + layout.range_words
        self._groups = _Groups(sw, slot, self._words)
        self._nodes = Rows(sw, slot + slots.NODES, slots.NODE_HEAD + 2 * self._words)
        self._node_handles = Handles()
        self._direct: dict[int, _Home] = {}
        self._chained: dict[int, tuple[Match, int, list[_Home]]] = {}
        nibbles, row = key_nibbles(layout, fields), slots.leaf_row(layout)
        self._coder = Coder(nibbles, self._words)
        self._sliced_blocks = Blocks(nibbles, row, self._groups.ranked)
        self._row = struct.Struct(f"={row}Q")
        self._sliced: set[int] = set()
        self._coarse: dict[tuple[PackedKey, int], PackedKey] = {}

    def add(self, match: Match, rank: int, row: int) -> None:
        """Makes packets that match find that record, unless they find a higher rank."""
        direct = self._groups.find(match.mask, False) or len(self._groups) < _MANY_GROUPS
        if not match.bounds and direct:
            self._direct[row] = self._add_direct(match, rank, row)
        elif homes := self._add_chained(match, rank, row):
            self._chained[row] = match, rank, homes
        else:
            self._slice(match, rank, row)
            for moving in list(islice(self._chained, _MOVED)) if len(self._sliced) > len(self._chained) else ():
                match, rank, homes = self._chained.pop(moving)
                self._take_home(homes, rank)
                self._slice(match, rank, moving)

    def _add_direct(self, match: Match, rank: int, row: int) -> _Home:
        group = self._groups.find(match.mask, False) or self._groups.make(match.mask, False)
        bucket = group.buckets.setdefault(match.key, [])
        bisect.insort(bucket, (rank, slots.DIRECT | row))
        self._groups.raised(group, rank, group.hash.put(match.key, bucket[-1][1], bucket[-1][0]))
        return _Home(group, match.key, slots.DIRECT | row)

    def _add_chained(self, match: Match, rank: int, row: int) -> list[_Home]:
        """Returns no homes if there is no group for the entry."""
        homes: list[_Home] = []
        if len(self._sliced) > len(self._chained):
            return homes
        chosen = self._choose(match) if match.bounds else self._choose_plain(match)
        for block_key, group in chosen:
            node = self._new_node(match, rank, row)
            bucket = group.buckets.get(block_key)
            if bucket is None:
                group.buckets[block_key] = [(rank, node)]
                moved = group.hash.put(block_key, node, rank)
            else:
                at = bisect.bisect_left(bucket, (rank, node))
                bucket.insert(at, (rank, node))
                moved = self._link(group, block_key, bucket, at)
            if moved or rank > group.top:
                self._groups.raised(group, rank, moved)
            homes.append(_Home(group, block_key, node))
        return homes

    def remove(self, match: Match, rank: int, row: int) -> None:
        if row in self._sliced:
            self._sliced.remove(row)
            self._sliced_blocks.take(self._coder.code(*self._hull(match)), rank)
        elif row in self._chained:
            self._take_home(self._chained.pop(row)[2], rank)
        else:
            self._take_home([self._direct.pop(row)], rank)

    def _take_home(self, homes: list[_Home], rank: int) -> None:
        for group, home_key, value in homes:
            bucket = group.buckets[home_key]
            at = bisect.bisect_left(bucket, (rank, value))
            del bucket[at]
            if not bucket:
                del group.buckets[home_key]
                group.hash.remove(home_key)
            elif value & slots.DIRECT:
                group.hash.put(home_key, bucket[-1][1], bucket[-1][0])
            else:
                self._link(group, home_key, bucket, at)
            if not value & slots.DIRECT:
                self._node_handles.release(value - 1)
            self._groups.lowered(group)

    # -- chains

    def _choose(self, match: Match) -> list[tuple[PackedKey, _Group]]:
        """The coarsest masks under which the entry's chains stay short; none if there are none. While
        groups are few, the finest mask is taken at once; when they are many, no new one is made."""
        for level in self._levels():
            blocks = self._blocks(match, level)
            group = self._groups.find(blocks[0][1], True)
            if group is None and len(self._groups) >= _MOST_GROUPS:
                continue
            longest = max(len(group.buckets.get(k, ())) if group else 0 for k, _ in blocks)
            if longest < _LONG_CHAIN:
                group = group or self._groups.make(blocks[0][1], True)
                return [(k, group) for k, _ in blocks]
        return []

    def _levels(self) -> tuple[int, ...]:
        return (2,) if len(self._groups) < _MANY_GROUPS else (0, 1, 2)

    def _choose_plain(self, match: Match) -> list[tuple[PackedKey, _Group]]:
        """As `_choose`, for an entry without ranges: it has one block at each level."""
        groups = self._groups
        full = len(groups) >= _MOST_GROUPS
        for level in self._levels():
            coarse = self._coarsened(match.mask, level)
            group = groups.find(coarse, True)
            if group is None:
                if full:
                    continue
                group = groups.make(coarse, True)
            block_key = tuple(map(and_, match.key, coarse))
            if len(group.buckets.get(block_key, ())) < _LONG_CHAIN:
                return [(block_key, group)]
        return []

    # -- sliced entries

    def _slice(self, match: Match, rank: int, row: int) -> None:
        self._sliced.add(row)
        words = self._row.pack(row, rank, *match.key, *match.mask, *self._limits(match))
        self._sliced_blocks.put(self._coder.code(*self._hull(match)), rank, words)

    def _limits(self, match: Match) -> list[int]:
        """The words of the lower ends of its ranges, then those of the upper ones."""
        places = [self._layout.places[i].words for i in self._layout.ranges]
        return [
            word
            for side in ((0, 1) if match.bounds else ())
            for bound, words in zip(match.bounds, places, strict=True)
            for word in _split(bound[side], words)
        ]

    def _hull(self, match: Match) -> tuple[PackedKey, PackedKey]:
        """Key and mask with the ranges as the prefixes that both of their ends have: what a block compares."""
        keys, masks = match.key, match.mask
        for (low, high), i in zip(match.bounds, self._layout.ranges, strict=True):
            bits, words = self._fields[i].bits, self._layout.places[i].words
            size = (low ^ high).bit_length()
            prefix = ((1 << bits) - 1) >> size << size
            keys, masks = keys + _split(low & prefix, words), masks + _split(prefix, words)
        return keys, masks

    def _blocks(self, match: Match, level: int) -> list[tuple[PackedKey, PackedKey]]:
        """Key and mask at a level, for every combination of blocks that cover the ranges."""
        coarse = self._coarsened(match.mask, level)
        keys = tuple(map(and_, match.key, coarse))
        if not match.bounds:
            return [(keys, coarse)]
        choices = []
        for (low, high), i in zip(match.bounds, self._layout.ranges, strict=True):
            bits, words = self._fields[i].bits, self._layout.places[i].words
            step = _step(bits, level)
            size = min(-(-(high - low).bit_length() // step) * step, bits)
            block = ((1 << bits) - 1) >> size << size
            starts = dict.fromkeys((low & block, high & block))
            choices.append([(_split(s, words), _split(block, words)) for s in starts])
        return [
            (keys + tuple(w for c in combo for w in c[0]), coarse + tuple(w for c in combo for w in c[1]))
            for combo in product(*choices)
        ]

    def _coarsened(self, mask: PackedKey, level: int) -> PackedKey:
        """The mask with the fields' masks cut to prefixes; at level 2 as it is. Masks are few: the answers are kept."""
        if level == 2:
            return mask
        coarse = self._coarse.get((mask, level))
        if coarse is None:
            masks = list(mask)
            for field, place in zip(self._fields, self._layout.places, strict=True):
                if field.match_type != "range":
                    step = _step(field.bits, level)
                    _set_field_mask(masks, place, _coarsen(_field_mask(mask, place), field.bits, step))
            if len(self._coarse) > _REMEMBERED:
                self._coarse.clear()
            coarse = self._coarse[(mask, level)] = tuple(masks)
        return coarse

    def _new_node(self, match: Match, rank: int, row: int) -> int:
        """A node with everything to compare; its number is one more than its row, since 0 ends a chain."""
        node = self._node_handles.take()
        self._nodes.reserve(node + 1)
        words = (row, rank, 0, *match.key, *match.mask, *self._limits(match))
        self._nodes.write(node * self._nodes.stride, words)
        return node + 1

    def _link(self, group: _Group, key: PackedKey, bucket: list[tuple[int, int]], at: int) -> bool:
        """Writes the links around position `at` of a chain and, if it is the head, the hash slot. A node leads to the
        one before it in the bucket, which has the next lower rank."""
        flat, stride = self._nodes.flat, self._nodes.stride
        for i in range(at, min(at + 2, len(bucket))):
            flat[(bucket[i][1] - 1) * stride + 2] = bucket[i - 1][1] if i else 0
        if at < len(bucket) - 1:
            return False
        rank, node = bucket[-1]
        return group.hash.put(key, node, rank)


def _step(bits: int, level: int) -> int:
    """Prefix lengths of a field are cut to multiples of this at that level; narrow fields count whole."""
    return (max(bits // 4, 8), max(bits // 16, 4), 1)[level]


def _coarsen(mask: int, bits: int, step: int) -> int:
    """The leading ones of a mask, cut to a multiple of `step`."""
    full = (1 << bits) - 1
    if mask == full:
        return full
    leading = bits - (mask ^ full).bit_length()
    zeros = bits - leading // step * step
    return full >> zeros << zeros


def _field_mask(mask: PackedKey, place: KeyPlace) -> int:
    value = sum(mask[place.word + i] << (64 * i) for i in range(place.words))
    return value >> place.shift & ((1 << place.bits) - 1)


def _set_field_mask(masks: list[int], place: KeyPlace, value: int) -> None:
    for i, part in enumerate(_split(value << place.shift, place.words)):
        cover = ((1 << place.bits) - 1) << place.shift >> (64 * i) & _WORD
        masks[place.word + i] = masks[place.word + i] & ~cover | part


def _split(value: int, count: int) -> PackedKey:
    return (value,) if count == 1 else tuple((value >> (64 * i)) & _WORD for i in range(count))
