# SPDX-License-Identifier: Apache-2.0
"""A run of `detour sim`: a fabric in virtual time, a connection for every flow, and failures at their times.

The same topology, flows, settings and seed give the same run, to the picosecond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.experiments.sim.ideal import ideal_ps
from detour.experiments.sim.sampling import LinkSeries, Sampler
from detour.experiments.sim.settings import SimSettings, TimedFailure
from detour.fabric.footings.virtual.fabric import VirtualFabric
from detour.fabric.workloads.flow_table import FlowTable
from detour.hosts.state import QPS_ERR
from detour.topo import Topology
from detour.topo.failures import NONE, Failures

SimProgress = Callable[[float, float], None]
"""told (bytes that have arrived, virtual time in s) now and then"""


@dataclass(frozen=True)
class FlowOutcome:
    """What became of flows, (flows,) each.

    `done_ps`: when the sender had the last answer, 0: it never had. `delivered`: bytes in the receiver's memory, each
    counted once. `packets` that were sent, `received` for the first time, `duplicates` that came again. `held_peak`:
    the most packets that the receiver held at a time because others before them were missing. `delay_ps`: mean queuing
    delay of the flow's packets. `ideal_ps`: its completion time in an empty fabric."""

    done_ps: Int64Array
    delivered: Int64Array
    packets: Int64Array
    received: Int64Array
    retransmitted: Int64Array
    duplicates: Int64Array
    marked: Int64Array
    held_peak: Int64Array
    delay_ps: NDArray[np.float64]
    ideal_ps: Int64Array


@dataclass(frozen=True)
class SimRun:
    """One run. `queues`: `Sampler.queues`; `drops`: frames that switches dropped or links lost; `stuck`: a deadlock of
    PFC, in words."""

    topology: Topology
    settings: SimSettings
    flows: FlowTable
    outcome: FlowOutcome
    end_ps: int
    drops: int
    links: LinkSeries
    queues: NDArray[np.float64]
    stuck: str | None


def run_flows(
    topology: Topology,
    flows: FlowTable,
    settings: SimSettings,
    progress: SimProgress = lambda arrived, seconds: None,
) -> SimRun:
    """Runs flows until all are complete, nothing can move any more, or the time of the run is over.

    Raises:
        DetourError: the scheme does not fit the topology, or a parameter is out of range.
    """
    chosen = settings.of_run(len(flows))
    with VirtualFabric(topology, settings.scheme, chosen, queue_pairs=len(flows)) as fabric:
        fabric.connect(list(zip(flows["source"].tolist(), flows["target"].tolist(), strict=True)))
        going = _Going(fabric, flows, settings)
        going.run(progress)
        return SimRun(
            topology,
            settings,
            flows,
            going.outcome(),
            going.end_ps,
            going.drops(),
            going.sampler.series(),
            going.sampler.queues,
            None if fabric.deadlock_found is None else str(fabric.deadlock_found),
        )


class _Going:
    """A run while it goes on."""

    def __init__(self, fabric: VirtualFabric, flows: FlowTable, settings: SimSettings) -> None:
        self._fabric, self._flows, self._settings = fabric, flows, settings
        self.sampler = Sampler(fabric)
        self._faults = Faults(fabric, settings)
        self._starts = flows["start_ps"]
        self._begun = 0
        self._sent = np.zeros(len(flows), np.bool_)

    def run(self, progress: SimProgress) -> None:
        """To the end."""
        until = self._settings.until_ps
        while True:
            self._begin()
            self._faults.act()
            if self._fabric.now_ps >= self.sampler.due_ps:
                self.sampler.look()
                progress(float(self._column("st_rx_bytes").sum()), self._fabric.now_ps / 1e12)
                if self._over():
                    break
            if self._fabric.now_ps >= until:
                break
            self._fabric.run(min(until, self._next_start(), self._faults.due_ps, self.sampler.due_ps))
        self.sampler.look()

    def _next_start(self) -> int:
        return int(self._starts[self._begun]) if self._begun < len(self._starts) else self._settings.until_ps

    def _begin(self) -> None:
        """Flows whose time has come begin."""
        last = int(np.searchsorted(self._starts, self._fabric.now_ps, side="right"))
        if last > self._begun:
            which = np.arange(self._begun, last)
            self._fabric.send(self._flows["bytes"][which], which)
            self._sent[which] = True
            self._begun = last

    def _column(self, name: str) -> np.ndarray:
        return self._fabric.column(name)

    def _complete(self) -> NDArray[np.bool_]:
        return self._sent & (self._column("sq_una") == self._column("sq_end")) & (self._column("state") != QPS_ERR)

    def _over(self) -> bool:
        """Whether nothing more will come of it."""
        if self._fabric.deadlock_found is not None:
            return True
        return bool((self._complete() | (self._column("state") == QPS_ERR)).all())

    @property
    def end_ps(self) -> int:
        """The last completion if there was one for each flow, else now."""
        done = self._done()
        return int(done.max()) if (done > 0).all() else self._fabric.now_ps

    def _done(self) -> Int64Array:
        return np.where(self._complete(), self._column("st_last_done_ps"), 0)

    def drops(self) -> int:
        """Frames that were lost anywhere."""
        ports = self._fabric.network.port_stats()
        lost = sum(int(ports[name].sum()) for name in ("queue_drops", "link_drops"))
        stats = (self._fabric.network.buffer_stats(s.device_id) for s in self._fabric.topology.switches)
        return lost + sum(one["headroom_drops"] for one in stats)

    def outcome(self) -> FlowOutcome:
        """What is known of every flow."""
        samples = np.maximum(self._column("st_rx_delay_samples"), 1)
        tick = float(self._fabric.config.tick_ps)
        return FlowOutcome(
            done_ps=self._done(),
            delivered=self._column("st_rx_bytes"),
            packets=self._column("st_packets"),
            received=self._column("st_rx_packets"),
            retransmitted=self._column("st_retransmitted"),
            duplicates=self._column("st_rx_duplicates"),
            marked=self._column("st_rx_ecn_marked"),
            held_peak=self._column("st_rx_held_peak"),
            delay_ps=self._column("st_rx_delay_sum") * tick / samples,
            ideal_ps=ideal_ps(self._fabric.topology, self._settings.links, self._flows),
        )


class Faults:
    """Links and switches that go down at their times, and the controller that writes routes around them."""

    def __init__(self, fabric: VirtualFabric, settings: SimSettings) -> None:
        self._fabric = fabric
        self._waiting: list[tuple[int, TimedFailure | None]] = [(one.at_ps, one) for one in settings.failures]
        if settings.reroute_after_ps is not None:
            self._waiting += [(one.at_ps + settings.reroute_after_ps, None) for one in settings.failures]
        self._waiting.sort(key=lambda entry: entry[0])
        self._never = settings.until_ps
        self._down: Failures = NONE

    @property
    def due_ps(self) -> int:
        """When something happens next."""
        return self._waiting[0][0] if self._waiting else self._never

    def act(self) -> None:
        """Does what is due."""
        while self._waiting and self._waiting[0][0] <= self._fabric.now_ps:
            _, one = self._waiting.pop(0)
            if one is None:
                self._fabric.replan(self._down)
            else:
                self._down = self._down | {one.failure}
                self._fabric.apply_failures(self._down)
