# SPDX-License-Identifier: Apache-2.0
"""Balanced edge colouring of bipartite multigraphs: at every vertex all colours occur equally often, within one.

Edges of a vertex are put into groups of as many as there are colours. Between groups, whose degree is at most the
number of colours, a proper colouring exists (Koenig 1916) and is found by Kempe chains: an edge takes a colour that is
free at both ends; if there is none, the chain of two colours that begins at one end is recoloured first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.base.jit import njit


def balanced(left: Int32Array, right: Int32Array, colours: int, first: NDArray[Any] | None = None) -> Int32Array:
    """A colour from 0 on for every edge from `left[e]` to `right[e]`.

    `first` (any dtype that sorts): edges of a vertex with equal values are grouped together as far as possible, so that
    these, too, are spread evenly, within two."""
    if not len(left):
        return np.zeros(0, np.int32)
    a, lefts = _groups(left, colours, first)
    b, rights = _groups(right, colours, first)
    return _proper(a, b, lefts, rights, colours)


def _groups(vertex: Int32Array, size: int, first: NDArray[Any] | None) -> tuple[Int32Array, int]:
    """(edges,) the group of every edge at one of its ends, and how many groups there are."""
    order = np.lexsort((vertex,) if first is None else (first, vertex))
    ordered = vertex[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    degree = np.diff(begins, append=len(ordered))
    rank = np.arange(len(ordered)) - np.repeat(begins, degree)
    groups = -(-degree // size)
    offset = np.cumsum(groups) - groups
    found = np.empty(len(ordered), np.int32)
    found[order] = np.repeat(offset, degree) + rank // size
    return found, int(groups.sum())


@njit
def _free(row: Any) -> int:
    """The first colour that no edge of a group has."""
    for colour in range(len(row)):
        if row[colour] < 0:
            return colour
    return -1


@njit
def _proper(a: Any, b: Any, lefts: int, rights: int, colours: int) -> Any:
    """Koenig's colouring; every degree is at most `colours`."""
    at_left = np.full((lefts, colours), -1, np.int32)
    at_right = np.full((rights, colours), -1, np.int32)
    found = np.full(len(a), -1, np.int32)
    for edge in range(len(a)):
        u, v = a[edge], b[edge]
        mine = -1
        for colour in range(colours):
            if at_left[u, colour] < 0 and at_right[v, colour] < 0:
                mine = colour
                break
        if mine < 0:
            mine, other = _free(at_left[u]), _free(at_right[v])
            _swap(a, b, at_left, at_right, found, at_right[v, mine], mine, other)
        found[edge] = mine
        at_left[u, mine] = edge
        at_right[v, mine] = edge
    return found


@njit
def _swap(a: Any, b: Any, at_left: Any, at_right: Any, found: Any, edge: int, old: int, new: int) -> None:
    """Recolours the chain of `old` and `new` edges that begins, with `edge`, at a right-hand group without `new`."""
    at_right[b[edge], old] = -1
    while True:  # `edge` has colour old; at its right-hand end new is free by now
        u, v = a[edge], b[edge]
        after = at_left[u, new]
        found[edge] = new
        at_right[v, new] = edge
        at_left[u, new] = edge
        at_left[u, old] = after
        if after < 0:
            return
        w = b[after]
        further = at_right[w, old]
        found[after] = old
        at_right[w, old] = after
        at_right[w, new] = -1
        if further < 0:
            return
        edge = further
