# SPDX-License-Identifier: Apache-2.0
"""Rows that are declared as classes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from detour.base.arrays import CACHE_LINE
from detour.base.structs import Float64, Int64, NativeRecord, UInt8, names


class Pair(NativeRecord):
    first: Int64
    second: UInt8


class Longer(Pair, lines=True):
    inside: Pair
    third: Float64
    LIMIT: ClassVar[int] = 3


class Aligned(NativeRecord, align=True):
    small: UInt8
    wide: Int64


def test_fields_follow_each_other() -> None:
    assert Pair.dtype == np.dtype([("first", np.int64), ("second", np.uint8)])
    assert Pair.dtype.itemsize == 9


def test_a_longer_row_has_the_fields_of_the_shorter_one_first_and_fills_cache_lines() -> None:
    assert names(Longer) == ("first", "second", "inside", "third")
    assert Longer.dtype["inside"] == Pair.dtype
    assert Longer.dtype.itemsize == CACHE_LINE


def test_gaps_as_in_c() -> None:
    assert Aligned.dtype == np.dtype([("small", np.uint8), ("wide", np.int64)], align=True)
