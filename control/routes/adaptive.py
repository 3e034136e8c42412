# SPDX-License-Identifier: Apache-2.0
"""Entries of adaptive.p4 and ugal.p4: how packets for other groups are sent, and over which links (Mizrahi et al.,
section II-B; Kim et al., ISCA 2008).

The switch that takes a packet in from a host decides; those behind it follow what the packet says, so all switches of a
group must know the way to every group that one of them may choose. A link counts as usable if it is reached inside the
group; a group cut off from the destination (see `valiant.py`) is none to go by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, ActionSet, DefaultAction, Entity, TableEntry
from detour.control.policy import Policy
from detour.control.routes.ugal_graph import check_graph
from detour.control.routes.valiant import cut_off_groups, ports_into
from detour.topo.expander.booted import is_expander
from detour.topo.failures import NONE, Failures, dead_links
from detour.topo.graph import FAR, exit_distances
from detour.topo.topology import Switch, Topology

End = tuple[int, int]  # (device id, port)

_RULES = {"adaptive": schema.UGAL, "ugal-local": schema.UGAL_LOCAL, "ugal-global": schema.UGAL_GLOBAL}


def check_routing(topology: Topology, policy: Policy) -> None:
    """Whether the topology allows what the policy says.

    Raises:
        DetourError: the rule that is broken.
    """
    if policy.channels > 1 and topology.family != "dragonfly" and not is_expander(topology):
        raise DetourError(
            f"channels={policy.channels}: virtual channels rise at a Dragonfly's global links; {topology.spec} has "
            f"up-down routes, which cannot deadlock in one channel"
        )
    if policy.program == "ugal_graph":
        check_graph(topology)
    if policy.program not in ("adaptive", "ugal"):
        return
    if policy.detours and topology.valiant_groups < 3:
        raise DetourError(f"routing={policy.routing}: {topology.spec} has no third group to go by")
    if topology.valiant_groups > schema.MAX_GROUPS:
        raise DetourError(
            f"routing={policy.routing}: {topology.spec} has {topology.valiant_groups} groups, "
            f"{policy.program}.p4 knows the loads of {schema.MAX_GROUPS}"
        )
    if policy.detours:
        for group in range(topology.valiant_groups):
            group_links(topology, group)


def group_links(topology: Topology, group: int, failures: Failures = NONE) -> dict[int, End]:
    """The live global links of a group: peer group -> (device id, port) that the link is at.

    What waits at that port is what cell `peer group` of register `group_load` tells all switches of the group.

    Raises:
        DetourError: several links join two groups, so that there is not one load.
    """
    dead = dead_links(topology, failures)
    found: dict[int, End] = {}
    for index in topology.members[group]:
        switch = topology.switches[index]
        for port, peer in enumerate(switch.ports, start=1):
            if peer is not None and peer.kind == "global" and peer.link not in dead:
                other = topology.switches[peer.index].group
                if other in found:
                    raise DetourError(
                        f"adaptive routing: groups {group} and {other} of {topology.spec} are joined by more than one "
                        f"link; it takes g = a*h + 1 groups"
                    )
                found[other] = (switch.device_id, port)
    return dict(sorted(found.items()))


def plan_adaptive(topology: Topology, policy: Policy, failures: Failures, switch: Switch) -> Iterator[Entity]:
    """All entries of control `adaptive` of one live switch, in either program."""
    for host in topology.hosts_of[switch.index]:
        yield TableEntry(schema.HOST_PORTS, ((schema.IN_PORT, host.port),), Action(schema.NO_ACTION))
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
        if policy.routing == "ugal-local":
            first = ports[0]
            direct, around = (Action.of(read, port=first) for read in (schema.READ_DIRECT, schema.READ_AROUND))
            yield TableEntry(schema.SHORTEST_LOAD, ((schema.DESTINATION_GROUP, via),), direct)
            yield TableEntry(schema.DETOUR_LOAD, ((schema.VIA, via),), around)


def _mode(policy: Policy, usable: Iterable[int]) -> Action:
    links = sum(1 << group for group in usable)
    if policy.routing == "random":
        return Action.of(schema.RANDOM_GROUP, usable=links)
    return Action.of(_RULES[policy.routing], usable=links, t=policy.threshold)
