# SPDX-License-Identifier: Apache-2.0
"""The flows of a running fabric by name: watched at their receivers, and rerouted at their senders.

One thread ends a window for all flows, every `window_s` on the wall clock while there are any, and hands the reports
to whoever listens (`fabric.rerouter`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from detour.base.errors import DetourError
from detour.control.rerouting import FlowReport
from detour.fabric.monitoring.windows import FlowMonitor
from detour.fabric.traffic.flows import Flow
from detour.hosts.state import Hosts
from detour.hosts.verbs.verbs import Path

WINDOW_S = 0.1
"""as in section IV of the path placement paper"""

Listener = Callable[[list[FlowReport], int], None]
"""called with the reports of a window and the fabric's time in ps, in the monitor's thread"""


@dataclass
class LiveFlow:
    """A flow that sends. `placed`: the flow of the fabric's placement that it is, if it is one."""

    name: str
    flow: Flow
    placed: int | None


class LiveFlows:
    """See the module. Methods may be called from several threads."""

    def __init__(self, hs: Hosts, now_ps: Callable[[], int], window_s: float = WINDOW_S) -> None:
        self._now_ps = now_ps
        self._flows: dict[str, LiveFlow] = {}
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None
        self.window_s = window_s
        self.monitor = FlowMonitor(hs)
        self.listeners: list[Listener] = []

    def open(self, flow: Flow, placed: int | None = None) -> str:
        """Watches a flow from now on; returns its name, like `h0-h9`, or `h0-h9#2` beside another one."""
        with self._lock:
            stem = f"h{flow.source_host}-h{flow.target_host}"
            names = (stem if copy == 1 else f"{stem}#{copy}" for copy in range(1, len(self._flows) + 2))
            name = next(name for name in names if name not in self._flows)
            if not self._flows:
                self.monitor.sample(self._now_ps())  # a window begins
                self._wake.set()
            self._flows[name] = LiveFlow(name, flow, placed)
            self.monitor.add(name, flow.peer.index)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="flow monitor", daemon=True)
                self._thread.start()
        return name

    def close(self, name: str) -> None:
        """The flow is about to end."""
        with self._lock:
            del self._flows[name]
            self.monitor.remove(name)

    def stop(self) -> None:
        """Ends the thread. May be called twice."""
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        due = time.monotonic()
        while True:
            due = max(due + self.window_s, time.monotonic())
            self._wake.clear()
            if self._ended:  # looked at after the flag is cleared, which `stop` sets afterwards
                return
            # Without flows there is nothing to do until one begins; then a whole window passes.
            if self._wake.wait(due - time.monotonic() if len(self.monitor) else None):
                due = time.monotonic()
                continue
            with self._lock:
                now = self._now_ps()
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
            self.find(name).flow.reroute(path, self._now_ps())

    def set_label(self, name: str, label: int) -> None:
        """The sender of a flow marks its packets with this flow label (0: no longer), if the flow has not ended."""
        with self._lock:
            found = self._flows.get(name)
            if found is not None:
                found.flow.qp.set_flow_label(label)

    def rows(self) -> list[dict[str, Any]]:
        """What is known of every flow, ready for JSON."""
        with self._lock:
            totals = {each.name: asdict(each) for each in self.monitor.totals()}
            paths = {name: (str(live.flow.current_path), live.placed is not None) for name, live in self._flows.items()}
        return [row | {"path": paths[name][0], "placed": paths[name][1]} for name, row in totals.items()]
