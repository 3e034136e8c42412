# SPDX-License-Identifier: Apache-2.0
"""The five networks that the FC+ paper compares, by a point's values."""

from __future__ import annotations

from detour.control.expander.routes import PathPolicy
from detour.experiments.fcplus import paper
from detour.experiments.store import Point
from detour.topo import expander
from detour.topo.expander import Expander

PRIORITIES_OF = {"FC+ 2L": 2, "FC+ 1L": 1, "KSP": 0, "FC": 1, "Clos": 1}
"""lossless priorities that the routes may use; KSP has one and takes no regard to it"""


def network(point: Point) -> Expander:
    """The wiring. KSP runs on FC+'s; the Clos has as many servers and about as many switches."""
    n, s, seed = point["n"], point["s"], point["seed"]
    match point["network"]:
        case "FC":
            return expander.fc(n, s, paper.fc_layers(n, s), seed=seed)
        case "Clos":
            return expander.equal_cost_clos(n * (32 - s), n)
    return expander.fcplus(n, s, point.get("v"), hosts=point.get("hosts"), seed=seed)


def policy(point: Point) -> PathPolicy:
    """The routes; a point's `max_hops` shortens them."""
    name, ties = point["network"], point.get("ties", "diverse")
    if name == "FC":
        longest = 2 * (paper.fc_layers(point["n"], point["s"]) - 1)
        return PathPolicy(64, 1, disjoint=True, max_hops=min(longest, point.get("max_hops", longest)))
    chosen = PathPolicy(point["k"], PRIORITIES_OF[name], ties)
    return PathPolicy(chosen.k, chosen.priorities, ties, max_hops=point.get("max_hops", chosen.max_hops))
