# SPDX-License-Identifier: Apache-2.0
"""Topologies as immutable graphs, the addresses of what is in them, and paths through them. No I/O."""

from detour.topo.failures import Failure, failure_name, parse_failure
from detour.topo.graphs import from_networkx, to_networkx
from detour.topo.spec import parse_topology
from detour.topo.topology import Behind, Host, Link, Peer, Switch, Topology

__all__ = [
    "Behind", "Failure", "Host", "Link", "Peer", "Switch", "Topology", "address", "clos", "draw", "expander",
    "failure_name", "failures", "from_networkx", "graph", "graphs", "keyvalues", "listed", "measures", "names",
    "parse_failure", "parse_topology", "paths", "spec", "to_networkx", "topology",
]  # fmt: skip
