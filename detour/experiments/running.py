# SPDX-License-Identifier: Apache-2.0
"""Running a scheme in virtual time and measuring it: time series, steady state (`steady` says when), completion times,
deadlocks, counters. A result holds nothing of the machine that computed it, so equal points have equal results.

Wire rate counts the data packets that arrived at hosts, whole frames from Ethernet header to ICRC, also those that
arrived twice; goodput is payload that arrived for the first time. ACKs and probes are in neither. Where links take more
for a frame than its bytes (`LinkSettings.overhead_bytes`), that counts as well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.base.records import extended
from detour.base.times import US
from detour.control import schema
from detour.experiments.steady import BATCH_INTERVALS, TOLERANCE, judge
from detour.fabric.backends.virtual.fabric import ENDLESS, VirtualFabric
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings, Scheme, SwitchMemory
from detour.fabric.backends.virtual.watch import QueueId, queue_name
from detour.topo import Topology
from detour.topo.topology import HostPair

INTERVALS = 300
"""of a run; a rate each"""
_LEAST_US = 300


@dataclass(frozen=True, kw_only=True)
class RunTimes:
    """Virtual time of a run, the same for all schemes, and how level its rate has to be (`steady.judge`)."""

    virtual_us: int
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.virtual_us < _LEAST_US:
            raise DetourError(f"a run of {self.virtual_us} us is too short; expected at least {_LEAST_US} us")
        if not 0 < self.tolerance < 1:
            raise DetourError(f"a tolerance of {self.tolerance} is not a fraction between 0 and 1")

    @property
    def interval_ps(self) -> int:
        """The interval of the series."""
        return self.virtual_us * US // INTERVALS


@dataclass(frozen=True)
class Series:
    """Rates in Gb/s, one element an interval."""

    interval_us: float
    wire_gbps: list[float] = field(default_factory=list)
    goodput_gbps: list[float] = field(default_factory=list)

    def rounded(self, digits: int) -> Series:
        """The same with so many digits behind the point."""
        wire, goodput = ([round(value, digits) for value in rates] for rates in (self.wire_gbps, self.goodput_gbps))
        return Series(self.interval_us, wire, goodput)


@dataclass(frozen=True)
class Steady:
    """The steady state of a run. `warm_s`: virtual time until it was warm; `per_connection_gbps`: (connections,)
    goodput from then on; `deadlock`: (device, port, priority) of queues that can never move again: the run ended
    there."""

    wire_gbps: float
    goodput_gbps: float
    steady: bool
    warm_s: float
    series: Series
    per_connection_gbps: np.ndarray
    deadlock: list[tuple[int, int, int]] = field(default_factory=list)
    seconds: float = 0.0
    """virtual time from the first packet to the end of the run"""


def _arrived(fabric: VirtualFabric) -> tuple[int, np.ndarray]:
    """(data bytes on the wire so far, (connections,) payload bytes that arrived for the first time)"""
    packets = fabric.column("st_rx_packets").sum() + fabric.column("st_rx_duplicates").sum()
    size = PACKET_BYTES + fabric.settings.links.overhead_bytes
    return int(packets) * size, fabric.column("st_rx_bytes")


def settle(fabric: VirtualFabric, times: RunTimes) -> Steady:
    """Run a fabric on which connections send without end for the time of a run, or until it is deadlocked, and judge
    its rate."""
    series, interval = Series(times.interval_ps / US), times.interval_ps
    begin, stuck = fabric.now_ps, []
    wire, payload = _arrived(fabric)
    counted = [payload]
    for number in range(1, INTERVALS + 1):
        fabric.run(begin + number * interval)
        before = wire, payload
        wire, payload = _arrived(fabric)
        series.wire_gbps.append(_gbps(wire - before[0], interval))
        series.goodput_gbps.append(_gbps(int(payload.sum()) - int(before[1].sum()), interval))
        if number % BATCH_INTERVALS == 0:
            counted.append(payload)
            stuck = fabric.deadlock()
        if stuck:
            break
    judgement = judge(series.wire_gbps, times.tolerance)
    end = len(series.wire_gbps)
    first = round(judgement.begin / BATCH_INTERVALS)  # a deadlocked run may end with less than a batch
    return Steady(
        wire_gbps=judgement.mean,
        goodput_gbps=float(np.mean(series.goodput_gbps[judgement.begin :])),
        steady=judgement.steady and not stuck,
        warm_s=judgement.begin * interval / 1e12,
        series=series,
        per_connection_gbps=_gbps(counted[-1] - counted[first], (end - first * BATCH_INTERVALS) * interval),
        deadlock=stuck,
        seconds=(fabric.now_ps - begin) / 1e12,
    )


def _gbps(count: Any, duration_ps: int) -> Any:
    """Bytes in a time as a rate."""
    return count * 8 / (duration_ps / 1e3)


def jain(values: np.ndarray) -> float:
    """Jain's index of fairness: 1 if all are equal, 1/n if one has everything."""
    squares = float((values.astype(float) ** 2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else 1.0


# -- runs ---------------------------------------------------------------------------------------------------

START_SPREAD_PS = 20 * US
"""connections start at random within this time"""
_STARTS = 20
_WINDOWS = ((0, 1024), (4_000, 512), (12_000, 256), (24_000, 128))
"""from so many connections on, packets that each may have under way; many share a host's link"""
FCT_POLL_PS = 20 * US
FCT_MOST_PS = 1_000_000 * US


@dataclass(frozen=True, kw_only=True)
class RunCounters:
    """Sums over a whole run. `min_share`: the fraction of packets that took a shortest path, see `_min_fraction`."""

    packets: int
    retransmitted: int
    timeouts: int
    marked: int
    reroutes: int
    probes: int
    drops: int
    pauses: int
    paused_ms: float
    buffer_peak_bytes: int
    queue_peak_bytes: int
    min_share: float | None
    packet_hops: int


@dataclass(frozen=True, kw_only=True)
class MeasuredRun(RunCounters):
    """The throughput of a run. `steady`: its rate was level (`experiments.steady`), which is never said of single
    messages; `deadlocked_queues`: (device, port, priority) of those that can never move again."""

    wire_gbps: float
    goodput_gbps: float
    steady: bool
    deadlock: bool
    deadlocked_queues: tuple[tuple[int, int, int], ...]
    virtual_ms: float


@dataclass(frozen=True, kw_only=True)
class SteadyRun(MeasuredRun):
    """Connections that sent without end. `warm_ms`: when the warm-up was over, where rates begin to count; `converged`:
    the older name of `steady`; `fairness`: Jain's index."""

    warm_ms: float
    converged: bool
    fairness: float
    series: Series


@dataclass(frozen=True)
class CompletionTimes:
    """Completion times of messages, in us: mean, percentiles, the longest."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True, kw_only=True)
class CompletionRun(MeasuredRun):
    """Connections that sent one message each. `fct_us`: None if none arrived whole; `unfinished`: connections that were
    not done after `FCT_MOST_PS`, or when the fabric was deadlocked."""

    message_bytes: int
    fct_us: CompletionTimes | None
    unfinished: int


USUAL_LINKS, USUAL_MEMORY = LinkSettings(), SwitchMemory()


def window(connections: int) -> int:
    """Packets that a connection may have under way, where there are so many."""
    return next(packets for least, packets in reversed(_WINDOWS) if connections >= least)


def settings(
    connections: int,
    seed: int,
    links: LinkSettings = USUAL_LINKS,
    memory: SwitchMemory = USUAL_MEMORY,
    loss: float = 0.0,
) -> RunSettings:
    """Sizes that fit a number of connections."""
    return RunSettings(links, memory, window=window(connections), loss=loss, seed=seed)


def open_fabric(topology: Topology, scheme: Scheme, pairs: Sequence[HostPair], chosen: RunSettings) -> VirtualFabric:
    """A fabric with a connection for every pair, none of which sends yet."""
    fabric = VirtualFabric(topology, scheme, chosen, queue_pairs=len(pairs))
    try:
        fabric.connect(pairs)
    except BaseException:
        fabric.close()
        raise
    return fabric


def start(fabric: VirtualFabric, length: int, spread_ps: int = START_SPREAD_PS) -> None:
    """Let every connection send `length` bytes from a random time within `spread_ps` on."""
    begin = fabric.now_ps
    groups = start_order(fabric.count, fabric.settings.seed, _STARTS if spread_ps else 1)
    for step, chosen in enumerate(groups):
        fabric.run(begin + step * spread_ps // len(groups))
        fabric.send(length, np.sort(chosen))


def start_order(count: int, seed: int, steps: int = _STARTS) -> list[np.ndarray]:
    """Numbers of connections in the groups in which they start, one after the other in equal steps."""
    order = np.arange(count)
    random.Random(f"starts {seed}").shuffle(order)  # type: ignore[arg-type]
    return np.array_split(order, min(steps, count))


def steady_state(
    topology: Topology, scheme: Scheme, pairs: Sequence[HostPair], chosen: RunSettings, times: RunTimes
) -> SteadyRun:
    """Connections that send without end: throughput after convergence, and what was counted on the way."""
    with open_fabric(topology, scheme, pairs, chosen) as fabric:
        start(fabric, ENDLESS)
        steady = settle(fabric, times)
        return extended(
            SteadyRun,
            counters(fabric),
            wire_gbps=round(steady.wire_gbps, 3),
            goodput_gbps=round(steady.goodput_gbps, 3),
            steady=steady.steady,
            converged=steady.steady,
            warm_ms=round(steady.warm_s * 1e3, 3),
            deadlock=bool(steady.deadlock),
            deadlocked_queues=tuple(steady.deadlock),
            virtual_ms=round(steady.seconds * 1e3, 3),
            fairness=round(jain(steady.per_connection_gbps), 4),
            series=steady.series.rounded(1),
        )


def completion_times(
    topology: Topology, scheme: Scheme, pairs: Sequence[HostPair], chosen: RunSettings, message_bytes: int
) -> CompletionRun:
    """Every connection sends one message: how long each takes. The rates are over the time of the last one."""
    with open_fabric(topology, scheme, pairs, chosen) as fabric:
        stuck = deliver(fabric, message_bytes)
        times = np.sort(fabric.completion_times_ps()) / US
        last = max(fabric.last_done_ps, 1)
        payload = len(times) * message_bytes
        wire = -(-message_bytes // PAYLOAD) * (PACKET_BYTES - PAYLOAD) * len(times) + payload
        return extended(
            CompletionRun,
            counters(fabric),
            wire_gbps=round(wire * 8e3 / last, 3),
            goodput_gbps=round(payload * 8e3 / last, 3),
            message_bytes=message_bytes,
            steady=False,
            fct_us=CompletionTimes(*mean_and_percentiles(times, (50, 90, 99, 100))) if len(times) else None,
            unfinished=fabric.unfinished(),
            deadlock=bool(stuck),
            deadlocked_queues=tuple(stuck),
            virtual_ms=round(fabric.now_ps / 1e9, 3),
        )


def deliver(fabric: VirtualFabric, message_bytes: int) -> list[tuple[int, int, int]]:
    """Let every connection send one message, until all have arrived, `FCT_MOST_PS` is over, or queues are stuck:
    these."""
    start(fabric, message_bytes)
    stuck: list[tuple[int, int, int]] = []
    while not stuck and fabric.unfinished() and fabric.now_ps < FCT_MOST_PS:
        fabric.run(fabric.now_ps + FCT_POLL_PS)
        stuck = fabric.deadlock()
    return stuck


def mean_and_percentiles(values: np.ndarray, percents: Sequence[float], digits: int = 3) -> list[float]:
    """Return the mean and percentiles of some values, rounded."""
    return [round(float(value), digits) for value in (values.mean(), *np.percentile(values, percents))]


def counters(fabric: VirtualFabric) -> RunCounters:
    """Sums over the whole run."""
    ports = fabric.network.port_stats()
    stats = [fabric.network.buffer_stats(switch.device_id) for switch in fabric.topology.switches]
    sent = int(fabric.column("st_packets").sum())
    return RunCounters(
        packets=sent,
        retransmitted=int(fabric.column("st_retransmitted").sum()),
        timeouts=int(fabric.column("st_rtos").sum()),
        marked=int(fabric.column("st_rx_ecn_marked").sum()),
        reroutes=int(fabric.column("st_reroutes").sum()),
        probes=int(fabric.column("st_ptms").sum()),
        drops=int(ports["queue_drops"].sum()) + sum(s["headroom_drops"] for s in stats),
        pauses=sum(s["pauses_sent"] for s in stats),
        paused_ms=round(sum(s["paused_ps"] for s in stats) / 1e9, 3),
        buffer_peak_bytes=max(s["buffer_peak"] for s in stats),
        queue_peak_bytes=int(ports["queue_peak_bytes"].max()),
        min_share=_min_fraction(fabric, sent),
        packet_hops=int(fabric.network.switch_stats()["packets"].sum()),
    )


def _min_fraction(fabric: VirtualFabric, sent: int) -> float | None:
    """Fraction of the data packets that took a shortest path, by the senders' choice; where switches choose, of all
    packets that they decided upon, ACKs and probes included."""
    if fabric.scheme.policy.routing.loads != "none":
        decisions = [state.counters[schema.DECISIONS] for state in fabric.states.values()]
        shortest, detours = (sum(int(c.read(index)[0]) for c in decisions) for index in (0, 1))
    elif fabric.scheme.routing == "minimal" or not fabric.topology.valiant_groups:
        return 1.0 if sent else None
    else:
        shortest, detours = fabric.packets_by_path()
    return round(shortest / (shortest + detours), 4) if shortest + detours else None


# -- deadlocks ----------------------------------------------------------------------------------------------

CHECK_PS = 20 * US
AFTER_PS = 200 * US
"""for which the run goes on: nothing may move through the queues in question"""


@dataclass(frozen=True)
class StuckRun:
    """`queues` that are stuck, and `names` of them; `circle`: those that wait for each other, by name; rates
    from the very begin until this was found, or the time was over, and after; `remains`: all were stuck later on."""

    queues: tuple[QueueId, ...]
    names: tuple[str, ...]
    circle: tuple[str, ...]
    ended_ps: int
    goodput_gbps_before: float
    goodput_gbps_after: float
    remains: bool

    @property
    def found_at_us(self) -> float | None:
        """None without deadlock."""
        return self.ended_ps / US if self.queues else None


def run_until_stuck(fabric: VirtualFabric, until_ps: int) -> StuckRun:
    """Let connections that send already go on until then, or until queues are stuck, and for `AFTER_PS` more."""
    stuck = fabric.deadlock()
    while not stuck and fabric.now_ps < until_ps:
        fabric.run(fabric.now_ps + CHECK_PS)
        stuck = fabric.deadlock()
    ended, before = fabric.now_ps, received(fabric)
    circle = fabric.network.cyclic_wait() if stuck else []
    fabric.run(ended + AFTER_PS)
    names, cycle = (tuple(queue_name(fabric.topology, queue) for queue in queues) for queues in (stuck, circle))
    after = received(fabric) - before
    remains = bool(stuck) and set(stuck) <= set(fabric.deadlock())
    return StuckRun(tuple(stuck), names, cycle, ended, before * 8e3 / ended, after * 8e3 / AFTER_PS, remains)


def received(fabric: VirtualFabric) -> int:
    """Bytes that have arrived on all connections."""
    return int(fabric.column("st_rx_bytes").sum())
