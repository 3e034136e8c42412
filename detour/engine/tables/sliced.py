# SPDX-License-Identifier: Apache-2.0
"""Bit-sliced blocks: where the entries of ternary and range tables are.

A block has columns and a matrix of bits: for some nibbles of the key and each of their values, which columns a packet
with that value may match. The AND of the rows that a packet's nibbles select has the columns that are left (Lakshman
and Stiliadis, "High-Speed Policy-based Packet Forwarding", 1998). The nibbles are those that tell the columns apart
best, eight at most: each is a line of memory to wait for.

A column of a *leaf* is an entry; what its matrix leaves is compared in full. Leaves are like those of a B-tree: entries
are in order of their nibbles, fixed ones before those with wildcards, so that neighbours are alike, and a leaf that is
full is split where they differ most. A column of a *summary* is a leaf, and matches what any of its entries matches
(Baboescu and Varghese, "Scalable Packet Classification", 2001). So a packet meets few leaves, and an insertion changes
a leaf and a column. After deletions a summary may let through too much, never too little.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Callable
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import zeros
from detour.engine.compiler.slots import (
    BLOCK_HEAD,
    BLOCK_NIBBLES,
    LEAF,
    LEAF_COLUMNS,
    NIBBLE,
    SUMMARY,
    SUMMARY_COLUMNS,
    SUMMARY_ROW,
    WORD_BITS,
    nibble_byte,
)
from detour.engine.tables.hashing import PackedKey

_FEW_LEAVES = 2  # so many are searched one after the other, more stand behind summaries
_SMALL = LEAF_COLUMNS // 8  # a leaf with fewer entries is given up
_LEAST = LEAF_COLUMNS // 4  # entries of either half of a leaf that was split
_ARRANGED_AT = (1, 4, 16)  # entries of a leaf without summary at which its nibbles are chosen anew
_GROWTH = 2  # as many columns as there are when nibbles are chosen are expected
_WORTH_A_NIBBLE = 0.1  # columns less
_STALE = LEAF_COLUMNS // 4  # entries removed from a leaf before its summary is told
_REMEMBERED = 4096
_RANK_BYTES = 8

_DIGITS = bytes(int(chr(code), 16) if chr(code) in "0123456789abcdef" else 0 for code in range(256))

Sets = NDArray[np.uint16]
"""values of nibbles, a bit each"""


def _matches() -> NDArray[np.uint64]:
    """For every code of a nibble: which of its 16 values match, as 0 and 1."""
    code, value = np.ogrid[:256, :NIBBLE]
    return ((value ^ code) & ~(code >> 4) & 15 == 0).astype(np.uint64)


_MATCHES = _matches()
_VALUES = [tuple(np.flatnonzero(matching).tolist()) for matching in _MATCHES]
_SETS: Sets = (_MATCHES << np.arange(NIBBLE, dtype=np.uint64)).sum(axis=1).astype(np.uint16)


class Coder:
    """Codes of keys: a byte a nibble, which has the bits that do not matter above the others. So codes are in the order
    in which entries are put into leaves."""

    def __init__(self, places: tuple[int, ...], words: int) -> None:
        """`places`: of the nibbles in a packed key of so many words."""
        self._packer = struct.Struct(f">{words}Q")
        self._digits = min(NIBBLE * words, 256)  # of a key in hexadecimal
        self._order = bytes(self._digits - 1 - place for place in places)
        self._ones = int.from_bytes(b"\x0f" * len(places), "big")
        self._wild: dict[PackedKey, int] = {}

    def code(self, key: PackedKey, mask: PackedKey) -> bytes:
        wild = self._wild.get(mask)
        if wild is None:
            if len(self._wild) >= _REMEMBERED:
                self._wild.clear()
            wild = self._wild[mask] = (self._nibbles(mask) ^ self._ones) << 4
        return (self._nibbles(key) | wild).to_bytes(len(self._order), "big")

    def _nibbles(self, key: PackedKey) -> int:
        nibbles = self._packer.pack(*key[::-1]).hex()[-self._digits :].encode().translate(_DIGITS)
        return int.from_bytes(self._order.translate(nibbles.ljust(256)), "big")


class Block:
    """A leaf or a summary."""

    def __init__(self, places: tuple[int, ...], columns: int, row: int, kind: int) -> None:
        """`places`: of the nibbles of a code in a packed key. `row`: words of a column. `kind`: `LEAF` or `SUMMARY`."""
        self.kind, self.top = kind, 0
        self.changes = 0
        """of a leaf: removed entries that its summary may let through; of a summary: columns that were written since
        its nibbles were chosen"""
        words = columns // WORD_BITS
        matrix = BLOCK_HEAD + BLOCK_NIBBLES * NIBBLE * words
        self.array = zeros(matrix + columns * row, np.uint64)
        self.address = self.array.ctypes.data
        self._words, self._flat = words, memoryview(self.array)  # type: ignore[arg-type]
        self._matrix = self.array[BLOCK_HEAD:matrix].reshape(BLOCK_NIBBLES, NIBBLE, words)
        self.rows = self.array[matrix:].reshape(columns, row)
        self.free = list(range(columns - 1, -1, -1))
        self._places = places
        self._run = isqrt(columns) // 2
        self._take(list(range(min(BLOCK_NIBBLES, len(places)))))

    def row(self) -> tuple[int, ...]:
        return self.address, self.kind, self.top

    @property
    def highest(self) -> int:
        """The highest rank in it."""
        return int(self.rows[:, 1].max())

    def cover(self, column: int, code: bytes) -> None:
        """Let a column match what an entry with that code matches as well. Without NumPy, whose calls take longer."""
        flat, words = self._flat, self._words
        at, bit = BLOCK_HEAD + column // WORD_BITS, 1 << column % WORD_BITS
        for nibble in self._taken:
            for value in _VALUES[code[nibble]]:
                flat[at + value * words] |= bit
            at += NIBBLE * words

    def clear(self, column: int) -> None:
        """Let a column match nothing."""
        self._matrix[:, :, column // WORD_BITS] &= ~np.uint64(1 << column % WORD_BITS)
        self.rows[column, 1] = 0

    def release(self, column: int) -> None:
        """Nothing is in the column."""
        self.clear(column)
        self.free.append(column)

    def fill(self, columns: list[int], sets: Sets) -> None:
        """Let the columns match these sets of values, one for each nibble of a code."""
        matches = (sets[:, self._taken, None] >> np.arange(NIBBLE, dtype=np.uint16) & 1).astype(np.uint64)
        words, bits = np.divmod(columns, WORD_BITS)
        matches <<= bits.astype(np.uint64)[:, None, None]
        for word in {*words.tolist()}:
            self._matrix[: len(self._taken), :, word] |= np.bitwise_or.reduce(matches[words == word])

    def arrange(self, columns: list[int], sets: Sets) -> None:
        """Take the nibbles into the matrix that tell the columns apart best, which are all that there are, in order:
        each nibble is the one with the fewest columns left when a packet that matches some column has met those before,
        as long as that makes a difference. This is tried with samples of neighbours."""
        run = self._run
        step = max(len(sets) // run, run)
        sample = np.concatenate([sets[at : at + run] for at in range(0, len(sets), step)])
        left = np.bitwise_count(sample[:, None] & sample) / np.bitwise_count(sample).astype(np.float32)[:, None]
        left = left.reshape(-1, sets.shape[1]).T
        together = np.full(left.shape[1], _GROWTH * len(sets) / len(sample) ** 2, np.float32)
        before, taken = np.inf, list[int]()
        while len(taken) < BLOCK_NIBBLES:
            counts = left @ together
            best = int(counts.argmin())
            if before - counts[best] < _WORTH_A_NIBBLE:
                break
            taken.append(best)
            before = counts[best]
            together *= left[best]
        self._take(taken)
        self.fill(columns, sets)

    def _take(self, taken: list[int]) -> None:
        self._taken = taken
        self.array[0] = int.from_bytes([nibble_byte(self._places[each]) + 1 for each in taken], "little")
        self._matrix[:] = 0


class _Leaf(Block):
    """`entries`: code and rank -> column. `summary` has it as its column `column`."""

    def __init__(self, places: tuple[int, ...], row: int) -> None:
        super().__init__(places, LEAF_COLUMNS, row, LEAF)
        self._bytes = memoryview(self.rows.reshape(-1)).cast("B")  # type: ignore[arg-type]
        self.entries: dict[bytes, int] = {}
        self.summary: Block | None = None
        self.column = 0

    def put(self, entry: bytes, code: bytes, row: bytes) -> None:
        """Add an entry; there must be room."""
        column = self.entries[entry] = self.free.pop()
        self._bytes[column * len(row) : (column + 1) * len(row)] = row
        self.cover(column, code)
        if self.summary is None and len(self.entries) in _ARRANGED_AT:
            self._refill(*self._ordered())

    def split(self) -> tuple[bytes, _Leaf]:
        """Move the entries behind the most significant difference to a new leaf; return the first of them too."""
        ordered, rows = self._ordered()
        codes = _codes(ordered)
        differ = (codes[_LEAST:-_LEAST] != codes[_LEAST - 1 : -_LEAST - 1]).argmax(axis=1)
        most = np.flatnonzero(differ == differ.min())
        half = _LEAST + int(most[len(most) // 2])
        other = _Leaf(self._places, rows.shape[1])
        other._refill(ordered[half:], rows[half:])
        self._refill(ordered[:half], rows[:half])
        return ordered[half], other

    def _ordered(self) -> tuple[list[bytes], NDArray[np.uint64]]:
        """The entries in order, and their rows."""
        ordered = sorted(self.entries)
        return ordered, self.rows[[self.entries[entry] for entry in ordered]]

    def _refill(self, entries: list[bytes], rows: NDArray[np.uint64]) -> None:
        """Put these entries, in order, into its first columns."""
        count = len(entries)
        self.entries = dict(zip(entries, range(count), strict=True))
        self.free = list(range(LEAF_COLUMNS - 1, count - 1, -1))
        self.rows[:count], self.rows[count:] = rows, 0
        self.arrange(list(range(count)), self._sets())

    def _sets(self) -> Sets:
        return _SETS[_codes(list(self.entries))[:, : len(self._places)]]

    def union(self) -> Sets:
        """The values that any of its entries matches."""
        return np.bitwise_or.reduce(self._sets(), axis=0)


def _codes(entries: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(entries), np.uint8).reshape(len(entries), -1)


class Blocks:
    """All blocks of a table. `ranked`: called with a block and its highest rank, for those that stand behind no other;
    the rank is 0 when a block goes."""

    def __init__(self, places: tuple[int, ...], row: int, ranked: Callable[[Block, int], None]) -> None:
        """`places`: of the nibbles of a code in a packed key. `row`: words of an entry's row."""
        self._places, self._row, self._ranked = places, row, ranked
        self._starts: list[bytes] = []
        self._leaves: list[_Leaf] = []
        self._summaries: list[Block] = []

    def put(self, code: bytes, rank: int, row: bytes) -> None:
        """Add an entry. `row`: what is compared in full, see `slots`."""
        entry = code + rank.to_bytes(_RANK_BYTES, "big")
        if not self._leaves:
            self._insert(0, b"", _Leaf(self._places, self._row))
        leaf = self._leaves[self._at(entry)]
        if not leaf.free:
            self._split(self._at(entry))
            leaf = self._leaves[self._at(entry)]
        leaf.put(entry, code, row)
        if leaf.summary is not None:
            leaf.summary.cover(leaf.column, code)
        if rank > leaf.top:
            self._rank(leaf, rank)

    def take(self, code: bytes, rank: int) -> None:
        """Remove an entry that is there."""
        entry = code + rank.to_bytes(_RANK_BYTES, "big")
        at = self._at(entry)
        leaf = self._leaves[at]
        leaf.release(leaf.entries.pop(entry))
        if rank == leaf.top:
            self._rank(leaf, leaf.highest)
        if not leaf.entries or (len(leaf.entries) < _SMALL and len(self._leaves) > 1):
            self._drop(at)
        elif leaf.summary is not None:
            leaf.changes += 1
            if leaf.changes >= _STALE:
                self._describe(leaf, leaf.summary)

    def _at(self, entry: bytes) -> int:
        return bisect.bisect_right(self._starts, entry) - 1

    def _drop(self, at: int) -> None:
        """Remove a leaf; the entries that it still has go to its neighbours."""
        leaf = self._leaves.pop(at)
        del self._starts[at]
        if at == 0 and self._leaves:
            self._starts[0] = b""
        self._rank(leaf, 0)
        if leaf.summary is not None:
            leaf.summary.release(leaf.column)
            if len(leaf.summary.free) == SUMMARY_COLUMNS:
                self._summaries.remove(leaf.summary)
        for entry, column in leaf.entries.items():
            rank = int.from_bytes(entry[-_RANK_BYTES:], "big")
            self.put(entry[:-_RANK_BYTES], rank, leaf.rows[column].tobytes())

    def _split(self, at: int) -> None:
        leaf = self._leaves[at]
        start, other = leaf.split()
        if leaf.summary is not None:
            self._describe(leaf, leaf.summary)
        else:
            self._rank(leaf, leaf.highest)
        self._insert(at + 1, start, other)

    def _insert(self, at: int, start: bytes, leaf: _Leaf) -> None:
        self._starts.insert(at, start)
        self._leaves.insert(at, leaf)
        if not self._summaries and len(self._leaves) <= _FEW_LEAVES:
            self._rank(leaf, leaf.highest)
            return
        for each in (leaf,) if self._summaries else self._leaves:
            self._rank(each, 0)
            summary = next((block for block in self._summaries if block.free), None)
            if summary is None:
                summary = Block(self._places, SUMMARY_COLUMNS, SUMMARY_ROW, SUMMARY)
                self._summaries.append(summary)
            each.summary, each.column = summary, summary.free.pop()
            summary.array[1] = max(summary.array[1], each.column // WORD_BITS + 1)
            self._describe(each, summary)

    def _describe(self, leaf: _Leaf, summary: Block) -> None:
        """Say in a leaf's column what it is. Where columns have changed as often as there are some, the summary's
        nibbles are chosen anew."""
        summary.clear(leaf.column)
        summary.rows[leaf.column] = leaf.address, 0, leaf.array[0], 0
        self._rank(leaf, leaf.highest)
        leaf.changes = 0
        summary.changes += 1
        if summary.changes < SUMMARY_COLUMNS - len(summary.free):
            summary.fill([leaf.column], leaf.union()[None])
            return
        summary.changes = 0
        members = [member for member in self._leaves if member.summary is summary]
        summary.arrange([member.column for member in members], np.array([member.union() for member in members]))

    def _rank(self, leaf: _Leaf, top: int) -> None:
        """Tell whoever has the leaf what its highest rank is."""
        summary = leaf.summary
        if summary is None:
            self._ranked(leaf, top)
            return
        before, leaf.top = leaf.top, top
        summary.rows[leaf.column, 1] = top
        if top > summary.top or before == summary.top:
            self._ranked(summary, summary.highest)
