# SPDX-License-Identifier: Apache-2.0
"""Section IV of the non-shortest-path paper: four schemes, three Dragonflies, three workloads, N connections each.

A point is one run of one scheme on one topology with one draw of pairs. `select` makes the list of points, `run` is
what a sweep calls for each, `collect` puts results beside the paper's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, UnsetType

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.records import extended, from_json, given
from detour.base.times import US
from detour.control.policy import Amount, StepMarking
from detour.control.routes.adaptive import check_routing
from detour.experiments import running
from detour.experiments.measure import RunTimes
from detour.experiments.nonshortest import paper
from detour.experiments.nonshortest.paper import LoadLevel
from detour.experiments.nonshortest.workloads import ceiling, pair_count, sample
from detour.experiments.running import CompletionRun, MeasuredRun, SteadyRun
from detour.fabric.footings.virtual.scheme import (
    BENCHMARK,
    SCHEMES,
    TELEMETRY_LERP,
    LinkSettings,
    Scheme,
    SwitchMemory,
    scheme,
)
from detour.hosts.config import HostConfig
from detour.topo import Topology, parse_topology

THRESHOLDS = (0, 10, 20, 30)
"""T of Benchmark in packets; with `best` each of its points is run with all of them and the best one counts"""
DEFAULT_THRESHOLD = 10
"""T where it is not swept"""

TIMES = {
    "quick": RunTimes(least_us=600, most_us=1_600, tolerance=0.03),
    "normal": RunTimes(least_us=2_000, most_us=6_000, tolerance=0.02),
    "full": RunTimes(least_us=4_000, most_us=20_000, tolerance=0.01),
}
_SHORTER = {("D2", "unf"): 3, ("D3", "unf"): 5}
"""UNF fills all of a fabric: what these times are divided by, but for `full`"""
_LEAST_US = 800
_SCAN_MOST_US = 8_000
_MOVES_US = 4_000
"""ADV1, ADV2: connections that choose their paths have done most of their moves by then"""

_HOPS_A_PACKET = 10
"""switches that a data packet and its ACK pass, roughly"""
_HOPS_A_SECOND = 700_000
_START_SECONDS = 4.0


@dataclass(frozen=True)
class NonshortestSelection:
    """What to run. `thresholds`: T of Benchmark. `seeds`: that many draws of pairs, from seed 1 on.
    `times`: a key of `TIMES`. `delays_us`: of links to hosts, inside groups, between groups.
    `message_bytes`: 0: endless connections; else one message each and completion times. `loss`: probability with which
    a link between switches loses a frame. `hosts`: changes to `HostConfig` on top of a scheme's own (`host_changes`).
    `step_bytes`: K of the schemes that mark by steps, `None`: theirs."""

    topology: str
    pattern: str
    pairs: tuple[int, ...]
    schemes: tuple[str, ...] = tuple(SCHEMES)
    seeds: int = 1
    thresholds: tuple[int, ...] = (DEFAULT_THRESHOLD,)
    times: str = "normal"
    delays_us: tuple[float, float, float] = (1.0, 1.0, 1.0)
    headroom_bytes: int | None = None
    message_bytes: int = 0
    loss: float = 0.0
    hosts: tuple[tuple[str, Any], ...] = ()
    step_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class NonshortestPoint(RunTimes):
    """One run of one scheme with one draw of pairs; see `NonshortestSelection`. What is unset is as a scheme has it."""

    topology: str
    pattern: str
    scheme: str
    pairs: int
    seed: int
    threshold: int
    delays_us: tuple[float, float, float]
    headroom_bytes: int | UnsetType = UNSET
    message_bytes: int | UnsetType = UNSET
    loss: float | UnsetType = UNSET
    hosts: dict[str, float] | UnsetType = UNSET
    step_bytes: int | UnsetType = UNSET
    experiment: Literal["nonshortest"] = "nonshortest"


class TrafficCase(NamedTuple):
    """What schemes are compared on."""

    topology: str
    pattern: str
    pairs: int


@dataclass(frozen=True, kw_only=True)
class NonshortestRun(MeasuredRun):
    """What came of a point. `ceiling_gbps`: what its pairs can carry at most; `ceiling_bound`: which bound says so;
    `paper`: the throughput in Gb/s that the paper states; `wire_gbps_by_threshold`: only of Benchmark's run with the
    best T, those with all of them."""

    topology: str
    pattern: str
    scheme: str
    pairs: int
    seed: int
    threshold: int
    ceiling_gbps: float
    ceiling_bound: str
    loss: float
    paper: float | None
    wire_gbps_by_threshold: dict[str, float] | UnsetType = UNSET

    @property
    def traffic(self) -> TrafficCase:
        """What it is compared on with other schemes."""
        return TrafficCase(self.topology, self.pattern, self.pairs)


@dataclass(frozen=True, kw_only=True)
class SteadyNonshortestRun(NonshortestRun, SteadyRun):
    """Of endless connections."""


@dataclass(frozen=True, kw_only=True)
class CompletionNonshortestRun(NonshortestRun, CompletionRun):
    """Of one message each."""


def decode(value: Any) -> NonshortestRun:
    """A run of JSON.

    Raises:
        DetourError: it is none.
    """
    completion = isinstance(value, dict) and "message_bytes" in value
    return from_json(CompletionNonshortestRun if completion else SteadyNonshortestRun, value)


def find_topology(name: str) -> tuple[str, Topology]:
    """(D1, D2, D3 or the text itself, topology)"""
    known = paper.TOPOLOGIES.get(name.upper())
    return (name.upper(), parse_topology(known)) if known else (name, parse_topology(name))


def default_pairs(topology: str, pattern: str) -> tuple[int, ...]:
    """Numbers of pairs from few to as many as Fig. 5 to 7 show ("between two and a few thousands")."""
    most = min(pair_count(find_topology(topology)[1], pattern), 16_896)
    spread = [2 << (2 * k) for k in range(7) if 2 << (2 * k) < most]
    return (*spread, most)


def select(what: NonshortestSelection) -> list[NonshortestPoint]:
    """The points of a selection, checked before anything runs.

    Raises:
        DetourError: the rule that a parameter breaks.
    """
    name, topology = find_topology(what.topology)
    if what.seeds < 1:
        raise DetourError(f"{what.seeds} seeds; at least 1 is needed")
    if min(what.delays_us) < 0:
        raise DetourError("delays of links cannot be negative")
    HostConfig(**dict(what.hosts))
    if not 0 <= what.loss < 1:
        raise DetourError(f"a loss of {what.loss} is no probability below 1")
    for count in what.pairs:
        sample(topology, what.pattern, count, 1)
    points = []
    for chosen in map(scheme, what.schemes):
        _check(topology, chosen, what)
        for count in what.pairs:
            point = _point(name, topology, what, chosen, count)
            points += [
                replace(point, seed=seed, threshold=threshold)
                for seed in range(1, what.seeds + 1)
                for threshold in (what.thresholds if chosen.routing == "adaptive" else (0,))
            ]
    return points


def _check(topology: Topology, chosen: Scheme, what: NonshortestSelection) -> None:
    """Whether the scheme's entries and buffers are possible there."""

    if chosen.paths == "telemetry" and topology.valiant_groups < 3:
        raise DetourError(
            f"{chosen.name} goes by way of a third group; {topology.spec} has {topology.groups} groups of hosts"
        )
    check_routing(topology, chosen.policy)
    for switch in topology.switches:
        cabled = sum(peer is not None for peer in switch.ports)
        buffers = SwitchMemory(headroom_bytes=what.headroom_bytes).of_switch(
            cabled, chosen.lossless, _links(what.delays_us)
        )
        buffers.shared_bytes(cabled)


def _point(name: str, topology: Topology, what: NonshortestSelection, chosen: Scheme, count: int) -> NonshortestPoint:
    """With the first draw of pairs."""
    return extended(
        NonshortestPoint,
        _times(name, topology, chosen, what, count),
        topology=name,
        pattern=what.pattern,
        scheme=chosen.name,
        pairs=count,
        seed=1,
        threshold=0,
        delays_us=what.delays_us,
        headroom_bytes=UNSET if what.headroom_bytes is None else what.headroom_bytes,
        message_bytes=what.message_bytes or UNSET,
        loss=what.loss or UNSET,
        hosts=dict(what.hosts) or UNSET,
        step_bytes=UNSET if what.step_bytes is None else what.step_bytes,
    )


def _times(name: str, topology: Topology, chosen: Scheme, what: NonshortestSelection, count: int) -> RunTimes:
    times = TIMES[what.times]
    shorter = 1 if what.times == "full" else _SHORTER.get((name, what.pattern), 1)
    if shorter > 1:
        least, most = (max(time // shorter, _LEAST_US) for time in (times.least_us, times.most_us))
        times = replace(times, least_us=least, most_us=most)
    if chosen.paths == "telemetry" and what.pattern != "unf" and what.times != "quick":
        scan = max(min(_scan_us(topology, count), _SCAN_MOST_US), _MOVES_US)
        times = replace(times, least_us=max(times.least_us, scan), most_us=max(times.most_us, 3 * scan // 2))
    return times


def _scan_us(topology: Topology, count: int) -> int:
    """Time in which a connection with its share of the ceiling of ADV1 and ADV2 has probed all candidates once: before
    that it cannot have found the path that is free. With D3's 1024 pairs of ADV1 that is 9 ms."""
    candidates = topology.groups - 1
    gbps = candidates * LinkSettings().rate_bps / 1e9 / count
    return round(candidates * HostConfig().delta3 * PACKET_BYTES * 8 / gbps / 1e3)


def _links(delays_us: Sequence[float]) -> LinkSettings:
    host, local, between = (round(delay * US) for delay in delays_us)
    return LinkSettings(host_delay_ps=host, local_delay_ps=local, global_delay_ps=between)


def seconds(point: NonshortestPoint) -> float:
    """Roughly what a point costs on one core; for choosing, not for reporting."""
    topology = find_topology(point.topology)[1]
    pairs = sample(topology, point.pattern, point.pairs, point.seed)
    gbps = ceiling(topology, pairs, shortest_only=point.scheme == "ShortestPath").gbps(LinkSettings().rate_bps)
    packets = gbps * 1e9 / 8 / PACKET_BYTES * point.most_us / 1e6 * 0.8
    return _START_SECONDS + len(topology.switches) / 50 + packets * _HOPS_A_PACKET / _HOPS_A_SECOND


def changed(chosen: Scheme, point: NonshortestPoint) -> Scheme:
    """The scheme with what the point changes about it."""
    chosen = replace(chosen, hosts=(*chosen.hosts, *given(point.hosts, {}).items()))
    if point.step_bytes is not UNSET and isinstance(chosen.ecn, StepMarking):
        chosen = replace(chosen, ecn=StepMarking(Amount(point.step_bytes, "bytes")))
    return chosen


def run(point: NonshortestPoint) -> NonshortestRun:
    """Computes a point."""
    topology = find_topology(point.topology)[1]
    chosen = changed(scheme(point.scheme).with_threshold(point.threshold), point)
    pairs = sample(topology, point.pattern, point.pairs, point.seed)
    memory = SwitchMemory(headroom_bytes=None if point.headroom_bytes is UNSET else point.headroom_bytes)
    loss = given(point.loss, 0.0)
    settings = running.settings(len(pairs), point.seed, _links(point.delays_us), memory, loss)
    most = ceiling(topology, pairs, shortest_only=chosen.routing == "minimal")
    if point.message_bytes is not UNSET:
        kind = CompletionNonshortestRun
        found = running.completion_times(topology, chosen, pairs, settings, point.message_bytes)
    else:
        kind = SteadyNonshortestRun
        found = running.steady_state(topology, chosen, pairs, settings, point.rule)
    return extended(
        kind,
        found,
        topology=point.topology,
        pattern=point.pattern,
        scheme=point.scheme,
        pairs=point.pairs,
        seed=point.seed,
        threshold=point.threshold,
        ceiling_gbps=most.gbps(settings.links.rate_bps),
        ceiling_bound=most.bound,
        loss=loss,
        paper=paper.throughput(point.topology, point.pattern, point.scheme, point.pairs),
    )


# -- results ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gain:
    """By how many percent TelemetryLERP's wire rate is ahead of Benchmark's, and by how many in Table III, where the
    number of pairs is the one that we take for one of its loads."""

    topology: str
    pattern: str
    pairs: int
    gain: float
    load: LoadLevel | None
    paper_gain: float | None

    @property
    def traffic(self) -> TrafficCase:
        """What it was measured on."""
        return TrafficCase(self.topology, self.pattern, self.pairs)


@dataclass(frozen=True)
class NonshortestFindings:
    """`points`: one run for each (topology, pattern, scheme, pairs, seed), Benchmark's with the T that is best over all
    seeds; `gains`: Table III as far as the points cover it."""

    points: Sequence[NonshortestRun]
    gains: Sequence[Gain]


def collect(results: Iterable[NonshortestRun | None]) -> NonshortestFindings:
    """Ours beside the paper's."""
    cells: dict[tuple[TrafficCase, str], dict[int, list[NonshortestRun]]] = {}
    for result in results:
        if result is not None:
            cells.setdefault((result.traffic, result.scheme), {}).setdefault(result.threshold, []).append(result)
    points = [point for cell in cells.values() for point in _with_best_threshold(cell)]
    return NonshortestFindings(points, gains(points))


def _with_best_threshold(cell: dict[int, list[NonshortestRun]]) -> list[NonshortestRun]:
    """The points of the T whose mean over seeds is highest. T is a parameter of the scheme: it does not know which
    pairs will be drawn. One that was not run with as many seeds as others does not count."""
    most = max(map(len, cell.values()))
    chosen = max(
        (threshold for threshold, runs in cell.items() if len(runs) == most),
        key=lambda threshold: mean(cell[threshold], lambda run: run.wire_gbps),
    )
    if cell[chosen][0].scheme != BENCHMARK.name:
        return cell[chosen]
    return [replace(run, wire_gbps_by_threshold=_by_threshold(cell, run.seed)) for run in cell[chosen]]


def _by_threshold(cell: dict[int, list[NonshortestRun]], seed: int) -> dict[str, float]:
    return {str(threshold): run.wire_gbps for threshold, runs in cell.items() for run in runs if run.seed == seed}


def mean(runs: Iterable[NonshortestRun], of: Callable[[NonshortestRun], float]) -> float:
    """Mean of a quantity over runs, mostly those of one scheme with several draws of pairs."""
    return statistics.fmean(map(of, runs))


def gains(points: Sequence[NonshortestRun]) -> list[Gain]:
    """A gain wherever both schemes were run."""
    by_traffic: dict[TrafficCase, dict[str, list[NonshortestRun]]] = {}
    for point in points:
        by_traffic.setdefault(point.traffic, {}).setdefault(point.scheme, []).append(point)
    found = []
    for traffic, runs in by_traffic.items():
        if not runs.keys() >= {TELEMETRY_LERP.name, BENCHMARK.name}:
            continue
        ours, theirs = (mean(runs[chosen.name], lambda run: run.wire_gbps) for chosen in (TELEMETRY_LERP, BENCHMARK))
        if theirs:
            load = paper.load_of(*traffic)
            printed = paper.TABLE_3[traffic.topology, traffic.pattern, load] if load else None
            found.append(Gain(*traffic, round(100 * (ours / theirs - 1), 2), load, printed))
    return found
