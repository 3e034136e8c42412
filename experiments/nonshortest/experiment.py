# SPDX-License-Identifier: Apache-2.0
"""Section IV of the non-shortest-path paper: four schemes, three Dragonflies, three workloads, N connections each.

A point is one run of one scheme on one topology with one draw of pairs. `select` makes the list of points, `run` is
what a sweep calls for each, `collect` puts results beside the paper's.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.policy import Amount, StepMarking
from detour.control.routes.adaptive import check_routing
from detour.experiments import running
from detour.experiments.measure import Rule
from detour.experiments.nonshortest import paper
from detour.experiments.nonshortest.workloads import ceiling, pair_count, sample
from detour.experiments.store import Point
from detour.fabric.footings.virtual.scheme import BENCHMARK, SCHEMES, LinkSettings, Scheme, SwitchMemory, scheme
from detour.hosts.config import HostConfig
from detour.topo import Topology, parse_topology

WORKER = "detour.experiments.nonshortest.experiment:run"

THRESHOLDS = (0, 10, 20, 30)
"""T of Benchmark in packets; with `best` each of its points is run with all of them and the best one counts"""
DEFAULT_THRESHOLD = 10
"""T where it is not swept"""

TIMES = {
    "quick": {"least_us": 600, "most_us": 1_600, "tolerance": 0.03},
    "normal": {"least_us": 2_000, "most_us": 6_000, "tolerance": 0.02},
    "full": {"least_us": 4_000, "most_us": 20_000, "tolerance": 0.01},
}
"""virtual time of a run, see `measure.Rule`"""
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


def find_topology(name: str) -> tuple[str, Topology]:
    """(D1, D2, D3 or the text itself, topology)"""
    known = paper.TOPOLOGIES.get(name.upper())
    return (name.upper(), parse_topology(known)) if known else (name, parse_topology(name))


def default_pairs(topology: str, pattern: str) -> tuple[int, ...]:
    """Numbers of pairs from few to as many as Fig. 5 to 7 show ("between two and a few thousands")."""
    most = min(pair_count(find_topology(topology)[1], pattern), 16_896)
    spread = [2 << (2 * k) for k in range(7) if 2 << (2 * k) < most]
    return (*spread, most)


def select(what: NonshortestSelection) -> list[Point]:
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
    for scheme_name in what.schemes:
        chosen = scheme(scheme_name)
        _check(topology, chosen, what)
        for count in what.pairs:
            for seed in range(1, what.seeds + 1):
                for threshold in what.thresholds if chosen.routing == "adaptive" else (0,):
                    points.append(_point(name, topology, what, chosen, count, seed, threshold))
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


def _point(
    name: str, topology: Topology, what: NonshortestSelection, chosen: Scheme, count: int, seed: int, threshold: int
) -> Point:
    point: Point = {
        "experiment": "nonshortest",
        "topology": name,
        "pattern": what.pattern,
        "scheme": chosen.name,
        "pairs": count,
        "seed": seed,
        "threshold": threshold,
        "delays_us": list(what.delays_us),
        **_times(name, topology, chosen, what, count),
    }
    if what.headroom_bytes is not None:
        point["headroom_bytes"] = what.headroom_bytes
    if what.message_bytes:
        point["message_bytes"] = what.message_bytes
    if what.loss:
        point["loss"] = what.loss
    if what.hosts:
        point["hosts"] = dict(what.hosts)
    if what.step_bytes is not None:
        point["step_bytes"] = what.step_bytes
    return point


def _times(name: str, topology: Topology, chosen: Scheme, what: NonshortestSelection, count: int) -> dict[str, float]:
    times: dict[str, float] = dict(TIMES[what.times])
    shorter = 1 if what.times == "full" else _SHORTER.get((name, what.pattern), 1)
    if shorter > 1:
        times |= {key: max(times[key] // shorter, _LEAST_US) for key in ("least_us", "most_us")}
    if chosen.paths == "telemetry" and what.pattern != "unf" and what.times != "quick":
        scan = max(min(_scan_us(topology, count), _SCAN_MOST_US), _MOVES_US)
        times |= {"least_us": max(times["least_us"], scan), "most_us": max(times["most_us"], 3 * scan // 2)}
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


def rule_of(point: Point) -> Rule:
    """The rule for steady state that a point asks for."""
    return Rule(tolerance=point["tolerance"], least_ps=point["least_us"] * US, most_ps=point["most_us"] * US)


def seconds(point: Point) -> float:
    """Roughly what a point costs on one core; for choosing, not for reporting."""
    topology = find_topology(point["topology"])[1]
    pairs = sample(topology, point["pattern"], point["pairs"], point["seed"])
    gbps = ceiling(topology, pairs, shortest_only=point["scheme"] == "ShortestPath").gbps(LinkSettings().rate_bps)
    packets = gbps * 1e9 / 8 / PACKET_BYTES * point["most_us"] / 1e6 * 0.8
    return _START_SECONDS + len(topology.switches) / 50 + packets * _HOPS_A_PACKET / _HOPS_A_SECOND


def changed(chosen: Scheme, point: Point) -> Scheme:
    """The scheme with what the point changes about it."""
    chosen = replace(chosen, hosts=(*chosen.hosts, *point.get("hosts", {}).items()))
    if "step_bytes" in point and isinstance(chosen.ecn, StepMarking):
        chosen = replace(chosen, ecn=StepMarking(Amount(point["step_bytes"], "bytes")))
    return chosen


def run(point: Point) -> dict[str, Any]:
    """Computes a point."""
    topology = find_topology(point["topology"])[1]
    chosen = changed(scheme(point["scheme"]).with_threshold(point["threshold"]), point)
    pairs = sample(topology, point["pattern"], point["pairs"], point["seed"])
    memory = SwitchMemory(headroom_bytes=point.get("headroom_bytes"))
    settings = running.settings(len(pairs), point["seed"], _links(point["delays_us"]), memory, point.get("loss", 0.0))
    most = ceiling(topology, pairs, shortest_only=chosen.routing == "minimal")
    if message := point.get("message_bytes"):
        found = running.completion_times(topology, chosen, pairs, settings, message)
    else:
        found = running.steady_state(topology, chosen, pairs, settings, rule_of(point))
    names = ("topology", "pattern", "scheme", "pairs", "seed", "threshold")
    return {
        **{name: point[name] for name in names},
        "ceiling_gbps": most.gbps(settings.links.rate_bps),
        "ceiling_bound": most.bound,
        "loss": point.get("loss", 0.0),
        "paper": paper.throughput(point["topology"], point["pattern"], point["scheme"], point["pairs"]),
        **found,
    }


# -- results ------------------------------------------------------------------------------------------------


def collect(results: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
    """`points`, one for each (topology, pattern, scheme, pairs, seed), Benchmark's with the T that is best over all
    seeds; and `gains`, Table III as far as the points cover it."""
    cells: dict[tuple[Any, ...], dict[int, list[dict[str, Any]]]] = {}
    for result in results:
        if result is not None:
            key = tuple(result[name] for name in ("topology", "pattern", "scheme", "pairs"))
            cells.setdefault(key, {}).setdefault(result["threshold"], []).append(result)
    points = [point for cell in cells.values() for point in _with_best_threshold(cell)]
    return {"points": points, "gains": gains(points)}


def _with_best_threshold(cell: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The points of the T whose mean over seeds is highest. T is a parameter of the scheme: it does not know which
    pairs will be drawn. One that was not run with as many seeds as others does not count."""
    most = max(map(len, cell.values()))
    chosen = max(
        (threshold for threshold, runs in cell.items() if len(runs) == most),
        key=lambda threshold: statistics.fmean(run["wire_gbps"] for run in cell[threshold]),
    )
    points = [dict(run) for run in cell[chosen]]
    for point in points:
        if point["scheme"] == BENCHMARK.name:
            point["wire_gbps_by_threshold"] = {
                str(threshold): run["wire_gbps"]
                for threshold, runs in cell.items()
                for run in runs
                if run["seed"] == point["seed"]
            }
    return points


def mean_gbps(
    points: Iterable[dict[str, Any]], topology: str, pattern: str, scheme_name: str, pairs: int
) -> float | None:
    """Mean wire rate over seeds, `None` without any."""
    wanted = topology, pattern, scheme_name, pairs
    found = [
        p["wire_gbps"] for p in points if (p["topology"], p["pattern"], p["scheme"], p["pairs"]) == wanted
    ]  # fmt: skip
    return statistics.fmean(found) if found else None


def gains(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By how many percent TelemetryLERP is ahead of Benchmark, wherever both were run; beside Table III where the
    number of pairs is the one that we take for its loads."""
    keys = dict.fromkeys((p["topology"], p["pattern"], p["pairs"]) for p in points)
    found = []
    for topology, pattern, pairs in keys:
        ours = mean_gbps(points, topology, pattern, "TelemetryLERP", pairs)
        theirs = mean_gbps(points, topology, pattern, "Benchmark", pairs)
        if ours is None or not theirs:
            continue
        load = paper.load_of(topology, pattern, pairs)
        found.append(
            {
                "topology": topology,
                "pattern": pattern,
                "pairs": pairs,
                "gain": round(100 * (ours / theirs - 1), 2),
                "load": load,
                "paper_gain": paper.TABLE_3[topology, pattern, load] if load else None,
            }
        )
    return found
