# SPDX-License-Identifier: Apache-2.0
"""simple_switch's packet path in a few lines of Python around compiled programs: no time, no queues."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from detour.engine import phv
from detour.engine.compiler.program import Program
from detour.engine.state import SwitchState
from tests.packet_runner import bind

_GUARD = 64
_KEPT_BY_CLONES = (phv.LENGTH_REGISTER, phv.INGRESS_LENGTH)


@dataclass
class Packet:
    """A PHV and the bytes that it was parsed from."""

    phv: np.ndarray
    data: bytes
    buffer: np.ndarray

    def get(self, offset: int) -> int:
        return int.from_bytes(self.phv[offset : offset + 4].tobytes(), "little")

    def put(self, offset: int, value: int, size: int = 4) -> None:
        self.phv[offset : offset + size] = np.frombuffer(value.to_bytes(size, "little"), dtype=np.uint8)


@dataclass
class MiniSwitch:
    """Sessions and groups are filled in by the test; `send` returns what leaves, in order."""

    program: Program
    seed: int = 1
    sessions: dict[int, int] = field(default_factory=dict)  # session -> port
    session_groups: dict[int, int] = field(default_factory=dict)  # session -> multicast group
    groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # group -> (port, rid)
    digests: list[tuple[int, bytes]] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    passes: int = 100

    def __post_init__(self) -> None:
        self.state = SwitchState(self.program, self.seed)
        p = self.program
        self.parse, self.ingress, self.egress = bind(p.parse_addr, 4), bind(p.ingress_addr, 2), bind(p.egress_addr, 2)
        self.deparse, self.preserve = bind(p.deparse_addr, 5), bind(p.preserve_addr, 3)
        self.digest = bind(p.digest_addr, 3)
        self.now = 0

    def new(self, data: bytes, port: int, kind: int) -> Packet:
        memory = np.full(self.program.phv_size + _GUARD, 0xAA, dtype=np.uint8)
        memory[: phv.FIXED_SIZE] = 0
        # The packet ends right at the end of its own buffer's content; what follows must not matter.
        buffer = np.frombuffer(data + b"\xee" * _GUARD, dtype=np.uint8)
        packet = Packet(memory, data, buffer)
        packet.put(phv.INGRESS_PORT, port)
        packet.put(phv.PACKET_LENGTH, len(data))
        packet.put(phv.INSTANCE_TYPE, kind)
        return packet

    def run_parser(self, packet: Packet) -> None:
        self.parse(self.state.sw, packet.phv.ctypes.data, packet.buffer.ctypes.data, len(packet.data))

    def send(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        self.now += 1
        self.out: list[tuple[int, bytes]] = []
        self.queue: deque[tuple[int, Packet]] = deque()
        self.again: deque[Packet] = deque()
        first = self.new(data, port, phv.TYPE_NORMAL)
        first.put(phv.INGRESS_GLOBAL_TIMESTAMP, self.now, 8)
        self.again.append(first)
        for _ in range(self.passes):
            if self.again:
                self.run_ingress(self.again.popleft())
            elif self.queue:
                self.run_egress(*self.queue.popleft())
            else:
                return self.out
        raise AssertionError("the packet circulates for ever")

    def run_ingress(self, packet: Packet) -> None:
        sw, p = self.state.sw, packet.phv.ctypes.data
        self.run_parser(packet)
        self.ingress(sw, p)
        self._check(packet)
        session = packet.get(phv.CLONE_SESSION)
        if session:
            self._clone_ingress(packet, session - 1, packet.get(phv.CLONE_FIELDS) - 1)
        if packet.get(phv.DIGEST_LIST) > 1:
            self._digest(packet)
        if packet.get(phv.RESUBMIT) > 1:
            self._again(packet, packet.data, packet.get(phv.RESUBMIT) - 1, phv.TYPE_RESUBMIT)
        elif packet.get(phv.MCAST_GRP):
            packet.put(phv.INSTANCE_TYPE, phv.TYPE_REPLICATION)
            self.multicast(packet, packet.get(phv.MCAST_GRP))
        elif packet.get(phv.EGRESS_SPEC) != phv.DROP_PORT:
            packet.put(phv.INSTANCE_TYPE, phv.TYPE_NORMAL)
            self.queue.append((packet.get(phv.EGRESS_SPEC), packet))

    def _check(self, packet: Packet) -> None:
        assert (packet.phv[self.program.phv_size :] == 0xAA).all(), "something wrote behind the PHV"
        if packet.get(phv.ERROR):
            self.errors.append(packet.get(phv.ERROR))
            packet.put(phv.ERROR, 0)

    def _digest(self, packet: Packet) -> None:
        out = np.zeros(self.program.max_digest_bytes + 16, dtype=np.uint8)
        number = packet.get(phv.DIGEST_LIST) - 1
        size = self.digest(number, packet.phv.ctypes.data, out.ctypes.data)
        self.digests.append((number, out[:size].tobytes()))

    def _again(self, packet: Packet, data: bytes, fields: int, kind: int) -> None:
        copy = self.new(data, packet.get(phv.INGRESS_PORT) if kind == phv.TYPE_RESUBMIT else 0, kind)
        # simple_switch zeroes ingress_port with the other metadata.
        copy.put(phv.INGRESS_PORT, 0)
        self.preserve(fields, packet.phv.ctypes.data, copy.phv.ctypes.data)
        self.again.append(copy)

    def _clone_ingress(self, packet: Packet, session: int, fields: int) -> None:
        if session not in self.sessions and session not in self.session_groups:
            return
        copy = self.new(packet.data, packet.get(phv.INGRESS_PORT), phv.TYPE_INGRESS_CLONE)
        self.run_parser(copy)
        self._finish_clone(packet, copy, session, fields, phv.TYPE_INGRESS_CLONE)

    def _finish_clone(self, packet: Packet, copy: Packet, session: int, fields: int, kind: int) -> None:
        kept = {offset: copy.get(offset) for offset in _KEPT_BY_CLONES}
        offset = copy.get(phv.PAYLOAD_OFFSET)
        copy.phv[: phv.FIXED_SIZE] = 0
        for at, value in kept.items():
            copy.put(at, value)
        copy.put(phv.PAYLOAD_OFFSET, offset)
        self.preserve(fields, packet.phv.ctypes.data, copy.phv.ctypes.data)
        copy.put(phv.INSTANCE_TYPE, kind)
        if session in self.session_groups:
            self.multicast(copy, self.session_groups[session])
        if session in self.sessions:
            self.queue.append((self.sessions[session], copy))

    def multicast(self, packet: Packet, group: int) -> None:
        for port, rid in self.groups.get(group, ()):
            copy = Packet(packet.phv.copy(), packet.data, packet.buffer)
            copy.put(phv.EGRESS_RID, rid)
            for offset in (phv.CLONE_SESSION, phv.CLONE_FIELDS, phv.RESUBMIT, phv.RECIRCULATE, phv.DIGEST_LIST):
                copy.put(offset, 0)
            self.queue.append((port, copy))

    def run_egress(self, port: int, packet: Packet) -> None:
        packet.put(phv.EGRESS_PORT, port)
        packet.put(phv.EGRESS_GLOBAL_TIMESTAMP, self.now, 8)
        self.egress(self.state.sw, packet.phv.ctypes.data)
        self._check(packet)
        session = packet.get(phv.CLONE_SESSION) - 1
        if session >= 0 and (session in self.sessions or session in self.session_groups):
            copy = Packet(packet.phv.copy(), packet.data, packet.buffer)
            self._finish_clone(packet, copy, session, packet.get(phv.CLONE_FIELDS) - 1, phv.TYPE_EGRESS_CLONE)
        if packet.get(phv.EGRESS_SPEC) == phv.DROP_PORT:
            return
        data = self.assemble(packet)
        if packet.get(phv.RECIRCULATE) > 1:
            self._again(packet, data, packet.get(phv.RECIRCULATE) - 1, phv.TYPE_RECIRCULATION)
        else:
            self.out.append((port, data))

    def assemble(self, packet: Packet) -> bytes:
        out = np.full(self.program.max_header_bytes + 16 + _GUARD, 0xBB, dtype=np.uint8)
        offset = packet.get(phv.PAYLOAD_OFFSET)
        rest = len(packet.data) - offset
        payload = packet.buffer.ctypes.data + offset
        size = self.deparse(self.state.sw, packet.phv.ctypes.data, out.ctypes.data, payload, rest)
        assert 0 <= size <= self.program.max_header_bytes
        assert (out[self.program.max_header_bytes :] == 0xBB).all(), "deparse wrote too far"
        data = out[:size].tobytes() + packet.data[offset:]
        limit = packet.get(phv.TRUNCATE)
        return data[:limit] if limit else data
