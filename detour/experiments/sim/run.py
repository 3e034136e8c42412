# SPDX-License-Identifier: Apache-2.0
"""A run of `detour sim`: a fabric in virtual time that executes a graph of tasks, and failures at their times.

Flows are a graph in which nothing waits: each gets a connection of its own, as in ns-3's RDMA models. Messages of jobs
keep the connections of their two hosts. The same topology, workload, settings and seed give the same run, to the
picosecond.

Links and queues are sampled a microsecond apart at first. Whenever there are 512 samples every second one is dropped
and the distance is doubled, so a run of any length has 256 to 512; counters are cumulative. Where steady phases are
skipped, samples are as far apart from the beginning as they will be at least in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.cores import THREADS
from detour.base.errors import DetourError
from detour.base.quantities import time_text
from detour.base.times import US
from detour.control.placement.placement import Placement
from detour.experiments.sim.settings import SimSettings, TimedFailure
from detour.experiments.sim.watching import Watcher
from detour.experiments.sim.workloads import SimWorkload
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.fast.execution import Execution
from detour.fabric.traffic.placed_tasks import PlacedTasks
from detour.fabric.traffic.tasks import TaskResult, TaskRun, room_of
from detour.fabric.workloads.ideal import IdealTimes, ideal_ps, wire_terms
from detour.fabric.workloads.tasks import TaskGraph
from detour.hosts.frames.sizes import DATA_OVERHEAD
from detour.topo import Topology
from detour.topo.failures import Failures, failure_name

FIRST_PS = US
_MOST = 512
_BINS = 28
"""of queues: empty, then powers of two from 1 byte on"""


@dataclass(frozen=True)
class LinkSeries:
    """`times_ps`: (looks,); `sent`: (looks, directions) bytes so far; `names` of directions, `s0-s3 from s0`, `hosts`
    whether one end is a host's, `rates_bps` of each; `longest`: (looks,) bytes in the fullest queue at that moment."""

    times_ps: Int64Array
    sent: Int64Array
    names: tuple[str, ...]
    hosts: NDArray[np.bool_]
    rates_bps: Int64Array
    longest: Int64Array

    def use(self) -> NDArray[np.float64]:
        """(looks - 1, directions) fraction of each link's rate between two looks."""
        spans = np.diff(self.times_ps)[:, None] / 1e12
        # A frame counts when it begins, so between two looks that are close there may be a frame too many.
        return np.minimum(np.diff(self.sent, axis=0) * 8 / (spans * self.rates_bps), 1.0)

    def coarser(self, intervals: int) -> LinkSeries:
        """The same in at most so many intervals, about equal ones."""
        kept = np.unique(np.round(np.linspace(0, len(self.times_ps) - 1, intervals + 1)).astype(np.int64))
        return replace(self, times_ps=self.times_ps[kept], sent=self.sent[kept], longest=self.longest[kept])


class Sampler:
    """Looks at a fabric whenever its time has come."""

    def __init__(self, fabric: VirtualFabric, least_ps: int = 0) -> None:
        """`least_ps`: the run takes longer."""
        self._fabric = fabric
        self._every = FIRST_PS << max(least_ps // (FIRST_PS * _MOST), 1).bit_length() - 1
        self._times: list[int] = []
        self._sent: list[Int64Array] = []
        self._longest: list[int] = []
        self.queues = np.zeros(_BINS, np.float64)
        """time (ps) times queues of switches, by the length of the queue: 0 bytes, then [2**(i-1), 2**i)"""
        self._directions(fabric.network.port_stats())
        self._traffic = fabric.network.port_traffic()
        self.due_ps = 0
        self.look()

    def _directions(self, stats: dict[str, np.ndarray]) -> None:
        """The element of a column that counts each direction of a link."""
        ends = zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True)
        place = {end: row for row, end in enumerate(ends)}
        topology = self._fabric.topology
        out, back, names, host = [], [], [], []
        for link in topology.links:
            rows = [place[end] for end in self._fabric.link_ends(link.index)]
            out += rows
            names.append(f"{link.name} from {topology.switches[link.a[0]].name}")
            host += [link.kind == "host"]
            if link.kind == "host":
                back.append(rows[0])
            else:
                names.append(f"{link.name} from {topology.switches[link.b[0]].name}")
                host.append(False)
        hosts = (link for link in topology.links if link.kind == "host")
        names += [f"{link.name} from {topology.hosts[link.b[0]].name}" for link in hosts]
        self._out, self._back = np.array(out, np.int64), np.array(back, np.int64)
        self._names, self._host = tuple(names), np.array(host + [True] * len(back))
        rates = stats["rate_bps"]
        self._rates = np.concatenate([rates[self._out], rates[self._back]]).astype(np.int64)

    def look(self) -> None:
        """Note how things are now."""
        now = self._fabric.now_ps
        if self._times and now == self._times[-1]:
            return
        sent, received, queues = self._traffic.read()
        passed = now - (self._times[-1] if self._times else now)
        queued = queues[self._out]
        bins = np.minimum(np.ceil(np.log2(queued.astype(np.float64) + 1)), _BINS - 1).astype(np.int64)
        self.queues += np.bincount(bins, minlength=_BINS) * float(passed)
        self._times.append(now)
        self._sent.append(np.concatenate([sent[self._out], received[self._back]]))
        self._longest.append(int(queued.max(initial=0)))
        if len(self._times) > _MOST:
            # Every second look goes; of what was longest the longest of both stays.
            pairs = zip(self._longest[1::2], [*self._longest[2::2], 0], strict=False)
            self._longest = [self._longest[0], *(max(pair) for pair in pairs)][: len(self._times[::2])]
            self._times, self._sent = self._times[::2], self._sent[::2]
            self._every *= 2
        self.due_ps = now + self._every

    def series(self) -> LinkSeries:
        """All looks that were kept."""
        times, sent, longest = (np.array(values, np.int64) for values in (self._times, self._sent, self._longest))
        return LinkSeries(times, sent, self._names, self._host, self._rates, longest)


# -- runs ---------------------------------------------------------------------------------------------------

_PATIENCE = 4
"""times a connection's own, for which nothing arrives in a run that is stuck"""

EndReason = Literal["delivered", "duration", "stuck", "interrupted"]

SimProgress = Callable[[float, float, float], None]
"""told (bytes that have arrived, virtual time in s, share of tasks that are over) now and then"""


@dataclass(frozen=True)
class ConnectionCounts:
    """Counters of connections, (connections,) each. `delivered`: bytes in the receiver's memory, each counted once.
    `packets` that were sent, `received` for the first time, `duplicates` that came again. `held_peak`: the most packets
    that the receiver held at a time because others before them were missing. `delay_ps`: mean queuing delay of the
    packets that arrived."""

    delivered: Int64Array
    packets: Int64Array
    retransmitted: Int64Array
    received: Int64Array
    duplicates: Int64Array
    marked: Int64Array
    held_peak: Int64Array
    delay_ps: NDArray[np.float64]


@dataclass(frozen=True)
class SimRun:
    """One run. `wire_bytes`: of data frames that came to hosts; `queues`: `Sampler.queues`; `drops`: frames that
    switches dropped or links lost; `deadlock`: of PFC, in words; `stopped`: somebody ended it; `packet_bytes`: of the
    longest packet's payload; `skipped`: data packets that were not simulated; `placement`: the paths of connections
    that have been placed, in the end."""

    topology: Topology
    settings: SimSettings
    workload: SimWorkload
    tasks: TaskResult
    ideal: IdealTimes
    counts: ConnectionCounts
    end_ps: int
    wire_bytes: int
    drops: int
    links: LinkSeries
    queues: NDArray[np.float64]
    deadlock: str | None
    threads: int
    """that executed it, which changes no result"""
    packet_bytes: int
    skipped: int = 0
    stopped: bool = False
    placement: Placement | None = None

    def __repr__(self) -> str:
        over = int((self.graph.is_message & self.tasks.finished).sum())
        return (
            f"<SimRun {self.workload.text} on {self.topology.spec}, {self.settings.scheme.name}: "
            f"{over} of {int(self.graph.is_message.sum())} flows complete in {time_text(self.end_ps)}, {self.ended_by}>"
        )

    @property
    def graph(self) -> TaskGraph:
        """The workload's graph."""
        return self.workload.graph

    @property
    def incomplete(self) -> Int64Array:
        """Messages that are not complete, as tasks."""
        return np.flatnonzero(self.graph.is_message & ~self.tasks.finished)

    @property
    def ended_by(self) -> EndReason:
        """Why the run ended: all is over, its time was, or it could not go on."""
        if self.tasks.completed:
            return "delivered"
        if self.stopped:
            return "interrupted"
        duration_ps = self.settings.duration_ps
        return "stuck" if duration_ps is None or self.end_ps < duration_ps else "duration"

    @property
    def cause(self) -> str | None:
        """Why it could not go on, in words; None if it was not stuck."""
        if self.ended_by != "stuck":
            return None
        if self.deadlock:
            return self.deadlock
        gave_up = int(self.tasks.failed.sum())
        patience_ps = self.settings.of_run(1).host_config(self.settings.scheme).retry_ps
        causes = {
            f"{gave_up} flows were given up: for {time_text(patience_ps)} nothing came back": gave_up,
            "for the others nothing comes any more": int((~self.tasks.finished & ~self.tasks.failed).sum()),
        }
        return "; ".join(text for text, count in causes.items() if count)


def run_workload(
    topology: Topology,
    workload: SimWorkload,
    settings: SimSettings,
    progress: SimProgress = lambda arrived, seconds, share: None,
    *,
    placed: bool = False,
    watcher: Watcher | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> SimRun:
    """Run a workload until all is over, nothing can move any more, the time of the run has passed, or `stop` says so.
    `placed`: on the paths of a placement, instead of those that hashes pick. Raises `DetourError`: the scheme does not
    fit the topology, a parameter is out of range, too many connections carry something, or nothing is sent at all."""
    if not workload.graph.is_message.any():
        tasks = len(workload.graph)
        raise DetourError(f"workload {workload.text!r}: none of its {tasks} tasks sends a message")
    lanes = len(workload.graph) if workload.flows else settings.connections
    connections, ends = room_of(workload.graph, lanes)
    chosen, own = settings.of_run(connections), settings.program
    # At every look threads would wait for each other, which takes longer than what is left to do between two looks.
    threads = THREADS.value or 1 if settings.fast else None
    with VirtualFabric(
        topology, settings.scheme, chosen, queue_pairs=connections, host_ends=ends, own=own, threads=threads
    ) as fabric:
        if settings.down:
            fabric.apply_failures(settings.down)
            fabric.replan(settings.down)
        tasks = TaskRun(fabric, workload.graph, lanes=lanes, keep=placed or bool(settings.fast))
        placement = PlacedTasks(tasks, workload.pinned) if placed else None
        ideal = ideal_ps(workload.graph, wire_terms(topology, settings.links, settings.scheme.mtu))
        sampler = Sampler(fabric, min(ideal.total_ps, settings.until_ps) if settings.fast else 0)
        watcher = watcher or Watcher()
        watcher.begin(fabric)
        faults = TimedFaults(fabric, settings, watcher, placement)
        execution = _execution(fabric, tasks, settings, placement)
        _go(fabric, tasks, sampler, faults, settings.until_ps, progress, watcher, stop, execution)
        run = _found(fabric, workload, tasks.result(), sampler, settings, execution.skipped, ideal)
        return replace(run, stopped=stop(), placement=None if placement is None else placement.placement)


def _execution(
    fabric: VirtualFabric, tasks: TaskRun, settings: SimSettings, placement: PlacedTasks | None
) -> Execution:
    if not settings.fast:
        return Execution(fabric)
    from detour.fabric.fast.skipping import Skipper  # a run in full needs none of it

    return Skipper(fabric, tasks.connections, settings.fast, placement)


def _go(
    fabric: VirtualFabric, tasks: TaskRun, sampler: Sampler, faults: TimedFaults, until_ps: int, progress: SimProgress,
    watcher: Watcher, stop: Callable[[], bool], execution: Execution,
) -> None:  # fmt: skip
    arrived, moved_ps, patience_ps = -1, 0, _PATIENCE * fabric.config.retry_ps
    while not tasks.over and fabric.now_ps < until_ps and fabric.deadlock_found is None:
        # Senders may ask dead paths for ever.
        now_ps, skips = fabric.now_ps, execution.skips
        at_rest = not skips and (fabric.network.idle or now_ps - moved_ps > patience_ps)
        if stop() or watcher.enough or (at_rest and faults.due_ps >= until_ps):
            break
        if now_ps >= faults.due_ps:
            execution.wake_all()
            faults.act()
            execution.change()
        execution.run(min(until_ps, faults.due_ps, sampler.due_ps, watcher.due_ps))
        now_ps = fabric.now_ps
        if now_ps >= watcher.due_ps:
            execution.wake_all()  # what stands still for a while is not silent
            watcher.look()
        if now_ps >= sampler.due_ps:
            execution.count()
            sampler.look()
            before, arrived = arrived, int(fabric.hs.host["rx_payload"].sum())
            if arrived != before or tasks.to_begin or skips:
                moved_ps = now_ps
            progress(float(arrived + execution.uncounted_bytes), now_ps / 1e12, tasks.share)
    execution.wake_all()
    sampler.look()
    watcher.end()


def _found(
    fabric: VirtualFabric, workload: SimWorkload, tasks: TaskResult, sampler: Sampler, settings: SimSettings,
    skipped: int, ideal: IdealTimes,
) -> SimRun:  # fmt: skip
    counts = _counts(fabric)
    finish = tasks.finish_ps
    # Data frames that came to hosts again count as full ones, if the message fills one.
    overhead = DATA_OVERHEAD + fabric.settings.links.overhead_bytes
    sizes = tasks.graph.tasks["bytes"]
    padding = int((-sizes % 4)[tasks.finished & tasks.graph.is_message].sum())
    again = min(fabric.config.payload, int(sizes.max())) + overhead
    arrived = counts.received.sum() * overhead + counts.delivered.sum()
    ports = fabric.network.port_stats()
    lost = sum(int(ports[name].sum()) for name in ("queue_drops", "link_drops"))
    stats = (fabric.network.buffer_stats(switch.device_id) for switch in fabric.topology.switches)
    return SimRun(
        topology=fabric.topology,
        settings=settings,
        workload=workload,
        tasks=tasks,
        ideal=ideal,
        counts=counts,
        end_ps=int(finish.max()) if tasks.completed else fabric.now_ps,
        wire_bytes=int(arrived + padding + counts.duplicates.sum() * again),
        drops=lost + sum(one["headroom_drops"] for one in stats),
        links=sampler.series(),
        queues=sampler.queues,
        deadlock=None if fabric.deadlock_found is None else str(fabric.deadlock_found),
        threads=fabric.network.threads,
        packet_bytes=min(fabric.config.payload, int(sizes.max())),
        skipped=skipped,
    )


def _counts(fabric: VirtualFabric) -> ConnectionCounts:
    column = fabric.column
    samples = np.maximum(column("st_rx_delay_samples"), 1)
    return ConnectionCounts(
        delivered=column("st_rx_bytes"),
        packets=column("st_packets"),
        retransmitted=column("st_retransmitted"),
        received=column("st_rx_packets"),
        duplicates=column("st_rx_duplicates"),
        marked=column("st_rx_ecn_marked"),
        held_peak=column("st_rx_held_peak"),
        delay_ps=column("st_rx_delay_sum") * float(fabric.config.tick_ps) / samples,
    )


class TimedFaults:
    """Links and switches that change at their times, and the controller that writes routes around what is down and
    gives placed connections other paths."""

    def __init__(
        self, fabric: VirtualFabric, settings: SimSettings, watcher: Watcher, placement: PlacedTasks | None = None
    ) -> None:
        self._fabric, self._watcher, self._placement = fabric, watcher, placement
        self._waiting: list[tuple[int, TimedFailure | None]] = [(one.at_ps, one) for one in settings.failures]
        if settings.reroute_after_ps is not None:
            late_ps = settings.reroute_after_ps
            self._waiting += [(one.at_ps + late_ps, None) for one in settings.failures if one.change != "rate"]
        self._waiting.sort(key=lambda entry: entry[0])
        self._never = settings.until_ps
        self._down: Failures = settings.down

    @property
    def due_ps(self) -> int:
        """The time of what happens next."""
        return self._waiting[0][0] if self._waiting else self._never

    def act(self) -> None:
        """Do what is due."""
        while self._waiting and self._waiting[0][0] <= self._fabric.now_ps:
            _, one = self._waiting.pop(0)
            if one is None:
                written = self._fabric.replan(self._down)
                if self._placement is not None:
                    self._placement.repair(self._down)
                self._event("routes", f"the controller wrote {written} entries: routes around what is down")
            else:
                self._change(one)

    def _change(self, one: TimedFailure) -> None:
        name = failure_name(self._fabric.topology, one.failure)
        if one.change == "rate":
            self._fabric.throttle(one.failure.index, one.fraction)
            self._event("slow", f"{name} carries {one.fraction:g} of its rate")
            return
        down = one.change == "down"
        self._down = self._down | {one.failure} if down else self._down - {one.failure}
        self._fabric.apply_failures(self._down)
        self._event("fail" if down else "heal", f"{name} is {'down' if down else 'back'}")

    def _event(self, kind: str, text: str) -> None:
        names = sorted(failure_name(self._fabric.topology, each) for each in self._down)
        self._watcher.note(kind, text, names)
