# SPDX-License-Identifier: Apache-2.0
"""A network with failures as placement sees it: directed links, distances, where flows enter and leave.

A *path row* has the stops of a flow (`topo.paths`), from the sender's switch to the receiver's, filled up with -1.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import (
    BoolArray,
    Bools1,
    FloatArray,
    Floats1,
    IndexArray,
    Int32Array,
    Int32s1,
    Int32s2,
    Int64Array,
)
from detour.base.errors import DetourError
from detour.control.native import PLACEMENT
from detour.control.routes.routing import NextHops
from detour.topo import Topology
from detour.topo.address import MAX_USIDS
from detour.topo.failures import NONE, Failures, dead_links, dead_switches
from detour.topo.graph import FAR, GLOBAL, LOCAL, hops
from detour.topo.paths import SwitchPath, directed_links

TIERS = {"leaf-spine": 2, "fat-tree": 3}  # of the Clos families


class DirectedLinks(NamedTuple):
    """The intact network. Row s, column c: a link of switch s to another one."""

    neighbour: Int32Array  # (switches, columns) switch, -1: none
    number: Int32Array  # (switches, columns) the directed link to it
    weight: Int32Array  # (switches, columns) GLOBAL or LOCAL
    stop: Int32Array  # (directed links,) the stop that each leads to
    of_link: Int32Array  # (topology's links, 2) directed link from a to b and back, -1 for those of hosts
    host_links: Int32Array  # (hosts,) index of the host's link
    names: list[str]  # of directed links, like `s0-s3`, `s0-s3#2`


@lru_cache(maxsize=4)
def wiring_of(topology: Topology) -> DirectedLinks:
    """Return those of a topology; numbers do not depend on failures. That of the other direction differs in the last
    bit alone."""
    rows: list[list[tuple[int, int, int]]] = [[] for _ in topology.switches]
    of_link = np.full((len(topology.links), 2), -1, np.int32)
    host_links = np.zeros(len(topology.hosts), np.int32)
    stops, names = list[int](), list[str]()
    for link in topology.links:
        if link.kind == "host":
            host_links[link.b[0]] = link.index
            continue
        for way, ((a, _), (b, port)) in enumerate(((link.a, link.b), (link.b, link.a))):
            stop = topology.stop_at(b, port)
            of_link[link.index, way] = len(stops)
            rows[a].append((b, len(stops), GLOBAL if link.kind == "global" else LOCAL))
            stops.append(stop)
            names.append("-".join(topology.path_names((a, stop))))
    table = np.full((3, len(rows), max(1, *map(len, rows))), -1, np.int32)
    for switch, row in enumerate(rows):
        table[:, switch, : len(row)] = np.array(row, np.int32).reshape(-1, 3).T
    return DirectedLinks(table[0], table[1], table[2], np.array(stops, np.int32), of_link, host_links, names)


class SearchGraph(NamedTuple):
    """A network as the search wants it: live neighbours only, and how far everything is from where flows end."""

    neighbour: Int32s2
    number: Int32s2
    weight: Int32s2
    stop: Int32s1  # as in `DirectedLinks`
    row_of: Int32s1  # (switches,) row of `distance` for flows that end there, -1: none do
    distance: Int32s2  # (switches with hosts, switches) distance to the switch with hosts
    slack: int  # 0: shortest paths only; else paths of at most so many links, or of the shortest's if that has more


class PlacementNetwork:
    """See the module. `detours`: paths may be longer than the shortest, as far as six uSIDs lead. Raises `DetourError`:
    hosts have NICs with several ports, through which no others' packets go."""

    def __init__(self, topology: Topology, failures: Failures = NONE, *, detours: bool = False) -> None:
        if detours and topology.nics:
            raise DetourError(f"{topology.spec}: longer paths would pass through NICs")
        self.topology, self.failures, self.detours = topology, failures, detours
        self.tiers = TIERS.get(topology.family, 0)  # of a Clos network, else 0
        self.edge_of = np.array([host.switch for host in topology.hosts], np.int32)
        self.group_of = np.array([switch.group for switch in topology.switches], np.int32)
        self.wiring = wiring_of(topology)
        self.names = self.wiring.names
        kept = np.ones(len(self.topology.links), np.bool_)
        kept[list(dead_links(self.topology, self.failures))] = False
        numbers = self.wiring.of_link[kept].ravel()
        self.alive = np.zeros(len(self.names), np.bool_)  # (links,) whether a directed link is there
        self.alive[numbers[numbers >= 0]] = True
        neighbour, number, weight, stop = self.wiring[:4]
        there = (neighbour >= 0) & self.alive[number] if len(stop) else neighbour >= 0
        copies = 1 + int(stop.max(initial=0)) // len(topology.switches)
        self.link = np.full((len(topology.switches), copies * len(topology.switches)), -1, np.int32)
        """(switches, stops) number of the live link from one to the other, -1: none"""
        rows, columns = np.nonzero(there)
        numbers = number[rows, columns]
        self.link[rows, stop[numbers]] = numbers
        self._live = np.where(there, neighbour, -1).astype(np.int32)
        self._cost = np.where(weight > 0, 1, weight).astype(np.int32) if detours else weight

    @property
    def links(self) -> int:
        """Number of directed links between switches, dead ones included."""
        return len(self.names)

    def links_of(self, path: SwitchPath) -> list[int]:
        """The numbers of a path's links, -1 for those that are down."""
        return [int(self.link[hop]) for hop in directed_links(self.topology, path)]

    def cable_of(self, stop: Int32Array) -> Int32Array:
        """Return what a stop has beyond its switch: equal for links with the same number among parallel ones."""
        return stop - stop % len(self.topology.switches)

    @cached_property
    def ends(self) -> tuple[Int32Array, Int32Array]:
        """(links,) switches at which directed links begin and end."""
        tail, column = np.nonzero(self.wiring.neighbour >= 0)
        ends = np.empty((2, self.links), np.int32)
        ends[:, self.wiring.number[tail, column]] = tail, self.wiring.neighbour[tail, column]
        return ends[0], ends[1]

    @property
    def broken(self) -> bool:
        """Return whether any link between switches is down."""
        return not self.alive.all()

    @cached_property
    def graph(self) -> SearchGraph:
        """The graph on which paths are searched."""
        switches = len(self.topology.switches)
        ends = np.unique(self.edge_of)
        row_of = np.full(switches, -1, np.int32)
        row_of[ends] = np.arange(len(ends))
        distance = np.empty((len(ends), switches), np.int32)
        carries = np.array([not switch.is_nic for switch in self.topology.switches])
        _distances(self._live, self._cost, ends, carries, distance)
        return SearchGraph(
            self._live, self.wiring.number, self._cost, self.wiring.stop, row_of, distance,
            MAX_USIDS - 1 if self.detours else 0,
        )  # fmt: skip

    @cached_property
    def longest(self) -> int:
        """Switches on the longest path that a flow may take."""
        near = self.graph.distance[:, np.unique(self.edge_of)]
        most = int(hops(near[near < FAR]).max(initial=0))
        return 1 + max(most, self.graph.slack)

    @cached_property
    def tier_of(self) -> Int32Array:
        """(switches,) 0 where hosts are in a Clos network."""
        return np.array([switch.tier for switch in self.topology.switches], np.int32)

    @cached_property
    def lost_hosts(self) -> BoolArray:
        """(hosts,) whether a host's switch or link is down."""
        dead, down = dead_links(self.topology, self.failures), dead_switches(self.failures)
        return np.isin(self.wiring.host_links, list(dead)) | np.isin(self.edge_of, list(down))

    def unreachable(self, source: Int32Array, target: Int32Array) -> IndexArray:
        """The pairs of hosts that have no path between them."""
        graph = self.graph
        far = graph.distance[graph.row_of[self.edge_of[target]], self.edge_of[source]] >= FAR
        return np.flatnonzero(far | self.lost_hosts[source] | self.lost_hosts[target])

    @cached_property
    def spines(self) -> Int32Array:
        """Two tiers: spines that any leaf reaches, as stops: each cable to a spine is a way up, with one down beside it
        of the same number."""
        reached = self.link[np.unique(self.edge_of)] >= 0
        return np.flatnonzero(reached.any(axis=0)).astype(np.int32)

    @cached_property
    def colourable(self) -> bool:
        """Return whether a balanced colouring is a placement: nothing is broken, or with two tiers only whole switches
        are."""
        if self.tiers == 2:
            down = dead_switches(self.failures)
            leaves = [leaf for leaf in np.unique(self.edge_of) if leaf not in down]
            return bool((self.link[np.ix_(leaves, self.spines)] >= 0).all()) and len(self.spines) > 0
        return self.tiers == 3 and not self.broken

    @cached_property
    def next_hops(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        """Return the choices that the `route` tables give a switch: (switches, switches) number of the choice by switch
        and destination's switch, (choices,) sizes, (choices, widest) next stops in the members' order."""
        switches = self.topology.switches
        edges = np.unique(self.edge_of).tolist()
        number = np.full((len(switches), len(switches)), -1, np.int32)
        rows: dict[tuple[int, ...], int] = {}
        for switch in switches:
            routes = NextHops(self.topology, self.failures, switch.index)
            row_of: dict[int, int] = {}
            for edge in edges:
                if edge == switch.index or not routes.reachable(edge):
                    continue
                # Equal choices are the same object.
                choice = routes.actions(edge)
                if id(choice) not in row_of:
                    ports = (each.action["port"] for each in choice.choices)
                    behind = (peer for port in ports if (peer := switch.peer(port)) is not None)
                    peers = tuple(self.topology.stop_at(peer.index, peer.port) for peer in behind)
                    row_of[id(choice)] = rows.setdefault(peers, len(rows))
                number[switch.index, edge] = row_of[id(choice)]
        widest = max(map(len, rows), default=1)
        following = np.full((max(1, len(rows)), widest), -1, np.int32)
        for peers, row in rows.items():
            following[row, : len(peers)] = peers
        return number, (following >= 0).sum(axis=1).astype(np.int32), following


@PLACEMENT.entry
def _distances(neighbour: Int32s2, weight: Int32s2, ends: Int32s1, carries: Bools1, distance: Int32s2) -> None:
    """Fill in (ends, switches) distance of every switch to each end, relaxed from the end until nothing changes.
    `carries`: (switches,) whether packets of others may pass a switch."""
    n, width = neighbour.shape
    distance[:] = FAR
    queue, waiting = np.empty(n, np.int32), np.zeros(n, np.bool_)
    for row in range(len(ends)):
        distance[row, ends[row]] = 0
        queue[0] = ends[row]
        head, held = 0, 1
        while held:
            x = queue[head]
            head = (head + 1) % n
            held -= 1
            waiting[x] = False
            if not carries[x] and x != ends[row]:
                continue
            for c in range(width):
                y = neighbour[x, c]
                if y >= 0 and distance[row, x] + weight[x, c] < distance[row, y]:
                    distance[row, y] = distance[row, x] + weight[x, c]
                    if not waiting[y]:
                        waiting[y] = True
                        queue[(head + held) % n] = y
                        held += 1


def loads(network: PlacementNetwork, path_rows: Int32Array, size: NDArray[Any] | None = None) -> FloatArray:
    """(links,) what every directed link carries: flows, or their `size` (flows,)."""
    load = np.zeros(network.links, np.float64)
    sizes = np.ones(1) if size is None else np.ascontiguousarray(size, np.float64)
    _add_loads(network.link, path_rows, sizes, load)
    return load


@PLACEMENT.entry
def _add_loads(link: Int32s2, path_rows: Int32s2, size: Floats1, load: Floats1) -> None:
    """`size`: of every flow, or a single one for all."""
    alike, switches = len(size) == 1, len(link)
    for flow in range(len(path_rows)):
        x, what = path_rows[flow, 0], size[0 if alike else flow]
        for hop in range(1, path_rows.shape[1]):
            stop = path_rows[flow, hop]
            if stop < 0:
                break
            if link[x, stop] >= 0:
                load[link[x, stop]] += what
            x = stop % switches


def widened(path_rows: Int32Array, width: int) -> Int32Array:
    """Path rows with room for paths of so many stops."""
    more = width - path_rows.shape[1]
    return np.pad(path_rows, ((0, 0), (0, more)), constant_values=-1) if more > 0 else path_rows


def collisions(load: NDArray[Any]) -> int:
    """Pairs of flows that share a link, summed over links, of a (links,) number of flows. It is 0 if and only if no two
    flows meet, and, being convex, least where load is spread most evenly."""
    return int(colliding(load).sum())


def colliding(load: NDArray[Any]) -> Int64Array:
    """(links,) pairs of flows that meet on every link."""
    wide = load.astype(np.int64)
    return wide * (wide - 1) // 2
