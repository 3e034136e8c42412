# SPDX-License-Identifier: Apache-2.0
"""Placement on Clos networks by balanced edge colouring of bipartite multigraphs: at every vertex all colours occur
equally often, within one.

Edges of a vertex are put into groups of as many as there are colours. Between groups, whose degree is at most the
number of colours, a proper colouring exists (`edge_colouring`).

Two tiers: choosing a spine for every flow is colouring the edges of a multigraph of leaves. Three tiers: the same
twice, first aggregation switches for flows between edge switches, then, for the flows of each of these, cores for flows
between pods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.control.edge_colouring import coloured
from detour.control.placement.network import PlacementNetwork


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


def coloured_paths(network: PlacementNetwork, source: Int32Array, target: Int32Array, size: NDArray[Any]) -> Int32Array:
    """(flows, switches) path rows of flows between hosts of a Clos network as if nothing were broken but, with two
    tiers, whole spines. Flows of like `size` are spread evenly among themselves."""
    a, b = network.edge_of[source], network.edge_of[target]
    path_rows = np.full((len(source), network.longest), -1, np.int32)
    path_rows[:, 0] = a
    away = np.flatnonzero(a != b)
    a, b, size = a[away], b[away], size[away]
    if network.tiers == 2:
        path_rows[away, 1] = network.spines[balanced(a, b, len(network.spines), first=-size)]
        path_rows[away, 2] = b
    else:
        _three_tiers(network, path_rows, away, a, b, size)
    return path_rows


def _three_tiers(
    network: PlacementNetwork,
    path_rows: Int32Array,
    away: NDArray[np.intp],
    a: Int32Array,
    b: Int32Array,
    size: NDArray[Any],
) -> None:
    """Fills in the paths of the flows `away` from edge switches `a` to `b` of a fat-tree."""
    members = network.topology.members
    half = len(members[0]) // 2
    pod, other = network.group_of[a], network.group_of[b]
    far = pod != other
    # Flows between pods are grouped together, so that they are spread evenly for themselves as well.
    ranks = np.unique(-size, return_inverse=True)[1].reshape(-1)
    up = balanced(a, b, half, first=2 * ranks + ~far)
    first = np.array([each[0] for each in members], np.int32)
    path_rows[away, 1] = first[pod] + half + up
    near = away[~far]
    path_rows[near, 2] = b[~far]
    # A pair of pod and aggregation switch is a vertex: all groups of cores are coloured at once.
    core = balanced(pod[far] * half + up[far], other[far] * half + up[far], half, first=ranks[far])
    across = away[far]
    path_rows[across, 2] = first[-1] + up[far] * half + core
    path_rows[across, 3] = first[other[far]] + half + up[far]
    path_rows[across, 4] = b[far]
