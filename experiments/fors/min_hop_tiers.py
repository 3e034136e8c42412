# SPDX-License-Identifier: Apache-2.0
"""OpenSM's Min-Hop on three levels, under a linear shift (`control.fors.opensm`: two levels)."""

from __future__ import annotations

import numpy as np

from detour.control.fors.fabric import FatTree
from detour.control.fors.opensm import least_used
from detour.control.fors.paths import INSIDE, TreePaths
from detour.fabric.traffic.phased import PhasedMessages


def tier_min_hop(fabric: FatTree) -> PhasedMessages:
    """A linear shift under Min-Hop: every switch by itself sends what is for a server, in their order, over the link
    up with the fewest servers so far that is on a shortest path. Flows between leaves without a path are left out."""
    paths, servers = TreePaths(fabric), np.flatnonzero(fabric.taking_part())
    high = fabric.high
    plane = np.full((fabric.all_leaves, fabric.slots), INSIDE, np.int64)
    core = np.full((fabric.pods, fabric.spines, fabric.slots), -1, np.int64)
    for leaf in range(fabric.all_leaves):
        used = np.zeros(fabric.spines, np.int64)
        for server in servers[servers // fabric.hosts != leaf].tolist():
            plane[leaf, server] = least_used(used, fabric.planes[leaf, server // fabric.hosts])
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
    found = PhasedMessages(shift, src, dst, paths.of(chosen, above, np.zeros_like(chosen), np.zeros_like(chosen)))
    return found.only((leaf == dst // fabric.hosts) | (chosen != INSIDE))
