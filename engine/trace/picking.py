# SPDX-License-Identifier: Apache-2.0
"""Picking values out of a sequence by their places, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any


def picker(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function that gives the values at these places as a tuple; `itemgetter` gives none for fewer than two."""
    if not places:
        return lambda values: ()
    if len(places) == 1:
        only = places[0]
        return lambda values: (values[only],)
    return itemgetter(*places)
