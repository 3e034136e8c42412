# SPDX-License-Identifier: Apache-2.0
"""Native code of colouring, of the search for paths and of ECMP's hash, loaded before anything is timed."""

from __future__ import annotations

import numpy as np

from detour.base.progress import silent
from detour.control.placement.ecmp import hashed
from detour.control.placement.jobs import flows_of
from detour.control.placement.network import PlacementNetwork
from detour.control.placement.place import place
from detour.control.placement.rebalance import exchanged
from detour.control.placement.repair import repair
from detour.topo import parse_failure, parse_topology

_JOBS = {"jobs": [{"name": "warm", "collective": "all-to-all", "hosts": "all"}]}


def warm() -> None:
    """Places small jobs, and repairs that."""
    for spec, down in (("leaf-spine:leaves=2,spines=2,hosts=2", "s0-s2"), ("fat-tree:k=4", "s2-s16")):
        topology = parse_topology(spec)
        flows = flows_of(_JOBS, topology)
        found = repair(place(topology, flows), frozenset({parse_failure(topology, down)})).placement
        assert found.lower_bound
        exchanged(found, np.ones(len(flows), np.bool_), found.path_rows, 1)
    hashed(PlacementNetwork(topology), flows, 1, silent)
