# SPDX-License-Identifier: Apache-2.0
"""The placed paths of a fabric. Finding paths takes much to load, so this is loaded with the first placement."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import widened
from detour.control.placement.place import place
from detour.control.placement.repair import Repair, repair
from detour.control.routes.hashes import DETOUR_BIT
from detour.fabric.records import PlacementTotals
from detour.hosts.verbs import Path
from detour.topo import Topology
from detour.topo.failures import Failures
from detour.topo.paths import SwitchPath


class Placed:
    """A placement that a running fabric holds: which uSID list the next connection between two hosts gets. A flow of
    the placement that several connections could take goes to them in turn. Not for several threads at once."""

    def __init__(self, topology: Topology, flows: FlowSet, failures: Failures) -> None:
        """Places flows. Raises DetourError: they cannot be placed, or a path needs too many uSIDs."""
        self._placement = place(topology, flows, failures)
        for flow in flows.pinned:
            self._placement.usids(flow)
        self._of_pair: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for flow, pair in enumerate(zip(flows.source.tolist(), flows.target.tolist(), strict=True)):
            self._of_pair[pair].append(flow)
        self._turn: Counter[tuple[int, int]] = Counter()

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
        return [flow for flow in self._of_pair.get((source, target), ()) if self.switches(flow)]

    def paths(self, source: int, target: int) -> tuple[Path, ...]:
        """The uSID lists of all flows between two hosts, each once, for a connection that sprays: what is longer than
        the shortest of them counts as a detour there."""
        ways = {self.switches(flow): self.path(flow).usids for flow in self._live(source, target)}
        least = min(map(len, ways), default=0)
        return tuple(Path(DETOUR_BIT if len(way) > least else 0, usids) for way, usids in ways.items())

    def switches(self, flow: int) -> SwitchPath:
        """The stops of a flow; none if it has no path at the moment."""
        return self._placement.path(flow)

    def path(self, flow: int) -> Path:
        """The uSID list of a flow that has a path."""
        return Path(0, self._placement.usids(flow))

    def moved(self, flow: int, stops: SwitchPath) -> None:
        """Somebody rerouted a flow."""
        path_rows = widened(self._placement.path_rows, len(stops)).copy()
        path_rows[flow] = -1
        path_rows[flow, : len(stops)] = stops
        rerouted = self._placement.rerouted | {flow}
        self._placement = replace(self._placement, path_rows=path_rows, least=0, rerouted=rerouted)

    def repair(self, failures: Failures) -> Repair:
        """Adapt the placement to failures."""
        repaired = repair(self._placement, failures)
        self._placement = repaired.placement
        return repaired

    def totals(self) -> PlacementTotals:
        return PlacementTotals(
            flows=len(self._placement.flows),
            collisions=self._placement.collisions,
            lower_bound=self._placement.lower_bound,
            without_path=int((self._placement.path_rows[:, 0] < 0).sum()),
            method=self._placement.method,
        )
