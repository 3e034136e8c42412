# SPDX-License-Identifier: Apache-2.0
"""Generated tests as files: STF, PTF, P4Testgen's protobuf, captures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from finsy.proto import p4testgen
from google.protobuf import text_format

from detour.base.errors import DetourError
from detour.base.files import read_bytes, read_text
from detour.engine.capture import INBOUND, OUTBOUND, capture_header, packet_block
from detour.testgen.p4runtime import Entities, update_source
from detour.testgen.testcase import Expected, Test

Files = Iterator[tuple[str, str | bytes]]
_APART_NS = 1_000_000


class Program(NamedTuple):
    """A compiled program: its name, and its files."""

    name: str
    json: Path
    p4info: Path


def _stf(tests: Sequence[Test], program: Program) -> Files:
    for number, test in enumerate(tests, 1):
        yield f"test{number:04}.stf", test.stf()


def _pcap(tests: Sequence[Test], program: Program) -> Files:
    """A capture for each test, with its frames in their order. A port is an interface, and so a section of the file."""
    for number, test in enumerate(tests, 1):
        frames: list[tuple[int, int, bytes]] = []
        for packet in test.packets:
            frames.append((packet.port, INBOUND, packet.frame))
            frames += [(each.port, OUTBOUND, _known(each)) for each in packet.expected]
        yield f"test{number:04}.pcapng", b"".join(_section(at, *frame) for at, frame in enumerate(frames))


def _section(at: int, port: int, direction: int, frame: bytes) -> bytes:
    return capture_header(f"port {port}") + packet_block(at * _APART_NS, direction, frame, len(frame))


# -- P4Testgen's protobuf, in text format


def _protobuf(tests: Sequence[Test], program: Program) -> Files:
    entities = Entities(program.p4info)
    for number, test in enumerate(tests, 1):
        packet, *others = test.packets
        if others:
            raise DetourError("P4Testgen's protobuf has one packet for a test: --packets 1")
        case = p4testgen.TestCase(traces=packet.way, metadata=[f"program: {program.name}", *test.covers])
        case.input_packet.packet, case.input_packet.port = packet.frame, packet.port
        for each in packet.expected:
            case.expected_output_packet.add(packet=_known(each), port=each.port, packet_mask=_whole_digits(each.mask))
        case.entities.extend(entity.encode(entities.schema) for entity in entities.of(test))
        yield f"test{number:04}.txtpb", text_format.MessageToString(case)


def _whole_digits(mask: bytes) -> bytes:
    """A mask of those digits alone of which all bits are compared."""
    return bytes((0xF0 if byte >> 4 == 0xF else 0) | (0xF if byte & 0xF == 0xF else 0) for byte in mask)


def _known(expected: Expected) -> bytes:
    """A frame with zeros for what is not compared."""
    mask = _whole_digits(expected.mask)
    return bytes(byte & known for byte, known in zip(expected.frame, mask, strict=True))


# -- PTF


def _ptf(tests: Sequence[Test], program: Program) -> Files:
    """A file of tests with its base, and the program."""
    entities = Entities(program.p4info)
    text = read_text(Path(__file__).with_name("ptf_base.py")) + f"\n\nGeneratedTest.program = {program.name!r}\n"
    for number, test in enumerate(tests, 1):
        title = "; ".join(test.covers).replace("\\", "/").replace('"', "'")
        lines = [f"class Test{number:04}(GeneratedTest):", f'    """{title}"""', ""]
        lines += ["    def runTest(self) -> None:", *(f"        {line}" for line in _body(entities, test))]
        text += "\n\n" + "\n".join(lines) + "\n"
    yield f"test_{re.sub(r'[^0-9A-Za-z]', '_', program.name)}.py", text
    yield f"{program.name}.json", read_bytes(program.json)
    yield f"{program.name}.p4info.txtpb", read_bytes(program.p4info)


def _body(entities: Entities, test: Test) -> Iterator[str]:
    ports = {each.port for packet in test.packets for each in (packet, *packet.expected)}
    yield f"self.need({', '.join(map(str, sorted(ports)))})"
    if written := entities.of(test):
        yield "self.write("
        yield from (f"    {update_source(entity)}," for entity in written)
        yield ")"
    for packet in test.packets:
        yield f"self.send({packet.port}, {packet.frame.hex()!r})"
        yield f"self.expect({', '.join(f'({each.port}, {each.digits!r})' for each in packet.expected)})"


FORMATS: dict[str, Callable[[Sequence[Test], Program], Files]] = {
    "stf": _stf, "ptf": _ptf, "protobuf": _protobuf, "pcap": _pcap,
}  # fmt: skip
"""The names and contents of the files that tests of a program become. DetourError is raised: the P4Info is needed and
missing, or P4Runtime has nothing for what a test sets."""
