# SPDX-License-Identifier: Apache-2.0
"""Servers for flows whose leaves and phases are known: two edge colourings of bipartite graphs, after Koenig.

Sources: the flows from u to v are cut into groups of n_u (any way). Groups against phases is a bipartite multigraph of
degree n_u at most; a proper colouring with n_u colours, the servers of u, gives each of them one flow of every group,
so n_v flows to v, and at most one flow a phase. Destinations: sources against phases, with the flows to v as edges.
Each source has n_v of them and no phase has more, so n_v colours, the servers of v, give every ordered pair once.
"""

from __future__ import annotations

import numpy as np

from detour.base.jit import njit
from detour.control.fors.jit import inner


def seats(
    phases: int, source: np.ndarray, target: np.ndarray, phase: np.ndarray, population: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each flow's server at its source leaf and at its target leaf, int32, 0..population-1. Flows come sorted by
    (source, target), n_u * n_v for each pair of leaves that has any, the leaf's own pairs (u = v) included."""
    leaves = len(population)
    population = np.asarray(population, np.int32)
    pair = source.astype(np.int64) * leaves + target
    rank = np.arange(len(pair)) - np.searchsorted(pair, pair)
    most = int(population.max(initial=1))
    group = pair * most + rank // np.maximum(population[source], 1)
    first = _coloured(group, source.astype(np.int64) * phases + phase, population[source], most)
    sender = (source.astype(np.int64) * most + first) * leaves + target
    order = np.argsort(target, kind="stable")
    keys = sender[order], (target.astype(np.int64) * phases + phase)[order]
    second = np.empty_like(first)
    second[order] = _coloured(*keys, population[target][order], most)
    return first, second


def _coloured(left: np.ndarray, right: np.ndarray, limit: np.ndarray, colours: int) -> np.ndarray:
    """A proper colouring; edge e may have colours below limit[e] (the same for all edges that share an end)."""
    colour = np.full(len(left), -1, np.int32)
    edges = _koenig(left, right, limit, left.max(initial=-1) + 1, right.max(initial=-1) + 1, colours, colour)
    assert edges == len(left), "a degree exceeds the colours"
    return colour


@njit
def _koenig(left, right, limit, lefts, rights, colours, colour):
    """Colours edge by edge, exchanging two colours along a path where no colour is free at both ends.

    Returns the number of coloured edges: all, unless an end has more edges than colours.
    """
    at_left = np.full((lefts, colours), -1, np.int32)
    at_right = np.full((rights, colours), -1, np.int32)
    for edge in range(len(left)):
        u, v = left[edge], right[edge]
        a, b, both = -1, -1, -1
        for c in range(limit[edge]):
            if at_left[u, c] < 0:
                a = c
                if at_right[v, c] < 0:
                    both = c
                    break
            elif at_right[v, c] < 0:
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


@inner
def _exchange(v, a, b, left, right, at_left, at_right, colour):
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
