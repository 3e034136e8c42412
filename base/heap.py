# SPDX-License-Identifier: Apache-2.0
"""Heaps of deadlines, for native code: a part of a table of `HeapEntry`, of which Python or the caller keeps the size.

up, down, remove = make_heap(entry, moved, ways=4)

@inner
def push(g, time, who):
    g.size += 1
    up(g, g.first, g.size - 1, time, who)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from detour.base.jit import inner
from detour.base.structs import Int64, NativeRecord


class HeapEntry(NativeRecord):
    """Who wants to be called, and when."""

    time: Int64
    who: Int64


_G = TypeVar("_G")
_Sift: TypeAlias = Callable[[_G, int, int, int, int], None]


def make_heap(
    entry: Callable[[_G, int], HeapEntry],
    moved: Callable[[_G, int, int, int], None],
    ways: int,
    total: bool = False,
) -> tuple[_Sift[_G], Callable[[_G, int, int, int, int, int], None], Callable[[_G, int, int, int], None]]:
    """Three native functions of tables `g` and a heap whose row 0 is row `base` of its table:

    `up(g, base, k, time, who)` and `down(g, base, size, k, time, who)` put an entry at place `k` or where it belongs
    above or below; `remove(g, base, last, k)` takes the entry at `k` out of a heap whose last place was `last`.

    `entry(g, row)`: a row of the table. `moved(g, who, k, time)`: told of every entry that has got another place.
    `ways`: children of an entry, a power of two. `total`: entries of the same time are ordered by who they are of;
    else by how they came in.
    """
    shift = ways.bit_length() - 1

    @inner(forceinline=True)
    def earlier(time: int, who: int, other_time: int, other: int) -> bool:
        return time < other_time or (total and time == other_time and who < other)

    @inner(forceinline=True)
    def put(g: _G, base: int, k: int, time: int, who: int) -> None:
        row = entry(g, base + k)
        row.time = time
        row.who = who
        moved(g, who, k, time)

    @inner
    def up(g: _G, base: int, k: int, time: int, who: int) -> None:
        while k > 0:
            parent = (k - 1) >> shift
            above = entry(g, base + parent)
            if not earlier(time, who, above.time, above.who):
                break
            put(g, base, k, above.time, above.who)
            k = parent
        put(g, base, k, time, who)

    @inner
    def down(g: _G, base: int, size: int, k: int, time: int, who: int) -> None:
        while True:
            child = (k << shift) + 1
            if child >= size:
                break
            best = child
            first = entry(g, base + child)
            best_time, best_who = first.time, first.who
            for other in range(child + 1, min(child + ways, size)):
                row = entry(g, base + other)
                if earlier(row.time, row.who, best_time, best_who):
                    best, best_time, best_who = other, row.time, row.who
            if not earlier(best_time, best_who, time, who):
                break
            put(g, base, k, best_time, best_who)
            k = best
        put(g, base, k, time, who)

    @inner
    def remove(g: _G, base: int, last: int, k: int) -> None:
        if k == last:
            return
        row, gone = entry(g, base + last), entry(g, base + k)
        time, who = row.time, row.who
        if earlier(time, who, gone.time, gone.who):
            up(g, base, k, time, who)
        else:
            down(g, base, last, k, time, who)

    return up, down, remove
