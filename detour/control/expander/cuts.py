# SPDX-License-Identifier: Apache-2.0
"""Edge-disjoint paths that a routing leaves a pair: the greatest flow over the links that its paths take, one unit each
(Menger's theorem)."""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.control.expander.routes import ExpanderRoutes, channels_of
from detour.control.expander.splits import Splitting
from detour.topo.expander.network import Expander
from detour.topo.measures import disjoint_paths


def path_cuts(routes: ExpanderRoutes) -> Int64Array:
    """(P,) edge-disjoint paths over the links of each pair's paths, which may be put together anew."""
    begin, channels = channels_of(routes)
    bounds = begin[routes.first]
    return np.array([
        _disjoint(routes.network, channels[low:high], *pair)
        for low, high, pair in zip(bounds[:-1].tolist(), bounds[1:].tolist(), routes.pairs.tolist(), strict=True)
    ])  # fmt: skip


def next_hop_cuts(network: Expander, pairs: Int32Array, splitting: Splitting) -> Int64Array:
    """(P,) the same where switches choose: over the links of a source's first hops and of all others' next hops."""
    found = []
    for (source, target), next_hops in zip(pairs.tolist(), splitting(network, pairs[:, 1].tolist()), strict=True):
        taken = next_hops.onward.copy()
        taken[source] = next_hops.first[source]
        found.append(_disjoint(network, np.flatnonzero(taken), source, target))
    return np.array(found)


def _disjoint(network: Expander, channels: Int64Array | Int32Array, source: int, target: int) -> int:
    neighbour = network.channels.neighbour
    links = np.zeros((network.size, network.size), np.int32)
    links[channels // neighbour.shape[1], neighbour.ravel()[channels]] = 1
    return disjoint_paths(links, source, target)
