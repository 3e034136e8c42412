# SPDX-License-Identifier: Apache-2.0
"""A switch of the engine on which tests run, with counters of what packets reach."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from detour.base.dataplane import HIGHEST_PORT
from detour.base.errors import DetourError
from detour.engine import phv
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import DEFAULT_TICK_PS, SwitchState
from detour.fabric.tracing.results import Arrived, Ending, TracedPacket
from detour.fabric.tracing.stf import parse_stf
from detour.fabric.tracing.stf_player import StfRun, play_stf

_DEVICE, _NAME = 1, "switch"
_SIZE, _BATCHES = (256, 1 << 14), (1024, 1 << 12)
"""packets and bytes of a frame, of a switch to which frames come one by one, and in batches"""
_GAP_PS = 10**6
_BATCH_TICKS, _TICKS = 64, 1 << 15
"""after which packets of a batch, and one that comes alone, are said to go round for ever"""


class TestSwitch:
    """Plays STF at full speed; see `StfSwitch`. A context manager."""

    __test__ = False

    def __init__(self, program: Program, sinks: bool = True) -> None:
        """`program`: compiled with coverage. `sinks`: what comes out is of interest."""
        size = _SIZE if sinks else _BATCHES
        self.program = program
        self.network = Network(Virtual(divide=False), DEFAULT_TICK_PS, 0, packets=size[0], frame_bytes=size[1])
        self.network.add_switch(_DEVICE, _NAME, priorities=8, cpu_port=0, drop_port=phv.DROP_PORT)
        self.api = BmRuntime(BmDevice(self.network, _DEVICE))
        self._frames: list[tuple[int, bytes]] = []
        self._endless = 0
        for port in range(HIGHEST_PORT + 1) if sinks else ():
            self.network.attach_sink((_DEVICE, port), lambda frame, time_ps, port=port: self._note(port, frame))

    def play(self, text: str, path: Path = Path("test.stf")) -> StfRun:
        """Play a test on the switch without entries. Raises DetourError: see `play_stf`."""
        self.network.set_pipeline(_DEVICE, self.program, SwitchState(self.program, 0))
        self.network.clear_replication(_DEVICE)
        return play_stf(path, parse_stf(text), self)

    def _note(self, port: int, frame: bytes) -> None:
        self._frames.append((port, bytes(frame)))

    def send(self, frames: Sequence[bytes], port: int) -> None:
        """Send frames of one length, one after the other, and drop what goes round for ever."""
        if not self.network.has_port((_DEVICE, port)):
            self.network.attach_sink((_DEVICE, port), lambda frame, time_ps: None)
        times = self.network.now_ps + _GAP_PS * np.arange(len(frames))
        data = np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), -1)
        self.network.inject_many((_DEVICE, port), times, data)
        self.network.run(int(times[-1]) + _GAP_PS)
        self._settles(_BATCH_TICKS)

    def _settles(self, most: int) -> bool:
        """Wait until no packet is left; drop what is left after `most` ticks, and say that there was something."""
        ticks = 1
        while self.network.loop_stats()["used"]:
            if ticks > most:
                self.network.flush(_DEVICE)
                self._endless += 1
                return False
            self.network.run(self.network.now_ps + ticks * self.network.tick_ps)
            ticks *= 2
        return True

    def trace(self, frame: bytes, port: int) -> TracedPacket:
        self._frames.clear()
        self.network.inject((_DEVICE, port), frame)
        self.network.run(self.network.now_ps + self.network.tick_ps)
        if not self._settles(_TICKS):
            raise DetourError(f"a packet goes round for more than {_TICKS} us")
        arrived = [Arrived(_NAME, out, None, data) for out, data in self._frames]
        return TracedPacket([], [Ending(1.0, [each]) for each in arrived])

    @property
    def faults(self) -> int:
        """Packets that ended because the program did what simple_switch aborts for, or that went round for ever."""
        return int(self.network.switch_stats()["faults"].sum()) + self._endless

    def wait(self, duration_ps: int) -> None:
        self.network.run(self.network.now_ps + duration_ps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.network.stop()


def differences(run: StfRun) -> list[str]:
    """Differences from what a test expects: nothing may leave that it does not name."""
    unnamed = [f"{run.unchecked} frames left by ports that the test does not name"] if run.unchecked else []
    return [*(each.text for each in run.mismatches), *unnamed]
