# SPDX-License-Identifier: Apache-2.0
"""What is logged of packets through a program of the corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from detour.engine import phv
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.interface import Api
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.trace.bmv2_lines import LogLine, PacketLines
from detour.engine.trace.network import TraceNetwork
from detour.engine.trace.recorder import Recorder

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"
COMPILED = PROGRAMS / "corpus" / "compiled"
SAMPLES = sorted((PROGRAMS / "stf").glob("*.stf"))
_MICROSECOND = 10**6


def logged(
    name: str,
    set_up: Callable[[Api], None],
    frames: Iterable[tuple[int, bytes]],
    change: Callable[[str], str] = lambda text: text,
) -> list[LogLine]:
    """The lines of frames that come in by ports, one after the other. `change`: of the program's JSON."""
    log: list[LogLine] = []
    with TraceNetwork() as switch:
        switch.add_switch(1, range(64), cpu_port=0)
        device = BmDevice(switch.network, 1)
        device.load(change((COMPILED / f"{name}.json").read_text()).encode())
        set_up(BmRuntime(device))
        network = switch.network
        with Recorder(network, follow=False) as recorder:
            lines: PacketLines | None = None
            for port, frame in frames:
                network.inject((1, port), frame)
                network.run(network.now_ps + 64 * _MICROSECOND)
                for run, reader in recorder.executions():
                    if lines is None:
                        lines = PacketLines(network.state(1).program.model, reader, phv.DROP_PORT)
                        lines.replication = lambda: network.replication(1)
                    log += lines.lines(run)
    return log
