# SPDX-License-Identifier: Apache-2.0
"""A switch of the engine on which tests run, with counters of what packets reach."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from detour.base.dataplane import HIGHEST_PORT
from detour.engine import phv
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import DEFAULT_TICK_PS, SwitchState
from detour.engine.trace.network import TraceNetwork
from detour.fabric.tracing.results import Arrived, Ending, TracedHop, TracedPacket, endings
from detour.fabric.tracing.stf import parse_stf
from detour.fabric.tracing.stf_player import StfRun, play_stf

_DEVICE, _NAME = 1, "switch"
_SIZE, _BATCHES = (256, 1 << 14), (1024, 1 << 12)
"""packets and bytes of a frame, of a switch to which frames come one by one, and in batches"""
_GAP_PS = 10**6
_TICKS = 64


class TestSwitch:
    """Plays STF; see `StfSwitch`. A context manager."""

    __test__ = False

    def __init__(self, program: Program, sinks: bool = True) -> None:
        """`program`: compiled with coverage. `sinks`: what comes out is of interest."""
        self.program = program
        size = _SIZE if sinks else _BATCHES
        self.network = Network(Virtual(divide=False), DEFAULT_TICK_PS, 0, packets=size[0], frame_bytes=size[1])
        self.network.add_switch(_DEVICE, _NAME, priorities=8, cpu_port=0, drop_port=phv.DROP_PORT)
        self._frames: list[tuple[int, bytes]] = []
        for port in range(HIGHEST_PORT + 1) if sinks else ():
            self.network.attach_sink((_DEVICE, port), lambda frame, time_ps, port=port: self._note(port, frame))

    def _note(self, port: int, frame: bytes) -> None:
        self._frames.append((port, bytes(frame)))

    def play(self, text: str, path: Path = Path("test.stf")) -> StfRun:
        """Plays a test on a switch without entries. Raises DetourError: see `play_stf`."""
        self.network.set_pipeline(_DEVICE, self.program, SwitchState(self.program, 0))
        self.network.clear_replication(_DEVICE)
        return play_stf(path, parse_stf(text), self)

    def send(self, frames: Sequence[bytes], port: int) -> None:
        """Sends frames of one length, one after the other, and drops what goes round for ever."""
        if not self.network.has_port((_DEVICE, port)):
            self.network.attach_sink((_DEVICE, port), lambda frame, time_ps: None)
        times = self.network.now_ps + _GAP_PS * np.arange(len(frames))
        data = np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), -1)
        self.network.inject_many((_DEVICE, port), times, data)
        self.network.run(int(times[-1]) + _GAP_PS)
        if self.network.loop_stats()["used"]:
            self.network.flush(_DEVICE)

    def trace(self, frame: bytes, port: int) -> TracedPacket:
        self._frames.clear()
        self.network.inject((_DEVICE, port), frame)
        for _ in range(_TICKS):
            self.network.run(self.network.now_ps + self.network.tick_ps)
            if not self.network.loop_stats()["used"]:
                break
        else:
            self.network.flush(_DEVICE)
        arrived = [Arrived(_NAME, out, None, data) for out, data in self._frames]
        return TracedPacket([], [Ending(1.0, [each]) for each in arrived])

    @property
    def faults(self) -> int:
        """Packets that ended because the program did what simple_switch aborts for."""
        return int(self.network.switch_stats()["faults"].sum())

    @property
    def api(self) -> BmRuntime:
        return BmRuntime(BmDevice(self.network, _DEVICE))

    def wait(self, duration_ps: int) -> None:
        self.network.run(self.network.now_ps + duration_ps)

    def close(self) -> None:
        self.network.stop()

    def __enter__(self) -> TestSwitch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class TracingSwitch:
    """Plays STF as `TestSwitch` does, and leaves traces. A context manager."""

    def __init__(self, program: Program) -> None:
        self._program, self._traces = program, TraceNetwork()
        self._traces.add_switch(_DEVICE, range(HIGHEST_PORT + 1), name=_NAME, cpu_port=0)

    def play(self, text: str, path: Path = Path("test.stf")) -> StfRun:
        """Plays a test on a switch without entries. Raises DetourError: see `play_stf`."""
        self._traces.set_pipeline(_DEVICE, self._program, SwitchState(self._program, 0))
        self._traces.network.clear_replication(_DEVICE)
        return play_stf(path, parse_stf(text), self)

    def trace(self, frame: bytes, port: int) -> TracedPacket:
        tree = self._traces.visit(_DEVICE, port, frame).tree
        packet = TracedPacket([TracedHop(_NAME, port, 0, tree)])
        for ending in endings(_NAME, tree):
            packet.add(ending)
        return packet

    @property
    def api(self) -> BmRuntime:
        return BmRuntime(BmDevice(self._traces.network, _DEVICE))

    def wait(self, duration_ps: int) -> None:
        self._traces.wait(duration_ps)

    def __enter__(self) -> TracingSwitch:
        return self

    def __exit__(self, *exc: object) -> None:
        self._traces.close()


def differences(run: StfRun) -> list[str]:
    """What is not as a test expects it: nothing may leave that it does not name."""
    unnamed = [f"{run.unchecked} frames left by ports that the test does not name"] if run.unchecked else []
    return [*(each.text for each in run.mismatches), *unnamed]
