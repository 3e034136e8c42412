# SPDX-License-Identifier: Apache-2.0
"""Native code of routes, counts, proofs and throughput, loaded before anything is timed: all of it, or what a command
will use (HiGHS and SciPy, which only throughput needs, take most of a second to load)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute
from detour.topo.expander import Expander, fcplus

_POLICY = PathPolicy(2, 1)


def warm() -> None:
    """Runs each once on a small network."""
    from detour.control.expander import DEMAND_PATTERNS, tagger

    warm_counts()
    warm_proof()
    for pattern in DEMAND_PATTERNS:
        for method in ("exact", "approximate"):
            warm_throughput(pattern, method)
    tagger.assign(_routes())


def warm_counts() -> None:
    """Routes, K2 and the numbers of paths."""
    from detour.control.expander import counts

    routes = _routes()
    counts.examined(routes)
    counts.mean_paths(routes.network, 4, 1)


def warm_proof() -> None:
    """Routes and their dependencies, and those of what switches hold."""
    from detour.control.expander import demand, proof
    from detour.control.verifier.dependencies import InstalledClasses, shortest_choices, wires_of

    routes = _routes()
    proof.prove(routes)
    network, source = routes.network, np.ascontiguousarray(routes.pairs[:, 0].astype(np.int64))
    checked = InstalledClasses({}, wires_of(network.topology), 1)
    checked.follow_listed(source, routes.first, routes.length, routes.columns)
    distance = demand.hop_distances(network)
    choices = shortest_choices(network.channels.neighbour, distance)
    checked.follow_choices(choices)
    checked.share_lossy(choices, distance)


def warm_throughput(pattern: str, method: str) -> None:
    """Routes and the flow of a pattern by a method; "auto" may take either."""
    from detour.control.expander import demand, throughput

    network = _network()
    wanted = demand.demand_of(pattern, network)
    for each in ("exact", "approximate") if method == "auto" else (method,):
        throughput.throughput(network, _POLICY, wanted, each)


def warm_comparison(pattern: str, schemes: Sequence[str]) -> None:
    """Routings that are compared, and the flow of a pattern."""
    from detour.control.expander import comparison, demand

    network = _network()
    warm_throughput(pattern, "auto")
    comparison.compare(network, pattern, demand.demand_of(pattern, network), comparison.Terms(2, 2, schemes=schemes))


def _network() -> Expander:
    return fcplus(12, 6, 3, 1)


def _routes() -> ExpanderRoutes:
    return compute(_network(), _POLICY)
