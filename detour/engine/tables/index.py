# SPDX-License-Identifier: Apache-2.0
"""How entries are found: the memory that compiled lookups search, for each kind of table.

All kinds are made of `HashGroup`s, one for each mask. An exact table has one; an LPM table one for each
prefix length in use; ternary and range tables one for each mask, in order of the highest rank within, so that
a search ends when no later group can do better.

A range is not expanded into prefixes. It is covered by at most two aligned blocks whose size is a power of
two, which makes it an entry (or two) with a mask; a bucket is a chain in which the true bounds are checked.
"""

from __future__ import annotations

import bisect
from itertools import product

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler.slots import (
    GROUP_COUNT,
    GROUP_HEAD,
    GROUPS,
    HASH_BASE,
    HASH_MASK,
    NODE_HEAD,
    NODES,
    KeyLayout,
)
from detour.engine.tables.hashing import HashGroup, Key
from detour.engine.tables.rows import Handles, Rows

Bounds = tuple[tuple[int, int], ...]


class ExactIndex:
    """One hash table over the whole key."""

    def __init__(self, sw: NDArray[np.int64], slot: int, layout: KeyLayout) -> None:
        self._sw, self._slot = sw, slot
        self._group = HashGroup(layout.words)
        self._publish()

    def _publish(self) -> None:
        self._sw[self._slot + HASH_BASE] = self._group.address
        self._sw[self._slot + HASH_MASK] = self._group.mask

    def add(self, key: Key, mask: Key, bounds: Bounds, rank: int, row: int) -> None:
        """Makes the key lead to that record."""
        if self._group.put(key, row, rank):
            self._publish()

    def remove(self, key: Key, mask: Key, bounds: Bounds, rank: int, row: int) -> None:
        """Undoes `add`."""
        self._group.remove(key)


class _Group:
    """A hash group with what is known of its ranks. `top` may be too high after deletions, never too low."""

    __slots__ = ("buckets", "hash", "mask", "removed", "top")

    def __init__(self, mask: Key) -> None:
        self.hash = HashGroup(len(mask))
        self.mask = mask
        self.top = 0
        self.removed = 0
        self.buckets: dict[Key, list[tuple[int, int]]] = {}  # sorted (rank, value); the last one wins


class MaskedIndex:
    """Groups by mask, the group with the highest rank first; LPM tables use the prefix length as rank."""

    def __init__(self, sw: NDArray[np.int64], slot: int, layout: KeyLayout) -> None:
        self._sw, self._slot = sw, slot
        self._rows = Rows(sw, slot + GROUPS, GROUP_HEAD + layout.words)
        self._groups: dict[Key, _Group] = {}
        self._order: list[_Group] = []  # by top, descending

    def add(self, key: Key, mask: Key, bounds: Bounds, rank: int, row: int) -> None:
        """Makes packets that match `key` under `mask` find that record, unless a higher rank is there."""
        group = self._groups.get(mask)
        if group is None:
            group = self._groups[mask] = _Group(mask)
        bucket = group.buckets.setdefault(key, [])
        bisect.insort(bucket, (rank, row))
        moved = self._show(group, key, bucket)
        self._raise_top(group, rank, moved)

    def _show(self, group: _Group, key: Key, bucket: list[tuple[int, int]]) -> bool:
        rank, row = bucket[-1]
        return group.hash.put(key, row, rank)

    def remove(self, key: Key, mask: Key, bounds: Bounds, rank: int, row: int) -> None:
        """Undoes `add`."""
        group = self._groups[mask]
        bucket = group.buckets[key]
        del bucket[bisect.bisect_left(bucket, (rank, row))]
        if bucket:
            self._show(group, key, bucket)
        else:
            del group.buckets[key]
            group.hash.remove(key)
        self._lower_top(group)

    def _raise_top(self, group: _Group, rank: int, moved: bool) -> None:
        """After an insertion: the group may have to go further to the front, or its hash table moved."""
        if rank > group.top:
            old = group.top
            group.top = rank
            if old:
                at = self._order.index(group)
                del self._order[at]
            else:
                at = len(self._order)
            to = bisect.bisect_left(self._order, -rank, key=lambda g: -g.top)
            self._order.insert(to, group)
            self._publish(min(at, to), max(at, to) + 1)
        elif moved:
            at = self._order.index(group)
            self._publish(at, at + 1)

    def _lower_top(self, group: _Group) -> None:
        """After a deletion: an empty group goes; now and then the highest rank is found again."""
        if not group.buckets:
            at = self._order.index(group)
            del self._order[at], self._groups[group.mask]
            self._publish(at, len(self._order))
            return
        group.removed += 1
        if group.removed > len(group.buckets) // 2:
            group.removed = 0
            top = max(bucket[-1][0] for bucket in group.buckets.values())
            if top < group.top:
                at = self._order.index(group)
                del self._order[at]
                group.top = top
                to = bisect.bisect_left(self._order, -top, key=lambda g: -g.top)
                self._order.insert(to, group)
                self._publish(min(at, to), max(at, to) + 1)

    def _publish(self, first: int, end: int) -> None:
        """Writes the rows of the groups in `first..end-1`."""
        self._rows.reserve(len(self._order))
        flat, stride = self._rows.flat, self._rows.stride
        for i in range(first, end):
            group, at = self._order[i], i * stride
            flat[at], flat[at + 1], flat[at + 2] = group.hash.address, group.hash.mask, group.top
            for w, word in enumerate(group.mask):
                flat[at + GROUP_HEAD + w] = word
        self._sw[self._slot + GROUP_COUNT] = len(self._order)


class RangeIndex(MaskedIndex):
    """Groups as in `MaskedIndex`, with the blocks of the ranges as further words of key and mask.

    A bucket is a chain of nodes, highest rank first, each with the bounds to check.
    """

    def __init__(self, sw: NDArray[np.int64], slot: int, layout: KeyLayout) -> None:
        self._layout = layout
        self._places = [layout.places[i] for i in layout.ranges]
        self._nodes = Rows(sw, slot + NODES, NODE_HEAD + 2 * layout.range_words)
        self._node_handles = Handles()
        self._chains: dict[tuple[Key, Key], list[tuple[int, int, int]]] = {}  # (rank, row, node), ascending
        super().__init__(sw, slot, _with_ranges(layout))

    def add(self, key: Key, mask: Key, bounds: Bounds, rank: int, row: int) -> None:
        """Adds the entry to every block that its ranges touch."""
        for block_key, block_mask in self._blocks(key, mask, bounds):
            group = self._groups.get(block_mask)
            if group is None:
                group = self._groups[block_mask] = _Group(block_mask)
            node = self._new_node(row, rank, bounds)
            chain = self._chains.setdefault((block_key, block_mask), [])
            at = bisect.bisect_left(chain, (rank, row, 0))
            chain.insert(at, (rank, row, node))
            moved = self._link(group, block_key, chain, at)
            self._raise_top(group, rank, moved)

    def remove(self, key: Key, mask: Key, bounds: Bounds, rank: int, row: int) -> None:
        """Undoes `add`."""
        for block_key, block_mask in self._blocks(key, mask, bounds):
            group = self._groups[block_mask]
            chain = self._chains[(block_key, block_mask)]
            at = bisect.bisect_left(chain, (rank, row, 0))
            self._node_handles.release(chain.pop(at)[2])
            if chain:
                self._link(group, block_key, chain, min(at, len(chain) - 1))
            else:
                del self._chains[(block_key, block_mask)], group.buckets[block_key]
                group.hash.remove(block_key)
            self._lower_top(group)

    def _blocks(self, key: Key, mask: Key, bounds: Bounds) -> list[tuple[Key, Key]]:
        """Key and mask with the words of every combination of blocks appended."""
        choices = []
        for (low, high), place in zip(bounds, self._places, strict=True):
            size = (high - low).bit_length()
            block_mask = ((1 << place.bits) - 1) >> size << size
            starts = dict.fromkeys((low & block_mask, high & block_mask))
            choices.append([(_words(s, place.words), _words(block_mask, place.words)) for s in starts])
        return [
            (key + tuple(w for c in combo for w in c[0]), mask + tuple(w for c in combo for w in c[1]))
            for combo in product(*choices)
        ]

    def _new_node(self, row: int, rank: int, bounds: Bounds) -> int:
        node = self._node_handles.take()
        self._nodes.reserve(node + 1)
        at = node * self._nodes.stride
        words = [row, rank, 0]
        for i in (0, 1):
            for bound, place in zip(bounds, self._places, strict=True):
                words.extend(_words(bound[i], place.words))
        for i, word in enumerate(words):
            self._nodes.flat[at + i] = word
        return node

    def _link(self, group: _Group, key: Key, chain: list[tuple[int, int, int]], at: int) -> bool:
        """Rewrites the links around position `at` and, if the head changed, the bucket."""
        flat, stride = self._nodes.flat, self._nodes.stride
        for i in (at, at + 1):
            if i < len(chain):
                flat[chain[i][2] * stride + 2] = chain[i - 1][2] + 1 if i else 0
        rank, _, node = chain[-1]
        head = [(rank, node + 1)]
        if group.buckets.get(key) == head:
            return False
        group.buckets[key] = head
        return self._show(group, key, head)


def _words(value: int, count: int) -> Key:
    return tuple((value >> (64 * i)) & 0xFFFFFFFFFFFFFFFF for i in range(count))


def _with_ranges(layout: KeyLayout) -> KeyLayout:
    return KeyLayout(layout.words + layout.range_words, layout.places, layout.ranges, layout.range_words)
