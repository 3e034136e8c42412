# SPDX-License-Identifier: Apache-2.0
"""What steers the flows of a running fabric: its placement, repairs of it, and the rerouting controller."""

from __future__ import annotations

import threading
from typing import Any

from detour.base.errors import DetourError
from detour.control.placement.jobs import FlowSet
from detour.control.rerouting import Controller, Thresholds
from detour.fabric.live import LiveFlows
from detour.fabric.placed import Placed
from detour.fabric.rerouter import Push, Rerouter
from detour.hosts.verbs import Path
from detour.topo import Topology
from detour.topo import paths as topo_paths
from detour.topo.failures import NONE, Failures

WINDOW_S = 0.01
"""of the flow monitor while the controller is on"""
MS = 1_000_000_000
THRESHOLDS = Thresholds(delay_ps=2 * MS, hold_ps=100 * MS, penalty_ps=10_000 * MS)
"""of the controller on the wall clock"""


class Steering:
    """See the module. Methods may be called from several threads."""

    def __init__(self, topology: Topology, live: LiveFlows, push: Push) -> None:
        """`push`: how the controller tells a sender its new uSID list."""
        self._topology, self._live, self._push = topology, live, push
        self._placed = Placed(topology)
        self._rerouter: Rerouter | None = None
        self._failures: Failures = NONE
        self._usual_window = live.window_s
        self._lock = threading.RLock()

    # -- placement --------------------------------------------------------------------------------------

    def apply(self, flows: FlowSet, failures: Failures) -> dict[str, Any]:
        """Takes a new placement for connections to come; those that send keep their paths.

        Raises:
            DetourError: the flows cannot be placed; nothing has changed.
        """
        with self._lock:
            self._placed.apply(flows, failures)
            for live in self._live.all():
                live.placed = None
            return self._placed.report()

    def report(self) -> dict[str, Any]:
        """The placement as it is."""
        with self._lock:
            return self._placed.report() | {"rerouting": self._rerouter is not None}

    def next_path(self, source: int, target: int) -> tuple[int, Path] | None:
        """(flow of the placement, its path) for the next connection between two hosts; None if they have none."""
        with self._lock:
            flow = self._placed.next_flow(source, target)
            return None if flow is None else (flow, self._placed.path(flow))

    def repair(self, failures: Failures) -> dict[str, Any] | None:
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
            return self._placed.report() | {"moved": len(moved)}

    # -- rerouting --------------------------------------------------------------------------------------

    def reroute(self, on: bool) -> None:
        """Switches the controller on, with what sends now, or off."""
        with self._lock:
            if self._rerouter is not None:
                self._live.listeners.remove(self._rerouter.listen)
                self._rerouter = None
            self._live.window_s = WINDOW_S if on else self._usual_window
            if on:
                self._rerouter = Rerouter(Controller(self._topology, THRESHOLDS, self._failures), self._push)
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

    def rerouted(self, name: str, switches: topo_paths.Path) -> None:
        """A sender has been told another path."""
        with self._lock:
            try:
                flow = self._live.find(name).placed
            except DetourError:
                return  # it has ended
            if flow is not None:
                self._placed.moved(flow, switches)
