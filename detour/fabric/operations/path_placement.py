# SPDX-License-Identifier: Apache-2.0
"""Operations that choose paths for flows, by a placement or one flow by hand, with what keeps the placement right:
repairs and the rerouting controller."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path as File
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.base.times import MS
from detour.control.rerouting import FlowReport, ReroutingController, Thresholds
from detour.fabric.operations.control_plane import ControlPlane, Paths, since
from detour.fabric.operations.live_flows import LiveFlow
from detour.fabric.operations.results import PlacedFlows, PlacementState, RepairedPlacement, ReroutedFlow
from detour.fabric.operations.switch_flows import WatchedFlows
from detour.fabric.records import PlacementTotals
from detour.hosts.verbs import Path
from detour.topo import paths as topo_paths
from detour.topo.failures import NONE, Failures

if TYPE_CHECKING:
    from detour.fabric.operations.placed import Placed

_log = logging.getLogger(__name__)

Push = Callable[[str, str], object]
"""called with a flow's name and a uSID list as text; raises `DetourError` if the sender does not take it"""
REROUTING_WINDOW_S, WINDOW_PACKETS = 0.01, 12
"""of the flow monitor while the controller is on: so many data packets at a link's rate, or a drop in throughput is
nothing but a packet that came a little later"""
DELAY_PS, DELAY_PACKETS = 2 * MS, 10
"""what packets must wait longer than usual to be a sign of congestion, or so many packets"""
REROUTING_THRESHOLDS = Thresholds(delay_ps=DELAY_PS, hold_ps=100 * MS, penalty_ps=10_000 * MS)
"""of the controller on the wall clock"""


NOTHING_PLACED = PlacementTotals(flows=0, collisions=0, lower_bound=0, without_path=0, method=None)


class Rerouter:
    """The controller's loop: monitor, decide, push (SRv6 path placement paper, section III-D).

    It hears the windows of all flows (`LiveFlows.listeners`), asks `control.rerouting.ReroutingController`, and pushes
    new uSID lists to senders through their interface, `{"do": "reroute", "with": {"flow": ..., "usid": ...}}` on the
    control socket (docs/placement.md). A sender that refuses, or has gone, changes nothing here either."""

    def __init__(self, controller: ReroutingController, push: Push) -> None:
        self._controller = controller
        self._push = push
        self._targets: dict[str, int] = {}
        self._lock = threading.Lock()
        self.pushed: list[tuple[int, str, topo_paths.SwitchPath]] = []
        """time in ps at which the window ended, flow, new path"""

    def add(self, flow: str, path: topo_paths.SwitchPath, target: int) -> None:
        """A flow to host `target` that is on a path now."""
        with self._lock:
            self._targets[flow] = target
            self._controller.add(flow, path)

    def remove(self, flow: str) -> None:
        """A flow has ended."""
        with self._lock:
            self._targets.pop(flow, None)
            self._controller.remove(flow)

    def listen(self, reports: list[FlowReport], now_ps: int) -> None:
        """A window has ended."""
        with self._lock:
            decided = self._controller.decide(reports, now_ps)
            moves = [(flow, path, self._targets[flow]) for flow, path in decided.items()]
        for flow, path, target in moves:
            try:
                self._push(flow, topo_paths.usid_list_text(self._controller.topology, path, target))
            except DetourError as error:
                _log.warning("%s stays where it is: %s", flow, error)
                continue
            with self._lock:
                if flow in self._targets:
                    self._controller.moved(flow, path, now_ps)
            self.pushed.append((now_ps, flow, path))


class PathPlacement:
    """See the module. Methods may be called from several threads."""

    def __init__(self, control: ControlPlane, watched: WatchedFlows, paths: Paths, packet_s: float) -> None:
        """`packet_s`: time of a data packet on a link."""
        self._control, self._watched, self._paths, self._live = control, watched, paths, watched.live
        self._topology = control.topology
        self._window_s = max(REROUTING_WINDOW_S, WINDOW_PACKETS * packet_s)
        hold_ps = round(REROUTING_THRESHOLDS.hold_ps * self._window_s / REROUTING_WINDOW_S)
        delay_ps = max(DELAY_PS, DELAY_PACKETS * packet_s * 1e12)
        self._thresholds = replace(REROUTING_THRESHOLDS, delay_ps=delay_ps, hold_ps=hold_ps)
        self.placed: Placed | None = None
        """None: there is no placement"""
        self._rerouter: Rerouter | None = None
        self._failures: Failures = NONE
        self._usual_window = self._live.window_s
        self._lock = threading.RLock()

    # -- operations -------------------------------------------------------------------------------------

    def place(self, jobs: str, reroute: bool, watch: bool) -> PlacedFlows:
        """Place the flows of a job file; connections between their hosts to come take these paths, and those that send
        keep theirs. `reroute`: the controller moves them when they are congested; `watch`: switches watch them
        (`watch_flows`). Raises DetourError: the file is wrong or the flows cannot be placed; what was placed before
        stays."""
        from detour.control.placement.jobs import read_jobs
        from detour.fabric.operations.placed import Placed

        with self._control.changing:
            begin = time.monotonic()
            flows = read_jobs(File(jobs), self._topology)
            with self._lock:
                self.placed = Placed(self._topology, flows, self._control.failures)
                for live in self._live.all():
                    live.placed = None
                self._let_controller(reroute)
            state = self.placement()
            if watch:
                self._watched.watch_flows(True)
        return extended(PlacedFlows, state, topology=self._topology.spec, seconds=since(begin))

    def placement(self) -> PlacementState:
        """The placement as it is now."""
        with self._lock:
            totals = NOTHING_PLACED if self.placed is None else self.placed.totals()
            return extended(PlacementState, totals, rerouting=self._rerouter is not None)

    def reroute(self, flow: str, usid: str) -> ReroutedFlow:
        """The sender of a flow takes another uSID list, if that leads to its destination. Raises DetourError: no such
        flow or list, or packets with it would not arrive; the flow stays as it is."""
        live = self._live.find(flow)
        a, b = self._topology.hosts[live.flow.source_host], self._topology.hosts[live.flow.target_host]
        path = self._paths.chosen(b, None, usid)
        with self._control.tracer() as tracer:
            trace = tracer.trace(a, b, path.sport, path.usids)
        if not trace.delivered:
            raise DetourError(f"flow {flow} stays: {path} {trace.outcome}")
        self._live.reroute(flow, path)
        with self._lock:
            if self.placed is not None and live.placed is not None:
                self.placed.moved(live.placed, trace.path(self._topology))
        self._watched.move([live])
        return ReroutedFlow(flow, str(path), self._topology.path_names(trace.path(self._topology)))

    # -- placement --------------------------------------------------------------------------------------

    def next_path(self, source: int, target: int) -> tuple[int, Path] | None:
        """(flow of the placement, its path) for the next connection between two hosts; None if they have none."""
        with self._lock:
            placed = self.placed
            flow = None if placed is None else placed.next_flow(source, target)
            return None if placed is None or flow is None else (flow, placed.path(flow))

    def placed_paths(self, source: int, target: int) -> tuple[Path, ...]:
        """All that the placement has between two hosts; none if they are not in it."""
        with self._lock:
            return () if self.placed is None else self.placed.paths(source, target)

    def repair(self, failures: Failures) -> RepairedPlacement | None:
        """Give the flows whose path has failed another one and tell their senders; None without a placement."""
        with self._lock:
            self._failures = failures
            if self._rerouter is not None:
                self._let_controller(True)
            if self.placed is None:
                return None
            repaired = self.placed.repair(failures)
            moved = set(repaired.moved.tolist())
            for live in self._live.all():
                if live.placed is not None and live.placed in moved:
                    self._live.reroute(live.name, self.placed.path(live.placed))
            return extended(RepairedPlacement, self.placed.totals(), moved=len(moved))

    # -- controller -------------------------------------------------------------------------------------

    def _let_controller(self, reroute: bool) -> None:
        """Switches the controller on, with what sends now, or off."""
        if self._rerouter is not None:
            self._live.listeners.remove(self._rerouter.listen)
            self._live.subscribers.remove(self)
            self._rerouter = None
        self._live.window_s = self._window_s if reroute else self._usual_window
        if reroute:
            controller = ReroutingController(self._topology, self._thresholds, self._failures)
            self._rerouter = Rerouter(controller, self.reroute)
            self._live.subscribers.append(self)
            self.opened(self._live.all())
            self._live.listeners.append(self._rerouter.listen)

    def opened(self, flows: Sequence[LiveFlow]) -> None:
        """The controller moves those that take a flow of the placement."""
        with self._lock:
            if self._rerouter is None or self.placed is None:
                return
            for live in flows:
                if live.placed is not None and (switches := self.placed.switches(live.placed)):
                    self._rerouter.add(live.name, switches, live.flow.target_host)

    def closed(self, flow: LiveFlow) -> None:
        """Stop watching a flow that has closed."""
        with self._lock:
            if self._rerouter is not None:
                self._rerouter.remove(flow.name)
