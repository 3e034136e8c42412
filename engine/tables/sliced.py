# SPDX-License-Identifier: Apache-2.0
"""Bit-sliced blocks: where ternary and range entries go whose masks nobody shares.

A block takes up to 64 entries and has a matrix of words: one for every value of every nibble of the key, with a bit
for each entry that such a packet may match. The AND of the words that a packet's nibbles select is the set of
matching entries (Lakshman and Stiliadis, "High-Speed Policy-based Packet Forwarding", 1998; in blocks, and without the
long vectors, so that an insertion touches one block). So 64 entries with 64 masks cost about as much as one hash
table. Blocks have disjoint ranges of ranks, like the leaves of a B-tree, for a search to end early.

A block in memory: the nodes of its entries (64 words, numbers from 1), their ranks (64 words), the matrix.
"""

from __future__ import annotations

import bisect

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler.slots import BLOCK_ENTRIES, BLOCK_MASK, BLOCK_MATRIX, NIBBLE
from detour.engine.tables.hashing import PackedKey

_HALF = BLOCK_ENTRIES // 2
_ALL = (1 << BLOCK_ENTRIES) - 1


def _patterns() -> NDArray[np.uint64]:
    """For the key and the mask of a nibble: which of its 16 values match, as 0 and 1."""
    key, mask, value = np.ogrid[:NIBBLE, :NIBBLE, :NIBBLE]
    return ((value ^ key) & mask == 0).astype(np.uint64)  # [key, mask, value]


_PATTERNS = _patterns()


class Block:
    """One block; among the groups of a table it looks like a hash group of its own."""

    __slots__ = ("_chunks", "_matrix", "address", "array", "entries", "free", "start", "top")

    def __init__(self, start: int, words: NDArray[np.int64], shifts: NDArray[np.uint64]) -> None:
        """`start`: the lowest rank it may hold. `words`, `shifts`: where the key's nibbles are."""
        self._chunks = (words, shifts)
        self.start, self.top = start, 0
        self.array = np.zeros(BLOCK_MATRIX + NIBBLE * len(words), dtype=np.uint64)
        self._matrix = self.array[BLOCK_MATRIX:].reshape(len(words), NIBBLE)
        self.address = self.array.ctypes.data
        self.entries: dict[int, int] = {}  # rank -> bit
        self.free = list(range(BLOCK_ENTRIES - 1, -1, -1))

    def row(self, words: int) -> tuple[int, ...]:
        return (self.address, BLOCK_MASK, self.top, *(0,) * words)

    def put(self, rank: int, key: PackedKey, mask: PackedKey, node: int) -> None:
        """Adds an entry; there must be room."""
        bit = self.free.pop()
        self.entries[rank] = bit
        self.array[bit], self.array[BLOCK_ENTRIES + bit] = node, rank
        words, shifts = self._chunks
        keys = np.array(key, dtype=np.uint64)[words] >> shifts & np.uint64(NIBBLE - 1)
        masks = np.array(mask, dtype=np.uint64)[words] >> shifts & np.uint64(NIBBLE - 1)
        self._matrix |= _PATTERNS[keys, masks] << np.uint64(bit)

    def take(self, rank: int) -> None:
        bit = self.entries.pop(rank)
        self._matrix &= np.uint64(_ALL ^ 1 << bit)
        self.free.append(bit)

    def give(self, other: Block, ranks: list[int]) -> None:
        """Moves entries to an empty block, where they keep their bits."""
        other.array[:] = self.array
        bits = [self.entries[rank] for rank in ranks]
        moved = sum(1 << bit for bit in bits)
        other._matrix &= np.uint64(moved)
        self._matrix &= np.uint64(_ALL ^ moved)
        other.entries = {rank: self.entries.pop(rank) for rank in ranks}
        other.free = [bit for bit in range(BLOCK_ENTRIES) if not moved >> bit & 1]
        self.free += bits


class Blocks:
    """All blocks of a table, in order of rank. Whoever calls keeps their rows among the groups."""

    def __init__(self, chunks: tuple[tuple[int, int], ...]) -> None:
        """`chunks`: word and shift of every nibble of the key."""
        self._words = np.array([word for word, _ in chunks], dtype=np.int64)
        self._shifts = np.array([shift for _, shift in chunks], dtype=np.uint64)
        self._starts: list[int] = []
        self._blocks: list[Block] = []

    def __len__(self) -> int:
        return len(self._blocks)

    def find(self, rank: int) -> Block:
        return self._blocks[bisect.bisect_right(self._starts, rank) - 1]

    def put(self, rank: int, key: PackedKey, mask: PackedKey, node: int) -> tuple[Block, ...]:
        """Adds an entry; returns the blocks whose highest rank may be another now."""
        block, other = self._room(rank)
        block.put(rank, key, mask, node)
        return (block,) if other is None else (block, other)

    def _room(self, rank: int) -> tuple[Block, Block | None]:
        """A block with room for a rank and, if one was split for that, its other half."""
        if not self._blocks:
            return self._insert(0, 0), None
        at = bisect.bisect_right(self._starts, rank) - 1
        block = self._blocks[at]
        if block.free:
            return block, None
        ranks = sorted(block.entries)
        if rank > ranks[-1]:
            return self._insert(at + 1, rank), None
        if rank < ranks[0]:
            start, block.start = block.start, ranks[0]
            self._starts[at] = block.start
            return self._insert(at, start), None
        upper = self._insert(at + 1, ranks[_HALF])
        block.give(upper, ranks[_HALF:])
        return (upper, block) if rank > ranks[_HALF] else (block, upper)

    def _insert(self, at: int, start: int) -> Block:
        block = Block(start, self._words, self._shifts)
        self._starts.insert(at, start)
        self._blocks.insert(at, block)
        return block

    def drop(self, block: Block) -> None:
        at = bisect.bisect_right(self._starts, block.start) - 1
        del self._starts[at], self._blocks[at]
        if at == 0 and self._blocks:
            self._starts[0] = self._blocks[0].start = 0
