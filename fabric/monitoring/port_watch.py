# SPDX-License-Identifier: Apache-2.0
"""The monitoring module of the switches: all ports in windows, read over P4Runtime and from the target.

It begins with the first question, for reading counters of many switches costs something, and goes on until the fabric
ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError
from detour.control.p4runtime.monitor import PORT_COUNTERS, Sample
from detour.fabric.footings.base import Fabric
from detour.fabric.footings.clock import Ticker
from detour.fabric.monitoring.rows import PortCounts, PortWindow
from detour.fabric.monitoring.windows import PortMonitor

PORT_WINDOW_S, _FIRST_WINDOW_S = 1.0, 0.2
_KEPT = 300


def port_counts(sample: Sample, device: int, port: int) -> PortCounts:
    """The counters of a port in a sample."""
    found: dict[str, int] = {}
    for name in PORT_COUNTERS:
        count = sample.port(device, port, name)
        found |= {f"{name}_packets": count.packets, f"{name}_bytes": count.bytes}
    return PortCounts(**found)


class PortWatch:
    """See the module."""

    def __init__(self, fabric: Fabric, sample: Callable[[], Sample]) -> None:
        """`sample`: the switches' counters now."""
        self._fabric, self._sample = fabric, sample
        self._ports = [
            (switch.device_id, port)
            for switch in fabric.topology.switches
            for port, peer in enumerate(switch.ports, 1)
            if peer is not None
        ]
        names = [(f"s{device - 1}:{port}", None) for device, port in self._ports]
        self.monitor = PortMonitor(names, self._read, _KEPT)
        self._ticker: Ticker | None = None
        self._end = threading.Event()
        self._lock = threading.Lock()

    def _read(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        sample, states = self._sample(), self._fabric.ports()
        counts, waiting = [], []
        for device, port in self._ports:
            sent, state = sample.port(device, port, "tx"), states[device, port]
            counts.append((sent.packets, sent.bytes, sample.port(device, port, "marked").packets, state.drops or 0))
            waiting.append(state.queue_packets or 0)
        return np.array(counts, np.int64), np.array(waiting, np.int64)

    def last(self) -> dict[str, PortWindow]:
        """The last window of every port, by its name like `s0:3`; the first call begins one and waits for its end."""
        with self._lock:
            if self._ticker is None:
                clock = self._fabric.clock
                self.monitor.sample(clock.now_ps)
                clock.wait_seconds(_FIRST_WINDOW_S, self._end)
                self.monitor.sample(clock.now_ps)
                self._ticker = clock.every(lambda: PORT_WINDOW_S, self._end_window, "port monitor")
        return self.monitor.last

    def _end_window(self) -> None:
        # The fabric goes down, or a switch is away: this window is as long as it is.
        with suppress(DetourError):
            self.monitor.sample(self._fabric.now_ps)

    def stop(self) -> None:
        """Ends no more windows. May be called twice."""
        self._end.set()
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
