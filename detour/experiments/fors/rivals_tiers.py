# SPDX-License-Identifier: Apache-2.0
"""The rivals of FORS on three levels, where all messages have one size: the bound, and a maximum concurrent flow over
planes and cores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.control.fors.baselines import least_used, min_hop
from detour.control.fors.fabric import FatTree
from detour.control.fors.loads import LeafDemand, concurrent_flow, fluid_bound
from detour.control.fors.paths import INSIDE, TreePaths
from detour.fabric.traffic.phased import PhasedMessages


def tier_bound(fabric: FatTree, sizes: Int64Array) -> int:
    """Bytes of a server's link that an exchange takes at least. Raises `DetourError`: sizes are unlike."""
    size = int(sizes.max(initial=0))
    if (sizes[~np.eye(len(sizes), dtype=bool)] != size).any():
        raise DetourError(f"{fabric.name}: unequal message sizes are for two levels (ft:...)")
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
        part = share[source, target, plane]
        pods = fabric.pod_of[source], fabric.pod_of[target]
        if pods[0] != pods[1]:
            part = part * over[pods[0], pods[1], plane, core]
        return usable, part / part.sum()

    return parts


def tier_min_hop(fabric: FatTree) -> PhasedMessages:
    """A linear shift under Min-Hop: every switch by itself sends what is for a server, in their order, over the link
    up with the fewest servers so far that is on a shortest path. Flows between leaves without a path are left out."""
    paths, servers = TreePaths(fabric), np.flatnonzero(fabric.taking_part())
    high = fabric.high
    plane = min_hop(fabric, servers).astype(np.int64)
    core = np.full((fabric.pods, fabric.spines, fabric.slots), -1, np.int64)
    for pod, agg in np.ndindex(fabric.pods, fabric.spines):
        used = np.zeros(fabric.cores, np.int64)
        for server in servers[servers // (fabric.hosts * fabric.leaves) != pod].tolist():
            usable = high[pod, agg] & high[server // (fabric.hosts * fabric.leaves), agg]
            core[pod, agg, server] = least_used(used, usable)
    count = len(servers)
    shift, sender = (one.ravel() for one in np.divmod(np.arange(count * (count - 1)), count))
    src, dst = servers[sender], servers[(sender + shift + 1) % count]
    leaf, pod = src // fabric.hosts, src // (fabric.hosts * fabric.leaves)
    chosen = np.where(leaf == dst // fabric.hosts, INSIDE, plane[leaf, dst])
    above = np.where(pod == dst // (fabric.hosts * fabric.leaves), -1, core[pod, chosen, dst])
    messages = PhasedMessages(shift, src, dst, paths.of(chosen, above, np.zeros_like(chosen), np.zeros_like(chosen)))
    return messages.only((leaf == dst // fabric.hosts) | (chosen != INSIDE))
