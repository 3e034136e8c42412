# SPDX-License-Identifier: Apache-2.0
"""Generated tests as files: STF, PTF, P4Testgen's protobuf, captures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from finsy.proto import p4testgen
from google.protobuf import text_format

from detour.base.files import read_bytes, read_text
from detour.engine.capture import INBOUND, OUTBOUND, capture_header, packet_block
from detour.fabric.tracing.stf import StfExpect, StfPacket, StfStatement, parse_stf
from detour.testgen.p4runtime import Entities, update_source
from detour.testgen.testcase import Test

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
        content = b""
        for at, statement in enumerate(parse_stf(test.stf())):
            if isinstance(statement, StfPacket):
                content += _section(statement.port, at, INBOUND, statement.frame)
            elif isinstance(statement, StfExpect):
                content += _section(statement.port, at, OUTBOUND, _zeros(statement.digits))
        yield f"test{number:04}.pcapng", content


def _section(port: int, at: int, direction: int, frame: bytes) -> bytes:
    return capture_header(f"port {port}") + packet_block(at * _APART_NS, direction, frame, len(frame))


# -- P4Testgen's protobuf, in text format


def _protobuf(tests: Sequence[Test], program: Program) -> Files:
    entities = Entities(program.json, program.p4info)
    for number, test in enumerate(tests, 1):
        statements = parse_stf(test.stf())
        case = p4testgen.TestCase(traces=test.way, metadata=[f"program: {program.name}", *test.covers])
        for each in statements:
            if isinstance(each, StfPacket):
                case.input_packet.packet, case.input_packet.port = each.frame, each.port
            elif isinstance(each, StfExpect):
                digits = each.digits or ""
                mask = bytes.fromhex(re.sub("[^*]", "f", digits).replace("*", "0"))
                case.expected_output_packet.add(packet=_zeros(digits), port=each.port, packet_mask=mask)
        case.entities.extend(entity.encode(entities.schema) for entity in entities.of(statements))
        yield f"test{number:04}.txtpb", text_format.MessageToString(case)


def _zeros(digits: str | None) -> bytes:
    """A frame with zeros for what is not compared."""
    return bytes.fromhex((digits or "").replace("*", "0"))


# -- PTF


def _ptf(tests: Sequence[Test], program: Program) -> Files:
    """A file of tests with its base, and the program."""
    entities = Entities(program.json, program.p4info)
    text = read_text(Path(__file__).with_name("ptf_base.py")) + f"\n\nGeneratedTest.program = {program.name!r}\n"
    for number, test in enumerate(tests, 1):
        statements = parse_stf(test.stf())
        title = "; ".join(test.covers).replace("\\", "/").replace('"', "'")
        lines = [f"class Test{number:04}(GeneratedTest):", f'    """{title}"""', ""]
        lines += ["    def runTest(self) -> None:", *(f"        {line}" for line in _body(entities, statements))]
        text += "\n\n" + "\n".join(lines) + "\n"
    yield f"test_{re.sub(r'[^0-9A-Za-z]', '_', program.name)}.py", text
    yield f"{program.name}.json", read_bytes(program.json)
    yield f"{program.name}.p4info.txtpb", read_bytes(program.p4info)


def _body(entities: Entities, statements: Sequence[StfStatement]) -> Iterator[str]:
    ports = {each.port for each in statements if isinstance(each, StfPacket | StfExpect)}
    yield f"self.need({', '.join(map(str, sorted(ports)))})"
    written = entities.of(statements)
    if written:
        yield "self.write("
        yield from (f"    {update_source(entity)}," for entity in written)
        yield ")"
    packets = [at for at, each in enumerate(statements) if isinstance(each, StfPacket)]
    for at, end in zip(packets, [*packets[1:], len(statements)], strict=True):
        packet = statements[at]
        assert isinstance(packet, StfPacket)
        yield f"self.send({packet.port}, {packet.frame.hex()!r})"
        expected = [f"({e.port}, {e.digits!r})" for e in statements[at:end] if isinstance(e, StfExpect)]
        yield f"self.expect({', '.join(expected)})"


FORMATS: dict[str, Callable[[Sequence[Test], Program], Files]] = {
    "stf": _stf, "ptf": _ptf, "protobuf": _protobuf, "pcap": _pcap,
}  # fmt: skip
"""The names and contents of the files that tests of a program become. DetourError is raised: the P4Info is needed and
missing, or P4Runtime has nothing for what a test sets."""
