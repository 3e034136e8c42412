# SPDX-License-Identifier: Apache-2.0
"""The flows that send in a running fabric, by name, and who hears of them.

Whoever sends opens a flow in the table and closes it; subscribers hear of both, in the order in which they subscribed:
senders of an expander and, while there are such, switches that watch flows and the controller that moves them. A window
ends for all flows every `window_s` of the fabric's clock while there are any, and the reports of receivers go to the
listeners (`fabric.operations.path_placement`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.control.rerouting import FlowReport
from detour.fabric.backends.clock import FabricClock, Ticker
from detour.fabric.monitoring.windows import FlowMonitor
from detour.fabric.records import FlowRow, SwitchFlowTotals
from detour.fabric.traffic.flows import Flow
from detour.hosts.state import Hosts
from detour.hosts.verbs import Path
from detour.topo.names import link_name

_log = logging.getLogger(__name__)

WINDOW_S = 0.1
"""as in section IV of the path placement paper"""

Listener = Callable[[list[FlowReport], int], None]
"""called with the reports of a window and the fabric's time in ps, by who ends it (`FabricClock.every`)"""


@dataclass
class LiveFlow:
    """A flow that sends. `placed`: the flow of the fabric's placement that it is, if it is one; `number`: its name by
    numbers of hosts, like `h0-h9#2`."""

    name: str
    flow: Flow
    placed: int | None
    number: str


class FlowSubscriber(Protocol):
    """A subscriber to the opening and closing of flows, called in the thread that opens or closes them."""

    def opened(self, flows: Sequence[LiveFlow]) -> None:
        """Flows are in the table and about to send."""
        ...

    def closed(self, flow: LiveFlow) -> None:
        """A flow ends; it is in the table until this returns."""
        ...


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
        self.subscribers: list[FlowSubscriber] = []

    def open(self, flow: Flow, placed: int | None = None) -> str:
        """A flow is about to send; returns its name, like `h0-h9`, or `h0-h9#2` beside another one."""
        return self.open_all([flow], placed)[0]

    def open_all(self, flows: Iterable[Flow], placed: int | None = None) -> list[str]:
        """The same of several, of which subscribers hear together: all of them, or none if one of these refuses."""
        with self._lock:
            opened = [self._entered(flow, placed) for flow in flows]
        names = [live.name for live in opened]
        try:
            for subscriber in list(self.subscribers):
                subscriber.opened(opened)
        except BaseException:
            for name in names:
                self.close(name)
            raise
        return names

    def _entered(self, flow: Flow, placed: int | None) -> LiveFlow:
        names = (link_name(*flow.ends, copy) for copy in range(1, len(self._flows) + 2))
        name = next(name for name in names if name not in self._flows)
        first = not self._flows
        if first:
            self.monitor.sample(self._clock.now_ps)  # a window begins
        number = f"h{flow.source_host}-h{flow.target_host}{name.removeprefix(link_name(*flow.ends))}"
        live = self._flows[name] = LiveFlow(name, flow, placed, number)
        self.monitor.add(name, flow.peer.index)
        if self._ticker is None:
            self._ticker = self._clock.every(self._period, self._end_window, "flow monitor")
        elif first:
            self._ticker.restart()
        return live

    def close(self, name: str) -> None:
        """The flow is about to end."""
        live = self.find(name)
        for subscriber in list(self.subscribers):
            subscriber.closed(live)
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
        """The flow of that name. Raises DetourError: there is none."""
        with self._lock:
            live = self._flows.get(name) or next((each for each in self._flows.values() if each.number == name), None)
        if live is None:
            there = ", ".join(self._flows) or "none"
            raise DetourError(f"there is no flow {name!r}; there are: {there}")
        return live

    def all(self) -> list[LiveFlow]:
        """All flows now."""
        with self._lock:
            return list(self._flows.values())

    def reroute(self, name: str, path: Path) -> None:
        """The sender of a flow takes another path. Raises DetourError: there is no such flow."""
        with self._lock:
            self.find(name).flow.reroute(path, self._clock.now_ps)

    def set_label(self, name: str, label: int) -> None:
        """The sender of a flow marks its packets with this flow label (0: no longer), if the flow has not ended."""
        with self._lock:
            live = self._flows.get(name)
            if live is not None:
                live.flow.qp.set_flow_label(label)

    def rows(self, at_switches: Callable[[str], list[SwitchFlowTotals]]) -> list[FlowRow]:
        """Return a row for every flow; `at_switches`: by its name, at the switches that watch it."""
        with self._lock:
            totals = [(each, self._flows[each.name]) for each in self.monitor.totals()]
            rows = [
                (each, str(live.flow.current_path), live.placed is not None, live.flow.qp.cwnd) for each, live in totals
            ]
        return [
            extended(FlowRow, each, path=path, placed=placed, switches=at_switches(each.name), cwnd=round(cwnd, 2))
            for each, path, placed, cwnd in rows
        ]
