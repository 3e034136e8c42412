# SPDX-License-Identifier: Apache-2.0
"""Entries of adaptive.p4, ugal.p4 and ugal_graph.p4: how packets for other groups are sent, and over which links
(Mizrahi et al., section II-B; Kim et al., ISCA 2008).

The switch that takes a packet in from a host decides; those behind it follow what the packet says, so all switches of a
group must know the way to every group that one of them may choose. A link counts as usable if it is reached inside the
group; a group cut off from the destination (see `routing.py`) is none to go by.

ugal_graph.p4 is UGAL-L between the switches of any graph (Singh, 2005). A switch that the destination cannot be reached
from, or that failures have put too far from it, has no distance, and one that cannot be reached from here no path, so
neither is gone by; packets for a destination that is too far take what the routes say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, ActionSet, DefaultAction, Entity, TableEntry
from detour.control.policy import Policy, Routing
from detour.control.routes.routing import NextHops, cut_off_groups, ports_into
from detour.topo.failures import NONE, Failures, dead_links
from detour.topo.graph import FAR, distances, exit_distances, hops
from detour.topo.topology import Switch, Topology

End = tuple[int, int]  # (device id, port)

_RULES = {
    ("adaptive", "none"): schema.RANDOM_GROUP, ("adaptive", "group"): schema.UGAL, ("ugal", "own"): schema.UGAL_LOCAL,
    ("ugal", "group"): schema.UGAL_GLOBAL,
}  # fmt: skip
"""by program and by the loads that are compared"""


@dataclass(frozen=True)
class LoadParameters:
    """`threshold`: T, packets by which the detour must be better."""

    threshold: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= schema.MAX_THRESHOLD:
            raise DetourError(f"routing: threshold={self.threshold} is not 0 to {schema.MAX_THRESHOLD} packets")


def check_groups(topology: Topology, policy: Policy) -> None:
    """Return whether adaptive.p4 and ugal.p4 can know the topology's groups. Raises `DetourError`: the rule that is
    broken."""
    if policy.detours and topology.valiant_groups < 3:
        raise DetourError(f"routing={policy.routing.name}: {topology.spec} has no third group for detours")
    if topology.valiant_groups > schema.MAX_GROUPS:
        raise DetourError(
            f"routing={policy.routing.name}: {topology.spec} has {topology.valiant_groups} groups, "
            f"{policy.program}.p4 knows the loads of {schema.MAX_GROUPS}"
        )
    if policy.detours:
        for group in range(topology.valiant_groups):
            group_links(topology, group)


def group_links(topology: Topology, group: int, failures: Failures = NONE) -> dict[int, End]:
    """The live global links of a group: peer group -> (device id, port) that the link is at. What waits at that port is
    what cell `peer group` of register `group_load` tells all switches of the group. Raises `DetourError`: several links
    join two groups, so that there is not one load."""
    dead = dead_links(topology, failures)
    ends: dict[int, End] = {}
    for index in topology.members[group]:
        switch = topology.switches[index]
        for port, peer in enumerate(switch.ports, start=1):
            if peer is not None and peer.kind == "global" and peer.link not in dead:
                other = topology.switches[peer.index].group
                if other in ends:
                    raise DetourError(
                        f"adaptive routing: groups {group} and {other} of {topology.spec} have more than one "
                        f"link; g = a*h + 1 groups are required"
                    )
                ends[other] = (switch.device_id, port)
    return dict(sorted(ends.items()))


def plan_adaptive(topology: Topology, policy: Policy, failures: Failures, switch: Switch) -> Iterator[Entity]:
    """All entries of control `adaptive` of one live switch, in either program."""
    for host in topology.hosts_of[switch.index]:
        yield TableEntry(schema.HOST_PORTS, ((schema.IN_PORT, host.port),), Action(schema.NO_ACTION))
    if policy.oldest_first:
        yield DefaultAction(schema.ORDER, Action(schema.OLDEST_FIRST))
    if not policy.detours:
        yield DefaultAction(schema.MODE, Action(schema.MINIMAL))
        return
    left = exit_distances(topology, failures)[switch.index]
    reached = [via for via in range(topology.valiant_groups) if via != switch.group and left[via] < FAR]
    yield DefaultAction(schema.MODE, _mode(policy, reached))
    cut = cut_off_groups(topology, failures, switch.group)
    for destination in range(topology.valiant_groups):
        usable = [via for via in reached if destination not in cut[via]]
        if usable != reached:
            yield TableEntry(schema.MODE, ((schema.DESTINATION_GROUP, destination),), _mode(policy, usable))
    for via in reached:
        ports = ports_into(topology, failures, switch.index, via)
        choice = ActionSet.of(Action.of(schema.ADAPTIVE_TOWARDS, port=port) for port in ports)
        yield TableEntry(schema.TOWARDS_GROUP, ((schema.VIA, via),), choice)
        if policy.routing.loads == "own":
            first = ports[0]
            direct, around = (Action.of(read, port=first) for read in (schema.READ_DIRECT, schema.READ_AROUND))
            yield TableEntry(schema.SHORTEST_LOAD, ((schema.DESTINATION_GROUP, via),), direct)
            yield TableEntry(schema.DETOUR_LOAD, ((schema.VIA, via),), around)


def _mode(policy: Policy, usable: Iterable[int]) -> Action:
    links = sum(1 << group for group in usable)
    t = {"t": policy.routing.values["threshold"]} if policy.routing.values else {}
    return Action.of(_RULES[policy.routing.program, policy.routing.loads], usable=links, **t)


def check_graph(topology: Topology, _policy: Policy) -> None:
    """Return whether ugal_graph.p4 can know the topology's distances. Raises `DetourError`: there are too many
    switches, none to go by, or they are too far from one another."""
    count = len(topology.switches)
    if not 3 <= count <= schema.MAX_NODES:
        raise DetourError(
            f"routing=ugal-graph: {topology.spec} has {count} switches; ugal_graph.p4 supports 3 to {schema.MAX_NODES}"
        )
    links = hops(distances(topology))
    longest = int(links[links < FAR].max())
    if longest > schema.MAX_LINKS:
        raise DetourError(
            f"routing=ugal-graph: switches of {topology.spec} are up to {longest} links apart; ugal_graph.p4 supports "
            f"{schema.MAX_LINKS}"
        )


def plan_ugal_graph(topology: Topology, policy: Policy, failures: Failures, switch: Switch) -> Iterator[Entity]:
    """All entries of control `adaptive` of one live switch."""
    for host in topology.hosts_of[switch.index]:
        yield TableEntry(schema.HOST_PORTS, ((schema.IN_PORT, host.port),), Action(schema.NO_ACTION))
    links, routes = hops(distances(topology, failures)), NextHops(topology, failures, switch.index)
    remote = _known_distances(topology, failures, policy.routing.values["threshold"])
    for there in topology.switches:
        far = int(links[switch.index, there.index])
        if not 0 < far <= schema.MAX_LINKS:
            continue
        node = there.node_id
        yield TableEntry(schema.DISTANCES, ((schema.DESTINATION_NODE, node),), remote[node])
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
    lengths = {s.node_id - 1: n for s, n in zip(topology.switches, links, strict=True) if n <= schema.MAX_LINKS}
    one, two, four = (sum(1 << place for place, n in lengths.items() if n >> bit & 1) for bit in range(3))
    others = len(links) - 2
    return Action.of(schema.ALL_FAR, one=one, two=two, four=four, switches=others, t=threshold)


MINIMAL = Routing("minimal", "adaptive", plan_adaptive, check_groups, detours=False)
"""always the shortest path"""
RANDOM = Routing("random", "adaptive", plan_adaptive, check_groups, per_packet=True)
"""always by way of a random group"""
ADAPTIVE = Routing(
    "adaptive", "adaptive", plan_adaptive, check_groups, LoadParameters(), per_packet=True, loads="group"
)
"""the first switch chooses, by the loads of its group's global links"""
UGAL_GLOBAL = replace(ADAPTIVE, name="ugal-global", program="ugal")
"""by the queues of the shortest path and of one random detour: those of the group's global links"""
UGAL_LOCAL = replace(UGAL_GLOBAL, name="ugal-local", loads="own")
"""the same, by those of the first switch's own ports"""
UGAL_GRAPH = Routing(
    "ugal-graph", "ugal_graph", plan_ugal_graph, check_graph, LoadParameters(), per_packet=True, loads="own"
)
"""as `ugal-local` on any graph, where a detour goes by way of any switch"""
