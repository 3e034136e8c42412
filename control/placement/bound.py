# SPDX-License-Identifier: Apache-2.0
"""What no placement can beat: flows that leave a switch, or a pod, share its links up, however they are spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.control.placement.clos import Clos


def shared_evenly(flows: NDArray[np.integer], links: NDArray[np.integer]) -> int:
    """Collisions of so many flows on so many links each (elementwise, summed) when they are spread evenly; no links and
    no flows: none."""
    some = links > 0
    low, more = np.divmod(flows[some].astype(np.int64), links[some].astype(np.int64))
    return int((more * (low * (low + 1) // 2) + (links[some] - more) * (low * (low - 1) // 2)).sum())


def lower_bound(clos: Clos, source: Int32Array, target: Int32Array) -> int:
    """Least number of collisions (`clos.collisions`) that these pairs of hosts can have.

    Every flow to another edge switch takes one link up out of its own and one link down into the other; with three
    tiers every flow to another pod one link from pod to cores and one back. These sets of links are disjoint. It is
    attained with two tiers, where a balanced edge colouring always exists (de Werra 1971)."""
    a, b = clos.edge_of[source], clos.edge_of[target]
    switches = len(clos.topology.switches)
    total = 0
    away = a != b
    for ends in (a[away], b[away]):
        total += shared_evenly(np.bincount(ends, minlength=switches), clos.up_links)
    if clos.tiers == 3:
        far = clos.group_of[a] != clos.group_of[b]
        middle = np.array([s.tier == 1 for s in clos.topology.switches])
        pods = int(clos.group_of.max()) + 1
        links = np.bincount(clos.group_of[middle], clos.up_links[middle], minlength=pods).astype(np.int64)
        for ends in (a[far], b[far]):
            total += shared_evenly(np.bincount(clos.group_of[ends], minlength=pods), links)
    return total
