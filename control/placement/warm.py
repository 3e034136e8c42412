# SPDX-License-Identifier: Apache-2.0
"""Native code of colouring, of the search for paths and of ECMP's hash, loaded before anything is timed."""

from __future__ import annotations

from detour.base.progress import silent
from detour.control.placement.ecmp import hashed
from detour.control.placement.jobs import flows_of
from detour.control.placement.network import PlacementNetwork
from detour.control.placement.place import place
from detour.control.placement.repair import repair
from detour.topo import parse_failure, parse_topology

_JOBS = {"jobs": [{"name": "warm", "collective": "all-to-all", "hosts": "all"}]}


def warm() -> None:
    """Places a small job, and repairs that."""
    topology = parse_topology("leaf-spine:leaves=2,spines=2,hosts=2")
    flows = flows_of(_JOBS, topology)
    failures = frozenset({parse_failure(topology, "s0-s2")})
    assert repair(place(topology, flows), failures).placement.lower_bound
    hashed(PlacementNetwork(topology), flows, 1, silent)
