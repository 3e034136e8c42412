# SPDX-License-Identifier: Apache-2.0
"""Native code of routes, counts and proofs, loaded before anything is timed."""

from __future__ import annotations

from detour.control.expander import counts, demand, proof, tagger, throughput
from detour.control.expander.routes import PathPolicy, compute
from detour.topo.expander import fcplus


def warm() -> None:
    """Runs each once on a small network."""
    network = fcplus(12, 6, 3, 1)
    small = compute(network, PathPolicy(2, 1))
    proof.prove(small)
    counts.examined(small)
    counts.mean_paths(network, 4, 1)
    for pattern in demand.DEMAND_PATTERNS:
        wanted = demand.demand_of(pattern, network)
        for method in ("exact", "approximate"):
            throughput.throughput(network, PathPolicy(2, 1), wanted, method)
    tagger.assign(small)
