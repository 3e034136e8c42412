# SPDX-License-Identifier: Apache-2.0
"""Native code of colouring and of ECMP's hash, loaded before anything is timed."""

from __future__ import annotations

from detour.base.progress import silent
from detour.control.placement.clos import Clos
from detour.control.placement.ecmp import hashed
from detour.control.placement.jobs import flows_of
from detour.control.placement.place import place
from detour.topo import parse_topology

_JOBS = {"jobs": [{"name": "warm", "collective": "all-to-all", "hosts": "all"}]}


def warm() -> None:
    """Places a small job."""
    topology = parse_topology("leaf-spine:leaves=2,spines=2,hosts=2")
    flows = flows_of(_JOBS, topology)
    place(topology, flows)
    hashed(Clos(topology), flows.source, flows.target, 1, silent)
