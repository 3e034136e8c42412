# SPDX-License-Identifier: Apache-2.0
"""What steers the flows of a running fabric: its placement, repairs of it, and the rerouting controller."""

from __future__ import annotations

import threading
from dataclasses import replace

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.base.times import MS
from detour.control.placement.jobs import FlowSet
from detour.control.rerouting import ReroutingController, Thresholds
from detour.fabric.operations.live import LiveFlows
from detour.fabric.operations.placed import Placed
from detour.fabric.operations.rerouter import Push, Rerouter
from detour.fabric.operations.results import PlacementState, RepairedPlacement
from detour.hosts.verbs.verbs import Path
from detour.topo import Topology
from detour.topo import paths as topo_paths
from detour.topo.failures import NONE, Failures

STEERING_WINDOW_S, WINDOW_PACKETS = 0.01, 12
"""of the flow monitor while the controller is on: so many data packets at a link's rate, or a drop in throughput is
nothing but a packet that came a little later"""
DELAY_PS, DELAY_PACKETS = 2 * MS, 10
"""what packets must wait longer than usual to be a sign of congestion, or so many packets"""
STEERING_THRESHOLDS = Thresholds(delay_ps=DELAY_PS, hold_ps=100 * MS, penalty_ps=10_000 * MS)
"""of the controller on the wall clock"""


def window_s(packet_s: float) -> float:
    """The window while the controller is on, where a data packet takes so many seconds on a link."""
    return max(STEERING_WINDOW_S, WINDOW_PACKETS * packet_s)


def thresholds(packet_s: float) -> Thresholds:
    """Those of the controller."""
    hold = round(STEERING_THRESHOLDS.hold_ps * window_s(packet_s) / STEERING_WINDOW_S)
    return replace(STEERING_THRESHOLDS, delay_ps=max(DELAY_PS, DELAY_PACKETS * packet_s * 1e12), hold_ps=hold)


class Steering:
    """See the module. Methods may be called from several threads."""

    def __init__(self, topology: Topology, live: LiveFlows, push: Push, packet_s: float) -> None:
        """`push`: how the controller tells a sender its new uSID list. `packet_s`: time of a data packet on a link."""
        self._window_s, self._thresholds = window_s(packet_s), thresholds(packet_s)
        self._topology, self._live, self._push = topology, live, push
        self._placed = Placed(topology)
        self._rerouter: Rerouter | None = None
        self._failures: Failures = NONE
        self._usual_window = live.window_s
        self._lock = threading.RLock()

    # -- placement --------------------------------------------------------------------------------------

    def apply(self, flows: FlowSet, failures: Failures) -> None:
        """Takes a new placement for connections to come; those that send keep their paths.

        Raises:
            DetourError: the flows cannot be placed; nothing has changed.
        """
        with self._lock:
            self._placed.apply(flows, failures)
            for live in self._live.all():
                live.placed = None

    def state(self) -> PlacementState:
        """The placement as it is."""
        with self._lock:
            return extended(PlacementState, self._placed.totals(), rerouting=self._rerouter is not None)

    def next_path(self, source: int, target: int) -> tuple[int, Path] | None:
        """(flow of the placement, its path) for the next connection between two hosts; None if they have none."""
        with self._lock:
            flow = self._placed.next_flow(source, target)
            return None if flow is None else (flow, self._placed.path(flow))

    def repair(self, failures: Failures) -> RepairedPlacement | None:
        """Gives the flows whose path has failed another one and tells their senders; None without a placement."""
        with self._lock:
            self._failures = failures
            if self._rerouter is not None:
                self.reroute(True)
            found = self._placed.repair(failures)
            if found is None:
                return None
            moved = set(found.moved.tolist())
            for live in self._live.all():
                if live.placed is not None and live.placed in moved:
                    self._live.reroute(live.name, self._placed.path(live.placed))
            return extended(RepairedPlacement, self._placed.totals(), moved=len(moved))

    # -- rerouting --------------------------------------------------------------------------------------

    def reroute(self, on: bool) -> None:
        """Switches the controller on, with what sends now, or off."""
        with self._lock:
            if self._rerouter is not None:
                self._live.listeners.remove(self._rerouter.listen)
                self._rerouter = None
            self._live.window_s = self._window_s if on else self._usual_window
            if on:
                self._rerouter = Rerouter(
                    ReroutingController(self._topology, self._thresholds, self._failures), self._push
                )
                for live in self._live.all():
                    self._watch(live.name, live.placed)
                self._live.listeners.append(self._rerouter.listen)

    def _watch(self, name: str, flow: int | None) -> None:
        switches = () if flow is None else self._placed.switches(flow)
        if self._rerouter is not None and switches:
            self._rerouter.add(name, switches, self._live.find(name).flow.target_host)

    def opened(self, name: str, flow: int | None) -> None:
        """A connection that takes a flow of the placement begins."""
        with self._lock:
            self._watch(name, flow)

    def closed(self, name: str) -> None:
        """A connection ends."""
        with self._lock:
            if self._rerouter is not None:
                self._rerouter.remove(name)

    def rerouted(self, name: str, switches: topo_paths.SwitchPath) -> None:
        """A sender has been told another path."""
        with self._lock:
            try:
                flow = self._live.find(name).placed
            except DetourError:
                return  # it has ended
            if flow is not None:
                self._placed.moved(flow, switches)
