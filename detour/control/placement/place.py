# SPDX-License-Identifier: Apache-2.0
"""Gives every flow a path so that as few flows as possible share links (section III-C of the paper).

What a placement makes small is the busiest link first, in flows or, where jobs say how much their flows carry, in
bytes; then collisions. On a Clos network a balanced colouring is the beginning (`colouring`), and where nothing is
broken the end. Flows that it puts on dead links, and all flows of other networks, look for the cheapest path among what
the others carry (`search`), in turns, until nobody gains. Small networks are left to a solver (`exact`) if a bound
(`bound`) does not prove that this is the best.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import IndexArray, Int32Array
from detour.base.errors import DetourError
from detour.control.edge_colouring import coloured
from detour.control.placement import exact
from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import PlacementNetwork, widened
from detour.control.placement.placement import Placement
from detour.control.placement.rebalance import local_search, rebalanced
from detour.topo import Topology
from detour.topo.failures import NONE, Failures


def place(topology: Topology, flows: FlowSet, failures: Failures = NONE, *, detours: bool = False) -> Placement:
    """Place all flows. `detours`: also on paths that are longer than the shortest, as far as six uSIDs lead. Raises
    `DetourError`: flows between hosts that are not connected (the first of them by name), or a demanded path is down.
    """
    network = PlacementNetwork(topology, failures, detours=detours)
    _check(network, flows)
    path_rows = np.full((len(flows), network.longest), -1, np.int32)
    for flow, path in flows.pinned.items():
        path_rows = widened(path_rows, len(path))
        path_rows[flow, : len(path)] = path
    free = np.setdiff1d(np.arange(len(flows)), list(flows.pinned))
    if network.tiers:
        start = coloured_paths(network, flows.source[free], flows.target[free], flows.size[free])
        path_rows[free, : start.shape[1]] = start
        placement = Placement(network, flows, path_rows, "colouring")
        if network.colourable and not flows.pinned and placement.busiest <= placement.bound:
            return placement
    placement = local_search(Placement(network, flows, path_rows, "heuristic"), free)
    if network.tiers and placement.busiest > placement.cut_bound:
        placement = rebalanced(placement, free, path_rows)
    return solved(placement, free)


def _check(network: PlacementNetwork, flows: FlowSet) -> None:
    lost = network.unreachable(flows.source, flows.target)
    if len(lost):
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise DetourError(f"{flows.name(int(lost[0]), network.topology)}: there is no path between them{more}")
    for flow, path in flows.pinned.items():
        if min(network.links_of(path), default=0) < 0:
            raise DetourError(f"{flows.name(flow, network.topology)}: its pinned path is down")


def solved(old: Placement, free: NDArray[np.integer]) -> Placement:
    """The best placement of the flows `free` among the others if it is not known to be the best and a solver can find a
    better one or prove that there is none."""
    if old.busiest <= old.bound and (old.flows.bytes is not None or old.collisions <= old.lower_bound):
        return old
    solution = exact.solve(old.network, old.flows, old.path_rows, free, old.bound)
    if solution is None:
        return old
    return replace(old, path_rows=solution.path_rows, method="solver", least=solution.least)


def balanced(left: Int32Array, right: Int32Array, colours: int, first: NDArray[Any] | None = None) -> Int32Array:
    """A colour from 0 on for every edge from `left[e]` to `right[e]`. `first` (any dtype that sorts): edges of a vertex
    with equal values are grouped together as far as possible, so that these, too, are spread evenly, within two."""
    if not len(left):
        return np.zeros(0, np.int32)
    return coloured(_groups(left, colours, first), _groups(right, colours, first), colours)


def _groups(vertex: Int32Array, size: int, first: NDArray[Any] | None) -> Int32Array:
    order = np.lexsort((vertex,) if first is None else (first, vertex))
    ordered = vertex[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    degree = np.diff(begins, append=len(ordered))
    rank = np.arange(len(ordered)) - np.repeat(begins, degree)
    groups = -(-degree // size)
    offset = np.cumsum(groups) - groups
    group_of = np.empty(len(ordered), np.int32)
    group_of[order] = np.repeat(offset, degree) + rank // size
    return group_of


def coloured_paths(network: PlacementNetwork, source: Int32Array, target: Int32Array, size: NDArray[Any]) -> Int32Array:
    """(flows, stops) path rows of flows between hosts of a Clos network as if nothing were broken but, with two
    tiers, whole spines. Flows of like `size` are spread evenly among themselves."""
    a, b = network.edge_of[source], network.edge_of[target]
    path_rows = np.full((len(source), network.longest), -1, np.int32)
    path_rows[:, 0] = a
    away = np.flatnonzero(a != b)
    a, b, size = a[away], b[away], size[away]
    if not len(away):  # with a single leaf there is no column for a spine
        return path_rows
    if network.tiers == 2:
        up = network.spines[balanced(a, b, len(network.spines), first=-size)]
        path_rows[away, 1] = up
        path_rows[away, 2] = b + network.cable_of(up)
    else:
        _three_tiers(network, path_rows, away, a, b, size)
    return path_rows


def _three_tiers(
    network: PlacementNetwork, path_rows: Int32Array, away: IndexArray, a: Int32Array, b: Int32Array, size: NDArray[Any]
) -> None:
    """Fill in the paths of the flows `away` from edge switches `a` to `b` of a fat-tree."""
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
