# SPDX-License-Identifier: Apache-2.0
"""A packet through one program, nothing booted: any v1model program, with entries of a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from finsy.proto import p4r
from google.protobuf import text_format

from detour.base.dataplane import HIGHEST_PORT
from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.control.p4runtime.pipeline import PipelineConfig, read_p4info
from detour.engine import phv
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.p4runtime import Compiled, Pipelines, Refused, TargetSwitch, schema
from detour.engine.p4runtime.write import write
from detour.engine.state import SwitchState
from detour.engine.trace.choices import expand
from detour.engine.trace.network import TraceNetwork
from detour.engine.trace.tree import TraceTree
from detour.fabric.tracing.results import TracedPacket, traced_alone

_DEVICE = 1
_NAME = "switch"


class TracedSwitch:
    """One switch that runs a program, with all ports. A context manager."""

    def __init__(self, program: Program, *, cpu_port: int = 0) -> None:
        """`cpu_port` 0: none."""
        self.program = program
        self._switch = TraceNetwork()
        self._switch.add_switch(_DEVICE, range(HIGHEST_PORT + 1), name=_NAME, cpu_port=cpu_port)

    def reset(self) -> None:
        """Start without entries and groups."""
        self._switch.set_pipeline(_DEVICE, self.program, SwitchState(self.program, 0))
        self.network.clear_replication(_DEVICE)

    def trace(self, frame: bytes, port: int, *, all_ways: bool = False) -> TracedPacket:
        """Trace a frame that comes in by a port. Raises DetourError: there is no such port, or there are too many
        ways."""

        def send(choices: Iterable[int]) -> TraceTree:
            return self._switch.visit(_DEVICE, port, frame, list(choices)).tree

        return traced_alone(_NAME, port, expand(send) if all_ways else send(()))

    def close(self) -> None:
        self._switch.close()

    @property
    def api(self) -> BmRuntime:
        """BMv2's runtime API on the same tables; what it writes P4Runtime's `write` does not know of."""
        return BmRuntime(BmDevice(self._switch.network, _DEVICE))

    @property
    def network(self) -> Network:
        """In which the switch is the only one, with device id 1."""
        return self._switch.network

    def wait(self, duration_ps: int) -> None:
        """Let time pass."""
        self._switch.wait(duration_ps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class TracedProgram(TracedSwitch):
    """A switch to which entries are written over P4Runtime."""

    def __init__(self, files: PipelineConfig, *, cpu_port: int = phv.CPU_PORT) -> None:
        """`cpu_port` 0: none. Raises DetourError: a file cannot be read, or the engine cannot run the program."""
        self.p4info = read_p4info(files.p4info)
        super().__init__(Program.from_json(files.blob), cpu_port=cpu_port)
        self._pipelines = Pipelines(TargetSwitch(self._switch.network, _DEVICE))
        message = p4r.ForwardingPipelineConfig(p4info=self.p4info)
        try:
            info = schema.build(self.p4info, self.program.model)
        except Refused as error:
            raise DetourError(f"{files.p4info} and {files.blob} do not belong together: {error}") from None
        action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        self._pipelines.set(action, Compiled(message, info, self.program), None)

    def write(self, updates: list[p4r.Update], where: list[str]) -> None:
        """Write entries. `where`: what errors call each. Raises DetourError: one of them does not fit the program, or
        another one. The switch is of no use then: the others may have been written."""
        for error, place in zip(write(self._pipelines.store, updates), where, strict=True):
            if error is not None:
                raise DetourError(f"{place}: {error}")


def read_write_request(path: Path) -> tuple[list[p4r.Update], list[str]]:
    """Update of a P4Runtime WriteRequest as text, and what to call each. Raises DetourError: the file cannot be read,
    or is none."""
    try:
        request = text_format.Parse(read_text(path), p4r.WriteRequest())
    except text_format.ParseError as error:
        raise DetourError(f"{path}: this is not a WriteRequest: {error}") from None
    return list(request.updates), [f"{path}: update {number}" for number in range(1, len(request.updates) + 1)]
