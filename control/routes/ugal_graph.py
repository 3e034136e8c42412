# SPDX-License-Identifier: Apache-2.0
"""Entries of ugal_graph.p4: UGAL-L between the switches of any graph (Singh, 2005), decided by the switch that takes a
packet in from a host.

A switch that the destination cannot be reached from, or that failures have put too far from it, has no distance, and
one that cannot be reached from here no way, so neither is gone by; packets for a destination that is too far take what
the routes say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, ActionSet, Entity, TableEntry
from detour.control.policy import Policy
from detour.control.routes.routing import NextHops
from detour.topo.failures import Failures
from detour.topo.graph import FAR, distances, hops
from detour.topo.topology import Switch, Topology


def check_graph(topology: Topology) -> None:
    """Whether ugal_graph.p4 can know the topology's distances.

    Raises:
        DetourError: there are too many switches, none to go by, or they are too far from one another.
    """
    count = len(topology.switches)
    if not 3 <= count <= schema.MAX_NODES:
        raise DetourError(
            f"routing=ugal-graph: {topology.spec} has {count} switches; ugal_graph.p4 takes 3 to {schema.MAX_NODES}"
        )
    links = hops(distances(topology))
    longest = int(links[links < FAR].max())
    if longest > schema.MAX_LINKS:
        raise DetourError(
            f"routing=ugal-graph: switches of {topology.spec} are up to {longest} links apart; ugal_graph.p4 knows of "
            f"{schema.MAX_LINKS}"
        )


def plan_ugal_graph(topology: Topology, policy: Policy, failures: Failures, switch: Switch) -> Iterator[Entity]:
    """All entries of control `adaptive` of one live switch."""
    for host in topology.hosts_of[switch.index]:
        yield TableEntry(schema.HOST_PORTS, ((schema.IN_PORT, host.port),), Action(schema.NO_ACTION))
    links, routes = hops(distances(topology, failures)), NextHops(topology, failures, switch.index)
    known = _known_distances(topology, failures, policy.threshold)
    for there in topology.switches:
        far = int(links[switch.index, there.index])
        if not 0 < far <= schema.MAX_LINKS:
            continue
        node = there.node_id
        yield TableEntry(schema.DISTANCES, ((schema.DESTINATION_NODE, node),), known[node])
        ports = [action["port"] for action in routes.actions(there.index).members()]
        direct, around = (
            ActionSet.of(Action.of(read, port=port, links=far) for port in ports)
            for read in (schema.READ_DIRECT, schema.READ_AROUND)
        )
        yield TableEntry(schema.SHORTEST_WAY, ((schema.DESTINATION_NODE, node),), direct)
        yield TableEntry(schema.DETOUR_WAY, ((schema.VIA, node),), around)


@lru_cache(maxsize=16)
def _known_distances(topology: Topology, failures: Failures, threshold: int) -> Mapping[int, Action]:
    """By node: how many links all switches have to it, 0 where there is no way. Every switch holds the same."""
    links = hops(distances(topology, failures))
    return {there.node_id: _far(topology, links[:, there.index].tolist(), threshold) for there in topology.switches}


def _far(topology: Topology, links: list[int], threshold: int) -> Action:
    known = {s.node_id - 1: n for s, n in zip(topology.switches, links, strict=True) if n <= schema.MAX_LINKS}
    one, two, four = (sum(1 << place for place, n in known.items() if n >> bit & 1) for bit in range(3))
    others = len(links) - 2
    return Action.of(schema.ALL_FAR, one=one, two=two, four=four, switches=others, t=threshold)
