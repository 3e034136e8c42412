# SPDX-License-Identifier: Apache-2.0
"""The gain from the sender's choice of path: ADV1 traffic, first over shortest paths only, then with probing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from detour.base.errors import DetourError
from detour.base.progress import Progress
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.engine import EngineFabric
from detour.fabric.backends.settings import BackendSettings
from detour.fabric.operations.session import Session
from detour.fabric.traffic.flows import Choice, probing_choice, shortest_choice
from detour.fabric.traffic.workload import Workload, WorkloadResult, pairs_of
from detour.topo import Topology
from detour.topo.paths import switch_at
from detour.topo.topology import HostPair


class BothThroughputs(Struct, frozen=True):
    """Mb/s over shortest paths only, and with probing."""

    shortest: float
    telemetry: float


class DemoSummary(Struct, frozen=True):
    """The content of `detour demo --json`. `reroutes`: with probing."""

    target: str
    switches: int
    hosts: int
    entries: int
    verified: bool
    bytes_sent: int
    bytes_ok: int
    throughput_mbps: BothThroughputs
    reroutes: int
    seconds: float


@dataclass(frozen=True)
class DemoResult:
    """The demo's result. `ways`: routes between groups that carried data at the end of each run."""

    summary: DemoSummary
    topology: str
    shortest: WorkloadResult
    telemetry: WorkloadResult
    ways: tuple[int, int]

    @property
    def ok(self) -> bool:
        """Tables proven and every byte of every pair as it was sent."""
        return self.summary.verified and self.summary.bytes_ok == self.summary.bytes_sent

    @property
    def gain(self) -> float:
        return self.telemetry.throughput_mbps / max(self.shortest.throughput_mbps, 1e-9)


def demo_pairs(topology: Topology, most: int, seed: int) -> list[HostPair]:
    """All pairs from one group to one other, or `most` of them that use all hosts alike."""
    pairs = pairs_of(topology, "adv1", seed)
    if most == 0 or most >= len(pairs):
        return pairs
    sources = len({a for a, _ in pairs})
    targets = len(pairs) // sources
    # Every source with one destination, then every source with the next, each beginning at another one.
    order = [a * targets + (a + k) % targets for k in range(targets) for a in range(sources)]
    return [pairs[place] for place in order[:most]]


def _settings(fabric: Fabric) -> BackendSettings:
    """Return the settings of a fabric on the wall clock, which determine how long the demo takes."""
    if isinstance(fabric, EngineFabric):
        return fabric.settings
    from detour.fabric.backends.bmv2.fabric import Bmv2Fabric

    if isinstance(fabric, Bmv2Fabric):
        return fabric.settings
    raise DetourError(f"the demo runs in real time, not on the target {fabric.target}")


class Demo:
    """Runs on a session that is provisioned. `begin`: when its boot began (`time.monotonic`)."""

    def __init__(self, session: Session, begin: float, progress: Progress, seed: int = 1) -> None:
        self._session = session
        self._begin = begin
        self._progress = progress
        self._seed = seed
        self._settings = _settings(session.fabric)
        self.pairs = demo_pairs(session.topology, self._settings.demo_pairs, seed)

    def run(self) -> DemoResult:
        """All of it. Raises DetourError: tables are wrong, or a connection fails."""
        session, topology = self._session, self._session.topology
        self._progress("reading all tables back and verifying them")
        report = session.verify()
        if not report.verified:
            raise DetourError(f"tables are wrong: {report.problems[0]}")
        rng = random.Random(self._seed)

        def probing(a: int, b: int) -> Choice:
            return probing_choice(topology, topology.hosts[a], topology.hosts[b], rng)

        shortest = self._traffic("shortest paths only", lambda a, b: shortest_choice(rng))
        telemetry = self._traffic("probing and rerouting", probing)
        summary = DemoSummary(
            target=session.fabric.target,
            switches=len(topology.switches),
            hosts=len(topology.hosts),
            entries=session.control.entries,
            verified=report.verified,
            bytes_sent=shortest.bytes_sent + telemetry.bytes_sent,
            bytes_ok=shortest.bytes_ok + telemetry.bytes_ok,
            throughput_mbps=BothThroughputs(round(shortest.throughput_mbps, 3), round(telemetry.throughput_mbps, 3)),
            reroutes=telemetry.reroutes,
            seconds=round(time.monotonic() - self._begin, 2),
        )
        ways = self._ways(shortest), self._ways(telemetry)
        return DemoResult(summary, topology.spec, shortest, telemetry, ways)

    def _traffic(self, name: str, choose: Callable[[int, int], Choice]) -> WorkloadResult:
        what = f"traffic from one group to one other, {name}"
        self._progress(what)
        settings = self._settings
        workload = Workload(
            self._session.pump, self.pairs, choose, seed=self._seed, message_bytes=settings.message_bytes
        )
        try:
            return workload.run(*settings.demo_seconds, lambda fraction: self._progress(f"{what}: {fraction:.0%}"))
        finally:
            workload.close()

    def _ways(self, outcome: WorkloadResult) -> int:
        """Different sequences of groups on the way."""
        topology = self._session.topology
        routes, ways = set(), [(topology.hosts[a], topology.hosts[b], path) for a, b, path in outcome.paths]
        for stops in self._session.paths.hops(ways):
            groups = [topology.switches[switch_at(topology, stop)].group for stop in stops]
            routes.add(tuple(group for i, group in enumerate(groups) if i == 0 or groups[i - 1] != group))
        return len(routes)
