# SPDX-License-Identifier: Apache-2.0
"""Proves from the entries that switches hold that every host reaches every other one, whatever the hashes choose.

For every ordered pair of hosts and both values of the source bit (adaptive.p4: both decisions), all branches of all
action sets and all intermediate groups are followed, not sampled. Each must end at the right host's port with its MAC
address, never repeat a switch, and pass no more switches than the topology's bound (`topo.paths.bounds`). Pairs that
the failures disconnect must not be sent round. Besides: every switch is reached by its uN from every other one, every
live port is left by its uA, every host has its uSID on its own switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from detour.base.arrays import BoolArray, IndexArray, Int32Array, Int64Array
from detour.control.entries import Entity, TableEntry
from detour.control.verifier.fabric_state import FabricState
from detour.control.verifier.reach import LOST, Hops, solve, solve_rows, touching
from detour.control.verifier.sid_checks import check_decisions, check_nodes, check_sids
from detour.topo import address
from detour.topo.failures import NONE, Failures
from detour.topo.graph import FAR, distances
from detour.topo.paths import Bounds, bounds
from detour.topo.topology import Host, Topology

MAX_EXAMPLES = 10


@dataclass
class VerifierReport:
    """What was proven. `problems` spells out the first counterexamples, `failed` counts all of them."""

    pairs: int = 0  # Ordered pairs of hosts that the topology connects.
    disconnected: int = 0  # Ordered pairs that the failures disconnect.
    proofs: int = 0  # Pair and source-bit cases that were examined (two a pair).
    paths: int = 0  # The same with every intermediate group counted.
    sids: int = 0  # uSIDs that were looked up.
    failed: int = 0
    bound: Bounds = field(default_factory=lambda: Bounds(0, 0))
    longest: Bounds = field(default_factory=lambda: Bounds(0, 0))  # Most switches that any packet passes.
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.failed == 0

    def add(self, problem: str, count: int = 1) -> None:
        """Notes a problem that `count` cases have."""
        self.failed += count
        if len(self.problems) < MAX_EXAMPLES:
            self.problems.append(problem)


def verify(entries: Mapping[int, Iterable[Entity]], topology: Topology, failures: Failures = NONE) -> VerifierReport:
    """Examines entries by device id, as read back from the switches (or as planned)."""
    state = FabricState(entries, topology, failures)
    report = VerifierReport(bound=bounds(topology, failures))
    for problem in (*check_nodes(state), *check_decisions(state)):
        report.add(problem)
    report.sids, problems = check_sids(state)
    for problem, count in problems:
        report.add(problem, count)
    _Proof(state, report).run()
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
        self._judge(self.plain, self.plain_ends, self.report.bound.shortest, None, None)
        seen = self.connected & (self.plain < LOST) & (self.live[:, None] > 0)
        longest = int(np.where(seen, self.plain, 0).max(initial=0))
        detours = 0
        for group in range(self.state.topology.groups):
            detours = max(detours, self._detours_from(group))
        self.report.longest = Bounds(longest, max(detours, longest))

    def _weights(self, rows: IndexArray) -> Int64Array:
        """(rows, classes) ordered host pairs from live hosts of a switch to hosts of a class."""
        weights = self.live[rows, None] * self.size[None, :]
        own = rows[:, None] == self.home[None, :]
        # Nobody sends to itself; a host without link is in the class but not among the live ones.
        alive = self.connected[self.home, np.arange(len(self.home))]
        return weights - np.where(own & alive[None, :], self.size[None, :], 0)

    def _judge(self, hops: Hops, ends: Hops, bound: int, via: int | None, rows: IndexArray | None) -> None:
        """Counts the pairs that fail and spells out the first ones. `hops` has a row for each of `rows`."""
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
        """Judges packets with the source bit set from hosts of a group, returns the most switches passed."""
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
        for r, switch in enumerate(rows.tolist()):
            if sending[switch]:
                for v, via in enumerate(vias):
                    for destination in range(state.topology.groups):
                        number = state.detour_choice(switch, group, destination, via)
                        if number is not None:
                            variants[v, r, self.class_group[columns] == destination] = number
        return variants

    def _judge_variants(
        self, group: int, vias: list[int], at: IndexArray, rows: IndexArray, columns: IndexArray, hops: Hops, ends: Hops
    ) -> int:
        """Judges the rows of the source group's switches, `at` in `rows`, for every intermediate group."""
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
        self._fine: dict[int, int] = {}  # switch -> longest path so far from where everything was right

    def text(self, bound: int) -> str:
        """`h0 -> h9, source bit 1 by way of group 3: s0 s2 s13 then dropped: s13 has no route to fd00:...`"""
        bit = "source bit 0" if self._via is None else f"source bit 1 by way of group {self._via}"
        path = self._failing([self._source.switch], bound)
        return f"{self._source.name} -> {self._target.name}, {bit}: {path or 'fails on some path'}"

    def _failing(self, path: list[int], bound: int) -> str | None:
        names = " ".join(f"s{switch}" for switch in path)
        at = path[-1]
        if at in path[:-1]:
            return f"{names} then round again"
        if self._connected and len(path) > bound:
            return f"{names} passes more than {bound} switches"
        if self._fine.get(at, 0) >= len(path):
            return None
        problem = self._choice_failing(path, bound, self._entry(at))
        if problem is None:
            self._fine[at] = len(path)
        return problem

    def _choice_failing(self, path: list[int], bound: int, entry: TableEntry | None) -> str | None:
        names, at = " ".join(f"s{switch}" for switch in path), path[-1]
        if entry is None or not entry.members():
            what = "no route to" if entry is None else "an empty action set for"
            dropped = f"{names} then dropped: s{at} has {what} {address.ipv6_text(self._target.address)}"
            return dropped if self._connected else None
        for action in entry.members():
            neighbour, host = self._state.effect(at, action)
            if neighbour is not None:
                problem = self._failing([*path, neighbour], bound)
                if problem:
                    return problem
            elif self._connected and host != self._target.index:
                where = f"{action.name.rsplit('.', 1)[-1]}({', '.join(f'{k}={v}' for k, v in action.params)})"
                return f"{names} then {where} at s{at}, which is not {self._target.name}"
        return None

    def _entry(self, switch: int) -> TableEntry | None:
        tables, target = self._state.tables[switch], self._target
        if (
            self._via is not None
            and self._state.detour_choice(switch, self._source.group, target.group, self._via) is not None
        ):
            return tables.detour(self._via, target.group)
        return tables.route.lookup(target.address)
