# SPDX-License-Identifier: Apache-2.0
"""Edge-disjoint paths that a routing leaves a pair: the greatest flow over the links that its paths take, one unit each
(Menger's theorem)."""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.base.extras import require
from detour.control.expander.routes import ExpanderRoutes, channels_of
from detour.control.expander.splits import Splitting
from detour.topo.expander.network import Expander


def path_cuts(routes: ExpanderRoutes) -> Int64Array:
    """(P,) edge-disjoint paths over the links of each pair's paths, which may be put together anew. Raises
    `DetourError`: SciPy is not installed."""
    begin, channels = channels_of(routes)
    bounds = begin[routes.first]
    return np.array([
        _greatest_flow(routes.network, channels[low:high], *pair)
        for low, high, pair in zip(bounds[:-1].tolist(), bounds[1:].tolist(), routes.pairs.tolist(), strict=True)
    ])  # fmt: skip


def next_hop_cuts(network: Expander, pairs: Int32Array, splitting: Splitting) -> Int64Array:
    """(P,) the same where switches choose: over the links of a source's first hops and of all others' next hops. Raises
    `DetourError`: SciPy is not installed."""
    found = []
    for (source, target), next_hops in zip(pairs.tolist(), splitting(network, pairs[:, 1].tolist()), strict=True):
        taken = next_hops.onward.copy()
        taken[source] = next_hops.first[source]
        found.append(_greatest_flow(network, np.flatnonzero(taken), source, target))
    return np.array(found)


def _greatest_flow(network: Expander, channels: Int64Array | Int32Array, source: int, target: int) -> int:
    require("scipy", "SciPy", "plan", "edge-disjoint paths")
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    neighbour, taken = network.channels.neighbour, np.unique(channels)
    ends = taken // neighbour.shape[1], neighbour.ravel()[taken]
    graph = csr_matrix((np.ones(taken.size, np.int32), ends), shape=(network.size, network.size))
    return int(maximum_flow(graph, source, target).flow_value)
