# SPDX-License-Identifier: Apache-2.0
"""Deadlock check of installed entries under PFC: the dependencies among buffers that follow from them.

What PFC may block is the buffer behind a link in one direction, in a lossless class. A packet in it waits for the
buffer behind the link that it goes out by, in the class that the switch puts it into; a class that is not lossless
drops instead, so nothing waits for it. Nothing can deadlock if no buffer waits for itself, however indirectly (Dally
and Seitz, 1987). Classes are those of the tables `dscp` and `channel`, as they are read back; which way packets go is
asked three times, each time of more of them:

* listed routes, hop by hop;
* packets that are addressed plainly, by choices among ports as the tables `route` have them;
* all packets, from every port to every other one and back. If that has no cycle nothing can deadlock, whatever lists,
  routes and detours there are now, after failures, and in any mixture while they change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from detour.base.arrays import (
    BoolArray,
    Bools3,
    Bools5,
    Floats1,
    Int32Array,
    Int32s2,
    Int64Array,
    Int64s1,
    Int64s2,
    UInt8Array,
    UInt8s1,
    UInt8s2,
    UInt8s4,
)
from detour.control import schema
from detour.control.entries import Action, DefaultAction, Entity, TableEntry, Ternary
from detour.control.native import VERIFIER
from detour.control.verifier.cycles import Depends, cycle_of
from detour.control.verifier.forwarding import SwitchTables
from detour.topo.topology import Topology

CLASSES = 8
_DSCPS = 64


class Wires(NamedTuple):
    """Links between switches by switch and column, whatever is down, and ports of hosts."""

    neighbour: Int32Array  # (switches, width) switch behind the column, -1 for none
    back: Int32Array  # (switches, width) column of the same link there
    port: Int32Array  # (switches, width) its port number, 0 for none
    host_ports: tuple[tuple[int, ...], ...]  # of every switch
    names: tuple[str, ...]  # of switches


def wires_of(topology: Topology, down: Collection[int] = ()) -> Wires:
    """The wires of a topology, without those of the switches that are `down`; a switch's columns are its ports to
    switches in order."""
    ports = [
        [number for number, peer in enumerate(s.ports, 1) if peer is not None and peer.kind != "host"]
        for s in topology.switches
    ]
    n, width = len(ports), max(1, *map(len, ports))
    neighbour, back, port = (np.full((n, width), value, np.int32) for value in (-1, -1, 0))
    for x, mine in enumerate(ports):
        for c, number in enumerate(mine):
            peer = topology.switches[x].peer(number)
            assert peer is not None  # these are wired
            neighbour[x, c], port[x, c] = peer.index, number
            back[x, c] = ports[peer.index].index(peer.port)
    gone = np.isin(neighbour, list(down))
    gone[list(down)] = True
    neighbour[gone] = -1
    hosts = tuple(tuple(h.port for h in topology.hosts_of[x]) for x in range(n))
    return Wires(neighbour, back, port, hosts, tuple(switch.name for switch in topology.switches))


class _Classes(NamedTuple):
    """The changes that switches make to DSCP and class, by switch, way in (columns, then ports of hosts), column out
    and DSCP (a row of `dscps`)."""

    dscp: UInt8Array
    priority: UInt8Array
    dscps: tuple[int, ...]  # those that entries name, and one that stands for all others


@dataclass(frozen=True)
class Waits:
    """Buffers that some packet may be in, who waits for whom, and a cycle (buffers in order) if there is one."""

    buffers: int
    dependencies: int
    cycle: tuple[str, ...]

    @property
    def acyclic(self) -> bool:
        return not self.cycle

    @property
    def sums(self) -> tuple[bool, int, int]:
        """Return whether there is no cycle, the number of buffers, and of dependencies."""
        return self.acyclic, self.buffers, self.dependencies


class InstalledClasses:
    """See the module. Packets that are followed add up: what is asked later holds for all that was asked before, so
    routes before and after a change, asked one after the other, stand for all mixtures of them."""

    def __init__(self, state: Mapping[int, Iterable[Entity]], wires: Wires, lossless: int) -> None:
        """`state`: entities by device id (switch index + 1); `lossless`: bit mask of priorities under PFC."""
        self._wires, self._lossless = wires, lossless
        self._classes = _classes_of(state, wires)
        bits = [lossless >> p & 1 for p in range(CLASSES)]
        self._row = np.array([sum(bits[:p]) if bits[p] else -1 for p in range(CLASSES)], np.int64)
        n, width, count = *wires.neighbour.shape, max(1, lossless.bit_count())
        self._depends: Depends = np.zeros((n, width, count, width, count), np.bool_)
        self._used = np.zeros((n, width, count), np.bool_)

    def follow_anywhere(self) -> Waits:
        """Packets that may go from everywhere to everywhere."""
        choices = (self._wires.neighbour >= 0)[:, :, None]
        return self._follow(choices, np.array([-1]), range(_DSCPS))

    def follow_choices(self, choices: BoolArray) -> Waits:
        """Packets that hosts send, with any DSCP, by choices (switches, width, switches) of columns by target."""
        return self._follow(choices, np.arange(choices.shape[2]), range(_DSCPS))

    def _follow(self, choices: BoolArray, ends: Int64Array, begin: Iterable[int]) -> Waits:
        dscps = self._classes.dscps
        # DSCPs that no entry names are treated alike: the first of them is in `known`.
        first = np.array([dscps.index(d) for d in begin if d in dscps], np.int64)
        hosts = np.array([len(ports) for ports in self._wires.host_ports], np.int64)
        choices = np.ascontiguousarray(choices)
        follows = self._depends, self._used
        _follow(*self._wires[:2], *self._classes[:2], self._row, choices, ends, first, hosts, *follows)
        return self._waits()

    def follow_listed(self, source: Int64Array, first: Int64Array, length: UInt8Array, columns: UInt8Array) -> Waits:
        """Packets with DSCP 0 on the paths of pairs: source (pairs,) switch; rows first[i] to first[i+1]-1 of `length`
        (paths,) links and `columns` (paths, longest) of every switch on the way are those of pair i."""
        zero = self._classes.dscps.index(0)
        paths, follows = (source, first, length, columns), (self._depends, self._used)
        _follow_listed(*self._wires[:2], *self._classes[:2], self._row, *paths, zero, *follows)
        return self._waits()

    def follow_paths(self, paths: Sequence[Sequence[int]]) -> Waits:
        """Packets with DSCP 0 on paths, each a list of stops (`topo.paths`)."""
        neighbour, n = self._wires.neighbour, len(self._wires.neighbour)
        length = np.array([len(path) - 1 for path in paths], np.uint8)
        columns = np.zeros((len(paths), max(1, int(length.max(initial=0)))), np.uint8)
        for row, path in enumerate(paths):
            for hop, (x, stop) in enumerate(pairwise(path)):
                copy, y = divmod(stop, n)  # ports are in the order of parallel links
                columns[row, hop] = np.flatnonzero(neighbour[x % n] == y)[copy]
        source = np.array([path[0] for path in paths], np.int64)
        return self.follow_listed(source, np.arange(len(paths) + 1), length, columns)

    def share_lossy(self, choices: BoolArray, distance: Int32Array) -> float:
        """The share of packets with DSCP 0, as many from every host to every host of another switch, evenly spread
        over the choices, that leaves the lossless classes on its way. `distance` (switches, switches): every
        choice leads nearer."""
        order = np.ascontiguousarray(np.argsort(-distance, axis=0, kind="stable").T)
        hosts = np.array([len(ports) for ports in self._wires.host_ports], np.int64)
        zero, choices = self._classes.dscps.index(0), np.ascontiguousarray(choices)
        sums = np.zeros(2)
        _lossy(*self._wires[:2], *self._classes[:2], self._row, choices, order, hosts, zero, sums)
        lost, sent = sums.tolist()
        return lost / sent if sent else 0.0

    def _waits(self) -> Waits:
        neighbour = self._wires.neighbour
        classes = [p for p in range(CLASSES) if self._lossless >> p & 1]
        cycle = cycle_of(self._depends, neighbour)
        called = self._wires.names
        names = tuple(f"{called[x]}>{called[neighbour[x, c]]} in {classes[k]}" for x, c, k in cycle)
        return Waits(int(self._used.sum()), int(self._depends.sum()), names)


def _classes_of(state: Mapping[int, Iterable[Entity]], wires: Wires) -> _Classes:
    tables = [_ClassTables(state.get(x + 1, ())) for x in range(len(wires.neighbour))]  # device ids count from 1
    named = {0} | {dscp for table in tables for dscp in table.named}
    dscps = tuple(sorted(named | {min(set(range(_DSCPS)) - named, default=0)}))
    n, width = wires.neighbour.shape
    rows = width + max(map(len, wires.host_ports))
    shape = (n, rows, width, len(dscps))
    dscp, priority = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
    for x, table in enumerate(tables):
        ways_in = (*wires.port[x].tolist(), *wires.host_ports[x])
        table.fill(dscps, ways_in, wires.port[x].tolist(), dscp[x], priority[x])
    return _Classes(dscp, priority, dscps)


class _ClassTables:
    """`dscp` and `channel` of one switch."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self._default = 0
        self._otherwise: Action | None = None
        """what `channel` does to packets that no entry matches, None: nothing"""
        self._priority: dict[int, int] = {}
        self._channel: list[TableEntry] = []
        for entity in entities:
            match entity:
                case DefaultAction(schema.DSCP, action):
                    self._default = action["priority"]
                case DefaultAction(schema.CHANNEL, action) if action.name == schema.SET_CHANNEL:
                    self._otherwise = action
                case TableEntry(schema.DSCP):
                    field = entity.field(schema.DSCP_FIELD)
                    assert isinstance(field, int)  # exact
                    self._priority[field] = entity.members()[0]["priority"]
                case TableEntry(schema.CHANNEL) if entity.members()[0].name == schema.SET_CHANNEL:
                    self._channel.append(entity)
        self._channel.sort(key=lambda entry: entry.priority)

    @property
    def named(self) -> Iterator[int]:
        yield from self._priority
        if self._otherwise is not None:
            yield self._otherwise["dscp"]
        for entry in self._channel:
            field = entry.field(schema.DSCP_FIELD)
            assert isinstance(field, int)  # exact
            yield field
            yield entry.members()[0]["dscp"]

    def fill(
        self, dscps: tuple[int, ...], ways_in: Sequence[int], ways_out: Sequence[int], dscp: UInt8Array,
        priority: UInt8Array,
    ) -> None:  # fmt: skip
        """Fill in what becomes of DSCP and class, (ways in, ways out, dscps); ports are given by number."""
        row = {value: i for i, value in enumerate(dscps)}
        dscp[:] = np.arange(len(dscps))
        priority[:] = [self._priority.get(value, self._default) for value in dscps]
        if self._otherwise is not None:
            dscp[:], priority[:] = row[self._otherwise["dscp"]], self._otherwise["priority"]
        for entry in self._channel:
            action, field = entry.members()[0], entry.field(schema.DSCP_FIELD)
            assert isinstance(field, int)  # exact
            into = _matching(ways_in, entry.field(schema.IN_PORT))
            out = _matching(ways_out, entry.field(schema.EGRESS_SPEC_FIELD))
            for i in into:
                dscp[i, out, row[field]] = row[action["dscp"]]
                priority[i, out, row[field]] = action["priority"]


def _matching(ports: Sequence[int], field: object) -> list[int]:
    """Places of the ports that a ternary field matches; None matches all."""
    if isinstance(field, Ternary):
        return [i for i, port in enumerate(ports) if port & field.mask == field.value]
    return list(range(len(ports)))


def plain_choices(state: Mapping[int, Iterable[Entity]], topology: Topology, wires: Wires) -> BoolArray:
    """(switches, width, switches) the columns that `route` chooses among for packets to any host of a switch."""
    n, width = wires.neighbour.shape
    choices = np.zeros((n, width, n), np.bool_)
    for x in range(n):
        route, column = SwitchTables(state.get(x + 1, ())).route, {p: c for c, p in enumerate(wires.port[x].tolist())}
        for host in topology.hosts:
            entry = route.lookup(host.address)
            for action in entry.members() if entry is not None else ():
                c = column.get(action.get("port") or 0)
                if c is not None and wires.neighbour[x, c] >= 0:
                    choices[x, c, host.switch] = True
    return choices


def shortest_choices(neighbour: Int32Array, distance: Int32Array) -> BoolArray:
    """(switches, width, switches) the columns that begin shortest paths, which is what the planner installs.

    `neighbour`: (switches, width) switch behind a column, -1 for none; `distance`: (switches, switches) links of
    shortest paths."""
    return (distance[neighbour] + 1 == distance[:, None, :]) & (neighbour >= 0)[:, :, None]


@VERIFIER.entry
def _follow(
    neighbour: Int32s2, back: Int32s2, dscp: UInt8s4, priority: UInt8s4, row: Int64s1, choices: Bools3, ends: Int64s1,
    begin: Int64s1, hosts: Int64s1, depends: Bools5, used: Bools3,
) -> None:  # fmt: skip
    """Follow packets from all hosts to every end (-1: nowhere): marks what they use and wait for."""
    n, _, width, dscps = dscp.shape
    seen = np.zeros((n, width, dscps, 8), np.bool_)
    stack = np.empty((seen.size, 4), np.int64)
    for t in range(ends.size):
        seen[:] = False
        top = 0
        for x in range(n):
            if x == ends[t]:
                continue
            for h in range(width, width + hosts[x]):
                for c in range(width):
                    if not choices[x, c, t]:
                        continue
                    for i in range(begin.size):
                        r, p = dscp[x, h, c, begin[i]], priority[x, h, c, begin[i]]
                        if not seen[x, c, r, p]:
                            seen[x, c, r, p] = True
                            stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = x, c, r, p
                            top += 1
        while top:
            top -= 1
            x, c, r, p = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
            if row[p] >= 0:
                used[x, c, row[p]] = True
            y = neighbour[x, c]
            if y == ends[t]:
                continue
            for d in range(width):
                if not choices[y, d, t]:
                    continue
                then, q = dscp[y, back[x, c], d, r], priority[y, back[x, c], d, r]
                if row[p] >= 0 and row[q] >= 0:
                    depends[x, c, row[p], d, row[q]] = True
                if not seen[y, d, then, q]:
                    seen[y, d, then, q] = True
                    stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = y, d, then, q
                    top += 1


@VERIFIER.entry
def _follow_listed(
    neighbour: Int32s2, back: Int32s2, dscp: UInt8s4, priority: UInt8s4, row: Int64s1, source: Int64s1,
    first: Int64s1, length: UInt8s1, columns: UInt8s2, zero: int, depends: Bools5, used: Bools3,
) -> None:  # fmt: skip
    """Follow a packet on every path."""
    width = neighbour.shape[1]
    for i in range(source.size):
        for path in range(first[i], first[i + 1]):
            x, into, r = source[i], width, zero
            before_x, before_c, before = -1, -1, -1
            for h in range(length[path]):
                c = columns[path, h]
                now = row[priority[x, into, c, r]]
                if now >= 0:
                    used[x, c, now] = True
                    if before >= 0:
                        depends[before_x, before_c, before, c, now] = True
                r = dscp[x, into, c, r]
                before_x, before_c, before = x, c, now
                into = back[x, c]
                x = neighbour[x, c]


@VERIFIER.entry
def _lossy(
    neighbour: Int32s2, back: Int32s2, dscp: UInt8s4, priority: UInt8s4, row: Int64s1, choices: Bools3,
    order: Int64s2, hosts: Int64s1, zero: int, sums: Floats1,
) -> None:  # fmt: skip
    """Fill in what leaves the lossless classes, and what is sent, over all pairs of hosts on different switches.
    order[t]: switches, the farthest from t first."""
    n, rows, width, dscps = dscp.shape
    lost, sent = 0.0, 0.0
    for t in range(n):
        if hosts[t] == 0:
            continue
        flow = np.zeros((n, rows, dscps))
        for at in range(n):
            x = order[t, at]
            count = 0
            for c in range(width):
                count += choices[x, c, t]
            if x == t or count == 0:
                continue
            if hosts[x]:
                flow[x, width, zero] += hosts[x] * hosts[t]
                sent += hosts[x] * hosts[t]
            for i in range(rows):
                for r in range(dscps):
                    part = flow[x, i, r] / count
                    if part == 0.0:
                        continue
                    for c in range(width):
                        if choices[x, c, t]:
                            if row[priority[x, i, c, r]] < 0:
                                lost += part
                            else:
                                flow[neighbour[x, c], back[x, c], dscp[x, i, c, r]] += part
    sums[0], sums[1] = lost, sent
