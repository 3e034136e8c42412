# SPDX-License-Identifier: Apache-2.0
"""Runs single packets through a program without a network: for tests and for looking into a PHV."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from detour.engine import phv
from detour.engine.compiler.layout import TEMPORARY
from detour.engine.compiler.load import find_field
from detour.engine.compiler.program import Program
from detour.engine.state import SwitchState

_I64 = ctypes.c_int64
_SLACK = 256  # behind buffers, to notice writes that go too far


def bind(address: int, arguments: int) -> Callable[..., int]:
    """A native function of the ABI as a Python callable."""
    return ctypes.CFUNCTYPE(_I64, *[_I64] * arguments)(address)


def field_place(program: Program, name: str) -> tuple[int, int]:
    """Offset and size in the PHV of a field `header.field`, or of a validity byte `header.$valid$`."""
    # Both names may contain dots.
    heads = [name[:at] for at, c in enumerate(name) if c == "."]
    header = next(program.model.headers[head] for head in heads if head in program.model.headers)
    member = name[len(header.name) + 1 :]
    if member == "$valid$":
        return program.layout.valid[header.name], 1
    place = program.layout.place(header, find_field(header, member))
    assert place.offset < TEMPORARY, f"'{name}' is a local variable, which no PHV holds"
    return place.offset, place.size


@dataclass(slots=True)
class PacketResult:
    """What became of a packet. `data` is None if it was dropped; `egress_spec` is that of ingress. `decisions`: what
    else the program wants done, as the PHV says it behind ingress and behind egress."""

    egress_spec: int
    data: bytes | None
    fields: dict[str, int] = field(default_factory=dict)
    decisions: tuple[int, ...] = ()
    clone: bool = False
    parser_error: int = 0
    error: int = 0


_DECISIONS = (phv.MCAST_GRP, phv.CLONE_SESSION, phv.CLONE_FIELDS, phv.RESUBMIT, phv.RECIRCULATE, phv.DIGEST_LIST)


class PacketRunner:
    """One switch without queues: parse, ingress, egress, deparse, one after the other."""

    def __init__(self, program: Program, state: SwitchState | None = None, seed: int = 1) -> None:
        self.program = program
        self.state = state or SwitchState(program, seed)
        self.parse = bind(program.parse_addr, 4)
        self.ingress = bind(program.ingress_addr, 2)
        self.egress = bind(program.egress_addr, 2)
        self.deparse = bind(program.deparse_addr, 5)
        self.phv = np.zeros(program.phv_size + _SLACK, dtype=np.uint8)
        self.out = np.zeros(program.max_header_bytes + _SLACK, dtype=np.uint8)

    def get(self, name: str) -> int:
        """A field of the PHV as it is now, in the container's width."""
        at, size = field_place(self.program, name)
        return int.from_bytes(self.phv[at : at + size].tobytes(), "little")

    def put(self, offset: int, value: int, size: int = 4) -> None:
        """Writes a fixed field."""
        self.phv[offset : offset + size] = np.frombuffer(value.to_bytes(size, "little"), dtype=np.uint8)

    def fixed(self, offset: int, size: int = 4) -> int:
        """Reads a fixed field."""
        return int.from_bytes(self.phv[offset : offset + size].tobytes(), "little")

    def start(self, packet: bytes, port: int = 0, time: int = 0, instance_type: int = 0) -> None:
        """Sets up the fixed part for a new packet and parses it."""
        self.phv[: phv.FIXED_SIZE] = 0
        self.packet = np.frombuffer(packet + bytes(1), dtype=np.uint8)
        self.length = len(packet)
        self.put(phv.INGRESS_PORT, port)
        self.put(phv.PACKET_LENGTH, len(packet))
        self.put(phv.INSTANCE_TYPE, instance_type)
        self.put(phv.INGRESS_GLOBAL_TIMESTAMP, time, 8)
        self.parse(self.state.sw, self.phv.ctypes.data, self.packet.ctypes.data, len(packet))

    def finish(self) -> bytes:
        """Runs the deparser; the packet as it would be sent."""
        offset = self.fixed(phv.PAYLOAD_OFFSET)
        payload = self.packet.ctypes.data + offset
        size = self.length - offset
        count = self.deparse(self.state.sw, self.phv.ctypes.data, self.out.ctypes.data, payload, size)
        assert count <= self.program.max_header_bytes
        assert not self.out[self.program.max_header_bytes + 16 :].any(), "deparse wrote too far"
        assert not self.phv[self.program.phv_size :].any(), "something wrote behind the PHV"
        data = self.out[:count].tobytes() + self.packet[offset : self.length].tobytes()
        limit = self.fixed(phv.TRUNCATE)
        return data[:limit] if limit else data

    def run(self, packet: bytes, port: int = 0, time: int = 0, watch: tuple[str, ...] = ()) -> PacketResult:
        """Sends one packet through; `watch` names fields to read after egress (after ingress if dropped)."""
        sw, p = self.state.sw, self.phv.ctypes.data
        self.start(packet, port, time)
        self.ingress(sw, p)
        result = PacketResult(self.fixed(phv.EGRESS_SPEC), None, parser_error=self.fixed(phv.PARSER_ERROR))
        result.decisions = (self.fixed(phv.CHECKSUM_ERROR), *map(self.fixed, _DECISIONS))
        if result.egress_spec != phv.DROP_PORT:
            self.put(phv.EGRESS_PORT, result.egress_spec)
            self.put(phv.EGRESS_GLOBAL_TIMESTAMP, time, 8)
            self.egress(sw, p)
            result.decisions += tuple(map(self.fixed, _DECISIONS))
            if self.fixed(phv.EGRESS_SPEC) != phv.DROP_PORT:
                result.data = self.finish()
        result.clone = bool(self.fixed(phv.CLONE_SESSION))
        result.error = self.fixed(phv.ERROR)
        result.fields = {name: self.get(name) for name in watch}
        return result
