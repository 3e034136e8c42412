# SPDX-License-Identifier: Apache-2.0
"""What a placement is: a path for every flow, and how busy the links are by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.control.placement import bound
from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import PlacementNetwork, collisions, loads
from detour.topo.paths import SwitchPath, path_usids


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
        """What the busiest link carries: bytes where jobs give them, else flows."""
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
        return bound.lower_bound(self.network, *self._placed[:2])

    @cached_property
    def cut_bound(self) -> int:
        """The same for the busiest link, from cuts alone."""
        return bound.busiest_bound(self.network, *self._placed)

    @cached_property
    def bound(self) -> int:
        """The least that the busiest link of such a placement carries, as far as that is proven."""
        proven = max(self.cut_bound, self.least)
        if proven >= self.busiest:
            return proven
        return max(proven, bound.priced_bound(self.network, *self._placed, self.carried.astype(np.float64)))

    def path(self, flow: int) -> SwitchPath:
        """Switches that a flow passes; none if it has no path."""
        return tuple(int(switch) for switch in self.path_rows[flow] if switch >= 0)

    def usids(self, flow: int) -> tuple[int, ...]:
        """The uSID list of a flow: the uN of every switch after the first, as `control.routes` installs it, then
        the host's."""
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
