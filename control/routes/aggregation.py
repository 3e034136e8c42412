# SPDX-License-Identifier: Apache-2.0
"""Routes to consecutive ids in as few prefixes as possible: optimal routing table construction (Draves et al.,
"Constructing optimal IP routing tables", INFOCOM 1999), with prefixes of whole hexadecimal digits.

Whole digits lose little (a switch of a Dragonfly of 2,064 has 134 prefixes in place of 79), and a look-up tries each
length of prefix that a table has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

DIGIT_BITS = 4
_DIGITS = 1 << DIGIT_BITS
_NONE: frozenset[int] = frozenset()


class IdPrefix(NamedTuple):
    """Ids from `first` on whose last `free_bits` bits are anything."""

    first: int
    free_bits: int
    choice: int


def aggregate(choices: Sequence[int | None]) -> Iterator[IdPrefix]:
    """The prefixes whose longest match is `choices[id]` for every id, and nothing for ids without choice or beyond the
    end: no prefix covers one of these."""
    levels = [[_NONE if choice is None else frozenset((choice,)) for choice in choices]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([_best(below[first : first + _DIGITS]) for first in range(0, len(below), _DIGITS)])
    inherited: list[int | None] = [None]
    for height in reversed(range(len(levels))):
        taken: list[int | None] = []
        for index, best in enumerate(levels[height]):
            choice = inherited[index >> DIGIT_BITS]
            if best and choice not in best:
                choice = min(best)
                yield IdPrefix(index << DIGIT_BITS * height, DIGIT_BITS * height, choice)
            taken.append(choice)
        inherited = taken


def _best(parts: Sequence[frozenset[int]]) -> frozenset[int]:
    """The choices that most parts of a block would take from it; none if it has a gap."""
    if len(parts) < _DIGITS or not all(parts):
        return _NONE
    votes = Counter(chain.from_iterable(parts))
    most = max(votes.values())
    return frozenset(choice for choice, count in votes.items() if count == most)
