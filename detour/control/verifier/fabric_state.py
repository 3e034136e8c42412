# SPDX-License-Identifier: Apache-2.0
"""The entries of a whole fabric as numbered choices, and where packets end up when every switch may take any of its
choices: fixpoints over all switches and destinations.

A *choice* is what an entry lets a switch do: the neighbours that any of its actions leads to, and whether any of them
loses the packet. Matrices of their numbers (switches x destinations) are solved for the number of switches that the
longest way to the destination passes, LOST if any way fails or never ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import BoolArray, Bools1, IndexArray, Int16s2, Int16s3, Int32Array, Int32s1, Int32s2, Int32s3
from detour.base.jit import int64
from detour.control import schema
from detour.control.entries import Action, Entity, TableEntry
from detour.control.native import VERIFIER
from detour.control.verifier.forwarding import LpmTable, tables_of
from detour.topo.failures import Failures, dead_links, dead_switches
from detour.topo.topology import Host, Topology

LOST = 32_767  # more switches than any way passes
ARRIVE = 0
DROP = 1

Hops = NDArray[np.int16]
Choices = Int32Array


class ChoiceBook:
    """Numbers choices. ARRIVE delivers, DROP has no way on."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bool, tuple[int, ...]], int] = {(False, ()): ARRIVE, (True, ()): DROP}
        self._all: list[tuple[bool, tuple[int, ...]]] = [(False, ()), (True, ())]

    def number(self, loses: bool, neighbours: tuple[int, ...]) -> int:
        """The number of a choice; without neighbours and loss it is an arrival."""
        key = (loses, neighbours)
        if key not in self._numbers:
            self._numbers[key] = len(self._all)
            self._all.append(key)
        return self._numbers[key]

    def neighbours(self, number: int) -> tuple[int, ...]:
        """The switches that a choice may lead to."""
        return self._all[number][1]

    def arrays(self, switches: int) -> tuple[Int32Array, Int32Array, BoolArray]:
        """(choices, width) neighbours, filled up with `switches`; (choices,) their number; whether one loses."""
        count = np.array([len(neighbours) for _, neighbours in self._all], dtype=np.int32)
        following = np.full((len(self._all), max(1, int(count.max()))), switches, dtype=np.int32)
        for number, (_, neighbours) in enumerate(self._all):
            following[number, : len(neighbours)] = neighbours
        return following, count, np.array([loses for loses, _ in self._all])


@VERIFIER.entry
def relax_hops(
    following: Int32s2, count: Int32s1, loses: Bools1, choices: Int32s3, place: Int32s1, beyond: Int16s2, hops: Int16s3
) -> bool:
    """One sweep over all variants, rows and destinations; whether anything changed. `following` (choices known, width),
    `choices` (variants, rows, destinations), `place` (switches,) the row of a switch, -1: `beyond` (switches,
    destinations) has it; `hops` as `choices`."""
    changed = False
    for v in range(choices.shape[0]):
        for r in range(choices.shape[1]):
            for m in range(choices.shape[2]):
                choice = choices[v, r, m]
                longest = LOST if loses[choice] else 0
                for k in range(count[choice]):
                    switch = following[choice, k]
                    at = place[switch]
                    longest = max(longest, int64(beyond[switch, m] if at < 0 else hops[v, at, m]))
                longest = longest if longest >= LOST else longest + 1
                if longest != hops[v, r, m]:
                    hops[v, r, m] = longest
                    changed = True
    return changed


def solve(book: ChoiceBook, choices: Choices, *, endings: bool = False) -> Hops:
    """Longest ways for (switches, destinations) choices. With `endings` a dropped packet counts as arrived: then LOST
    means that it may never end."""
    rows = np.arange(len(choices))
    return solve_rows(book, choices[None], rows, np.zeros(choices.shape, np.int16), endings=endings)[0]


def solve_rows(book: ChoiceBook, choices: Choices, rows: IndexArray, beyond: Hops, *, endings: bool = False) -> Hops:
    """The same for several variants at once that differ from a solved state in some rows only. `choices` is (variants,
    rows, destinations), `beyond` (switches, destinations) the solution that holds at all other switches; returns
    (variants, rows, destinations)."""
    following, count, loses = book.arrays(len(beyond))
    hops = np.full(choices.shape, LOST, np.int16)
    place = np.full(len(beyond), -1, np.int32)
    place[rows] = np.arange(len(rows))
    # Values only ever fall from LOST to the longest way, so sweeps end; what lies on a cycle stays LOST.
    targets, settled = np.ascontiguousarray(choices, np.int32), np.ascontiguousarray(beyond, np.int16)
    while relax_hops(following, count, loses & (not endings), targets, place, settled, hops):
        pass
    return hops


def touching(book: ChoiceBook, choices: Choices, marked: BoolArray) -> BoolArray:
    """(switches,) which switches have a way to some destination that passes a marked switch."""
    n, _ = choices.shape
    following, _, _ = book.arrays(n)
    leading = np.asarray(np.isin(following, np.flatnonzero(marked)).any(axis=1))
    if not (leading[choices].any(axis=1) & ~marked).any():
        return marked
    passes = np.zeros((n + 1, choices.shape[1]), dtype=np.bool_)
    passes[:n] = marked[:, None]
    column = np.arange(choices.shape[1])
    while True:
        wider = passes.copy()
        for k in range(following.shape[1]):
            wider[:n] |= passes[following[choices, k], column]
        if np.array_equal(wider, passes):
            return np.asarray(passes[:n].any(axis=1))
        passes = wider


@dataclass(frozen=True, slots=True)
class HostClass:
    """Hosts of one switch that every switch treats alike; `alive`: they have their link."""

    switch: int
    hosts: tuple[Host, ...]
    alive: bool


class FabricState:
    """Tables of all switches, and what they mean in this topology with these failures."""

    def __init__(self, entries: Mapping[int, Iterable[Entity]], topology: Topology, failures: Failures) -> None:
        self.topology, self.failures = topology, failures
        self.tables = tables_of(entries, len(topology.switches))
        self.dead_links, self.down = dead_links(topology, failures), dead_switches(failures)
        self.live_hosts = frozenset(host for host in topology.hosts if self._has_link(host))
        self.book = ChoiceBook()
        self._detours: dict[tuple[int, int], int] = {}
        self._columns = self._host_columns()
        self.classes, self.choices = self._classify()  # hosts of a class are a column of `choices`, (switches, classes)

    def _has_link(self, host: Host) -> bool:
        peer = self.topology.switches[host.switch].peer(host.port)
        return peer is not None and peer.link not in self.dead_links

    def effect(self, switch: int, action: Action) -> tuple[int | None, int | None]:
        """(neighbour, host) that an action leads to; neither if it loses the packet."""
        port = action.get("port")
        peer = self.topology.switches[switch].peer(port) if port is not None else None
        if peer is None or peer.link in self.dead_links:
            return None, None
        if peer.kind != "host":
            return peer.index, None
        mac = action.get("mac")
        right = action.name == schema.DELIVER and mac == self.topology.hosts[peer.index].mac
        return None, peer.index if right else None

    def _choice(self, switch: int, entry: TableEntry) -> tuple[bool, tuple[int, ...], frozenset[int]]:
        """(loses, neighbours, hosts) of an entry."""
        effects = [self.effect(switch, action) for action in entry.members()]
        neighbours = sorted({neighbour for neighbour, _ in effects if neighbour is not None})
        hosts = frozenset(host for _, host in effects if host is not None)
        loses = not effects or any(effect == (None, None) for effect in effects)
        return loses, tuple(neighbours), hosts

    def entry_choice(self, switch: int, entry: TableEntry) -> tuple[bool, tuple[int, ...]]:
        """(whether any action loses the packet or gives it to a host, neighbours) of an entry."""
        loses, neighbours, hosts = self._choice(switch, entry)
        return loses or bool(hosts) or not neighbours, neighbours

    def entry_columns(
        self, table: Callable[[int], LpmTable], addresses: list[int],
        number: Callable[[int, TableEntry, IndexArray], Int32Array | int], missing: int,
    ) -> Choices:  # fmt: skip
        """(switches, addresses) of what `number` makes of the longest-prefix match, `missing` without one."""
        by_prefix: dict[int, dict[int, IndexArray]] = {}
        numbers = np.full((len(self.topology.switches), len(addresses)), missing, dtype=np.int32)
        for switch in range(len(self.topology.switches)):
            for length, entries in table(switch).by_length():
                if length not in by_prefix:
                    by_prefix[length] = _by_prefix(addresses, length)
                for prefix, entry in entries.items():
                    columns = by_prefix[length].get(prefix)
                    if columns is not None:
                        numbers[switch, columns] = number(switch, entry, columns)
        return numbers

    def _host_columns(self) -> Choices:
        """(switches, hosts) choices by the `route` tables."""

        def number(switch: int, entry: TableEntry, columns: IndexArray) -> Int32Array | int:
            loses, neighbours, hosts = self._choice(switch, entry)
            if not hosts:
                return self.book.number(loses or not neighbours, neighbours)
            right = self.book.number(loses, neighbours)
            wrong = self.book.number(True, neighbours)
            only = next(iter(hosts)) if len(hosts) == 1 else None
            return np.where(columns == only, right, wrong).astype(np.int32)

        addresses = [host.address for host in self.topology.hosts]
        return self.entry_columns(lambda switch: self.tables[switch].route, addresses, number, DROP)

    def _classify(self) -> tuple[list[HostClass], Choices]:
        """Groups hosts with equal columns on one switch."""
        columns = np.ascontiguousarray(self._columns.T)
        alike: dict[tuple[int, bool, bytes], list[Host]] = {}
        for host in self.topology.hosts:
            key = (host.switch, host in self.live_hosts, columns[host.index].tobytes())
            alike.setdefault(key, []).append(host)
        classes = [HostClass(switch, tuple(hosts), alive) for (switch, alive, _), hosts in alike.items()]
        return classes, self._columns[:, [c.hosts[0].index for c in classes]]

    def detour_choice(self, switch: int, via: int) -> int:
        """The choice of a switch for packets that it sends off by way of a group."""
        key = (switch, via)
        if key not in self._detours:
            entry = self.tables[switch].towards(via)
            self._detours[key] = self.book.number(*(self.entry_choice(switch, entry) if entry else (True, ())))
        return self._detours[key]


def _by_prefix(addresses: list[int], length: int) -> dict[int, IndexArray]:
    columns_of: dict[int, list[int]] = {}
    for column, address in enumerate(addresses):
        columns_of.setdefault(address >> (128 - length), []).append(column)
    return {prefix: np.array(columns) for prefix, columns in columns_of.items()}
