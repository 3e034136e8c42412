# SPDX-License-Identifier: Apache-2.0
"""Generated tests in other forms than STF: captures, P4Testgen's protobuf."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from finsy.proto import p4i, p4testgen
from google.protobuf import text_format

from detour import cli
from detour.base.files import write_file
from detour.engine.switch import pcap
from detour.fabric.tracing.stf import StfExpect, StfPacket, read_stf
from detour.p4.build import build
from detour.testgen.formats import FORMATS, Program
from detour.testgen.generate import Plan, generate
from tests.unit.testgen.test_command import KINDS
from tests.unit.testgen.test_generate import ODD


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tests in each form."""
    folder = tmp_path_factory.mktemp("forms")
    built = build(KINDS)
    tests = generate(built.json, Plan(most_tests=9, p4info=built.p4info)).tests
    for form in ("stf", "pcap", "protobuf"):
        (folder / form).mkdir()
        for name, content in FORMATS[form](tests, Program("kinds", built.json, built.p4info)):
            write_file(folder / form / name, content)
    return folder


def _frames(file: Path) -> list[tuple[int, str]]:
    """The frames of a test in STF, with their ports; zeros for what is not compared."""
    frames = []
    for each in read_stf(file):
        if isinstance(each, StfPacket):
            frames.append((each.port, each.frame.hex()))
        elif isinstance(each, StfExpect):
            frames.append((each.port, (each.digits or "").replace("*", "0")))
    return frames


def _named(name: bytes) -> bytes:
    """The option of an interface that has its name."""
    return struct.pack("<HH", 2, len(name)) + name


def test_captures_have_what_goes_in_and_what_comes_out(folders: Path) -> None:
    for file in sorted((folders / "stf").iterdir()):
        capture = folders / "pcap" / f"{file.stem}.pcapng"
        assert [frame.data.hex() for frame in pcap.read(capture)] == [digits for _, digits in _frames(file)]
        names = [_named(f"port {port}".encode()) for port, _ in _frames(file)]
        content = capture.read_bytes()
        assert [content.count(name) for name in names] == [names.count(name) for name in names]


def test_protobuf_is_that_of_p4testgen(folders: Path) -> None:
    info = text_format.Parse(build(KINDS).p4info.read_text(), p4i.P4Info())
    tables = {table.preamble.id: table.preamble.name for table in info.tables}
    entries = 0
    for file in sorted((folders / "stf").iterdir()):
        test = text_format.Parse((folders / "protobuf" / f"{file.stem}.txtpb").read_text(), p4testgen.TestCase())
        frames = [(f.port, f.packet.hex()) for f in (test.input_packet, *test.expected_output_packet)]
        assert frames == _frames(file)
        expects = [each for each in read_stf(file) if isinstance(each, StfExpect)]
        for expected, stf in zip(test.expected_output_packet, expects, strict=True):
            assert [d == "*" for d in stf.digits or ""] == [d == "0" for d in expected.packet_mask.hex()]
        written = [e.table_entry.table_id for e in test.entities if not e.table_entry.is_default_action]
        adds = [line.split()[1] for line in file.read_text().splitlines() if line.startswith("add ")]
        assert [tables.get(number, "") for number in written if number] == adds
        entries += len(written)
    assert entries > 20


def test_a_program_without_p4info_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kinds.json").write_bytes(build(KINDS).json.read_bytes())
    arguments = ["test", str(tmp_path / "kinds.json"), "--tests", "1", "--out", str(tmp_path / "out")]
    assert cli.main([*arguments, "--format", "protobuf"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{tmp_path}/kinds.p4info.txtpb: No such file" in error
    assert not (tmp_path / "out").exists()


def test_a_p4info_that_finsy_does_not_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.json").write_bytes(build(ODD).json.read_bytes())
    info = build(ODD).p4info.read_text() + "action_profiles { preamble { id: 285212673 name: 'unused' } size: 1 }"
    (tmp_path / "odd.p4info.txtpb").write_text(info)
    arguments = ["test", str(tmp_path / "odd.json"), "--tests", "1", "--out", str(tmp_path / "out"), "--format", "ptf"]
    assert cli.main(arguments) == 2
    assert "odd.p4info.txtpb: finsy, which encodes entries, does not" in capsys.readouterr().err.splitlines()[-1]


def test_an_error_in_a_digest_is_nothing_that_finsy_need_know(tmp_path: Path) -> None:
    """PI, and so BMv2, does not take such a P4Info at all."""
    text = ODD.read_text().replace("struct inner_t", "struct seen_t { error why; bit<8> z; }\nstruct inner_t")
    text = text.replace(
        "        steps.apply();\n", "        steps.apply();\n        digest<seen_t>(1, { std.parser_error, z });\n"
    )
    (tmp_path / "digest.p4").write_text(text)
    assert "error" in build(tmp_path / "digest.p4").p4info.read_text()
    arguments = ["test", str(tmp_path / "digest.p4"), "--tests", "3", "--out", str(tmp_path / "out")]
    assert cli.main([*arguments, "--format", "ptf"]) == 0
    assert (tmp_path / "out" / "test_digest.py").is_file()


def test_a_form_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["test", str(KINDS), "--format", "ptf"]) == 2
    assert capsys.readouterr().err == "detour: --format ptf is for the tests that --out DIR writes\n"
