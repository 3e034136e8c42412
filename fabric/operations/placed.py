# SPDX-License-Identifier: Apache-2.0
"""The placement that a running fabric holds: which uSID list the next connection between two hosts gets.

A flow of the placement that several connections could take goes to them in turn. Replaced as a whole or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import widened
from detour.control.placement.place import place
from detour.control.placement.placement import Placement
from detour.control.placement.repair import Repair, repair
from detour.control.routes.hashes import DETOUR_BIT
from detour.fabric.records import PlacementTotals
from detour.hosts.verbs.verbs import Path
from detour.topo import Topology
from detour.topo import paths as topo_paths
from detour.topo.failures import Failures


class Placed:
    """See the module. Not for several threads at once."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._placement: Placement | None = None
        self._of_pair: dict[tuple[int, int], list[int]] = {}
        self._turn: defaultdict[tuple[int, int], int] = defaultdict(int)

    def apply(self, flows: FlowSet, failures: Failures) -> None:
        """Places flows anew; what was placed before is forgotten.

        Raises:
            DetourError: they cannot be placed, or a path needs too many uSIDs; the placement stays what it was.
        """
        found = place(self._topology, flows, failures)
        for flow in flows.pinned:
            found.usids(flow)
        of_pair: dict[tuple[int, int], list[int]] = {}
        for flow, pair in enumerate(zip(flows.source.tolist(), flows.target.tolist(), strict=True)):
            of_pair.setdefault(pair, []).append(flow)
        self._placement, self._of_pair = found, of_pair
        self._turn.clear()

    @property
    def flows(self) -> int:
        """Flows of the placement, 0 without one."""
        return 0 if self._placement is None else len(self._placement.flows)

    def next_flow(self, source: int, target: int) -> int | None:
        """The flow that the next connection between two hosts is, None if there is none with a path."""
        live = self._live(source, target)
        if not live:
            return None
        turn = self._turn[source, target]
        self._turn[source, target] += 1
        return live[turn % len(live)]

    def _live(self, source: int, target: int) -> list[int]:
        """The flows between two hosts that have a path."""
        if self._placement is None:
            return []
        return [flow for flow in self._of_pair.get((source, target), ()) if self._placement.path(flow)]

    def paths(self, source: int, target: int) -> tuple[Path, ...]:
        """The uSID lists of all flows between two hosts, each once, for a connection that sprays: what is longer than
        the shortest of them counts as a detour there."""
        ways = {self.switches(flow): self.path(flow).usids for flow in self._live(source, target)}
        least = min(map(len, ways), default=0)
        return tuple(Path(DETOUR_BIT if len(way) > least else 0, usids) for way, usids in ways.items())

    def switches(self, flow: int) -> topo_paths.SwitchPath:
        """The switches that a flow passes; none if it has no path at the moment."""
        return () if self._placement is None else self._placement.path(flow)

    def path(self, flow: int) -> Path:
        """The uSID list of a flow that has a path."""
        assert self._placement is not None
        return Path(0, self._placement.usids(flow))

    def moved(self, flow: int, switches: topo_paths.SwitchPath) -> None:
        """Somebody rerouted a flow."""
        assert self._placement is not None
        path_rows = widened(self._placement.path_rows, len(switches)).copy()
        path_rows[flow] = -1
        path_rows[flow, : len(switches)] = switches
        rerouted = self._placement.rerouted | {flow}
        self._placement = replace(self._placement, path_rows=path_rows, least=0, rerouted=rerouted)

    def repair(self, failures: Failures) -> Repair | None:
        """Adapts the placement to failures; None without a placement."""
        if self._placement is None:
            return None
        found = repair(self._placement, failures)
        self._placement = found.placement
        return found

    def totals(self) -> PlacementTotals:
        """What there is."""
        if self._placement is None:
            return PlacementTotals(flows=0, collisions=0, lower_bound=0, without_path=0, method=None)
        return PlacementTotals(
            flows=len(self._placement.flows),
            collisions=self._placement.collisions,
            lower_bound=self._placement.lower_bound,
            without_path=int((self._placement.path_rows[:, 0] < 0).sum()),
            method=self._placement.method,
        )
