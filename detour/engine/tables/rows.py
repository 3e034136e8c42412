# SPDX-License-Identifier: Apache-2.0
"""Growing arrays of 64-bit words whose address native code finds in the state block."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import zeros


@cache
def _packer(count: int) -> struct.Struct:
    return struct.Struct(f"={count}Q")


class Rows:
    """`stride` words a row; `flat` is a memoryview: the fastest way to single words in Python. `slot` of the state
    block `sw` gets the address."""

    __slots__ = ("_bytes", "_slot", "_sw", "array", "flat", "rows", "stride")

    def __init__(self, sw: NDArray[np.int64], slot: int, stride: int, rows: int = 4) -> None:
        self._sw, self._slot, self.stride = sw, slot, stride
        # Not at a line of the cache: most tables stay as they are, and that would take more memory than they have.
        self._place(np.zeros((rows, stride), dtype=np.uint64))

    def _place(self, array: NDArray[np.uint64]) -> None:
        self.array = array
        self.rows = len(array)
        self.flat = memoryview(array.reshape(-1))  # type: ignore[arg-type]
        self._bytes = self.flat.cast("B")
        self._sw[self._slot] = array.ctypes.data

    def snapshot(self, rows: int) -> Rows:
        """A copy of the first rows, to be read."""
        copy = object.__new__(Rows)
        copy.stride, copy.rows = self.stride, min(rows, self.rows)
        copy.array = self.array[: copy.rows].copy()
        copy.flat = memoryview(copy.array.reshape(-1))  # type: ignore[arg-type]
        return copy

    def write(self, at: int, words: Sequence[int]) -> None:
        """Write words from word `at` of the whole array on."""
        _packer(len(words)).pack_into(self._bytes, 8 * at, *words)

    def reserve(self, rows: int) -> None:
        """Make room for `rows` rows; grow by doubling, new rows are zero."""
        have = self.rows
        if rows > have:
            array = zeros((max(rows, 2 * have), self.stride), np.uint64)
            array[:have] = self.array
            self._place(array)


class Handles:
    """Allocates the lowest free handle first, as BMv2 does: the order of ties depends on it."""

    __slots__ = ("_free", "_next", "_released")

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0
        self._released: dict[int, int] = {}

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._next += 1
        return self._next - 1

    @property
    def end(self) -> int:
        """All handles that were ever taken are below."""
        return self._next

    @property
    def following(self) -> int:
        """The handle that `take` would return."""
        return self._free[0] if self._free else self._next

    def release(self, handle: int) -> None:
        heapq.heappush(self._free, handle)
        self._released[handle] = self._released.get(handle, 0) + 1

    def released(self, handle: int) -> int:
        """Number of releases, which distinguishes successive owners of a handle."""
        return self._released.get(handle, 0)
