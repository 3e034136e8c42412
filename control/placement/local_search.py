# SPDX-License-Identifier: Apache-2.0
"""Single flows look for the cheapest path among what the others carry, in turns, until nobody gains (`search`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import FloatArray
from detour.control.placement import bound, search
from detour.control.placement.network import loads, widened
from detour.control.placement.placement import Placement
from detour.control.placement.search import Walked

PASSES = 50  # turns of every flow at most; each lowers the cost or is the last
MAX_TURNS = 1_000_000
"""turns of all flows together at most, but at least one of those that nothing else has placed: some seconds"""


def local_search(
    old: Placement, free: NDArray[np.integer], *, move: bool = True, walk: Walked | None = None
) -> Placement:
    """Gives those of the flows `free` a path that have none or whose path is down; then, unless `move` is False, lets
    all of `free` go where it is better for all. `walk`: where flows are, if that is known already; it is changed."""
    network, flows = old.network, old.flows
    if walk is None:
        walk = search.walked(network, widened(old.path_rows, network.longest).copy())
    path_rows, links = walk
    lost = search.broken(walk)
    if len(free) < len(flows):
        chosen = np.zeros(len(flows), np.bool_)
        chosen[free] = True
        lost &= chosen
    turns = np.flatnonzero(lost)
    path_rows[turns], links[turns] = -1, -1
    load = loads(network, path_rows, flows.size)
    source, target, size = flows.source, flows.target, flows.size
    placed = (path_rows[:, 0] >= 0) | lost
    if not placed.all():
        source, target, size = source[placed], target[placed], size[placed]
    limit = bound.busiest_bound(network, source, target, size)
    ends = network.edge_of[flows.source], network.edge_of[flows.target]
    # Great flows first: small ones fit in beside them.
    turns = turns[np.argsort(-flows.size[turns], kind="stable")].astype(np.int32)
    search.descend(network, turns, ends, flows.size, walk, load, limit)
    placement = replace(old, path_rows=path_rows)
    return _lowered(placement, walk, load, free, float(limit)) if move else placement


def _lowered(
    placement: Placement, walk: Walked, load: FloatArray, free: NDArray[np.integer], bound: float
) -> Placement:
    """Lets the flows `free` move as long as anybody gains. Where the busiest link stays above the bound, it is tried
    again with a limit just below what it carries, until that is in vain."""
    network, flows = placement.network, placement.flows
    ends = network.edge_of[flows.source], network.edge_of[flows.target]
    limit, best, left = bound, (np.inf, walk.switches), MAX_TURNS
    while True:
        for _ in range(PASSES):
            turns = search.movable(network, walk, load, flows.size, free)[:left].astype(np.int32)
            left -= len(turns)
            if not search.descend(network, turns, ends, flows.size, walk, load, limit):
                break
        busiest = load.max(initial=0)
        if busiest >= best[0]:
            return replace(placement, path_rows=best[1])
        best = busiest, walk.switches.copy()
        if busiest <= bound or left <= 0:
            return replace(placement, path_rows=best[1])
        limit = max(bound, busiest - max(1, busiest // 100))
