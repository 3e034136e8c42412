# SPDX-License-Identifier: Apache-2.0
"""SprayLERP beside ways to choose paths that others have published, and beside the schemes of the non-shortest-path
paper: the same fabric, the same pairs, the same virtual time for all.

A point is one run of one scheme: connections that send without end (throughput, Jain's index), or a message each
(completion times), or endless connections and a global link that breaks or slows down in mid-run (`recovery_us`: the
longest time for which one of the connections that were sending delivered nothing in order). `points` has what is run,
`cells` what is made of a scheme's draws.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.times import US
from detour.experiments import running
from detour.experiments.columns import taken
from detour.experiments.nonshortest import settings as chosen_settings
from detour.experiments.nonshortest.experiment import find_topology
from detour.experiments.nonshortest.workloads import ceiling
from detour.experiments.rivals.points import (
    AFTER_US,
    AFTERWARDS_STEP_PS,
    EVENT_US,
    EVENTS,
    RivalCase,
    RivalPoint,
    busiest_global_link,
    draw,
)
from detour.experiments.running import jain, settle
from detour.fabric.backends.virtual import scheme as schemes
from detour.fabric.backends.virtual.fabric import ENDLESS, VirtualFabric
from detour.topo import Topology
from detour.topo.topology import HostPair

_TUNED_AS = {
    schemes.TELEMETRY_LERP_EVIDENCE: schemes.TELEMETRY_LERP,
    schemes.UGAL_L: schemes.BENCHMARK_DCTCP,
    schemes.UGAL_G: schemes.BENCHMARK_DCTCP,
}
"""schemes that take what was chosen for another one, but for its T"""


@dataclass(frozen=True)
class RivalTimes:
    """Completion times in us."""

    mean: float
    p50: float
    p99: float
    p999: float


@dataclass(frozen=True, kw_only=True)
class RivalRun(RivalCase):
    """The result of a point. `throughput_fraction`: of the most that the pairs can carry (`workloads.ceiling`), on the
    wire; None for single messages. `least_p99_us`: below which p99 cannot be, whoever chooses paths (`least_p99`).
    `recovery_round_trips`: the longest silence of a connection in its own round trips as they were before the link
    broke; `silent`: connections that were silent for more than three. `late`: fractions of data packets by how far they
    were behind the newest one of their connection when they arrived: not at all, 1, 2 to 3, 4 to 7, ... packets."""

    pairs: int
    steady: bool = False
    throughput_fraction: float | None = None
    goodput_gbps: float
    fct_us: RivalTimes | None = None
    unfinished: int = 0
    jain: float | None = None
    recovery_us: float | None = None
    rtt_us: float | None = None
    recovery_round_trips: float | None = None
    silent: int | None = None
    least_p99_us: float | None = None
    late: tuple[float, ...] = ()
    marked_fraction: float
    retransmitted_fraction: float
    detour_fraction: float | None
    timeouts: int
    held_packets_peak: int


def run(point: RivalPoint) -> RivalRun:
    topology = find_topology(point.topology)[1]
    one = schemes.scheme(point.scheme)
    pairs = draw(topology, point.pattern, point.load, point.seed)
    settings = running.settings(len(pairs), point.seed)
    with running.open_fabric(topology, _at_its_best(topology, one), pairs, settings) as fabric:
        if point.message_bytes:
            return _completion(point, fabric, pairs)
        if point.pattern in EVENTS:
            return _event(point, topology, fabric, pairs)
        return _endless(point, topology, fabric, pairs)


def _at_its_best(topology: Topology, one: schemes.Scheme) -> schemes.Scheme:
    """A scheme with the settings that were best for it on a topology, if they were sought."""
    tuned = _TUNED_AS.get(one, one)
    if tuned.name not in chosen_settings.CANDIDATES:
        return one
    best = chosen_settings.chosen(topology, tuned).of(one)
    return best.with_threshold(one.threshold) if one in (schemes.UGAL_L, schemes.UGAL_G) else best


def _most(topology: Topology, pairs: list[HostPair]) -> float:
    """Gb/s that the pairs can carry, whoever chooses the paths."""
    return ceiling(topology, pairs).gbps(schemes.LinkSettings().rate_bps)


def _endless(point: RivalPoint, topology: Topology, fabric: VirtualFabric, pairs: list[HostPair]) -> RivalRun:
    running.start(fabric, ENDLESS)
    steady = settle(fabric, point)
    return _summed_up(
        point,
        fabric,
        steady=steady.steady,
        throughput_fraction=round(steady.wire_gbps / _most(topology, pairs), 4),
        goodput_gbps=round(steady.goodput_gbps, 3),
        jain=round(jain(steady.per_connection_gbps), 4),
    )


def _completion(point: RivalPoint, fabric: VirtualFabric, pairs: list[HostPair]) -> RivalRun:
    running.deliver(fabric, point.message_bytes)
    times = fabric.completion_times_ps() / US
    last = max(fabric.last_done_ps, 1)
    return _summed_up(
        point,
        fabric,
        goodput_gbps=round(len(times) * point.message_bytes * 8e3 / last, 3),
        fct_us=RivalTimes(*running.mean_and_percentiles(times, (50, 99, 99.9))) if len(times) else None,
        unfinished=fabric.unfinished(),
        least_p99_us=round(least_p99(pairs, point.message_bytes), 3),
    )


def least_p99(pairs: list[HostPair], size: int) -> float:
    """A bound for p99 of completion times in us, by the links of hosts alone.

    However a host's link is shared, when k of its messages are done it has carried k of them. So the times at which
    messages of all hosts end are, in order, not below 1, 2, 3, ... times a message's own time for each host, in order.
    Senders' links bound them and receivers' links do. A message begins `START_SPREAD_PS` after the first at most."""
    packets = -(-size // PAYLOAD)
    each_us = (size + packets * (PACKET_BYTES - PAYLOAD)) * 8e6 / schemes.LinkSettings().rate_bps
    bounds = []
    for end in (0, 1):
        counts = Counter(pair[end] for pair in pairs).values()
        least = np.concatenate([np.arange(1, count + 1) * each_us for count in counts])
        bounds.append(float(np.percentile(least, 99)))
    return max(0.0, max(bounds) - running.START_SPREAD_PS / US)


def _event(point: RivalPoint, topology: Topology, fabric: VirtualFabric, pairs: list[HostPair]) -> RivalRun:
    """Endless connections; a link breaks or slows down, and nobody tells switches or senders."""
    running.start(fabric, ENDLESS)
    fabric.run(EVENT_US * US // 2)
    before = fabric.column("st_rx_delivered").copy()
    fabric.run(EVENT_US * US)
    sending = fabric.column("st_rx_delivered") > before
    round_trips = fabric.column("srtt")[sending].copy()
    link = busiest_global_link(topology, pairs)
    if point.pattern == "failed-link":
        fabric.set_link(link, False)
    else:
        fabric.throttle(link, 0.5)
    silences, rates = _watch(fabric, sending)
    return _summed_up(
        point,
        fabric,
        throughput_fraction=round(rates.sum() / _most(topology, pairs), 4),
        goodput_gbps=round(float(rates.sum()), 3),
        jain=round(jain(rates), 4),
        rtt_us=round(float(round_trips.mean()) / US, 3),
        **(_recovery(silences, round_trips) if point.pattern == "failed-link" else {}),
    )


def _recovery(silences: np.ndarray, round_trips: np.ndarray) -> dict[str, object]:
    """Return the cost of a broken link: each connection's longest silence and its round trip before, ps."""
    own = silences / np.maximum(round_trips, 1)
    return {
        "recovery_us": round(float(silences.max(initial=0)) / US, 3),
        "recovery_round_trips": round(float(own.max(initial=0)), 2),
        "silent": int((own > 3).sum()),
    }


def _watch(fabric: VirtualFabric, sending: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(longest time in ps for which each of the connections that were sending delivered nothing in order, goodput of
    every connection in Gb/s over the second half of the time)."""
    begin = fabric.now_ps
    last = fabric.column("st_rx_delivered").copy()
    since = np.full(len(last), begin)
    longest, half, middle = np.zeros(len(last), np.int64), last, begin
    for step in range(1, AFTER_US * US // AFTERWARDS_STEP_PS + 1):
        fabric.run(begin + step * AFTERWARDS_STEP_PS)
        now = fabric.column("st_rx_delivered")
        moved = now > last
        longest = np.maximum(longest, fabric.now_ps - since)
        since[moved] = fabric.now_ps
        last = now.copy()
        if step == AFTER_US * US // AFTERWARDS_STEP_PS // 2:
            half, middle = last, fabric.now_ps
    return longest[sending], (last - half) * 8e3 / (fabric.now_ps - middle)


def _summed_up(point: RivalPoint, fabric: VirtualFabric, **measured: object) -> RivalRun:
    sent = max(int(fabric.column("st_packets").sum()), 1)
    shortest, detours = fabric.packets_by_path()
    counts = fabric.lateness()
    total = max(int(counts.sum()), 1)
    return taken(
        RivalRun,
        point,
        pairs=fabric.count,
        marked_fraction=round(int(fabric.column("st_rx_ecn_marked").sum()) / sent, 4),
        retransmitted_fraction=round(int(fabric.column("st_retransmitted").sum()) / sent, 6),
        detour_fraction=round(detours / (shortest + detours), 4) if fabric.scheme.routing == "valiant" else None,
        timeouts=int(fabric.column("st_rtos").sum()),
        held_packets_peak=int(fabric.column("st_rx_held_peak").max(initial=0)),
        late=tuple(round(int(count) / total, 6) for count in np.trim_zeros(counts, "b")),
        **measured,
    )
