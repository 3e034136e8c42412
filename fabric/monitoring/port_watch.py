# SPDX-License-Identifier: Apache-2.0
"""The monitoring module of the switches: all ports in windows, read over P4Runtime and from the target.

It begins with the first question, for reading counters of many switches costs something, and goes on until the fabric
ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError
from detour.control.p4runtime.monitor import Sample
from detour.fabric.footings.base import Fabric
from detour.fabric.monitoring.windows import PortMonitor

PORT_WINDOW_S = 1.0
_KEPT = 300


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
        self._thread: threading.Thread | None = None
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

    def last(self) -> dict[str, dict[str, float]]:
        """The last window of every port, by its name like `s0:3`; the first call begins one and waits for its end."""
        with self._lock:
            if self._thread is None:
                now = time.monotonic_ns() * 1000
                self.monitor.sample(now)
                self._end.wait(min(PORT_WINDOW_S, 0.2))
                self.monitor.sample(time.monotonic_ns() * 1000)
                self._thread = threading.Thread(target=self._watch, name="port monitor", daemon=True)
                self._thread.start()
        return self.monitor.last

    def _watch(self) -> None:
        while not self._end.wait(PORT_WINDOW_S):
            try:
                self.monitor.sample(time.monotonic_ns() * 1000)
            except DetourError:
                continue  # the fabric goes down, or a switch is away: this window is as long as it is

    def stop(self) -> None:
        """Ends the thread. May be called twice."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
