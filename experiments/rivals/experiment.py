# SPDX-License-Identifier: Apache-2.0
"""SprayLERP beside ways to choose paths that others have published, and beside the schemes of the non-shortest-path
paper: the same fabric, the same pairs, the same virtual time for all.

A point is one run of one scheme: connections that send without end (throughput, Jain's index), or a message each
(completion times), or endless connections and a global link that breaks or slows down in mid-run (`recovery_us`: the
longest time for which one of the connections that were sending delivered nothing in order). `select` makes the points,
`run` computes one, `collect` makes a cell of the draws of a scheme.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.times import US
from detour.experiments import running
from detour.experiments.measure import RunTimes, jain, settle
from detour.experiments.nonshortest import settings as chosen_settings
from detour.experiments.nonshortest.experiment import find_topology
from detour.experiments.nonshortest.workloads import ceiling
from detour.experiments.rivals.workloads import EVENTS, LOADED, LOADS, RIVAL_PATTERNS, Load, busiest_global_link, draw
from detour.experiments.steady import draws_of, spread
from detour.fabric.footings.virtual.fabric import ENDLESS, VirtualFabric
from detour.fabric.footings.virtual.scheme import (
    BENCHMARK_DCTCP,
    RIVAL_SCHEMES,
    SPRAY_LERP,
    TELEMETRY_LERP,
    TELEMETRY_LERP_EVIDENCE,
    LinkSettings,
    scheme,
)
from detour.topo import Topology
from detour.topo.topology import HostPair

COMPARED = (SPRAY_LERP.name, TELEMETRY_LERP.name, BENCHMARK_DCTCP.name, *(rival.name for rival in RIVAL_SCHEMES))
SIZES = (0, 64_000, 1_000_000, 100_000_000)
"""bytes of a message; 0: connections that send without end"""
TUNED_TOPOLOGY, TUNED = "D1", ("unf", "adv1", "adv2", "advc", "permutation")
"""where settings were chosen: SprayLERP's on the first two, the last two and D1, the papers' schemes' by
`nonshortest.tuning` on the first three"""
_ENDLESS_US = {"quick": 1_500, "normal": 4_000, "full": 12_000}
_EVENT_US, _AFTER_US, _POLL_PS = 400, 1_600, 1 * US
"""a link breaks then; for so long it is watched what becomes of it, and how often"""
_LARGER = 0.4
_HOPS_A_SECOND = 700_000


@dataclass(frozen=True, kw_only=True)
class RivalPoint(RunTimes):
    """One run of one scheme with one draw of pairs. `message_bytes` 0: endless connections."""

    topology: str
    pattern: str
    load: Load | None
    message_bytes: int
    scheme: str
    seed: int
    experiment: Literal["rivals"] = "rivals"


@dataclass(frozen=True)
class RivalSelection:
    """What to run: all combinations that there are. `draws`: of pairs."""

    topologies: Sequence[str]
    patterns: Sequence[str]
    sizes: Sequence[int]
    schemes: Sequence[str]
    draws: int
    extent: str


def usual(extent: str) -> RivalSelection:
    """`quick`: D1 and one draw; `normal`: D1, five; `full`: D1 to D3, two Dragonflies on which nothing was chosen."""
    if extent == "quick":
        some = (
            SPRAY_LERP.name,
            TELEMETRY_LERP.name,
            BENCHMARK_DCTCP.name,
            "TelemetryLERP-evidence",
            "LERP-shortest",
            "REPS",
        )
        patterns = ("unf", "adv1", "permutation", "incast", "failed-link")
        return RivalSelection(("D1",), patterns, (0, 64_000, 1_000_000), some, 1, extent)
    topologies: tuple[str, ...] = ("D1",)
    if extent == "full":
        topologies = ("D1", "D2", "D3", "dragonfly:p=2,a=8,h=4", "dragonfly:p=4,a=4,h=2")
    sizes = SIZES if extent == "full" else SIZES[:3]
    return RivalSelection(topologies, RIVAL_PATTERNS, sizes, COMPARED, draws_of(extent), extent)


def select(what: RivalSelection) -> list[RivalPoint]:
    """The points, checked before anything runs.

    Raises:
        DetourError: no such topology, pattern, size or scheme.
    """
    points = []
    for size in what.sizes:
        if size and not 1 <= size <= 1 << 36:
            raise DetourError(f"a message of {size} bytes; 1 to 2**36 are possible, or 0 for connections without end")
    for name in what.topologies:
        called, topology = find_topology(name)
        for pattern in what.patterns:
            for load in _loads(pattern, what.extent):
                draw(topology, pattern, load, 1)
                for size in _sizes(pattern, what.sizes):
                    first = RivalPoint(
                        virtual_us=_time(topology, what.extent),
                        tolerance=0.02,
                        topology=called,
                        pattern=pattern,
                        load=load,
                        message_bytes=size,
                        scheme="",
                        seed=1,
                    )
                    points += [
                        replace(first, scheme=scheme(one).name, seed=1 + number)
                        for one in what.schemes
                        for number in range(what.draws)
                    ]
    return points


def _loads(pattern: str, extent: str) -> Sequence[Load | None]:
    if pattern not in LOADED:
        return (None,)
    return ("light",) if extent == "quick" else LOADS


def _sizes(pattern: str, sizes: Sequence[int]) -> list[int]:
    """Events are watched with endless connections; an incast and an exchange have an end."""
    if pattern in EVENTS:
        return [0]
    return [size for size in sizes if size or pattern not in ("incast", "all-to-all")]


def _time(topology: Topology, extent: str) -> int:
    """Virtual time of endless connections, us: less on larger fabrics."""
    return round(max(600, _ENDLESS_US[extent] * min(1.0, (72 / len(topology.hosts)) ** _LARGER)))


def seconds(point: RivalPoint) -> float:
    """Roughly what a point costs on one core."""
    topology = find_topology(point.topology)[1]
    pairs = draw(topology, point.pattern, point.load, point.seed)
    gbps = ceiling(topology, pairs).gbps(LinkSettings().rate_bps) * 0.7
    packets = gbps * point.virtual_us * 1e3 / 8 / PACKET_BYTES
    if point.message_bytes:
        packets = len(pairs) * point.message_bytes / 1000 * 1.1
    elif point.pattern in EVENTS:
        packets = gbps * (_EVENT_US + _AFTER_US) * 1e3 / 8 / PACKET_BYTES
    return 4.0 + len(topology.switches) / 50 + packets * 10 / _HOPS_A_SECOND


# -- runs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RivalTimes:
    """Completion times in us."""

    mean: float
    p50: float
    p99: float
    p999: float


@dataclass(frozen=True, kw_only=True)
class RivalRun:
    """What came of a point. `throughput_fraction`: of what the pairs can carry at most (`workloads.ceiling`), on the
    wire; None for single messages. `early`: packets that receivers had to hold because others before them were missing;
    what is a fraction is one of data packets."""

    topology: str
    pattern: str
    load: Load | None
    message_bytes: int
    scheme: str
    seed: int
    pairs: int
    steady: bool
    throughput_fraction: float | None
    goodput_gbps: float
    fct_us: RivalTimes | None
    unfinished: int
    jain: float | None
    recovery_us: float | None
    rtt_us: float | None
    marked_fraction: float
    retransmitted_fraction: float
    detour_fraction: float | None
    timeouts: int
    held_packets_peak: int


def run(point: RivalPoint) -> RivalRun:
    """Computes a point."""
    topology = find_topology(point.topology)[1]
    one = scheme(point.scheme)
    tuned = TELEMETRY_LERP if one is TELEMETRY_LERP_EVIDENCE else one
    if tuned.name in chosen_settings.CANDIDATES:
        one = chosen_settings.chosen(topology, tuned).of(one)
    pairs = draw(topology, point.pattern, point.load, point.seed)
    settings = running.settings(len(pairs), point.seed)
    with running.open_fabric(topology, one, pairs, settings) as fabric:
        if point.message_bytes:
            return _completion(point, fabric)
        if point.pattern in EVENTS:
            return _event(point, topology, fabric, pairs)
        return _endless(point, topology, fabric, pairs)


def _most(topology: Topology, pairs: list[HostPair]) -> float:
    """Gb/s that the pairs can carry, whoever chooses the paths."""
    return ceiling(topology, pairs).gbps(LinkSettings().rate_bps)


def _endless(point: RivalPoint, topology: Topology, fabric: VirtualFabric, pairs: list[HostPair]) -> RivalRun:
    running.start(fabric, ENDLESS)
    found = settle(fabric, point)
    return _summed_up(
        point,
        fabric,
        steady=found.steady,
        throughput_fraction=round(found.wire_gbps / _most(topology, pairs), 4),
        goodput_gbps=round(found.goodput_gbps, 3),
        jain=round(jain(found.per_connection_gbps), 4),
    )


def _completion(point: RivalPoint, fabric: VirtualFabric) -> RivalRun:
    running.start(fabric, point.message_bytes)
    stuck = False
    while fabric.unfinished() and fabric.now_ps < running.FCT_MOST_PS and not stuck:
        fabric.run(fabric.now_ps + running.FCT_POLL_PS)
        stuck = bool(fabric.deadlock())
    times = fabric.completion_times_ps() / US
    last = max(fabric.last_done_ps, 1)
    return _summed_up(
        point,
        fabric,
        goodput_gbps=round(len(times) * point.message_bytes * 8e3 / last, 3),
        fct_us=_times(times) if len(times) else None,
        unfinished=fabric.unfinished(),
    )


def _times(times_us: np.ndarray) -> RivalTimes:
    p50, p99, p999 = (round(float(np.percentile(times_us, p)), 3) for p in (50, 99, 99.9))
    return RivalTimes(round(float(times_us.mean()), 3), p50, p99, p999)


def _event(point: RivalPoint, topology: Topology, fabric: VirtualFabric, pairs: list[HostPair]) -> RivalRun:
    """Endless connections; a link breaks or slows down, and nobody tells switches or senders."""
    running.start(fabric, ENDLESS)
    fabric.run(_EVENT_US * US // 2)
    before = fabric.column("st_rx_delivered").copy()
    fabric.run(_EVENT_US * US)
    sending = fabric.column("st_rx_delivered") > before
    round_trip = float(fabric.column("srtt")[sending].mean()) / US
    link = busiest_global_link(topology, pairs)
    if point.pattern == "failed-link":
        fabric.set_link(link, False)
    else:
        fabric.throttle(link, 0.5)
    silence, rates = _watch(fabric, sending)
    return _summed_up(
        point,
        fabric,
        throughput_fraction=round(rates.sum() / _most(topology, pairs), 4),
        goodput_gbps=round(float(rates.sum()), 3),
        jain=round(jain(rates), 4),
        recovery_us=round(silence / US, 3) if point.pattern == "failed-link" else None,
        rtt_us=round(round_trip, 3),
    )


def _watch(fabric: VirtualFabric, sending: np.ndarray) -> tuple[int, np.ndarray]:
    """(longest time in ps for which one of the connections that were sending delivered nothing in order, goodput of
    every connection in Gb/s over the second half of the time)."""
    begin = fabric.now_ps
    last = fabric.column("st_rx_delivered").copy()
    since = np.full(len(last), begin)
    longest, half, middle = 0, last, begin
    for step in range(1, _AFTER_US * US // _POLL_PS + 1):
        fabric.run(begin + step * _POLL_PS)
        now = fabric.column("st_rx_delivered")
        moved = now > last
        quiet = fabric.now_ps - since
        longest = max(longest, int(quiet[sending].max(initial=0)))
        since[moved] = fabric.now_ps
        last = now.copy()
        if step == _AFTER_US * US // _POLL_PS // 2:
            half, middle = last, fabric.now_ps
    return longest, (last - half) * 8e3 / (fabric.now_ps - middle)


def _summed_up(point: RivalPoint, fabric: VirtualFabric, **found: object) -> RivalRun:
    sent = max(int(fabric.column("st_packets").sum()), 1)
    shortest, detours = fabric.packets_by_path()
    values: dict[str, object] = {
        "topology": point.topology,
        "pattern": point.pattern,
        "load": point.load,
        "message_bytes": point.message_bytes,
        "scheme": point.scheme,
        "seed": point.seed,
        "pairs": fabric.count,
        "steady": False,
        "throughput_fraction": None,
        "fct_us": None,
        "unfinished": 0,
        "jain": None,
        "recovery_us": None,
        "rtt_us": None,
        "marked_fraction": round(int(fabric.column("st_rx_ecn_marked").sum()) / sent, 4),
        "retransmitted_fraction": round(int(fabric.column("st_retransmitted").sum()) / sent, 6),
        "detour_fraction": round(detours / (shortest + detours), 4) if fabric.scheme.routing == "valiant" else None,
        "timeouts": int(fabric.column("st_rtos").sum()),
        "held_packets_peak": int(fabric.column("st_rx_held_peak").max(initial=0)),
    }
    return RivalRun(**(values | found))  # type: ignore[arg-type]


# -- results ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RivalCell:
    """A scheme on a workload: means over `draws`; `spread`: the sample standard deviation of `throughput_fraction`, or
    of the p99 where messages are counted, None of one draw. `chosen_on`: something was set by how it does here, for one
    of the schemes at least; the rest is the hold-out. `recovery_us`: the longest of the
    draws; `rtt_us`: the mean smoothed round trip of connections before the link broke."""

    topology: str
    pattern: str
    load: Load | None
    pairs: int
    message_bytes: int
    scheme: str
    chosen_on: bool
    steady: bool
    throughput_fraction: float | None
    fct_us: RivalTimes | None
    jain: float | None
    recovery_us: float | None
    rtt_us: float | None
    draws: int
    spread: float | None
    goodput_gbps: float
    unfinished: int
    marked_fraction: float
    retransmitted_fraction: float
    detour_fraction: float | None
    timeouts: int
    held_packets_peak: int


@dataclass(frozen=True)
class RivalFindings:
    """`cells`: in the order of the points."""

    cells: Sequence[RivalCell]


def collect(results: Iterable[RivalRun | None]) -> RivalFindings:
    """A cell of every scheme's draws."""
    runs: dict[tuple[object, ...], list[RivalRun]] = {}
    for one in results:
        if one is not None:
            runs.setdefault((one.topology, one.pattern, one.load, one.message_bytes, one.scheme), []).append(one)
    return RivalFindings([_cell(some) for some in runs.values()])


def _cell(runs: list[RivalRun]) -> RivalCell:
    one = runs[0]
    fractions = [run.throughput_fraction for run in runs if run.throughput_fraction is not None]
    times = [run.fct_us for run in runs if run.fct_us is not None]
    silences = [run.recovery_us for run in runs if run.recovery_us is not None]
    wide = spread(fractions) if fractions else spread([run.p99 for run in times])
    detours = [run.detour_fraction for run in runs if run.detour_fraction is not None]
    fairness = [run.jain for run in runs if run.jain is not None]
    return RivalCell(
        topology=one.topology,
        pattern=one.pattern,
        load=one.load,
        pairs=one.pairs,
        message_bytes=one.message_bytes,
        scheme=one.scheme,
        chosen_on=one.topology == TUNED_TOPOLOGY and one.pattern in TUNED and one.message_bytes == 0,
        steady=all(run.steady for run in runs),
        throughput_fraction=_mean(fractions, 4),
        fct_us=_mean_times(times),
        jain=_mean(fairness, 4),
        recovery_us=max(silences, default=None),
        rtt_us=_mean([run.rtt_us for run in runs if run.rtt_us is not None], 3),
        draws=len(runs),
        spread=None if wide is None else round(wide, 4),
        goodput_gbps=round(statistics.fmean(run.goodput_gbps for run in runs), 3),
        unfinished=sum(run.unfinished for run in runs),
        marked_fraction=round(statistics.fmean(run.marked_fraction for run in runs), 4),
        retransmitted_fraction=round(statistics.fmean(run.retransmitted_fraction for run in runs), 6),
        detour_fraction=_mean(detours, 4),
        timeouts=sum(run.timeouts for run in runs),
        held_packets_peak=max(run.held_packets_peak for run in runs),
    )


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(statistics.fmean(values), digits) if values else None


def _mean_times(times: Sequence[RivalTimes]) -> RivalTimes | None:
    if not times:
        return None
    names = ("mean", "p50", "p99", "p999")
    return RivalTimes(*(round(statistics.fmean(getattr(one, name) for one in times), 3) for name in names))
