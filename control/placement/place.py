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
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError
from detour.control.placement import exact
from detour.control.placement.colouring import coloured_paths
from detour.control.placement.jobs import FlowSet
from detour.control.placement.local_search import local_search
from detour.control.placement.network import PlacementNetwork, widened
from detour.control.placement.placement import Placement
from detour.control.placement.rebalance import rebalanced
from detour.topo import Topology
from detour.topo.failures import NONE, Failures


def place(topology: Topology, flows: FlowSet, failures: Failures = NONE, *, detours: bool = False) -> Placement:
    """Places all flows. `detours`: also on paths that are longer than the shortest, as far as six uSIDs lead. Raises
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
        raise DetourError(f"{flows.name(int(lost[0]))}: there is no path between them{more}")
    for flow, path in flows.pinned.items():
        if any(network.link[a, b] < 0 for a, b in pairwise(path)):
            raise DetourError(f"{flows.name(flow)}: the path that its job demands is down")


def solved(old: Placement, free: NDArray[np.integer]) -> Placement:
    """The best placement of the flows `free` among the others if it is not known to be the best and a solver can find a
    better one or prove that there is none."""
    if old.busiest <= old.bound and (old.flows.bytes is not None or old.collisions <= old.lower_bound):
        return old
    solution = exact.solve(old.network, old.flows, old.path_rows, free, old.bound)
    if solution is None:
        return old
    return replace(old, path_rows=solution.path_rows, method="solver", least=solution.least)
