# SPDX-License-Identifier: Apache-2.0
"""Section IV of the non-shortest-path paper: four schemes, three Dragonflies, three workloads, N connections each.

A point is one run of one scheme on one topology with one draw of pairs. `select` makes the list of points, `run` is
what a sweep calls for each, `collect` puts results beside the paper's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, UnsetType

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.plugins import split
from detour.base.records import from_json, given
from detour.base.times import US
from detour.control.graph_files import open_topology
from detour.control.planner import check_policy
from detour.experiments import running
from detour.experiments.columns import cell, grouped, row, shown, taken
from detour.experiments.nonshortest import paper, settings
from detour.experiments.nonshortest.additions import undo
from detour.experiments.nonshortest.paper import LoadLevel
from detour.experiments.nonshortest.settings import THRESHOLDS, Setting
from detour.experiments.nonshortest.workloads import PATTERNS, ceiling, pair_count, pairs_of_load, sample
from detour.experiments.running import CompletionRun, MeasuredRun, RunTimes, SteadyRun
from detour.experiments.steady import TOLERANCE, draws_of, spread
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK,
    BENCHMARK_DCTCP,
    SCHEMES,
    TELEMETRY_LERP,
    Control,
    LinkSettings,
    Scheme,
    SwitchMemory,
    scheme,
)
from detour.fabric.backends.virtual.scheme import scheme as scheme_named
from detour.hosts.cc import pinned
from detour.hosts.parameters import host_changes, host_config
from detour.topo import Topology

PREAMBLE_BYTES = 20
"""preamble, start of frame delimiter and the gap between frames (IEEE 802.3)"""
_FEW_LINKS_US = {"quick": 4_000, "tune": 12_000, "normal": 24_000, "full": 60_000}
"""virtual time of a run of ADV1 and ADV2, which all schemes get; DCQCN takes 10 ms to recover from a common start"""
_ALL_LINKS_US = {"quick": 1_600, "tune": 4_000, "normal": 6_000, "full": 20_000}
"""where traffic fills a fabric of 72 hosts; less on larger ones (`run_times`), as a packet hour has so many more"""
_LEAST_US = {"quick": 1_000, "tune": 1_200, "normal": 2_400, "full": 6_000}
_LARGER = 0.4
"""exponent: 342 hosts get 54 %, 1056 hosts 34 % of the time"""
_TOLERANCE = {"quick": 0.02}

_HOPS_A_PACKET = 10
"""switches that a data packet and its ACK pass, roughly"""
_HOPS_A_SECOND = 1_200_000
_START_SECONDS = 4.0


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The conditions of a run beside its scheme and its traffic; UNSET: as usual. `delays_us`: of links to hosts,
    inside groups, between groups. `message_bytes`: UNSET: endless connections; else one message each and completion
    times. `loss`: probability with which a link between switches loses a frame. `hosts`: changes to `HostConfig` on top
    of a scheme's own. `overhead_bytes`: what a frame takes on a link beside its own bytes. `without`: the name of an
    addition that is left out."""

    delays_us: tuple[float, float, float] = (1.0, 1.0, 1.0)
    headroom_bytes: int | UnsetType = UNSET
    message_bytes: int | UnsetType = UNSET
    loss: float | UnsetType = UNSET
    hosts: dict[str, Any] | UnsetType = UNSET
    overhead_bytes: int | UnsetType = UNSET
    without: str | UnsetType = UNSET


@dataclass(frozen=True)
class NonshortestSelection(Conditions):
    """A selection of runs. `seeds`: that many draws of pairs, from `first_seed` on. `thresholds`: T of Benchmark; with
    several each of its points is run with all of them and the best one counts; None: the one that was chosen for it.
    `times`: how long runs are, see `run_times`. `settings`: by scheme, others than those that were chosen.
    `step_bytes`: K of the schemes that mark by steps, `None`: theirs. `control`: another congestion control for all
    schemes (`hosts.cc.pinned`)."""

    topology: str
    pattern: str
    pairs: tuple[int, ...]
    schemes: tuple[str, ...] = tuple(SCHEMES)
    seeds: int = 1
    thresholds: tuple[int, ...] | None = None
    times: str = "normal"
    settings: tuple[tuple[str, Setting], ...] = ()
    step_bytes: int | None = None
    first_seed: int = 1
    control: str = ""


@dataclass(frozen=True, kw_only=True)
class NonshortestPoint(Conditions, RunTimes):
    """One run of one scheme with one draw of pairs; see `Setting` for what a scheme is set to."""

    topology: str
    pattern: str
    scheme: str
    pairs: int
    seed: int
    threshold: int
    control: Control
    ecn_bytes: tuple[int, ...]
    pmax: float
    experiment: Literal["nonshortest"] = "nonshortest"

    @property
    def setting(self) -> Setting:
        """The scheme's setting."""
        return Setting(self.control, self.ecn_bytes, self.pmax, self.threshold)


class TrafficCase(NamedTuple):
    """The traffic on which schemes are compared."""

    topology: str
    pattern: str
    pairs: int


@dataclass(frozen=True, kw_only=True)
class NonshortestRun(MeasuredRun):
    """The result of a point. `ceiling_gbps`: the most that its pairs can carry; `ceiling_bound`: which bound says so;
    `paper`: the throughput in Gb/s that the paper states; `draws`: runs of this scheme on this traffic, with other
    draws of pairs; `spread`: the sample standard deviation of their `wire_gbps`, None of one; `setting`: the scheme's
    setting; `wire_gbps_by_threshold`: only where Benchmark had several T, of all of them."""

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
    setting: str
    draws: int = 1
    spread: float | None = None
    hosts: dict[str, float | bool] | UnsetType = UNSET
    without: str | UnsetType = UNSET
    wire_gbps_by_threshold: dict[str, float] | UnsetType = UNSET

    @property
    def traffic(self) -> TrafficCase:
        """The traffic on which it is compared with other schemes."""
        return TrafficCase(self.topology, self.pattern, self.pairs)

    @property
    def changes(self) -> str:
        """Its changes to the hosts' parameters in words; empty without any."""
        words = {True: "yes", False: "no"}
        changed = given(self.hosts, {}).items()
        return ", ".join(f"{key} = {words[v] if isinstance(v, bool) else format(v, 'g')}" for key, v in changed)


@dataclass(frozen=True, kw_only=True)
class SteadyNonshortestRun(NonshortestRun, SteadyRun):
    """A run of endless connections."""


@dataclass(frozen=True, kw_only=True)
class CompletionNonshortestRun(NonshortestRun, CompletionRun):
    """A run of one message for each connection."""


def decode(value: Any) -> NonshortestRun:
    """A run of JSON. Raises `DetourError`: it is none."""
    completion = isinstance(value, dict) and "message_bytes" in value
    return from_json(CompletionNonshortestRun if completion else SteadyNonshortestRun, value)


def find_topology(name: str) -> tuple[str, Topology]:
    """(D1, D2, D3 or the text itself, topology). Of a file or of code of one's own the text says in which state. Raises
    `DetourError`: there is no such topology, or its links have rates of their own, which ceilings do not count."""
    if name.upper() in paper.TOPOLOGIES:
        return name.upper(), settings.papers_topology(name.upper())
    topology = open_topology(name)
    if topology.rate_bps or any(link.speed != 1 or link.delay_ps is not None for link in topology.links):
        raise DetourError(f"{name}: its links have different rates or delays; this experiment needs equal links")
    return (topology.spec if "#" in topology.spec else name), topology


def default_pairs(topology: str, pattern: str) -> tuple[int, ...]:
    """Numbers of pairs from few to as many as Fig. 5 to 7 show ("between two and a few thousands")."""
    most = min(pair_count(find_topology(topology)[1], pattern), 16_896)
    spread = [2 << (2 * k) for k in range(7) if 2 << (2 * k) < most]
    return (*spread, most)


def select(what: NonshortestSelection) -> list[NonshortestPoint]:
    """The points of a selection, checked before anything runs. Raises `DetourError`: the rule that a parameter
    breaks."""
    name, topology = find_topology(what.topology)
    if what.seeds < 1:
        raise DetourError(f"{what.seeds} seeds; expected at least 1")
    if min(what.delays_us) < 0:
        raise DetourError("delays of links cannot be negative")
    host_config(**given(what.hosts, {}))
    if not 0 <= given(what.loss, 0.0) < 1:
        raise DetourError(f"a loss of {what.loss} is not a probability below 1")
    for count in what.pairs:
        sample(topology, what.pattern, count, 1)
    points = []
    for chosen in map(scheme, what.schemes):
        _check(topology, chosen, what)
        if what.without is not UNSET:
            undo(chosen, what.without)
        point = _point(name, topology, what, chosen)
        by_load = split(chosen.routing)[0] == "adaptive"
        thresholds = what.thresholds if by_load and what.thresholds else (point.threshold,)
        points += [
            replace(point, pairs=count, seed=what.first_seed + draw, threshold=threshold)
            for count in what.pairs
            for draw in range(what.seeds)
            for threshold in thresholds
        ]
    return points


def selection(
    extent: str = "normal",
    *,
    topology: str = "D1",
    pattern: str = "adv1",
    pairs: Sequence[int] = (),
    scheme: str = "all",
    seeds: int | None = None,
    threshold: str | None = None,
    control: str = "",
    hosts: Sequence[str] = (),
    preamble: bool = False,
    **more: Any,
) -> NonshortestSelection:
    """Make a selection from words: `scheme` a name or `all`, `threshold` a number or `best`, `hosts` like `delta3=50`;
    `more`: see `NonshortestSelection`. Raises `DetourError`: the word that means nothing."""
    if threshold is not None and threshold != "best" and not threshold.isdecimal():
        raise DetourError(f"--threshold {threshold!r} is neither `best` nor a number of packets")
    return NonshortestSelection(
        topology,
        pattern,
        tuple(pairs or default_pairs(topology, pattern)),
        tuple(SCHEMES) if scheme == "all" else (scheme_named(scheme).name,),
        seeds=draws_of(extent) if seeds is None else seeds,
        thresholds=None if threshold is None else THRESHOLDS if threshold == "best" else (int(threshold),),
        times=extent,
        control=pinned(control) if control else "",
        hosts=dict(host_changes(hosts)),
        overhead_bytes=PREAMBLE_BYTES if preamble else UNSET,
        **more,
    )


def select_asked(extent: str = "normal", **asked: Any) -> list[NonshortestPoint]:
    """The points of what is asked for in words."""
    return select(selection(extent, **asked))


def run_times(topology: Topology, pattern: str, extent: str) -> RunTimes:
    """The virtual time of a run, which depends on topology and pattern only: all schemes and loads get the same.
    `extent`: `quick`, `tune`, `normal` or `full`."""
    time = _FEW_LINKS_US[extent]
    if pattern not in ("adv1", "adv2"):
        scaled = _ALL_LINKS_US[extent] * (72 / len(topology.hosts)) ** _LARGER
        time = max(round(min(scaled, _ALL_LINKS_US[extent]), -2), _LEAST_US[extent])
    return RunTimes(virtual_us=int(time), tolerance=_TOLERANCE.get(extent, TOLERANCE))


def _check(topology: Topology, chosen: Scheme, what: NonshortestSelection) -> None:
    """Return whether the scheme's entries and buffers are possible there."""
    if chosen.paths == "probing" and topology.valiant_groups < 3:
        groups = f"{topology.spec} has {topology.groups} groups of hosts"
        raise DetourError(f"{chosen.name} uses a third group; {groups}")
    check_policy(topology, chosen.policy)
    memory, links = SwitchMemory(headroom_bytes=given(what.headroom_bytes, None)), _links(what.delays_us)
    for switch in topology.switches:
        cabled = sum(peer is not None for peer in switch.ports)
        memory.of_switch(cabled, chosen.lossless, links).shared_bytes(cabled)


def _point(name: str, topology: Topology, what: NonshortestSelection, plain: Scheme) -> NonshortestPoint:
    """Return a scheme's point, with the first number and draw of pairs."""
    setting = dict(what.settings).get(plain.name) or settings.chosen(topology, plain)
    if what.step_bytes is not None and len(setting.ecn_bytes) == 1:
        setting = replace(setting, ecn_bytes=(what.step_bytes,))
    times = run_times(topology, what.pattern, what.times)
    draw = {"topology": name, "scheme": plain.name, "pairs": what.pairs[0], "seed": what.first_seed}
    changes = {"control": what.control or setting.control, "loss": what.loss or UNSET, "hosts": what.hosts or UNSET}
    return taken(NonshortestPoint, what, times, setting, **draw, **changes)


def _links(delays_us: Sequence[float], overhead_bytes: int = 0) -> LinkSettings:
    host, local, between = (round(delay * US) for delay in delays_us)
    delays = {"host_delay_ps": host, "local_delay_ps": local, "global_delay_ps": between}
    return LinkSettings(**delays, overhead_bytes=overhead_bytes)


def seconds(point: NonshortestPoint) -> float:
    """Roughly what a point costs on one core; for choosing, not for reporting."""
    topology = find_topology(point.topology)[1]
    pairs = sample(topology, point.pattern, point.pairs, point.seed)
    gbps = ceiling(topology, pairs, shortest_only=point.scheme == "ShortestPath").gbps(LinkSettings().rate_bps)
    packets = gbps * 1e9 / 8 / PACKET_BYTES * point.virtual_us / 1e6 * 0.8
    return _START_SECONDS + len(topology.switches) / 50 + packets * _HOPS_A_PACKET / _HOPS_A_SECOND


def changed(plain: Scheme, point: NonshortestPoint) -> Scheme:
    """The scheme with what the point sets it to and changes about it."""
    tuned = point.setting.of(plain)
    if point.without is not UNSET:
        tuned = undo(tuned, point.without)
    return replace(tuned, hosts=(*tuned.hosts, *given(point.hosts, {}).items()))


def run(point: NonshortestPoint) -> NonshortestRun:
    topology = find_topology(point.topology)[1]
    chosen = changed(scheme(point.scheme), point)
    pairs = sample(topology, point.pattern, point.pairs, point.seed)
    memory = SwitchMemory(headroom_bytes=given(point.headroom_bytes, None))
    loss = given(point.loss, 0.0)
    links = _links(point.delays_us, given(point.overhead_bytes, 0))
    terms = topology, chosen, pairs, running.settings(len(pairs), point.seed, links, memory, loss)
    most = ceiling(topology, pairs, shortest_only=chosen.routing == "minimal")
    if point.message_bytes is not UNSET:
        kind, measured = CompletionNonshortestRun, running.completion_times(*terms, point.message_bytes)
    else:
        kind, measured = SteadyNonshortestRun, running.steady_state(*terms, point)
    return taken(
        kind,
        measured,
        point,
        ceiling_gbps=most.gbps(links.rate_bps),
        ceiling_bound=most.bound,
        loss=loss,
        paper=paper.throughput(point.topology, point.pattern, point.scheme, point.pairs),
        setting=point.setting.text(point.scheme),
    )


def load_of(topology: str, pattern: str, pairs: int) -> LoadLevel | None:
    """The load of Table III that this number of pairs stands for, if it does and the topology is one of the paper's."""
    if topology not in paper.TOPOLOGIES or pattern not in PATTERNS:
        return None
    network = find_topology(topology)[1]
    return next((load for load in paper.LOADS if pairs_of_load(network, pattern, load) == pairs), None)


# -- results ------------------------------------------------------------------------------------------------


@row
class Gain:
    """By how many percent TelemetryLERP's wire rate is ahead of a rival's, and by how many it is ahead of Benchmark's
    in Table III, where the number of pairs is the one that we take for one of its loads. `draws`: of pairs, with which
    both were run; `spread`: the sample standard deviation of the gain over them; `steady`: all of these runs were."""

    topology: str = shown("topology")
    pattern: str = shown("pattern", str.upper, wide=True)
    pairs: int = shown("pairs", ",")
    load: LoadLevel | None = shown("load", left=True, wide=True)
    rival: str = shown("rival", default=BENCHMARK.name)
    gain: float
    steady: bool = True

    @cell("ahead by %")
    def _ahead(self) -> str:
        return f"{self.gain:+.1f}{'' if self.steady else ' *'}"

    spread: float | None = shown("±", ".1f", means="standard deviation over draws of pairs", default=None)
    paper_gain: float | None = shown("paper %", "+.0f")
    draws: int = 1

    @property
    def traffic(self) -> TrafficCase:
        """The traffic on which it was measured."""
        return TrafficCase(self.topology, self.pattern, self.pairs)


@dataclass(frozen=True)
class NonshortestFindings:
    """`points`: one run for each (topology, pattern, scheme, pairs, seed), Benchmark's with the T that is best over all
    seeds; `gains`: Table III as far as the points cover it, over Benchmark and over its variant with DCTCP."""

    points: Sequence[NonshortestRun]
    gains: Sequence[Gain]


def collect(results: Iterable[NonshortestRun]) -> NonshortestFindings:
    """Ours beside the paper's."""
    points: list[NonshortestRun] = []
    for draws in grouped(results, lambda run: (run.traffic, run.scheme)).values():
        runs = _with_best_threshold(draws)
        between = spread([run.wire_gbps for run in runs], 3)
        points += [replace(run, draws=len(runs), spread=between) for run in runs]
    return NonshortestFindings(points, gains(points))


def _with_best_threshold(cell: Sequence[NonshortestRun]) -> Sequence[NonshortestRun]:
    """The points of the T whose mean over seeds is highest. T is a parameter of the scheme: it does not know which
    pairs will be drawn. One that was not run with as many seeds as others does not count."""
    by_threshold = grouped(cell, lambda run: run.threshold)
    if len(by_threshold) == 1:
        return cell
    most = max(map(len, by_threshold.values()))
    whole = [runs for runs in by_threshold.values() if len(runs) == most]
    by_seed: dict[int, dict[str, float]] = {}
    for run in chain(*by_threshold.values()):
        by_seed.setdefault(run.seed, {})[str(run.threshold)] = run.wire_gbps
    chosen = max(whole, key=lambda runs: mean(runs, lambda run: run.wire_gbps))
    return [replace(run, wire_gbps_by_threshold=by_seed[run.seed]) for run in chosen]


def mean(runs: Iterable[NonshortestRun], of: Callable[[NonshortestRun], float]) -> float:
    """Mean of a quantity over runs, mostly those of one scheme with several draws of pairs."""
    return statistics.fmean(map(of, runs))


def gains(points: Sequence[NonshortestRun]) -> list[Gain]:
    """A gain wherever both schemes were run."""
    runs = grouped(points, lambda point: (point.traffic, point.scheme))
    measured = [
        gain_over(traffic, runs.get((traffic, TELEMETRY_LERP.name), ()), runs.get((traffic, rival), ()))
        for rival in (BENCHMARK.name, BENCHMARK_DCTCP.name)
        for traffic in dict.fromkeys(point.traffic for point in points)
    ]
    return [gain for gain in measured if gain]


def gain_over(traffic: TrafficCase, ours: Sequence[NonshortestRun], theirs: Sequence[NonshortestRun]) -> Gain | None:
    """By how much runs are ahead of others, on the draws of which both were run; None if there is none, or nothing
    arrived."""
    pairs = [(a, b) for a in ours for b in theirs if a.seed == b.seed]
    if not pairs or not any(b.wire_gbps for _, b in pairs):
        return None
    gains = [100 * (a.wire_gbps / b.wire_gbps - 1) for a, b in pairs if b.wire_gbps]
    whole = 100 * (sum(a.wire_gbps for a, _ in pairs) / sum(b.wire_gbps for _, b in pairs) - 1)
    load = load_of(*traffic)
    printed = paper.TABLE_3[traffic.topology, traffic.pattern, load] if load else None
    steady = all(a.steady and b.steady for a, b in pairs)
    terms: dict[str, Any] = {"load": load, "paper_gain": printed, "rival": theirs[0].scheme, "draws": len(pairs)}
    return Gain(**traffic._asdict(), **terms, gain=round(whole, 2), spread=spread(gains, 2), steady=steady)
