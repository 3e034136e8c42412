# SPDX-License-Identifier: Apache-2.0
"""The log of packets of `detour switch -L debug|trace`: traces every packet and writes what simple_switch would."""

from __future__ import annotations

import logging
import threading
from typing import Any

from detour.engine.network import Network
from detour.engine.trace.bmv2_lines import PacketLines
from detour.engine.trace.recorder import Recorder, traced

_RING_BYTES = 64 << 20
_MOST_TRACES = 1 << 22
"""then numbers begin anew: headers have room for 24 bits"""


class PacketLog:
    """The packet log of one switch of a network. Its pipeline may only be changed between `stop` and `start`."""

    def __init__(self, network: Network, switch: int, log: logging.Logger, drop_port: int) -> None:
        self._network, self._switch, self._log, self._drop_port = network, switch, log, drop_port
        self._lock = threading.RLock()
        self._recorder: Recorder | None = None
        self._lines: PacketLines | None = None
        self._lost = 0
        self._packets = 0

    def start(self, program: Any) -> None:
        """Logs packets through a program from now on, the one that the switch has."""
        traced(program, program.covered)  # compiles, which takes long, and the loop stands while a recorder starts
        with self._lock:
            self._recorder = Recorder(
                self._network, switches=[self._switch], count=_MOST_TRACES, follow=False, ring_bytes=_RING_BYTES
            )
            self._recorder.start()
            self._lines = None
            self._lost = 0

    def stop(self) -> None:
        """Write what there is, and log no more packets."""
        with self._lock:
            if self._recorder is None:
                return
            self._recorder.stop()
            self._drain(self._recorder)
            self._packets += self._recorder.ring.begun
            self._recorder = None

    def drain(self) -> None:
        """Write what packets have done since the last call."""
        with self._lock:
            recorder = self._recorder
            if recorder is None:
                return
            self._drain(recorder)
            if recorder.ring.begun >= _MOST_TRACES:
                program = self._network.state(self._switch).program
                self.stop()
                self.start(program)

    def _drain(self, recorder: Recorder) -> None:
        for run, reader in recorder.executions():
            if self._lines is None:
                model = self._network.state(self._switch).program.model
                self._lines = PacketLines(model, reader, self._drop_port, self._packets)
                self._lines.replication = lambda: self._network.replication(self._switch)
            for level, text in self._lines.lines(run):
                self._log.log(level, "%s", text)
        lost = recorder.ring.missed + recorder.ring.lost
        if lost > self._lost:
            self._log.warning("%d packets came too fast to be logged", lost - self._lost)
            self._lost = lost
