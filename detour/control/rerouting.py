# SPDX-License-Identifier: Apache-2.0
"""The controller's half of rerouting (SRv6 path placement paper, section III-D): which flows are to leave which path.

Receivers report a window of every flow. A flow is congested if its throughput dropped and its packets were marked or
waited longer than usual. Neither alone will do: a flow may have nothing to send, and marks and a queue that stands
cost a flow nothing as long as its throughput is what it was. Which link is to blame is not told; so every link of a
congested flow's path is suspect unless a flow that is well passes it too. A congested flow moves to the path with the
fewest suspect links, and among these to the one whose links carry fewest flows.

Pure: reports in, paths out. Whoever carries it out pushes the new uSID list to the sender and calls `moved`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from detour.topo import Topology
from detour.topo.failures import NONE, Failures
from detour.topo.paths import SwitchPath, directed_links, shortest_paths

DirectedLink = tuple[int, int]  # the switch where a link begins, and the stop that it leads to (`topo.paths`)


@dataclass(frozen=True)
class FlowReport:
    """One window of one flow at its receiver. `drop`: share of what the flow has otherwise that was missing;
    `delay_ps`: mean queuing delay of its packets, 0 if none came; `more_delay_ps`: by how much it was longer than
    usual."""

    flow: str
    rate_bps: float
    drop: float
    ecn_share: float
    delay_ps: float
    more_delay_ps: float


@dataclass(frozen=True)
class Thresholds:
    """The limits beyond which a flow is congested. `delay_ps`: what its packets wait longer than usual. `hold_ps`:
    time after a move in which it is not moved again; its reports still speak of packets that took the old path.
    `penalty_ps`: time for which a path that it left is not taken again."""

    ecn_share: float = 0.1
    delay_ps: float = 5e6
    drop: float = 0.1
    hold_ps: int = 100_000_000
    penalty_ps: int = 10_000_000_000

    def congested(self, report: FlowReport) -> bool:
        """Return whether a report shows congestion."""
        signs = report.ecn_share >= self.ecn_share or report.more_delay_ps >= self.delay_ps
        return report.drop >= self.drop and signs


class ReroutingController:
    """Knows the flows' ends and paths, and decides."""

    def __init__(self, topology: Topology, thresholds: Thresholds, failures: Failures = NONE) -> None:
        self.topology = topology
        self._thresholds = thresholds
        self._failures = failures
        self._paths: dict[str, SwitchPath] = {}
        self._moved: dict[str, int] = {}
        self._left: dict[tuple[str, SwitchPath], int] = {}

    def add(self, flow: str, path: SwitchPath) -> None:
        """A flow begins on a path, or is put on one by somebody else."""
        self._paths[flow] = path

    def remove(self, flow: str) -> None:
        """A flow has ended."""
        self._paths.pop(flow, None)
        self._moved.pop(flow, None)
        self._left = {key: when for key, when in self._left.items() if key[0] != flow}

    def path(self, flow: str) -> SwitchPath:
        """The path that a flow is on as far as is known here."""
        return self._paths[flow]

    def moved(self, flow: str, path: SwitchPath, now_ps: int) -> None:
        """The sender has taken the path that `decide` proposed."""
        self._left[flow, self._paths[flow]] = now_ps
        self._moved[flow] = now_ps
        self._paths[flow] = path

    def decide(self, reports: Iterable[FlowReport], now_ps: int) -> dict[str, SwitchPath]:
        """New paths for the flows that should move; flows that have nowhere better to go stay."""
        placed = {report.flow: report for report in reports if report.flow in self._paths}
        ill = {flow for flow, report in placed.items() if self._thresholds.congested(report)}
        suspect = {hop for flow in ill for hop in self._hops(self._paths[flow])}
        suspect -= {hop for flow in placed.keys() - ill for hop in self._hops(self._paths[flow])}
        load = Counter(hop for path in self._paths.values() for hop in self._hops(path))
        chosen: dict[str, SwitchPath] = {}
        for flow in sorted(ill):
            if now_ps - self._moved.get(flow, -self._thresholds.hold_ps) < self._thresholds.hold_ps:
                continue
            path = self._better(flow, suspect, load, now_ps)
            if path is not None:
                chosen[flow] = path
                load.subtract(self._hops(self._paths[flow]))
                load.update(self._hops(path))
        return chosen

    def _hops(self, path: SwitchPath) -> Iterator[DirectedLink]:
        return directed_links(self.topology, path)

    def _better(
        self, flow: str, suspect: set[DirectedLink], load: Counter[DirectedLink], now_ps: int
    ) -> SwitchPath | None:
        """The best path with fewer suspect links than the current one."""

        def cost(path: SwitchPath) -> tuple[int, int]:
            return sum(hop in suspect for hop in self._hops(path)), sum(load[hop] for hop in self._hops(path))

        here = self._paths[flow]
        others = [path for path in self._candidates(flow, now_ps) if cost(path)[0] < cost(here)[0]]
        return min(others, key=cost, default=None)

    def _candidates(self, flow: str, now_ps: int) -> Iterator[SwitchPath]:
        here = self._paths[flow]
        for path in shortest_paths(self.topology, here[0], here[-1], self._failures):
            left = self._left.get((flow, path))
            if path != here and (left is None or now_ps - left >= self._thresholds.penalty_ps):
                yield path
