# SPDX-License-Identifier: Apache-2.0
"""The base of the tests that `detour test --format ptf` writes, which begin with this file: a switch over P4Runtime.

    PORTS="0@veth1 1@veth3" pytest test_NAME.py                       # our ends of the switch's cables
    ptf --test-dir . --interface 0@veth1 --interface 1@veth3          # the same with PTF

`P4RUNTIME` is the switch's address (127.0.0.1:9559), `DEVICE_ID` its number (0). Tests of ports that have no interface,
of frames that are too short for one, and of what the switch does not take over P4Runtime are skipped.
"""

from __future__ import annotations

import atexit
import os
import queue
import select
import socket
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import finsy as fy
import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_code, rpc_status
from google.protobuf import text_format

TIMEOUT_S = 10.0
QUIET_S = 0.2
"""after which nothing more is expected to come out"""
_ALL_PROTOCOLS, _ETHERNET_BYTES = 0x0003, 14
_UNIMPLEMENTED = rpc_code.UNIMPLEMENTED


def _interfaces() -> Iterator[tuple[int, str]]:
    """The numbers of the ports that have one, and its name."""
    if "PORTS" in os.environ:
        for each in os.environ["PORTS"].split():
            port, _, name = each.partition("@")
            yield int(port), name
    elif "ptf" in sys.modules:
        yield from ((port, name) for _, port, name in sys.modules["ptf"].config["interfaces"])


def codes(error: Any) -> set[int]:
    """The codes with which a Write was refused."""
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    status = rpc_status.Status.FromString(details)
    return {p4r.Error.FromString(each.value).canonical_code for each in status.details}


def schema_of(p4info: p4i.P4Info) -> fy.P4Schema:
    """The program for finsy. It looks fields of keys up by what is behind the last dot, too, and refuses tables in
    which two are alike there: these have `_` in place of dots. Nor does it know enums and errors in digests."""
    own = p4i.P4Info()
    own.CopyFrom(p4info)
    for table in own.tables:
        if len({field.name.rpartition(".")[2] for field in table.match_fields}) < len(table.match_fields):
            for field in table.match_fields:
                field.name = field.name.replace(".", "_")
    members = [member.type_spec for struct in own.type_info.structs.values() for member in struct.members]
    for spec in (*members, *(digest.type_spec for digest in own.digests)):
        if spec.WhichOneof("type_spec") in ("enum", "error"):
            spec.bitstring.bit.bitwidth = 32
    return fy.P4Schema(own)


class Switch:
    """A connection to a switch, as its primary controller, and to its ports."""

    def __init__(self) -> None:
        self._device_id, self._election = int(os.environ.get("DEVICE_ID", "0")), U128.encode(1)
        self._stub = p4r_grpc.P4RuntimeStub(grpc.insecure_channel(os.environ.get("P4RUNTIME", "127.0.0.1:9559")))
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        atexit.register(self._requests.put, None)
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = self._device_id
        request.arbitration.election_id.CopyFrom(self._election)
        self._requests.put(request)
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None), wait_for_ready=True)
        answer = next(self._stream)
        assert answer.arbitration.status.code == 0, answer.arbitration.status.message
        self.ports: dict[int, socket.socket] = {}
        for port, name in _interfaces():
            self.ports[port] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
            self.ports[port].bind((name, _ALL_PROTOCOLS))

    def load(self, p4info: p4i.P4Info, json: bytes) -> None:
        """Set the program, which removes all entries, and forget frames that have come out."""
        action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        self._stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=self._device_id,
                election_id=self._election,
                action=action,
                config=p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=json),
            )
        )
        while self.receive(0.0) is not None:
            pass

    def write(self, updates: list[Any]) -> None:
        """Write updates."""
        self._stub.Write(p4r.WriteRequest(device_id=self._device_id, election_id=self._election, updates=updates))

    def receive(self, seconds: float) -> tuple[int, bytes] | None:
        """The next frame that comes out of a port; None: there is none in that time."""
        numbers = {sock.fileno(): port for port, sock in self.ports.items()}
        end = time.monotonic() + seconds
        while True:
            ready: list[int] = select.select(list(numbers), [], [], max(0.0, end - time.monotonic()))[0]
            if not ready:
                return None
            port = numbers[ready[0]]
            frame, address = self.ports[port].recvfrom(1 << 16)
            if address[2] != socket.PACKET_OUTGOING:
                return port, frame


class GeneratedTest(unittest.TestCase):
    """The base of all tests. `program`: P4Info and BMv2 JSON, beside this file."""

    program = ""
    _switch: Switch | None = None

    def setUp(self) -> None:
        GeneratedTest._switch = self.switch = GeneratedTest._switch or Switch()
        program = Path(__file__).parent / self.program
        p4info = text_format.Parse(Path(f"{program}.p4info.txtpb").read_text(), p4i.P4Info())
        self.schema = schema_of(p4info)
        self.switch.load(p4info, Path(f"{program}.json").read_bytes())

    def need(self, *ports: int) -> None:
        """Skip the test where a port has no interface."""
        for port in ports:
            if port not in self.switch.ports:
                self.skipTest(f"port {port} has no interface")

    def write(self, *entities: Any) -> None:
        """Insert (`+`) or modify (`~`) entities, one after the other."""
        for entity in entities:
            try:
                self.switch.write(fy.p4entity.encode_updates([entity], self.schema))
            except grpc.RpcError as error:
                if _UNIMPLEMENTED in codes(error):
                    self.skipTest(f"the switch does not take {type(entity).__name__} over P4Runtime")
                raise

    def send(self, port: int, digits: str) -> None:
        """Let a frame come in."""
        self._fit(digits)
        self.switch.ports[port].send(bytes.fromhex(digits))

    def _fit(self, *frames: str) -> None:
        if any(len(digits) < 2 * _ETHERNET_BYTES for digits in frames):
            self.skipTest(f"Ethernet has no frames of less than {_ETHERNET_BYTES} bytes")

    def expect(self, *frames: tuple[int, str]) -> None:
        """Exactly these frames come out, in hex, where `*` is any digit, in any order of their ports."""
        self._fit(*(digits for _, digits in frames))
        missing = list(frames)
        while missing:
            came = self.switch.receive(TIMEOUT_S)
            assert came is not None, f"nothing comes out; expected {missing}"
            missing.remove(self._first_like(missing, *came))
        assert self.switch.receive(QUIET_S) is None, "another frame comes out"

    def _first_like(self, frames: list[tuple[int, str]], port: int, frame: bytes) -> tuple[int, str]:
        for number, digits in frames:
            same = len(digits) == 2 * len(frame) and all(
                a in ("*", b) for a, b in zip(digits, frame.hex(), strict=True)
            )
            if number == port and same:
                return number, digits
        self.fail(f"port {port}: {frame.hex()}; expected {frames}")
