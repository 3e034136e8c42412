# SPDX-License-Identifier: Apache-2.0
"""Servers for flows whose leaves and phases are known: two edge colourings of bipartite graphs.

Sources: the flows from u to v are cut into groups of n_u (any way). Groups against phases is a bipartite multigraph of
degree n_u at most; a proper colouring with n_u colours, the servers of u, gives each of them one flow of every group,
so n_v flows to v, and at most one flow a phase. Destinations: sources against phases, with the flows to v as edges.
Each source has n_v of them and no phase has more, so n_v colours, the servers of v, give every ordered pair once.

A server's own part is an edge as well, but takes no phase: those of all servers are put into one more, `phases`, in
which so every sender of u meets another receiver of u. Receivers are renamed to make that one itself.
"""

from __future__ import annotations

import numpy as np

from detour.control.edge_colouring import coloured


def assign_servers(
    phases: int, source: np.ndarray, target: np.ndarray, phase: np.ndarray, population: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each flow's server at its source leaf and at its target leaf, int32, 0..population-1.

    Flows come sorted by (source, target), n_u * n_v for each pair of leaves that has any and n_u * (n_u - 1) inside
    a leaf; `phase` in 0..phases-1. Nobody sends to itself."""
    leaves = len(population)
    population = np.asarray(population, np.int32)
    flows = len(source)
    own = np.repeat(np.arange(leaves, dtype=np.int32), population)
    source, target = np.concatenate([source, own]), np.concatenate([target, own])
    order = np.lexsort((target, source))
    source, target = source[order], target[order]
    phase = np.concatenate([phase, np.full(len(own), phases)])[order]
    first, second = _pairs(phases + 1, source, target, phase, population)
    most = int(population.max(initial=1))
    name = np.empty(leaves * most, np.int32)
    alone = phase == phases
    name[target[alone] * most + second[alone]] = first[alone]
    place = np.argsort(order)[:flows]
    return first[place], name[target * most + second][place]


def _pairs(
    phases: int, source: np.ndarray, target: np.ndarray, phase: np.ndarray, population: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The two colourings: n_u * n_v flows for each pair of leaves that has any, u = v included."""
    leaves = len(population)
    pair = source.astype(np.int64) * leaves + target
    rank = np.arange(len(pair)) - np.searchsorted(pair, pair)
    most = int(population.max(initial=1))
    group = pair * most + rank // np.maximum(population[source], 1)
    first = coloured(group, source.astype(np.int64) * phases + phase, most, population[source], last=True)
    sender = (source.astype(np.int64) * most + first) * leaves + target
    order = np.argsort(target, kind="stable")
    keys = sender[order], (target.astype(np.int64) * phases + phase)[order]
    second = np.empty_like(first)
    second[order] = coloured(*keys, most, population[target][order], last=True)
    return first, second
