# SPDX-License-Identifier: Apache-2.0
"""What no placement can beat.

Flows that leave or enter a switch, or a group, share the links there, however they are spread: these sets of links are
*cuts*. And whatever prices are put on links: a placement pays for each flow at least its cheapest path, so the busiest
link carries at least the sum of that over the sum of prices (the dual of the fractional problem).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.control.placement import search
from detour.control.placement.network import PlacementNetwork
from detour.topo.graph import GLOBAL

_SHARPNESS = (4.0, 8.0, 16.0, 32.0, 64.0)
"""of prices that follow the load: exp(sharpness * load / busiest)"""
_MAX_PRICED = 100_000
"""flows that are priced anew for each of these"""


class Cut(NamedTuple):
    """`end`: (flows,) the switch or group at which a flow crosses, -1: it does not; `links`: (switches or groups,) live
    links that it may take there."""

    end: Int32Array
    links: NDArray[np.int64]


def _cuts(network: PlacementNetwork, source: Int32Array, target: Int32Array) -> Iterator[list[Cut]]:
    """Lists of cuts; those in a list have no link in common."""
    a, b = network.edge_of[source], network.edge_of[target]
    degree = (network.link >= 0).sum(axis=1)
    switches = [Cut(np.where(a != b, end, -1).astype(np.int32), degree) for end in (a, b)]
    group_a, group_b = network.group_of[a], network.group_of[b]
    outward = ((network.wiring.weight == GLOBAL) & network.alive[network.wiring.number]).sum(axis=1)
    # A cut holds for links of one direction: those of cores to pods are counted at the pods.
    links = np.bincount(network.group_of, outward).astype(np.int64)
    groups = [Cut(np.where(group_a != group_b, end, -1).astype(np.int32), links) for end in (group_a, group_b)]
    if network.tiers:
        yield switches + groups if network.tiers == 3 else switches
        return
    yield switches
    if (group_a != group_b).any():
        yield groups


def shared_evenly(flows: NDArray[np.integer], links: NDArray[np.integer]) -> int:
    """Collisions of so many flows on so many links each (elementwise, summed) when they are spread evenly; no links and
    no flows: none."""
    some = links > 0
    low, more = np.divmod(flows[some].astype(np.int64), links[some].astype(np.int64))
    return int((more * (low * (low + 1) // 2) + (links[some] - more) * (low * (low - 1) // 2)).sum())


def lower_bound(network: PlacementNetwork, source: Int32Array, target: Int32Array) -> int:
    """Least number of collisions (`network.collisions`) that these pairs of hosts can have.

    It is attained with two tiers without damage, where a balanced edge colouring always exists (de Werra 1971)."""
    return max(
        (
            sum(shared_evenly(np.bincount(c.end[c.end >= 0], minlength=len(c.links)), c.links) for c in cuts)
            for cuts in _cuts(network, source, target)
        ),
        default=0,
    )


def busiest_bound(network: PlacementNetwork, source: Int32Array, target: Int32Array, size: NDArray[np.int64]) -> int:
    """Least that the busiest link can carry: flows, or bytes, as `size` (flows,) says. From cuts alone.

    Of the j m + 1 greatest flows that cross m links, some j + 1 share one."""
    best = 0
    for cut in (cut for cuts in _cuts(network, source, target) for cut in cuts):
        crossing = np.flatnonzero(cut.end >= 0)
        order = crossing[np.lexsort((-size[crossing], cut.end[crossing]))]
        ends, sums = cut.end[order], np.cumsum(size[order], dtype=np.int64)
        if not len(order):
            continue
        first = np.flatnonzero(np.diff(ends, prepend=-1))
        last = np.append(first[1:], len(ends)) - 1
        total = sums[last] - sums[first] + size[order[first]]
        best = max(best, int((-(-total // cut.links[ends[first]])).max()))
        rank = np.arange(len(ends)) - np.repeat(first, last - first + 1)
        links = cut.links[ends]
        pile = np.flatnonzero(rank % links == 0)
        together = size[order[pile]] * (rank[pile] // links[pile] + 1)
        best = max(best, int(together.max()))
    return best


def priced_bound(
    network: PlacementNetwork,
    source: Int32Array,
    target: Int32Array,
    size: NDArray[np.int64],
    load: NDArray[np.float64],
) -> int:
    """The same from prices that follow the `load` (links,) of a placement."""
    a, b = network.edge_of[source], network.edge_of[target]
    pairs, of_flow = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    if len(pairs) > _MAX_PRICED or not load.any():
        return 0
    carried = np.bincount(of_flow.reshape(-1), size, minlength=len(pairs))
    best = 0.0
    for sharpness in _SHARPNESS:
        price = np.where(network.alive, np.exp(sharpness * (load / load.max() - 1)), 0.0)
        found = search.cheapest(network, pairs[:, 0], pairs[:, 1], price)
        best = max(best, float((found * carried).sum() / price.sum()))
    # Rounding in the sums must not lift the bound over a whole number.
    return int(np.ceil(best * (1 - 1e-9)))
