# SPDX-License-Identifier: Apache-2.0
"""Gives every flow a path so that as few flows as possible share links (section III-C of the paper).

What a placement makes small is the busiest link first, in flows or, where jobs say how much their flows carry, in
bytes; then collisions. On a Clos network a balanced colouring is the beginning (`colouring`), and where nothing is
broken the end. Flows that it puts on dead links, and all flows of other networks, look for the cheapest path among what
the others carry (`search`), in turns, until nobody gains. Small networks are left to a solver (`exact`) if a bound
(`bound`) does not prove that this is the best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int32Array
from detour.base.errors import DetourError
from detour.control.placement import bound, exact, search
from detour.control.placement.colouring import coloured_paths
from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import PlacementNetwork, collisions, loads, widened
from detour.control.placement.rebalance import rebalanced
from detour.control.placement.search import Walked
from detour.topo import Topology
from detour.topo.failures import NONE, Failures
from detour.topo.paths import SwitchPath, path_usids

PASSES = 50
"""turns of every flow at most; each lowers the cost or is the last"""
MAX_TURNS = 1_000_000
"""turns of all flows together at most, but at least one of those that nothing else has placed: some seconds"""


@dataclass(frozen=True)
class Assignment:
    """A flow between two hosts and where it was put, by name; `usids` in hexadecimal."""

    job: str
    source: str
    target: str
    path: list[str]
    usids: list[str]


@dataclass(frozen=True)
class Placement:
    """A path for every flow. `path_rows`: (flows, longest) switches, filled up with -1; after failures a flow may have
    none. `method`: `colouring`, `solver` or `heuristic`. `proven`: no placement has a less busy busiest link, as a
    solver found. `rerouted`: flows that somebody has moved by hand. `home`: the path rows when all were placed, None:
    these."""

    network: PlacementNetwork
    flows: FlowSet
    path_rows: Int32Array
    method: str
    proven: bool = False
    rerouted: frozenset[int] = field(default_factory=frozenset)
    home: Int32Array | None = None

    @cached_property
    def load(self) -> NDArray[np.int64]:
        """(links,) flows on every directed link between switches."""
        return loads(self.network, self.path_rows).astype(np.int64)

    @cached_property
    def carried(self) -> NDArray[np.int64]:
        """(links,) the same in the unit of `busiest`."""
        if self.flows.bytes is None:
            return self.load
        return loads(self.network, self.path_rows, self.flows.size).astype(np.int64)

    @property
    def collisions(self) -> int:
        """Pairs of flows that share a link, summed over links."""
        return collisions(self.load)

    @property
    def busiest(self) -> int:
        """What the busiest link carries: bytes where jobs give them, else flows."""
        return int(self.carried.max(initial=0))

    @cached_property
    def _placed(self) -> tuple[Int32Array, Int32Array, NDArray[np.int64]]:
        placed = self.path_rows[:, 0] >= 0
        if placed.all():
            return self.flows.source, self.flows.target, self.flows.size
        return self.flows.source[placed], self.flows.target[placed], self.flows.size[placed]

    @cached_property
    def lower_bound(self) -> int:
        """Collisions that no placement of these flows, as far as they have paths, can beat."""
        return bound.lower_bound(self.network, *self._placed[:2])

    @cached_property
    def cut_bound(self) -> int:
        """The same for the busiest link, from cuts alone."""
        return bound.busiest_bound(self.network, *self._placed)

    @cached_property
    def bound(self) -> int:
        """The least that the busiest link of such a placement carries, as far as that is proven."""
        if self.proven:
            return self.busiest
        known = self.cut_bound
        if known >= self.busiest:
            return known
        return max(known, bound.priced_bound(self.network, *self._placed, self.carried.astype(np.float64)))

    def path(self, flow: int) -> SwitchPath:
        """Switches that a flow passes; none if it has no path."""
        return tuple(int(switch) for switch in self.path_rows[flow] if switch >= 0)

    def usids(self, flow: int) -> tuple[int, ...]:
        """The uSID list of a flow: the uN of every switch after the first, as `control.sids` installs them, then the
        host's."""
        topology = self.network.topology
        return path_usids(topology, self.path(flow), topology.hosts[self.flows.target[flow]])

    def assignments(self, which: Iterable[int]) -> list[Assignment]:
        """Some of the flows."""
        return [
            Assignment(
                job=self.flows.names[self.flows.job[flow]],
                source=f"h{self.flows.source[flow]}",
                target=f"h{self.flows.target[flow]}",
                path=[f"s{switch}" for switch in self.path(flow)],
                usids=[f"{usid:x}" for usid in self.usids(flow)],
            )
            for flow in which
        ]


def place(topology: Topology, flows: FlowSet, failures: Failures = NONE, *, detours: bool = False) -> Placement:
    """Places all flows. `detours`: also on paths that are longer than the shortest, as far as six uSIDs lead.

    Raises:
        DetourError: flows between hosts that are not connected (the first of them by name), or a demanded path is down.
    """
    network = PlacementNetwork(topology, failures, detours=detours)
    _check(network, flows)
    path_rows = np.full((len(flows), network.longest), -1, np.int32)
    for flow, path in flows.pinned.items():
        path_rows = widened(path_rows, len(path))
        path_rows[flow, : len(path)] = path
    free = np.setdiff1d(np.arange(len(flows)), list(flows.pinned))
    if network.tiers:
        start = coloured_paths(network, flows.source[free], flows.target[free], flows.size[free])
        path_rows[free, : start.shape[1]] = start
        found = Placement(network, flows, path_rows, "colouring")
        if network.colourable and not flows.pinned and found.busiest <= found.bound:
            return found
    found = settled(Placement(network, flows, path_rows, "heuristic"), free)
    if network.tiers and found.busiest > found.cut_bound:
        found = rebalanced(found, free, path_rows, settled)
    return solved(found, free)


def _check(network: PlacementNetwork, flows: FlowSet) -> None:
    lost = network.unreachable(flows.source, flows.target)
    if len(lost):
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise DetourError(f"{flows.name(int(lost[0]))}: there is no path between them{more}")
    for flow, path in flows.pinned.items():
        if any(network.link[a, b] < 0 for a, b in pairwise(path)):
            raise DetourError(f"{flows.name(flow)}: the path that its job demands is down")


def settled(old: Placement, free: NDArray[np.integer], *, move: bool = True, walk: Walked | None = None) -> Placement:
    """Gives those of the flows `free` a path that have none or whose path is down; then, unless `move` is False, lets
    all of `free` go where it is better for all. `walk`: where flows are, if that is known already; it is changed."""
    network, flows = old.network, old.flows
    if walk is None:
        walk = search.walked(network, widened(old.path_rows, network.longest).copy())
    path_rows, links = walk
    lost = search.broken(walk)
    if len(free) < len(flows):
        chosen = np.zeros(len(flows), np.bool_)
        chosen[free] = True
        lost &= chosen
    turns = np.flatnonzero(lost)
    path_rows[turns], links[turns] = -1, -1
    load = loads(network, path_rows, flows.size)
    source, target, size = flows.source, flows.target, flows.size
    known = (path_rows[:, 0] >= 0) | lost
    if not known.all():
        source, target, size = source[known], target[known], size[known]
    limit = bound.busiest_bound(network, source, target, size)
    ends = network.edge_of[flows.source], network.edge_of[flows.target]
    # Great flows first: small ones fit in beside them.
    turns = turns[np.argsort(-flows.size[turns], kind="stable")].astype(np.int32)
    search.descend(network, turns, ends, flows.size, walk, load, limit)
    found = replace(old, path_rows=path_rows)
    return _lowered(found, walk, load, free, float(limit)) if move else found


def _lowered(
    found: Placement, walk: Walked, load: NDArray[np.float64], free: NDArray[np.integer], bound: float
) -> Placement:
    """Lets the flows `free` move as long as anybody gains. Where the busiest link stays above the bound, it is tried
    again with a limit just below what it carries, until that is in vain."""
    network, flows = found.network, found.flows
    ends = network.edge_of[flows.source], network.edge_of[flows.target]
    limit, best, left = bound, (np.inf, walk.switches), MAX_TURNS
    while True:
        for _ in range(PASSES):
            turns = search.movable(network, walk, load, flows.size, free)[:left].astype(np.int32)
            left -= len(turns)
            if not search.descend(network, turns, ends, flows.size, walk, load, limit):
                break
        busiest = load.max(initial=0)
        if busiest >= best[0]:
            return replace(found, path_rows=best[1])
        best = busiest, walk.switches.copy()
        if busiest <= bound or left <= 0:
            return replace(found, path_rows=best[1])
        limit = max(bound, busiest - max(1, busiest // 100))


def solved(old: Placement, free: NDArray[np.integer]) -> Placement:
    """The best placement of the flows `free` among the others if it is not known to be the best and a solver can find a
    better one or prove that there is none."""
    if old.busiest <= old.bound and (old.flows.bytes is not None or old.collisions <= old.lower_bound):
        return old
    found = exact.solve(old.network, old.flows, old.path_rows, free, old.bound)
    if found is None:
        return old
    return replace(old, path_rows=found.path_rows, method="solver", proven=found.proven)
