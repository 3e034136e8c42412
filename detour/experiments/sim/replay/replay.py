# SPDX-License-Identifier: Apache-2.0
"""Going back to a packet of a run: it is run again, as often as it takes to know which packet is meant, and once more
up to that packet, which is traced from the switch of its host on.

    replay = Replay(plan)
    packet = replay.first_drop()
    print(packet.about, len(packet.followed.hops))

Runs repeat to the picosecond, traced or not, so what one pass finds holds in the next one. While a run goes it is
compared with what is known of the first one (`checkpoints`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.base.quantities import time_text
from detour.base.times import NS, US
from detour.engine.clock import Virtual
from detour.engine.trace.filters import Filter, parse_filter
from detour.experiments.sim.plan import SimPlan, plan_of
from detour.experiments.sim.replay import stop_conditions
from detour.experiments.sim.replay.run_files import Checkpoint, Checkpoints, read_repeatable
from detour.experiments.sim.replay.stop_conditions import Sighting, packet_name
from detour.experiments.sim.replay.tracing import Chain, StopCondition, TracedPart
from detour.experiments.sim.replay.windows import (
    ARRIVED_MARKS,
    LOST_FRAMES,
    Counters,
    DropPlace,
    FirstCount,
    LongestWait,
    WaitScan,
    Window,
)
from detour.experiments.sim.run import SimRun, run_workload
from detour.experiments.sim.watching import Watcher, Watchers
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.tracing.live import is_over, packets
from detour.fabric.tracing.results import TracedPacket
from detour.hosts.verbs import qp_numbers
from detour.topo.address import ipv6_text

T = TypeVar("T")

_CLOSE_PS = 10 * NS
"""how well a time must be known before packets are traced around it"""
_MARGINS_PS = (100 * US, 2_000 * US, 50_000 * US)
"""how long before it was seen a packet may have been sent: tried one after the other, and then the whole run"""
_SETTLE_PS = 50 * US
_PSNS = 1 << 24
_TICK_PS = Virtual.tick_ps
"""of programs in virtual time"""
_NOT_AGAIN = "the packet was found in one pass over the run and not in the next"


@dataclass(frozen=True)
class ReplayedPacket:
    """A packet of a run. `about`: which one it is, in words; `sent_ps`: when it came to the switch of its host."""

    about: str
    sent_ps: int
    followed: TracedPacket


@dataclass(frozen=True)
class _Connection:
    """A flow's connection: source host by index, destination QP, and the PSN of the flow's first packet."""

    source: int
    qp: int
    first_psn: int
    packets: int
    sent_ps: int


class Replay:
    """A replay of one run. Each question runs it anew."""

    def __init__(
        self, plan: SimPlan, checkpoints: Sequence[Checkpoint] | None = None, progress: Progress = silent
    ) -> None:
        """`checkpoints`: of the run that is meant; None: whatever the plan comes to."""
        self._plan, self._checkpoints, self._progress = plan, checkpoints, progress
        self._topology = plan.topology

    @classmethod
    def of_file(cls, file: Path, progress: Progress = silent) -> Replay:
        """Open a run that `detour sim --record` wrote. Raises `DetourError`: the file is of another kind or version, or
        a file that the run read has changed."""
        run = read_repeatable(file)
        run.check_files()
        return cls(plan_of(run.options), run.checkpoints, progress)

    # -- questions ------------------------------------------------------------------------------------------

    def packet(self, flow: int, psn: int) -> ReplayedPacket:
        """Packet number `psn` of a flow, counted from 0, as it was sent for the first time. Raises `DetourError`: there
        is no such flow or packet, or it was not sent in this run."""
        connection = self._connection(flow)
        if not 0 <= psn < connection.packets:
            last = connection.packets - 1
            raise DetourError(f"flow {flow} has packets 0 to {last}; there is no packet {psn}")
        on_wire = (connection.first_psn + psn) % _PSNS
        stop = stop_conditions.packet_of(self._topology, connection.qp, on_wire, _TICK_PS)
        chain = self._traced(stop, max(0, connection.sent_ps - US), self._from_host(connection.source))
        if chain is None:
            raise DetourError(f"packet {psn} of flow {flow} was not sent in this run, or reached no switch")
        return self._replayed(f"packet {psn} of flow {flow}, PSN {on_wire}", chain)

    def first_drop(self) -> ReplayedPacket:
        """The first frame that a switch dropped or a link lost. Raises `DetourError`: nothing was lost in this run."""
        window = self._window(LOST_FRAMES)
        if window is None:
            raise DetourError("no switch dropped a frame in this run, and no link between switches lost one")
        return self._replayed("the first frame that was lost", self._followed(self._loss(window)))

    def first_mark(self) -> ReplayedPacket:
        """The first data packet that came to its receiver with ECN's mark. Raises `DetourError`: none did."""
        window = self._window(ARRIVED_MARKS)
        if window is None:
            raise DetourError("no data packet was received with a mark in this run")
        source, qp = window.place
        stop = stop_conditions.marked_of(self._topology, qp)
        chain = self._from_its_host(stop, window.from_ps, self._from_host(source))
        return self._replayed("the first packet that came with a mark", chain)

    def longest_wait(self) -> ReplayedPacket:
        """The packet that waited longest in one queue. Raises `DetourError`: none waited."""
        self._progress("looking for the longest wait: all packets are traced")
        scan = WaitScan()
        self._run(scan)
        longest = scan.longest
        if longest is None:
            raise DetourError("no packet waited in this run")
        text = f"the packet that waited longest, {time_text(longest.wait_ticks * _TICK_PS)}"
        return self._replayed(text, self._followed(self._waiter(longest)))

    # -- passes ---------------------------------------------------------------------------------------------

    def _run(self, watcher: Watcher) -> SimRun:
        watchers: list[Watcher] = [watcher]
        if self._checkpoints is not None:
            watchers.insert(0, Checkpoints(self._checkpoints))
        plan = self._plan
        return run_workload(plan.topology, plan.workload, plan.settings, watcher=Watchers(watchers))

    def _window(self, counters: Counters[T]) -> Window[T] | None:
        """The time at which a counter grows first, as closely as tracing needs it."""
        self._progress("running again to find when it was")
        window: Window[T] | None = None
        while window is None or window.length_ps > _CLOSE_PS:
            watcher = FirstCount(counters, window)
            self._run(watcher)
            if watcher.window is None:
                return None
            window = watcher.window
        return window

    def _traced(
        self,
        stop: StopCondition[T],
        from_ps: int,
        selection: Filter,
        switches: Sequence[int] | None = None,
        until_ps: int | None = None,
        forget: bool = True,
    ) -> T | None:
        """Return the result of a stop condition in a part of the run."""

        def gone(chain: Chain) -> bool:
            return forget and is_over(self._topology, chain)

        part = TracedPart(from_ps, stop, selection=selection, switches=switches, until_ps=until_ps, forget=gone)
        self._run(part)
        return part.result

    def _loss(self, window: Window[DropPlace]) -> Sighting:
        """The frame that was lost in a window of time."""
        self._progress("tracing what was lost")
        for margin in (*_MARGINS_PS, window.from_ps):
            from_ps = max(0, window.from_ps - margin)
            sighting = self._traced(*self._loss_condition(window, from_ps), forget=False)
            if sighting is not None:
                return sighting
        raise DetourError(f"what was lost {time_text(window.to_ps)} after the start was not a packet at a switch")

    def _loss_condition(
        self, window: Window[DropPlace], from_ps: int
    ) -> tuple[StopCondition[Sighting], int, Filter, list[int], int | None]:
        """Arguments of `_traced`."""
        device, port = window.place.device, window.place.port
        if not window.place.on_link or port is None:
            first, last = (window.from_ps - US) // _TICK_PS, window.to_ps // _TICK_PS + 1
            stop = stop_conditions.dropped_at(device, port, first, last)
            return stop, from_ps, Filter(""), [device], None
        behind = self._topology.behind(device, port)
        links = self._plan.settings.links
        longest = max(links.delay_of(link) for link in self._topology.links)
        if behind is None or behind.place is None:
            name = self._topology.switch_name(device)
            raise DetourError(f"the first lost frame went from {name} to a host whose link is down")
        peer, _ = behind.place
        before = (window.from_ps - longest - _SETTLE_PS) // _TICK_PS
        enough = window.to_ps + longest + _SETTLE_PS
        stop = stop_conditions.lost_behind(device, port, peer, before, enough)
        return stop, from_ps, Filter(""), [device, peer], enough + _SETTLE_PS

    def _waiter(self, longest: LongestWait) -> Sighting:
        stop = stop_conditions.waited_at(longest.switch, longest.port, longest.enqueued_ticks)
        from_ps = max(0, longest.enqueued_ticks * _TICK_PS - US)
        sighting = self._traced(stop, from_ps, Filter(""), [longest.switch], forget=False)
        if sighting is None:
            raise DetourError(_NOT_AGAIN)
        return sighting

    def _followed(self, sighting: Sighting) -> Chain:
        """The whole way of a packet that was seen at a switch."""
        self._progress("tracing its way")
        name = packet_name(sighting.frame)
        selection = Filter("")
        if name is not None:
            selection = parse_filter(f"src {ipv6_text(name.source)} and sport {name.sport}")
        stop = stop_conditions.chain_of(self._topology, sighting)
        return self._from_its_host(stop, sighting.time_ticks * _TICK_PS, selection)

    def _from_its_host(self, stop: StopCondition[Chain], seen_ps: int, selection: Filter) -> Chain:
        """A packet from its first switch on: the trace begins early enough that it has one."""
        chain = None
        for margin in (*_MARGINS_PS, seen_ps):
            chain = self._traced(stop, max(0, seen_ps - margin), selection)
            if chain is not None and self._is_from_host(chain):
                return chain
            if margin >= seen_ps:
                break
        if chain is None:
            raise DetourError(_NOT_AGAIN)
        return chain

    def _is_from_host(self, chain: Chain) -> bool:
        behind = self._topology.behind(chain[0].switch, chain[0].port)
        return behind is not None and behind.host is not None

    # -- connections ----------------------------------------------------------------------------------------

    def _connection(self, flow: int) -> _Connection:
        graph = self._plan.workload.graph
        if not 0 <= flow < len(graph):
            raise DetourError(f"there is no flow {flow}; the run has 0 to {len(graph) - 1}")
        if not graph.is_message[flow]:
            raise DetourError(f"{flow} is a computation of the workload, not a flow")
        self._progress(f"running again until flow {flow} is sent")
        numbers = _Numbers(flow)
        tasks = self._run(numbers).tasks
        if tasks.sent_ps[flow] < 0:
            raise DetourError(f"flow {flow} was never sent in this run")
        lane = int(tasks.lane[flow])
        sizes = -(-graph.tasks["bytes"] // numbers.payload)
        earlier = (tasks.lane == lane) & (tasks.sent_ps >= 0) & (tasks.sent_ps < tasks.sent_ps[flow])
        source, qp = int(graph.tasks["source"][flow]), int(numbers.qps[lane])
        first_psn = int(numbers.first_psns[lane] + sizes[earlier].sum())
        return _Connection(source, qp, first_psn, int(sizes[flow]), int(tasks.sent_ps[flow]))

    def _from_host(self, host: int) -> Filter:
        return parse_filter(f"src {ipv6_text(self._topology.hosts[host].address)} and dport 4791")

    def _replayed(self, packet: str, chain: Chain) -> ReplayedPacket:
        (followed,) = packets(self._topology, chain, _TICK_PS)
        sent_ps = chain[0].time_ticks * _TICK_PS
        name = packet_name(chain[0].frame)
        of = "" if name is None else f", {self._host_of(name.source)}, source port {name.sport:#x}, PSN {name.psn}"
        text = f"{packet}{of}: at its first switch {time_text(sent_ps)} after the beginning"
        return ReplayedPacket(text, sent_ps, followed)

    def _host_of(self, address: int) -> str:
        names = (host.name for host in self._topology.hosts if host.address == address)
        return "from " + next(names, ipv6_text(address))


class _Numbers(Watcher):
    """Reads of all connections the destination QP and the first PSN; ends the run when a flow is sent."""

    def __init__(self, flow: int) -> None:
        self._flow, self._sent = flow, False

    @property
    def enough(self) -> bool:
        return self._sent

    def begin(self, fabric: VirtualFabric) -> None:
        super().begin(fabric)
        hs, flows = fabric.hs, fabric.flows
        self.qps = np.asarray(qp_numbers(hs, flows.receiver)).copy()
        self.first_psns = hs.qp["snd_nxt"][flows.sender].copy()
        self.payload = fabric.config.payload

    def look(self) -> None:
        self._sent = bool(self._fabric.hs.task["sent"][self._flow] >= 0)
        self.due_ps = self._fabric.now_ps + US
