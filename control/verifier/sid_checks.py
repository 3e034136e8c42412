# SPDX-License-Identifier: Apache-2.0
"""The verifier's checks beside host pairs: what switches know of themselves, and uSIDs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from detour.base.arrays import IndexArray, Int32Array
from detour.control import schema
from detour.control.entries import Action, TableEntry
from detour.control.verifier.fabric_state import FabricState
from detour.control.verifier.forwarding import Node
from detour.control.verifier.reach import ARRIVE, DROP, LOST, solve
from detour.topo import address
from detour.topo.graph import FAR, distances
from detour.topo.topology import Switch

# Stands for the uSIDs that follow: a uSID at the end of a list is no path of its own.
_REST = address.host_node_id(0)


def check_nodes(state: FabricState) -> Iterator[str]:
    """`node.config` of every live switch must tell it its node id and group, and all the same number of groups."""
    topology = state.topology
    live = [switch for switch in topology.switches if switch.index not in state.down]
    groups = max((state.tables[switch.index].node.groups for switch in live), default=0)
    if groups not in (0, topology.valiant_groups):
        yield f"node.config: {groups} groups for Valiant routing, {topology.spec} has {topology.valiant_groups}"
    for switch in live:
        node = state.tables[switch.index].node
        expected = Node(switch.node_id, switch.group, groups)
        if node != expected:
            yield f"{switch.name}: node.config is {tuple(node)} (node id, group, groups), not {tuple(expected)}"


def check_decisions(state: FabricState) -> Iterator[str]:
    """adaptive.p4: packets from the ports of the hosts, and no others, must be decided upon. And the switches of a
    group must agree on what may be chosen: those behind the first one follow its decision."""
    topology = state.topology
    for switch in topology.switches:
        tables = state.tables[switch.index]
        if switch.index in state.down or not tables.adaptive:
            continue
        ports = {host.port for host in topology.hosts_of[switch.index]}
        if tables.host_ports != ports:
            yield f"{switch.name}: host_ports are {sorted(map(str, tables.host_ports))}, hosts are at {sorted(ports)}"
        first = state.tables[next(s for s in topology.members[switch.group] if s not in state.down)]
        for destination in range(topology.valiant_groups):
            differ = tables.usable(destination) ^ first.usable(destination)
            both = [via for via in range(topology.valiant_groups) if tables.knows(via) and first.knows(via)]
            for via in (via for via in both if differ >> via & 1):
                yield f"{switch.name}: does not agree with its group on going to group {destination} by way of {via}"


def check_sids(state: FabricState) -> tuple[int, list[tuple[str, int]]]:
    """(uSIDs looked up, (problem, count) of those that lead elsewhere)."""
    problems: list[tuple[str, int]] = []
    looked_up = _check_locators(state, problems)
    for switch in state.topology.switches:
        if switch.index not in state.down:
            looked_up += _check_links(state, switch, problems)
            looked_up += _check_hosts(state, switch, problems)
    return looked_up, problems


def _check_locators(state: FabricState, problems: list[tuple[str, int]]) -> int:
    """Every switch must be reached by its uN from every other one that has any path to it."""
    topology = state.topology
    nodes = [address.usid_address([switch.node_id, _REST]) for switch in topology.switches]

    def routed(switch: int, entry: TableEntry, columns: IndexArray) -> int:
        effects = [state.effect(switch, action) for action in entry.members()]
        neighbours = tuple(sorted({neighbour for neighbour, _ in effects if neighbour is not None}))
        loses = not neighbours or any(neighbour is None for neighbour, _ in effects)
        return state.book.number(loses, neighbours)

    def own(switch: int, entry: TableEntry, columns: IndexArray) -> Int32Array:
        arrives = (columns == switch) & (entry.members()[0].name == schema.UN)
        return np.where(arrives, ARRIVE, DROP).astype(np.int32)

    choices = state.entry_columns(lambda s: state.tables[s].route, nodes, routed, DROP)
    local = state.entry_columns(lambda s: state.tables[s].local_sid, nodes, own, -1)
    hops = solve(state.book, np.where(local >= 0, local, choices).astype(np.int32))
    reachable = distances(topology, state.failures) < FAR
    reachable[list(state.down)] = False
    for at, to in np.argwhere(reachable & (hops >= LOST)).tolist():
        sid = address.prefix_text(address.locator(topology.switches[to].node_id), 48)
        problems.append((f"uN {sid}: from s{at}, some way does not end at s{to}", 1))
    return int(reachable.sum())


def _check_links(state: FabricState, switch: Switch, problems: list[tuple[str, int]]) -> int:
    """Every live port must be left by its uA, in both forms."""
    count, table = 0, state.tables[switch.index].local_sid
    for port, peer in enumerate(switch.ports, start=1):
        if peer is None or peer.link in state.dead_links:
            continue
        function = address.adjacency_function(port)
        for usids, name in (((function, _REST), schema.UA), ((switch.node_id, function, _REST), schema.NODE_UA)):
            count += 1
            entry = table.lookup(address.usid_address(usids))
            action = entry.members()[0] if entry is not None else Action("nothing")
            if action.name != name or action.get("port") != port:
                sid = address.ipv6_text(address.usid_address(usids[:-1]))
                problems.append((f"{switch.name}: uA {sid} does not leave by port {port} but does {_text(action)}", 1))
    return count


def _check_hosts(state: FabricState, switch: Switch, problems: list[tuple[str, int]]) -> int:
    """Every host with a link must get what its own switch sees with its uSID as destination."""
    count, tables = 0, state.tables[switch.index]
    for host in state.topology.hosts_of[switch.index]:
        if host in state.live_hosts:
            count += 1
            destination = address.locator(host.node_id)
            entry = None if tables.local_sid.lookup(destination) else tables.route.lookup(destination)
            actions = entry.members() if entry is not None else (Action("nothing"),)
            for action in actions:
                if state.effect(switch.index, action) != (None, host.index):
                    sid = address.prefix_text(destination, 48)
                    problems.append((f"{switch.name}: uSID {sid} does not lead to {host.name}: {_text(action)}", 1))
    return count


def _text(action: Action) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in action.params)
    return action.name.rsplit(".", 1)[-1] + (f"({arguments})" if arguments else "")
