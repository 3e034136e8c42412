# SPDX-License-Identifier: Apache-2.0
"""Proper edge colouring of bipartite multigraphs with as many colours as the highest degree (Kőnig 1916).

Edge by edge: one takes a colour that is free at both ends. If there is none, some colour a is free at its left end and
some b at its right end; the path of a and b that begins at the right end cannot come to the left one (bipartite), so
a and b are exchanged along it, and a is free at both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array, Int32s1
from detour.base.jit import allocating
from detour.control.native import COLOURING

IntegerArray = NDArray[np.integer[Any]]


def coloured(
    left: IntegerArray, right: IntegerArray, colours: int, limit: IntegerArray | None = None, *, last: bool = False
) -> Int32Array:
    """(edges,) colours from 0, no two the same at an end; edge e goes from `left[e]` to `right[e]`. `limit`: (edges,)
    edge e may have colours below limit[e] only, the same for edges that share an end; without it, all `colours`.
    `last`: where no colour is free at both ends, the last free one of each is taken rather than the first. No end may
    have more edges than it has colours."""
    colour = np.full(len(left), -1, np.int32)
    if limit is None:
        limit = np.full(len(left), colours, np.int32)
    left, right, limit = (np.ascontiguousarray(each, np.int32) for each in (left, right, limit))
    done = _proper(left, right, limit, left.max(initial=-1) + 1, right.max(initial=-1) + 1, colours, last, colour)
    assert done == len(left), "a degree exceeds the colours"
    return colour


@COLOURING.entry
def _proper(
    left: Int32s1, right: Int32s1, limit: Int32s1, lefts: int, rights: int, colours: int, last: bool, colour: Int32s1
) -> int:
    """Fill in `colour`. Return the number of coloured edges: all, unless an end has more edges than colours."""
    at_left = np.full((lefts, colours), -1, np.int32)
    at_right = np.full((rights, colours), -1, np.int32)
    for edge in range(len(left)):
        u, v = left[edge], right[edge]
        a, b, both = -1, -1, -1
        for c in range(limit[edge]):
            if at_left[u, c] < 0:
                if at_right[v, c] < 0:
                    both = c
                    break
                if a < 0 or last:
                    a = c
            elif at_right[v, c] < 0 and (b < 0 or last):
                b = c
        if both < 0:
            if a < 0 or b < 0:
                return edge
            _exchange(v, a, b, left, right, at_left, at_right, colour)
            both = a
        colour[edge] = both
        at_left[u, both] = edge
        at_right[v, both] = edge
    return len(left)


@allocating
def _exchange(v: int, a: int, b: int, left: Any, right: Any, at_left: Any, at_right: Any, colour: Any) -> None:
    """Exchanges colours a and b along the path from v that begins with a (b is free at v)."""
    edge = at_right[v, a]
    at_right[v, a] = -1
    old, new = a, b
    on_right = True
    # Edge by edge: whoever has the new colour at the far end is displaced and is next.
    while edge >= 0:
        if on_right:
            near, far = right[edge], left[edge]
            following = at_left[far, new]
            at_left[far, new] = edge
            at_right[near, new] = edge
            if following < 0:
                at_left[far, old] = -1
        else:
            near, far = left[edge], right[edge]
            following = at_right[far, new]
            at_right[far, new] = edge
            at_left[near, new] = edge
            if following < 0:
                at_right[far, old] = -1
        colour[edge] = new
        old, new = new, old
        on_right = not on_right
        edge = following
