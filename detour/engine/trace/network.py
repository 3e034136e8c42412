# SPDX-License-Identifier: Apache-2.0
"""Switches without cables, to send single packets through and see what becomes of them: a network of its own, with the
loop, the tables and the queues of any other one, in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from detour.engine import phv
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import DEFAULT_TICK_PS, SwitchState
from detour.engine.trace.recorder import Recorder
from detour.engine.trace.tree import Dropped, Visit

_PASSES = 64
"""ticks that a packet may take, and so how often it may start over: one pass takes a tick"""
_PACKETS = 1 << 12
_FRAME_BYTES = 1 << 16
_MOST_MEMORY = 1 / 8
"""of the recorder's, that one visit may take: some thousand copies"""
CUT = f"cut: it started over {_PASSES} times"
TOO_MANY = "cut: its copies are too many"


class TraceNetwork:
    """Add switches, then `visit` them. A context manager."""

    def __init__(self, tick_ps: int = DEFAULT_TICK_PS) -> None:
        """`tick_ps`: of the programs' clock."""
        self.network = Network(Virtual(divide=False), tick_ps, packets=_PACKETS, frame_bytes=_FRAME_BYTES)
        self._recorder: Recorder | None = None

    def add_switch(
        self,
        device_id: int,
        ports: Iterable[int],
        *,
        name: str = "",
        priorities: int = 8,
        cpu_port: int = phv.CPU_PORT,
        drop_port: int = phv.DROP_PORT,
    ) -> None:
        """A switch with these ports, without a program. `cpu_port` 0: none."""
        self.network.add_switch(device_id, name, priorities=priorities, cpu_port=cpu_port, drop_port=drop_port)
        self.attach(device_id, (port for port in ports if port != cpu_port or not cpu_port))

    def attach(self, device_id: int, ports: Iterable[int]) -> None:
        """Give a switch ports by which frames come and go."""
        for port in ports:
            self.network.attach_sink((device_id, port), lambda frame, time_ps: None)

    def set_pipeline(self, device_id: int, program: Program, state: SwitchState) -> None:
        """Give a switch its program and its tables."""
        self._off()
        self.network.set_pipeline(device_id, program, state)

    def visit(self, device_id: int, port: int, frame: bytes, choices: Sequence[int] = ()) -> Visit:
        """Process a frame that comes in by one of a switch's ports. `choices`: the values of members, hashes and random
        numbers, in order; later ones are natural. Raises DetourError if there is no such port, or the frame is too long
        or empty."""
        recorder = self._on()
        recorder.choose({device_id: choices})
        recorder.ring.allow(1)
        self.network.inject((device_id, port), frame)
        why = self._until_gone(recorder)
        visits = recorder.collect()
        recorder.finish(why)
        recorder.forget()
        if why:
            self.network.flush(device_id)
            tree = visits[0].tree
            tree.outcome = tree.outcome or (None if tree.fork else Dropped(why))
        return visits[0]

    def _until_gone(self, recorder: Recorder) -> str | None:
        """Let a packet and its copies go their ways; why they did not come to an end."""
        for _ in range(_PASSES):
            self.network.run(self.network.now_ps + self.network.tick_ps)
            if not self.network.loop_stats()["used"]:
                return None
            if recorder.ring.used > _MOST_MEMORY:
                return TOO_MANY
        return CUT

    def wait(self, duration_ps: int) -> None:
        self.network.run(self.network.now_ps + duration_ps)

    def _on(self) -> Recorder:
        if self._recorder is None:
            self._recorder = Recorder(self.network, count=0, follow=False)
            self._recorder.start()
        return self._recorder

    def _off(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            self._recorder = None

    def close(self) -> None:
        self._off()
        self.network.stop()

    def __enter__(self) -> TraceNetwork:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
