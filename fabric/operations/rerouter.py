# SPDX-License-Identifier: Apache-2.0
"""The controller's loop: monitor -> decide -> push (SRv6 path placement paper, section III-D).

It hears the windows of all flows (`LiveFlows.listeners`), asks `control.rerouting.ReroutingController`, and pushes new
uSID lists to senders through their interface, `{"do": "reroute", "with": {"flow": ..., "usid": ...}}` on the control
socket (docs/placement.md). A sender that refuses, or has gone, changes nothing here either.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from detour.base.errors import DetourError
from detour.control.rerouting import FlowReport, ReroutingController
from detour.topo.paths import SwitchPath

_log = logging.getLogger(__name__)

Push = Callable[[str, str], object]
"""called with a flow's name and a uSID list as text; raises `DetourError` if the sender does not take it"""


def usid_text(path: SwitchPath, target: int) -> str:
    """The list for a path of switches to a host as text that `parse_usid_list` understands."""
    return ",".join([*(f"s{switch}" for switch in path[1:]), f"h{target}"])


class Rerouter:
    """Reroutes the flows that were added."""

    def __init__(self, controller: ReroutingController, push: Push) -> None:
        self._controller = controller
        self._push = push
        self._targets: dict[str, int] = {}
        self._lock = threading.Lock()
        self.pushed: list[tuple[int, str, SwitchPath]] = []
        """time in ps at which the window ended, flow, new path"""

    def add(self, flow: str, path: SwitchPath, target: int) -> None:
        """A flow to host `target` that is on a path of switches now."""
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
            wanted = [(flow, path, self._targets[flow]) for flow, path in self._decide(reports, now_ps)]
        for flow, path, target in wanted:
            try:
                self._push(flow, usid_text(path, target))
            except DetourError as error:
                _log.warning("%s stays where it is: %s", flow, error)
                continue
            with self._lock:
                if flow in self._targets:
                    self._controller.moved(flow, path, now_ps)
            self.pushed.append((now_ps, flow, path))

    def _decide(self, reports: list[FlowReport], now_ps: int) -> list[tuple[str, SwitchPath]]:
        return list(self._controller.decide(reports, now_ps).items())
