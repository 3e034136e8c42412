# SPDX-License-Identifier: Apache-2.0
"""The flows of a running fabric by name: watched at their receivers and, if asked, at the switches on their way, and
rerouted at their senders.

A window ends for all flows every `window_s` of the fabric's clock while there are any, and the reports are handed to
whoever listens (`fabric.operations.rerouter`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.control.rerouting import FlowReport
from detour.fabric.footings.base import Fabric
from detour.fabric.footings.clock import FabricClock, Ticker
from detour.fabric.monitoring.windows import FlowMonitor
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.paths import Paths
from detour.fabric.operations.results import FlowRows
from detour.fabric.operations.switch_flows import FabricAccess, SwitchFlows
from detour.fabric.records import FlowRow, SwitchFlowTotals
from detour.fabric.traffic.flows import Flow
from detour.hosts.state import Hosts
from detour.hosts.verbs.verbs import Path

_log = logging.getLogger(__name__)

WINDOW_S = 0.1
"""as in section IV of the path placement paper"""

Listener = Callable[[list[FlowReport], int], None]
"""called with the reports of a window and the fabric's time in ps, by who ends it (`FabricClock.every`)"""


@dataclass
class LiveFlow:
    """A flow that sends. `placed`: the flow of the fabric's placement that it is, if it is one."""

    name: str
    flow: Flow
    placed: int | None


class LiveFlows:
    """See the module. Methods may be called from several threads."""

    def __init__(self, hs: Hosts, clock: FabricClock, window_s: float = WINDOW_S) -> None:
        self._clock = clock
        self._flows: dict[str, LiveFlow] = {}
        self._lock = threading.RLock()
        self._ticker: Ticker | None = None
        self.window_s = window_s
        self.monitor = FlowMonitor(hs)
        self.listeners: list[Listener] = []

    def open(self, flow: Flow, placed: int | None = None) -> str:
        """Watches a flow from now on; returns its name, like `h0-h9`, or `h0-h9#2` beside another one."""
        with self._lock:
            stem = f"h{flow.source_host}-h{flow.target_host}"
            names = (stem if copy == 1 else f"{stem}#{copy}" for copy in range(1, len(self._flows) + 2))
            name = next(name for name in names if name not in self._flows)
            first = not self._flows
            if first:
                self.monitor.sample(self._clock.now_ps)  # a window begins
            self._flows[name] = LiveFlow(name, flow, placed)
            self.monitor.add(name, flow.peer.index)
            if self._ticker is None:
                self._ticker = self._clock.every(self._period, self._end_window, "flow monitor")
            elif first:
                self._ticker.restart()
        return name

    def close(self, name: str) -> None:
        """The flow is about to end."""
        with self._lock:
            del self._flows[name]
            self.monitor.remove(name)

    def stop(self) -> None:
        """Ends no more windows. May be called twice."""
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def _period(self) -> float | None:
        """Without flows there is nothing to do until one begins; then a whole window passes."""
        return self.window_s if len(self.monitor) else None

    def _end_window(self) -> None:
        with self._lock:
            now = self._clock.now_ps
            self.monitor.sample(now)
            reports = self.monitor.reports() if self.listeners else []
        for listener in list(self.listeners):
            listener(reports, now)

    def find(self, name: str) -> LiveFlow:
        """The flow of that name.

        Raises:
            DetourError: there is none.
        """
        with self._lock:
            found = self._flows.get(name)
        if found is None:
            there = ", ".join(self._flows) or "none"
            raise DetourError(f"there is no flow {name!r}; there are: {there}")
        return found

    def all(self) -> list[LiveFlow]:
        """All flows now."""
        with self._lock:
            return list(self._flows.values())

    def reroute(self, name: str, path: Path) -> None:
        """The sender of a flow takes another path.

        Raises:
            DetourError: there is no such flow.
        """
        with self._lock:
            self.find(name).flow.reroute(path, self._clock.now_ps)

    def set_label(self, name: str, label: int) -> None:
        """The sender of a flow marks its packets with this flow label (0: no longer), if the flow has not ended."""
        with self._lock:
            found = self._flows.get(name)
            if found is not None:
                found.flow.qp.set_flow_label(label)

    def rows(self, at_switches: Callable[[str], list[SwitchFlowTotals]]) -> list[FlowRow]:
        """What is known of every flow; `at_switches`: by its name, at the switches that watch it."""
        with self._lock:
            totals = [(each, self._flows[each.name]) for each in self.monitor.totals()]
            found = [
                (each, str(live.flow.current_path), live.placed is not None, live.flow.qp.cwnd) for each, live in totals
            ]
        return [
            extended(FlowRow, each, path=path, placed=placed, switches=at_switches(each.name), cwnd=round(cwnd, 2))
            for each, path, placed, cwnd in found
        ]


class WatchedFlows:
    """Those of `LiveFlows`, and the switches that watch them. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric, control: ControlPlane, live: LiveFlows, paths: Paths, kept: int) -> None:
        """`kept`: windows of the switches that are remembered."""
        self._topology, self._control, self._paths = fabric.topology, control, paths
        self.live = live
        links = FabricAccess(control.read_cells, control.rewrite, live.set_label, fabric.clock)
        self.switches = SwitchFlows(links, fabric.terms.hosts.tick_ps, live.window_s, kept)
        self._watching = False

    def flows(self) -> FlowRows:
        """What sends now, as its receivers, and if asked the switches on the way, saw it in the last window."""
        rows = self.live.rows(self.switches.rows)
        return FlowRows(self.live.window_s, self._watching, self.switches.pause_s, rows)

    def watch_flows(self, on: bool) -> FlowRows:
        """Switches watch the flows that send, and those that will, or no flow any more."""
        with self._control.changing:
            self._watching = on
            if on:
                self._watch(self.live.all())
            else:
                for live in self.live.all():
                    self.ends(live.name)
        return self.flows()

    def begins(self, *names: str) -> None:
        """Flows that are live begin to send."""
        if self._watching:
            self._watch([self.live.find(name) for name in names])

    def _watch(self, flows: Iterable[LiveFlow]) -> None:
        """Lets all switches watch flows that these can pass. Without room for it, a flow sends unwatched."""

        def add(live: LiveFlow, devices: list[int]) -> None:
            self.switches.add(live.name, self._topology.hosts[live.flow.source_host].address, devices)

        with self._control.changing:
            self._change([live for live in flows if live.name not in self.switches], add)

    def ends(self, name: str) -> None:
        """A flow ends, or is to be watched no longer."""
        with self._control.changing:
            try:
                self.switches.remove(name)
            except DetourError as error:
                _log.warning("%s: %s", name, error)

    def follow(self, flows: Iterable[LiveFlow]) -> None:
        """Flows may have got other paths: those that are watched are watched there."""
        with self._control.changing:
            watched = [live for live in flows if live.name in self.switches]
            self._change(watched, lambda live, devices: self.switches.move(live.name, devices))

    def _change(self, flows: Sequence[LiveFlow], change: Callable[[LiveFlow, list[int]], None]) -> None:
        """Changes where flows are watched; `change` gets the devices that one can pass, in order of its paths."""
        hosts, switches = self._topology.hosts, self._topology.switches
        ways = [
            (live, hosts[live.flow.source_host], hosts[live.flow.target_host], path)
            for live in flows
            for path in live.flow.paths
        ]
        devices: dict[str, list[int]] = {live.name: [] for live in flows}
        try:
            for (live, *_), passed in zip(ways, self._paths.hops(way[1:] for way in ways), strict=True):
                devices[live.name] += [switches[switch].device_id for switch in passed]
        except DetourError as error:
            _log.warning("it is not known where flows pass: %s", error)
            return
        for live in flows:
            try:
                change(live, list(dict.fromkeys(devices[live.name])))
            except DetourError as error:
                _log.warning("%s is watched no longer: %s", live.name, error)
