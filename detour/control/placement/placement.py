# SPDX-License-Identifier: Apache-2.0
"""A placement: a path for every flow, the load of the links, and bounds that no placement can beat.

Flows that leave or enter a switch, or a group, share the links there, however they are spread: these sets of links are
*cuts*. And whatever prices are put on links: a placement pays for each flow at least its cheapest path, so the busiest
link carries at least the sum of that over the sum of prices (the dual of the fractional problem)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import FloatArray, Int32Array, Int64Array
from detour.control.placement import search
from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import PlacementNetwork, collisions, loads
from detour.topo.graph import GLOBAL
from detour.topo.paths import SwitchPath, path_usids

_SHARPNESS = (4.0, 8.0, 16.0, 32.0, 64.0)  # of prices that follow the load: exp(sharpness * load / busiest)
_MAX_PRICED = 100_000  # flows that are priced anew for each of these


class Cut(NamedTuple):
    """`end`: (flows,) the switch or group at which a flow crosses, -1: it does not; `links`: (switches or groups,) live
    links that it may take there."""

    end: Int32Array
    links: Int64Array


class Crossings(NamedTuple):
    """Cuts without the flows themselves. `count`: (switches or groups,) flows that cross; `links`: as in `Cut`."""

    count: Int64Array
    links: Int64Array


def _exits(network: PlacementNetwork) -> tuple[Int64Array, Int64Array]:
    """Live links of every switch, and those out of every group; a cut holds for links of one direction: those of cores
    to pods are counted at the pods."""
    degree = (network.link >= 0).sum(axis=1)
    outward = ((network.wiring.weight == GLOBAL) & network.alive[network.wiring.number]).sum(axis=1)
    return degree, np.bincount(network.group_of, outward).astype(np.int64)


def _cuts(network: PlacementNetwork, source: Int32Array, target: Int32Array) -> Iterator[Cut]:
    a, b = network.edge_of[source], network.edge_of[target]
    group_a, group_b = network.group_of[a], network.group_of[b]
    degree, links = _exits(network)
    yield from (Cut(np.where(a != b, end, -1).astype(np.int32), degree) for end in (a, b))
    if network.tiers != 2 and (group_a != group_b).any():
        yield from (Cut(np.where(group_a != group_b, end, -1).astype(np.int32), links) for end in (group_a, group_b))


def _crossings(network: PlacementNetwork, source: Int32Array, target: Int32Array) -> list[list[Crossings]]:
    """Lists of cuts, counted; those in a list have no link in common."""
    group_of, ends = network.group_of, (network.edge_of[source], network.edge_of[target])
    away, far = ends[0] != ends[1], group_of[ends[0]] != group_of[ends[1]]
    at_switch = np.stack([np.bincount(end[away], minlength=len(group_of)) for end in ends])
    at_group = np.stack([np.bincount(group_of[end[far]], minlength=int(group_of.max()) + 1) for end in ends])
    degree, links = _exits(network)
    switches = [Crossings(count, degree) for count in at_switch]
    groups = [Crossings(count, links) for count in at_group]
    if network.tiers:
        return [switches + groups if network.tiers == 3 else switches]
    # A link between two switches with hosts leads out of one and into the other.
    return [[one] for one in (*switches, *(groups if at_group.any() else ()))]


def shared_evenly(flows: NDArray[np.integer], links: NDArray[np.integer]) -> int:
    """Collisions of so many flows on so many links each (elementwise, summed) when they are spread evenly; no links and
    no flows: none."""
    some = links > 0
    low, more = np.divmod(flows[some].astype(np.int64), links[some].astype(np.int64))
    return int((more * (low * (low + 1) // 2) + (links[some] - more) * (low * (low - 1) // 2)).sum())


def lower_bound(network: PlacementNetwork, source: Int32Array, target: Int32Array) -> int:
    """Least number of collisions (`network.collisions`) that these pairs of hosts can have. It is attained with two
    tiers without damage, where a balanced edge colouring always exists (de Werra 1971)."""
    return max(
        (
            sum(shared_evenly(crossing.count, crossing.links) for crossing in crossings)
            for crossings in _crossings(network, source, target)
        ),
        default=0,
    )


def busiest_bound(network: PlacementNetwork, source: Int32Array, target: Int32Array, size: Int64Array) -> int:
    """Least that the busiest link can carry: flows, or bytes, as `size` (flows,) says. From cuts alone. Of the j m + 1
    greatest flows that cross m links, some j + 1 share one."""
    best = 0
    if len(size) and (unit := int(size[0])) == size.max() == size.min():
        for crossing in (crossing for crossings in _crossings(network, source, target) for crossing in crossings):
            used = crossing.count > 0
            total, links = unit * crossing.count[used], crossing.links[used]
            best = max(
                best, int(np.maximum(-(-total // links), unit * -(-crossing.count[used] // links)).max(initial=0))
            )
        return best
    for cut in _cuts(network, source, target):
        crossing = np.flatnonzero(cut.end >= 0)
        order = crossing[np.lexsort((-size[crossing], cut.end[crossing]))]
        ends, sums = cut.end[order], np.cumsum(size[order], dtype=np.int64)
        if not len(order):
            continue
        first = np.flatnonzero(np.diff(ends, prepend=-1))
        last = np.append(first[1:], len(ends)) - 1
        total = sums[last] - sums[first] + size[order[first]]
        best = max(best, int((-(-total // cut.links[ends[first]])).max()))
        rank = np.arange(len(ends)) - np.repeat(first, last - first + 1)
        links = cut.links[ends]
        pile = np.flatnonzero(rank % links == 0)
        together = size[order[pile]] * (rank[pile] // links[pile] + 1)
        best = max(best, int(together.max()))
    return best


def priced_bound(
    network: PlacementNetwork, source: Int32Array, target: Int32Array, size: Int64Array, load: FloatArray
) -> int:
    """The same from prices that follow the `load` (links,) of a placement."""
    a, b = network.edge_of[source], network.edge_of[target]
    pairs, of_flow = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    if len(pairs) > _MAX_PRICED or not load.any():
        return 0
    carried = np.bincount(of_flow.reshape(-1), size, minlength=len(pairs))
    best = 0.0
    for sharpness in _SHARPNESS:
        price = np.where(network.alive, np.exp(sharpness * (load / load.max() - 1)), 0.0)
        cost = search.cheapest(network, pairs[:, 0], pairs[:, 1], price)
        best = max(best, float((cost * carried).sum() / price.sum()))
    # Rounding in the sums must not lift the bound over a whole number.
    return int(np.ceil(best * (1 - 1e-9)))


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
    none. `method`: `colouring`, `solver` or `heuristic`. `least`: the busiest link of every placement carries as much,
    as a solver found. `rerouted`: flows that somebody has moved by hand. `home`: the path rows when all were placed,
    None: these."""

    network: PlacementNetwork
    flows: FlowSet
    path_rows: Int32Array
    method: str
    least: int = 0
    rerouted: frozenset[int] = field(default_factory=frozenset)
    home: Int32Array | None = None

    @cached_property
    def load(self) -> Int64Array:
        """(links,) flows on every directed link between switches."""
        return loads(self.network, self.path_rows).astype(np.int64)

    @cached_property
    def carried(self) -> Int64Array:
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
        """The load of the busiest link: bytes where jobs give them, else flows."""
        return int(self.carried.max(initial=0))

    @cached_property
    def _placed(self) -> tuple[Int32Array, Int32Array, Int64Array]:
        placed = self.path_rows[:, 0] >= 0
        if placed.all():
            return self.flows.source, self.flows.target, self.flows.size
        return self.flows.source[placed], self.flows.target[placed], self.flows.size[placed]

    @cached_property
    def lower_bound(self) -> int:
        """Collisions that no placement of these flows, as far as they have paths, can beat."""
        return lower_bound(self.network, *self._placed[:2])

    @cached_property
    def cut_bound(self) -> int:
        """The same for the busiest link, from cuts alone."""
        return busiest_bound(self.network, *self._placed)

    @cached_property
    def bound(self) -> int:
        """The least that the busiest link of such a placement carries, as far as that is proven."""
        proven = max(self.cut_bound, self.least)
        if proven >= self.busiest:
            return proven
        return max(proven, priced_bound(self.network, *self._placed, self.carried.astype(np.float64)))

    def path(self, flow: int) -> SwitchPath:
        """The stops of a flow (`topo.paths`); none if it has no path."""
        return tuple(int(stop) for stop in self.path_rows[flow] if stop >= 0)

    def usids(self, flow: int) -> tuple[int, ...]:
        """The uSID list of a flow, as `control.routes` installs them: see `path_usids`."""
        topology = self.network.topology
        return path_usids(topology, self.path(flow), topology.hosts[self.flows.target[flow]])

    def assignments(self, which: Iterable[int]) -> list[Assignment]:
        """Some of the flows."""
        topology = self.network.topology
        return [
            Assignment(
                job=self.flows.names[self.flows.job[flow]],
                source=topology.hosts[self.flows.source[flow]].name,
                target=topology.hosts[self.flows.target[flow]].name,
                path=topology.path_names(self.path(flow)),
                usids=[f"{usid:x}" for usid in self.usids(flow)],
            )
            for flow in which
        ]
