# SPDX-License-Identifier: Apache-2.0
"""The five networks that the FC+ paper compares, by a point's values."""

from __future__ import annotations

from detour.control.expander.routes import MAX_HOPS, PathPolicy
from detour.experiments.fcplus import paper
from detour.experiments.fcplus.results import FlowPoint, NetworkPoint
from detour.topo import expander
from detour.topo.expander import Expander

PRIORITIES_OF = {"FC+ 2L": 2, "FC+ 1L": 1, "KSP": 0, "FC": 1, "Clos": 1}
"""lossless priorities that the routes may use; KSP has one and takes no regard to it"""


def network(point: NetworkPoint) -> Expander:
    """The wiring. KSP runs on FC+'s; the Clos has as many servers and about as many switches."""
    n, s, seed = point.n, point.s, point.seed
    match point.network:
        case "FC":
            return expander.fc(n, s, paper.fc_layers(n, s), seed=seed)
        case "Clos":
            return expander.equal_cost_clos(n * (32 - s), n)
    return expander.fcplus(n, s, point.v or None, hosts=point.hosts or None, seed=seed)


def policy(point: NetworkPoint, max_hops: int | None = None) -> PathPolicy:
    """The routes; `max_hops` shortens them."""
    name = point.network
    if name == "FC":
        longest = 2 * (paper.fc_layers(point.n, point.s) - 1)
        return PathPolicy(64, 1, disjoint=True, max_hops=min(longest, max_hops or longest))
    ties = point.ties if isinstance(point, FlowPoint) else "diverse"
    return PathPolicy(point.k, PRIORITIES_OF[name], ties, max_hops=max_hops or MAX_HOPS)
