# SPDX-License-Identifier: Apache-2.0
"""Proves from the entries that switches hold that every host reaches every other one, whatever the hashes choose.

For every ordered pair of hosts and both values of the source bit (adaptive.p4: both decisions), all branches of all
action sets and all intermediate groups are followed, not sampled. Each must end at the right host's port with its MAC
address, never repeat a switch, and pass no more switches than the topology's bound (`topo.paths.bounds`). Pairs that
the failures disconnect must not be sent round. Besides: every switch is reached by its uN from every other one, every
live port is left by its uA, every host has its uSID on its own switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from detour.base.arrays import BoolArray, IndexArray, Int32Array, Int64Array
from detour.control import schema
from detour.control.entries import Action, Entity, TableEntry
from detour.control.verifier.cuts import sprayed_paths
from detour.control.verifier.fabric_state import ARRIVE, DROP, LOST, FabricState, Hops, solve, solve_rows, touching
from detour.control.verifier.forwarding import Node
from detour.topo import address
from detour.topo.failures import NONE, Failures
from detour.topo.graph import FAR, distances
from detour.topo.measures import DisjointPaths
from detour.topo.paths import Bounds, bounds
from detour.topo.topology import Host, Switch, Topology

# Stands for the uSIDs that follow: a uSID at the end of a list is not a path of its own.
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
            both = [via for via in range(topology.valiant_groups) if tables.towards(via) and first.towards(via)]
            for via in (via for via in both if differ >> via & 1):
                yield f"{switch.name}: does not agree with its group on going to group {destination} by way of {via}"


def check_sprays(state: FabricState) -> Iterator[str]:
    """spraypoint.p4: packets from the hosts' ports, and no others, must be sprayed, over all live neighbours."""
    topology = state.topology
    for switch in topology.switches:
        tables = state.tables[switch.index]
        if switch.index in state.down or tables.spray is None:
            continue
        from_ports = sorted(map(str, tables.host_ports))
        hosts = sorted(str(host.port) for host in topology.hosts_of[switch.index])
        if from_ports != hosts:
            yield f"{switch.name}: packets from ports {from_ports} are sprayed, hosts are at {hosts}"
        used = {action.get("port") for action in tables.spray.members()}
        peers = ((port, peer) for port, peer in enumerate(switch.ports, 1) if peer is not None and peer.kind != "host")
        live = {port for port, peer in peers if peer.link not in state.dead_links}
        if not used <= live or len(used) < min(len(live), schema.MAX_GROUP_SIZE):
            yield f"{switch.name}: sprays over ports {sorted(map(str, used))}, live neighbours are at {sorted(live)}"


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
        a, b = topology.path_names((at, to))
        problems.append((f"uN {sid}: from {a}, some way does not end at {b}", 1))
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


MAX_EXAMPLES = 10


@dataclass
class VerifierReport:
    """The result of a proof. `problems` spells out the first counterexamples, `failed` counts all of them."""

    pairs: int = 0  # Ordered pairs of hosts that the topology connects.
    disconnected: int = 0  # Ordered pairs that the failures disconnect.
    proofs: int = 0  # Pair and source-bit cases that were examined (two a pair).
    paths: int = 0  # The same with every intermediate group counted.
    sids: int = 0  # uSIDs that were looked up.
    failed: int = 0
    bound: Bounds = field(default_factory=lambda: Bounds(0, 0))
    longest: Bounds = field(default_factory=lambda: Bounds(0, 0))  # Most switches that any packet passes.
    disjoint_paths: DisjointPaths | None = None  # Of sprayed packets (`cuts`).
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.failed == 0

    def add(self, problem: str, count: int = 1) -> None:
        """Note a problem that `count` cases have."""
        self.failed += count
        if len(self.problems) < MAX_EXAMPLES:
            self.problems.append(problem)


def verify(
    entries: Mapping[int, Iterable[Entity]], topology: Topology, failures: Failures = NONE, bound: Bounds | None = None
) -> VerifierReport:
    """Examine entries by device id, as read back from the switches (or as planned). `bound`: how many switches packets
    may pass (None: as shortest paths and detours do)."""
    state = FabricState(entries, topology, failures)
    report = VerifierReport(bound=bound or bounds(topology, failures))
    for problem in (*check_nodes(state), *check_decisions(state), *check_sprays(state)):
        report.add(problem)
    report.sids, problems = check_sids(state)
    for problem, count in problems:
        report.add(problem, count)
    _Proof(state, report).run()
    report.disjoint_paths = sprayed_paths(state)
    return report


class _Proof:
    """The host pairs. Destinations are classes of hosts of a switch that all other switches treat alike."""

    def __init__(self, state: FabricState, report: VerifierReport) -> None:
        topology = state.topology
        self.state, self.report = state, report
        self.classes = state.classes
        self.live = np.zeros(len(topology.switches), dtype=np.int64)  # hosts of a switch that have their link
        for host in state.live_hosts:
            self.live[host.switch] += 1
        self.size = np.array([len(c.hosts) for c in self.classes])
        self.home = np.array([c.switch for c in self.classes])
        self.class_group = np.array([topology.switches[c.switch].group for c in self.classes])
        alive = np.array([c.alive for c in self.classes])
        reach = distances(topology, state.failures)[:, self.home] < FAR
        reach[list(state.down)] = False
        self.connected = reach & alive[None, :]
        self.plain = solve(state.book, state.choices)
        self.plain_ends = solve(state.book, state.choices, endings=True)

    def run(self) -> None:
        every = np.arange(len(self.state.topology.switches))
        weights = self._weights(every)
        self.report.pairs = int(weights[self.connected].sum())
        hosts = len(self.state.topology.hosts)
        self.report.disconnected = hosts * (hosts - 1) - self.report.pairs
        self.report.proofs = 2 * self.report.pairs
        self.report.paths += self.report.pairs
        sent = self._from_hosts(self.plain)
        self._judge(sent, self._from_hosts(self.plain_ends), self.report.bound.shortest, None, None)
        seen = self.connected & (sent < LOST) & (self.live[:, None] > 0)
        longest = int(np.where(seen, sent, 0).max(initial=0))
        detours = 0
        for group in range(self.state.topology.groups):
            detours = max(detours, self._detours_from(group))
        self.report.longest = Bounds(longest, max(detours, longest))

    def _from_hosts(self, hops: Hops) -> Hops:
        """Longest ways of packets as hosts send them: the first switch may spray, the others follow their routes."""
        sent = hops.copy()
        for switch, tables in enumerate(self.state.tables):
            if tables.spray is not None:
                loses, neighbours = self.state.entry_choice(switch, tables.spray)
                beyond = hops[list(neighbours)].max(axis=0, initial=LOST if loses else 0)
                sprayed = np.array([tables.sprayed(c.hosts[0].address) is not None for c in self.classes])
                sent[switch, sprayed] = np.where(beyond < LOST, beyond, LOST - 1)[sprayed] + 1
        return sent

    def _weights(self, rows: IndexArray) -> Int64Array:
        """(rows, classes) ordered host pairs from live hosts of a switch to hosts of a class."""
        weights = self.live[rows, None] * self.size[None, :]
        own = rows[:, None] == self.home[None, :]
        # Nobody sends to itself; a host without link is in the class but not among the live ones.
        alive = self.connected[self.home, np.arange(len(self.home))]
        return weights - np.where(own & alive[None, :], self.size[None, :], 0)

    def _judge(self, hops: Hops, ends: Hops, bound: int, via: int | None, rows: IndexArray | None) -> None:
        """Count the pairs that fail and spell out the first ones. `hops` has a row for each of `rows`."""
        index = np.arange(len(self.state.topology.switches)) if rows is None else rows
        weights = self._weights(index)
        connected = self.connected[index]
        wrong = np.where(connected, hops > bound, ends >= LOST) & (weights > 0)
        if via is not None:
            # Not a detour: the group's own hosts, and those of the intermediate group.
            group = self.state.topology.switches[index[0]].group
            wrong &= ((self.class_group != group) & (self.class_group != via))[None, :]
        for row, column in np.argwhere(wrong).tolist():
            count = int(weights[row, column])
            if len(self.report.problems) < MAX_EXAMPLES:
                self.report.add(self._example(int(index[row]), column, via, bound), count)
            else:
                self.report.failed += count

    def _example(self, switch: int, column: int, via: int | None, bound: int) -> str:
        sources = [host for host in self.state.topology.hosts_of[switch] if host in self.state.live_hosts]
        target = self.classes[column].hosts[0]
        source = next(host for host in sources if host != target)
        connected = bool(self.connected[switch, column])
        return _Counterexample(self.state, source, target, via, connected).text(bound)

    def _detours_from(self, group: int) -> int:
        """Judge packets with the source bit set from hosts of a group, return the most switches passed."""
        state, topology = self.state, self.state.topology
        sources = np.array([s for s in topology.members[group] if self.live[s]], dtype=np.intp)
        if not len(sources):
            return 0
        sending = np.array([tables.node.group == group and tables.node.groups > 2 for tables in state.tables])
        elsewhere = np.flatnonzero(self.class_group != group)
        vias = [via for via in range(topology.valiant_groups) if via != group]
        if not sending.any() or not vias or not len(elsewhere):
            self.report.paths += int(self._weights(sources)[self.connected[sources]].sum())
            return 0
        choices = state.choices[:, elsewhere]
        rows = np.flatnonzero(touching(state.book, choices, sending))
        rows = np.union1d(rows, sources)
        variants = self._variants(group, vias, rows, sending, elsewhere)
        hops = solve_rows(state.book, variants, rows, self.plain[:, elsewhere])
        ends = solve_rows(state.book, variants, rows, self.plain_ends[:, elsewhere], endings=True)
        return self._judge_variants(group, vias, np.searchsorted(rows, sources), rows, elsewhere, hops, ends)

    def _variants(
        self, group: int, vias: list[int], rows: IndexArray, sending: BoolArray, columns: IndexArray
    ) -> Int32Array:
        """(vias, rows, columns) choices for packets that an intermediate group was picked for."""
        state = self.state
        variants = np.repeat(state.choices[np.ix_(rows, columns)][None], len(vias), axis=0)
        groups = self.class_group[columns]
        for r, switch in enumerate(rows.tolist()):
            if sending[switch]:
                for v, via in enumerate(vias):
                    sent = np.zeros(max(state.topology.groups, state.tables[switch].node.groups), np.bool_)
                    sent[state.tables[switch].detoured(group, via)] = True
                    variants[v, r, sent[groups]] = state.detour_choice(switch, via)
        return variants

    def _judge_variants(
        self, group: int, vias: list[int], at: IndexArray, rows: IndexArray, columns: IndexArray, hops: Hops, ends: Hops
    ) -> int:
        """Judge the rows of the source group's switches, `at` in `rows`, for every intermediate group."""
        index, most = rows[at], 0
        weights, connected = self._weights(index), self.connected[index]
        own = self.class_group == group
        self.report.paths += int(weights[:, own][connected[:, own]].sum())
        for v, via in enumerate(vias):
            full, full_ends = self.plain[index].copy(), self.plain_ends[index].copy()
            full[:, columns], full_ends[:, columns] = hops[v, at], ends[v, at]
            self._judge(full, full_ends, self.report.bound.detour, via, index)
            counted = connected & ((self.class_group != via) & ~own)[None, :]
            self.report.paths += int(weights[counted].sum())
            most = max(most, int(np.where(counted & (full < LOST), full, 0).max(initial=0)))
        return most


class _Counterexample:
    """A path that goes wrong, hop by hop: the first one found in a depth-first search of all paths of a pair's packets.

    A pair that is not `connected` may lose its packets, but not send them round."""

    def __init__(self, state: FabricState, source: Host, target: Host, via: int | None, connected: bool) -> None:
        self._state, self._source, self._target, self._via = state, source, target, via
        self._connected = connected
        self._sprays = state.tables[source.switch].sprayed(target.address) is not None
        """whether the first switch sprays: packets may then come by it again"""
        self._fine: dict[int, int] = {}  # switch -> longest path so far from where everything was right

    def text(self, bound: int) -> str:
        """`h0 -> h9, source bit 1 by way of group 3: s0 s2 s13 then dropped: s13 has no route to fd00:...`"""
        bit = "source bit 0" if self._via is None else f"source bit 1 by way of group {self._via}"
        path = self._failing([self._source.switch], bound)
        return f"{self._source.name} -> {self._target.name}, {bit}: {path or 'fails on some path'}"

    def _failing(self, path: list[int], bound: int) -> str | None:
        names, at = " ".join(self._state.topology.path_names(path)), path[-1]
        if at in path[self._sprays : -1]:
            return f"{names} then round again"
        if self._connected and len(path) > bound:
            return f"{names} passes more than {bound} switches"
        if self._fine.get(at, 0) >= len(path):
            return None
        problem = self._choice_failing(path, bound, self._entry(at, first=len(path) == 1))
        if problem is None:
            self._fine[at] = len(path)
        return problem

    def _choice_failing(self, path: list[int], bound: int, entry: TableEntry | None) -> str | None:
        names, at = " ".join(self._state.topology.path_names(path)), path[-1]
        here = self._state.topology.switches[at].name
        if entry is None or not entry.members():
            what = "no route to" if entry is None else "an empty action set for"
            dropped = f"{names} then dropped: {here} has {what} {address.ipv6_text(self._target.address)}"
            return dropped if self._connected else None
        for action in entry.members():
            neighbour, host = self._state.effect(at, action)
            if neighbour is not None:
                problem = self._failing([*path, neighbour], bound)
                if problem:
                    return problem
            elif self._connected and host != self._target.index:
                where = f"{action.name.rsplit('.', 1)[-1]}({', '.join(f'{k}={v}' for k, v in action.params)})"
                return f"{names} then {where} at {here}, which is not {self._target.name}"
        return None

    def _entry(self, switch: int, first: bool) -> TableEntry | None:
        tables, target = self._state.tables[switch], self._target
        if first and self._sprays:
            return tables.sprayed(target.address)
        if self._via is not None and target.group in tables.detoured(self._source.group, self._via):
            return tables.towards(self._via)
        return tables.route.lookup(target.address)
