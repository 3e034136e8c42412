# SPDX-License-Identifier: Apache-2.0
"""Where packets end up when every switch may take any of its choices: fixpoints over all switches and destinations.

A *choice* is what an entry lets a switch do: the neighbours that any of its actions leads to, and whether any
of them loses the packet. Choices are numbered; matrices of such numbers (switches x destinations) are solved
for the number of switches that the longest way to the destination passes, LOST if any way fails or never ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import BoolArray, Bools1, IndexArray, Int16s3, Int32Array, Int32s1, Int32s2, Int32s3, Int64s1
from detour.base.jit import int64
from detour.control.native import VERIFIER

LOST = 32_767  # more switches than any way passes
ARRIVE = 0
DROP = 1

Hops = NDArray[np.int16]
Choices = Int32Array


class ChoiceBook:
    """Numbers choices. ARRIVE delivers, DROP has no way on."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bool, tuple[int, ...]], int] = {(False, ()): ARRIVE, (True, ()): DROP}
        self._all: list[tuple[bool, tuple[int, ...]]] = [(False, ()), (True, ())]

    def number(self, loses: bool, neighbours: tuple[int, ...]) -> int:
        """The number of a choice; without neighbours and loss it is an arrival."""
        key = (loses, neighbours)
        if key not in self._numbers:
            self._numbers[key] = len(self._all)
            self._all.append(key)
        return self._numbers[key]

    def neighbours(self, number: int) -> tuple[int, ...]:
        """The switches that a choice may lead to."""
        return self._all[number][1]

    def arrays(self, switches: int) -> tuple[Int32Array, Int32Array, BoolArray]:
        """(choices, width) neighbours, filled up with `switches`; (choices,) their number; whether one loses."""
        count = np.array([len(neighbours) for _, neighbours in self._all], dtype=np.int32)
        following = np.full((len(self._all), max(1, int(count.max()))), switches, dtype=np.int32)
        for number, (_, neighbours) in enumerate(self._all):
            following[number, : len(neighbours)] = neighbours
        return following, count, np.array([loses for loses, _ in self._all])


@VERIFIER.entry
def relax_hops(
    following: Int32s2, count: Int32s1, loses: Bools1, choices: Int32s3, chosen: Int64s1, hops: Int16s3
) -> bool:
    """One sweep over all variants, rows and destinations; whether anything changed. `following` (choices known, width),
    `choices` (variants, rows, destinations), `chosen` (rows,), `hops` (variants, switches, destinations)."""
    changed = False
    for v in range(choices.shape[0]):
        for r in range(choices.shape[1]):
            for m in range(choices.shape[2]):
                choice = choices[v, r, m]
                longest = LOST if loses[choice] else 0
                for k in range(count[choice]):
                    longest = max(longest, int64(hops[v, following[choice, k], m]))
                longest = longest if longest >= LOST else longest + 1
                if longest != hops[v, chosen[r], m]:
                    hops[v, chosen[r], m] = longest
                    changed = True
    return changed


def solve(book: ChoiceBook, choices: Choices, *, endings: bool = False) -> Hops:
    """Longest ways for (switches, destinations) choices. With `endings` a dropped packet counts as arrived: then LOST
    means that it may never end."""
    rows = np.arange(len(choices))
    return solve_rows(book, choices[None], rows, np.zeros(choices.shape, np.int16), endings=endings)[0]


def solve_rows(book: ChoiceBook, choices: Choices, rows: IndexArray, beyond: Hops, *, endings: bool = False) -> Hops:
    """The same for several variants at once that differ from a solved state in some rows only. `choices` is (variants,
    rows, destinations), `beyond` (switches, destinations) the solution that holds at all other switches; returns
    (variants, rows, destinations)."""
    following, count, loses = book.arrays(len(beyond))
    hops = np.repeat(beyond[None].astype(np.int16), len(choices), axis=0)
    hops[:, rows] = LOST
    # Values only ever fall from LOST to the longest way, so sweeps end; what lies on a cycle stays LOST.
    losing, chosen = loses & (not endings), np.ascontiguousarray(rows, np.int64)
    targets = np.ascontiguousarray(choices, np.int32)
    while relax_hops(following, count, losing, targets, chosen, hops):
        pass
    return hops[:, rows]


def touching(book: ChoiceBook, choices: Choices, marked: BoolArray) -> BoolArray:
    """(switches,) which switches have a way to some destination that passes a marked switch."""
    n, _ = choices.shape
    following, _, _ = book.arrays(n)
    passes = np.zeros((n + 1, choices.shape[1]), dtype=np.bool_)
    passes[:n] = marked[:, None]
    column = np.arange(choices.shape[1])
    while True:
        wider = passes.copy()
        for k in range(following.shape[1]):
            wider[:n] |= passes[following[choices, k], column]
        if np.array_equal(wider, passes):
            return np.asarray(passes[:n].any(axis=1))
        passes = wider
