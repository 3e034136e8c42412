# SPDX-License-Identifier: Apache-2.0
"""`detour test` as it is typed: what it prints and writes, and what it says of wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detour import cli

KINDS = Path(__file__).parent / "kinds.p4"
MISTAKES = Path(__file__).parent / "mistakes.p4"
PSA = Path(__file__).resolve().parents[2] / "programs" / "portable"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    assert cli.main(["test", str(KINDS), "--out", str(folder / "tests")]) == 0
    return folder / "tests"


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The same program with another port's worth of difference."""
    text = KINDS.read_text()
    assert text.count("hdr.h.b = value") == 1
    (tmp_path / "changed.p4").write_text(text.replace("hdr.h.b = value", "hdr.h.b = value + 1"))
    return tmp_path / "changed.p4"


def test_the_document_has_the_names_that_stay(run_json: Callable[..., Any]) -> None:
    report = run_json("test", str(KINDS), "--tests", "3")
    assert report.keys() == {"tests", "coverage", "seconds"}
    assert report["coverage"].keys() == {"statements", "branches", "outcomes", "unreachable", "unknown"}
    assert report["coverage"]["statements"].keys() == {"covered", "reachable"}
    assert len(report["tests"]) == 3
    places = [*report["coverage"]["unreachable"], *report["coverage"]["unknown"]]
    assert places
    assert all(each.keys() == {"where", "reason"} and all(each.values()) for each in places)


def test_written_tests_hold_and_find_a_change(suite: Path, changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = len(list(suite.glob("*.stf")))
    assert count > 5
    assert cli.main(["test", str(KINDS), "--regress", str(suite)]) == 0
    assert f"{count} tests: none not as expected" in capsys.readouterr().out
    assert cli.main(["test", str(changed), "--regress", str(suite)]) == 1
    shown = capsys.readouterr().out
    assert "is expected" in shown or ", not " in shown
    assert "I.set_b" in shown
    assert cli.main(["test", str(changed), "--regress", str(suite), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["tests"] == count
    assert all(each["traces"][next(iter(each["traces"]))] for each in report["differences"])


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("hdr.h.a > 7", "hdr.h.a > 8"),
        ("m.count == 0xbeef", "m.count != 0xbeef"),
        ("2 &&& 0xfe", "4 &&& 0xfe"),
        ("s.egress_spec = port", "s.egress_spec = port ^ 1"),
        ("hdr.h.a: exact", "hdr.h.kind: exact"),
        ("hdr.h.b: ternary", "hdr.h.sum: ternary"),
        ("hdr.h.a[3:0]", "hdr.h.a[4:1]"),
        ("s.checksum_error == 1", "s.checksum_error == 0"),
    ],
)
def test_small_changes_are_found(text: str, other: str, suite: Path, tmp_path: Path) -> None:
    source = KINDS.read_text()
    assert source.count(text) == 1
    (tmp_path / "mutant.p4").write_text(source.replace(text, other))
    assert cli.main(["test", str(tmp_path / "mutant.p4"), "--regress", str(suite)]) == 1


def test_the_first_difference_of_two_programs_is_made_small(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["test", str(KINDS), "--compare", str(KINDS)]) == 0
    assert "no test differs" in capsys.readouterr().out
    assert cli.main(["test", str(KINDS), "--compare", str(changed), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["difference"]
    adds = [line for line in found["stf"].splitlines() if line.startswith("add")]
    assert sum("I.set_b" in line for line in adds) == 1
    assert len(adds) <= 2
    assert list(found["traces"]) == [str(KINDS), str(changed)]
    assert cli.main(["test", str(KINDS), "--compare", str(changed)]) == 1
    assert f"{changed}: " in capsys.readouterr().out


def test_mistakes_are_found_with_packets_that_make_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["test", str(MISTAKES), "--check", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    lines = {each["what"]: int(each["where"].split(":")[1].split()[0]) for each in report["mistakes"]}
    assert lines == {"assert": 16, "read of an invalid header: more.b": 18, "index out of bounds": 19}
    packets = {each["what"]: bytes.fromhex(each["stf"].split()[-1]) for each in report["mistakes"]}
    assert packets["assert"][1] == 9
    assert packets["read of an invalid header: more.b"][0] != 1
    assert packets["index out of bounds"][1] > 15
    assert report["whole"]


@pytest.mark.parametrize(
    ("start_over", "loop"),
    [
        ("if (hdr.h.a == 11) { resubmit_preserving_field_list(0); }", True),
        ("if (hdr.h.a == 11 && s.instance_type == 0) { resubmit_preserving_field_list(0); }", False),
    ],
)
def test_packets_that_start_over_for_ever_are_found(
    start_over: str, loop: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop.p4").write_text(MISTAKES.read_text().replace("assert(hdr.h.a != 9);", start_over))
    assert cli.main(["test", str(tmp_path / "loop.p4"), "--check", "--json"]) == 1
    mistakes = json.loads(capsys.readouterr().out)["mistakes"]
    loops = [each for each in mistakes if each["what"] == "endless loop: packets that are resubmitted"]
    assert [int(each["where"].split(":")[1].split()[0]) for each in loops] == [16] * loop
    assert all(bytes.fromhex(each["stf"].split()[-1])[1] == 11 for each in loops)


@pytest.mark.parametrize(
    ("pipeline", "statement", "lost"),
    [
        ("I", "if (hdr.h.a == 7) { s.egress_spec = 511; }", True),
        ("E", "if (hdr.h.a == 7) { s.egress_spec = 511; }", True),
        ("I", "if (hdr.h.a == 7) { mark_to_drop(s); }", False),
        ("I", "if (hdr.h.a == 7) { s.egress_spec = 511; s.mcast_grp = 1; }", False),
        ("I", "s.egress_spec = 511; s.egress_spec = (bit<9>)hdr.h.a;", False),
    ],
)
def test_packets_sent_to_the_drop_port_are_lost(
    pipeline: str, statement: str, lost: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other than those that are marked to be dropped."""
    at = {"I": "assert(hdr.h.a != 9);", "E": "apply { } }\ncontrol C"}[pipeline]
    text = MISTAKES.read_text().replace(at, statement if pipeline == "I" else f"apply {{ {statement} }} }}\ncontrol C")
    assert statement in text
    (tmp_path / "lost.p4").write_text(text)
    assert cli.main(["test", str(tmp_path / "lost.p4"), "--check", "--json"]) == 1
    mistakes = json.loads(capsys.readouterr().out)["mistakes"]
    found = [each for each in mistakes if each["what"] == "packet lost without mark_to_drop"]
    line = 1 + next(n for n, line in enumerate(text.splitlines()) if statement in line)
    assert [int(each["where"].split(":")[1].split()[0]) for each in found] == [line] * lost
    assert all(bytes.fromhex(each["stf"].split()[-1])[1] == 7 for each in found)


def test_programs_without_mistakes_have_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MISTAKES.read_text().replace("hdr.h.a != 9", "true").replace("(bit<32>)hdr.h.a)", "(bit<32>)hdr.h.a[3:0])")
    text = text.replace("if (hdr.more.b == 77)", "if (hdr.more.isValid() && hdr.more.b == 77)")
    (tmp_path / "right.p4").write_text(text)
    assert cli.main(["test", str(tmp_path / "right.p4"), "--check"]) == 0
    assert capsys.readouterr().out == "no mistakes\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing.json"], "nothing.json"),
        ([str(PSA / "{psa}")], "written for psa"),
        ([str(KINDS), "--fix", "ttl"], "is not HEADER.FIELD=VALUE"),
        ([str(KINDS), "--fix", "h.nothing=1"], "h.nothing"),
        ([str(KINDS), "--fix", "h.kind=256"], "h.kind"),
        ([str(KINDS), "--seconds", "-1"], "seconds"),
        ([str(KINDS), "--packets", "0"], "a number of packets"),
        ([str(KINDS), "--regress", "no-such-folder"], "no files of STF"),
        ([str(KINDS), "--regress", ".", "--out", "x"], "--regress"),
        ([str(KINDS), "--check", "--out", "x"], "--check"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    psa = next(PSA.glob("psa*.json")).name if "{psa}" in arguments[0] else ""
    assert cli.main(["test", *(each.replace("{psa}", str(psa)) for each in arguments)]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.usefixtures("no_z3")
def test_without_z3_the_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["test", str(KINDS)]) == 2
    assert capsys.readouterr().err.count("detour-fabric[test]") == 1
