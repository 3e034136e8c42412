# SPDX-License-Identifier: Apache-2.0
"""Balanced edge colouring of bipartite multigraphs: at every vertex all colours occur equally often, within one.

Edges of a vertex are put into groups of as many as there are colours. Between groups, whose degree is at most the
number of colours, a proper colouring exists (`edge_colouring`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.control.edge_colouring import coloured


def balanced(left: Int32Array, right: Int32Array, colours: int, first: NDArray[Any] | None = None) -> Int32Array:
    """A colour from 0 on for every edge from `left[e]` to `right[e]`.

    `first` (any dtype that sorts): edges of a vertex with equal values are grouped together as far as possible, so that
    these, too, are spread evenly, within two."""
    if not len(left):
        return np.zeros(0, np.int32)
    return coloured(_groups(left, colours, first), _groups(right, colours, first), colours)


def _groups(vertex: Int32Array, size: int, first: NDArray[Any] | None) -> Int32Array:
    """(edges,) the group of every edge at one of its ends."""
    order = np.lexsort((vertex,) if first is None else (first, vertex))
    ordered = vertex[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    degree = np.diff(begins, append=len(ordered))
    rank = np.arange(len(ordered)) - np.repeat(begins, degree)
    groups = -(-degree // size)
    offset = np.cumsum(groups) - groups
    found = np.empty(len(ordered), np.int32)
    found[order] = np.repeat(offset, degree) + rank // size
    return found
