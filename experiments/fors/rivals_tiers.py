# SPDX-License-Identifier: Apache-2.0
"""What the rivals of FORS need on three levels, where all messages have one size: the bound, and a maximum concurrent
flow over planes and cores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree
from detour.control.fors.loads import LeafDemand, concurrent_flow, fluid_bound
from detour.control.fors.paths import TreePaths


def tier_volume(fabric: FatTree, sizes: Int64Array) -> int:
    """Bytes of a server's link that an exchange takes at least.

    Raises:
        DetourError: sizes are unlike.
    """
    size = int(sizes.max(initial=0))
    if (sizes[~np.eye(len(sizes), dtype=bool)] != size).any():
        raise DetourError(f"{fabric.name}: messages of unlike size are for two levels (ft:...)")
    links = fluid_bound(LeafDemand(fabric))
    return max((fabric.servers - 1) * size, -(-links.numerator * size // links.denominator))


def tier_shares(fabric: FatTree) -> Callable[[int, int], tuple[Int64Array, np.ndarray]]:
    """For two leaves: paths, and the part of what one has for the other that goes over each."""
    demand, paths = LeafDemand(fabric), TreePaths(fabric)
    planes, cores = concurrent_flow(demand)
    share = np.zeros((fabric.all_leaves, fabric.all_leaves, fabric.spines))
    pair, plane = demand.paths.T
    u, v = demand.pairs[pair].T
    share[u, v, plane] = share[v, u, plane] = planes
    over = np.zeros((fabric.pods, fabric.pods, fabric.spines, fabric.cores))
    p, q, j, i = demand.crossings.T
    over[p, q, j, i] = over[q, p, j, i] = cores
    over /= np.maximum(over.sum(axis=3, keepdims=True), 1e-12)
    up = paths.working()

    def parts(source: int, target: int) -> tuple[Int64Array, np.ndarray]:
        usable = paths.usable(source, target, up)
        plane, core, *_ = paths.parts(usable)
        found = share[source, target, plane]
        pods = fabric.pod_of[source], fabric.pod_of[target]
        if pods[0] != pods[1]:
            found = found * over[pods[0], pods[1], plane, core]
        return usable, found / found.sum()

    return parts
