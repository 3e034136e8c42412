# SPDX-License-Identifier: Apache-2.0
"""Heaps of deadlines for native code, in tables of `HeapEntry`. Who has a heap keeps its size.

`up, down, remove = make_heap(entry, moved, ways=4)` makes the functions; `up(g, heap, size, time, who)` adds an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from detour.base.jit import inner
from detour.base.structs import Int64, NativeRecord


class HeapEntry(NativeRecord):
    """An entry of the heap: who is called, and when."""

    time: Int64
    who: Int64


_G = TypeVar("_G")
_Sift: TypeAlias = Callable[[_G, int, int, int, int], None]


def make_heap(
    entry: Callable[[_G, int, int], HeapEntry],
    moved: Callable[[_G, int, int, int], None],
    ways: int,
    total: bool = False,
) -> tuple[_Sift[_G], Callable[[_G, int, int, int, int, int], None], Callable[[_G, int, int, int], None]]:
    """Three native functions of tables `g` and the number of a heap:

    `up(g, heap, k, time, who)` and `down(g, heap, size, k, time, who)` put an entry at place `k` or where it belongs
    above or below; `remove(g, heap, last, k)` takes the entry at `k` out of a heap whose last place was `last`.

    `entry(g, heap, k)`: the row of a place. `moved(g, who, k, time)`: told of every entry that has got another place.
    `ways`: children of an entry, a power of two. `total`: entries of the same time are ordered by who they are of;
    else by how they came in.
    """
    shift = ways.bit_length() - 1

    @inner(forceinline=True)
    def earlier(time: int, who: int, other_time: int, other: int) -> bool:
        return time < other_time or (total and time == other_time and who < other)

    @inner(forceinline=True)
    def put(g: _G, heap: int, k: int, time: int, who: int) -> None:
        row = entry(g, heap, k)
        row.time = time
        row.who = who
        moved(g, who, k, time)

    @inner
    def up(g: _G, heap: int, k: int, time: int, who: int) -> None:
        while k > 0:
            parent = (k - 1) >> shift
            above = entry(g, heap, parent)
            if not earlier(time, who, above.time, above.who):
                break
            put(g, heap, k, above.time, above.who)
            k = parent
        put(g, heap, k, time, who)

    @inner
    def down(g: _G, heap: int, size: int, k: int, time: int, who: int) -> None:
        while True:
            child = (k << shift) + 1
            if child >= size:
                break
            best = child
            first = entry(g, heap, child)
            best_time, best_who = first.time, first.who
            for other in range(child + 1, min(child + ways, size)):
                # Which child is the earliest cannot be predicted, so a branch would cost more than this: all ones or 0.
                row = entry(g, heap, other)
                ahead = row.time - best_time
                if total:
                    ahead |= (row.who - best_who) & -int(ahead == 0)
                ahead >>= 63
                best ^= (best ^ other) & ahead
                best_time ^= (best_time ^ row.time) & ahead
                best_who ^= (best_who ^ row.who) & ahead
            if not earlier(best_time, best_who, time, who):
                break
            put(g, heap, k, best_time, best_who)
            k = best
        put(g, heap, k, time, who)

    @inner
    def remove(g: _G, heap: int, last: int, k: int) -> None:
        if k == last:
            return
        row, gone = entry(g, heap, last), entry(g, heap, k)
        time, who = row.time, row.who
        if earlier(time, who, gone.time, gone.who):
            up(g, heap, k, time, who)
        else:
            down(g, heap, last, k, time, who)

    return up, down, remove
