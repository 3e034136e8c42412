# SPDX-License-Identifier: Apache-2.0
"""STF: what is read, what is played, and what is not as expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detour import cli
from detour.fabric.tracing.stf import StfAdd, StfError, StfExpect, StfMatch, StfNumber, parse_stf, stf_name

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"
COMPILED = PROGRAMS / "corpus" / "compiled"
SAMPLES = sorted((PROGRAMS / "stf").glob("*.stf"))


def _arguments(program: str, stf: Path) -> list[str]:
    files = f"{COMPILED / program}.p4info.txtpb,{COMPILED / program}.json"
    return ["trace", "--program", files, "--stf", str(stf)]


def _play(tmp_path: Path, text: str, program: str = "counter_direct") -> int:
    (tmp_path / "test.stf").write_text(text)
    return cli.main(_arguments(program, tmp_path / "test.stf"))


def test_there_are_samples() -> None:
    assert len(SAMPLES) >= 5


@pytest.mark.parametrize("stf", [pytest.param(each, id=each.stem) for each in SAMPLES])
def test_samples_are_as_they_expect(stf: Path, run_json: Callable[..., Any]) -> None:
    report: dict[str, Any] = run_json(*_arguments(stf.stem, stf))
    assert report.keys() == {"packets", "commands", "mismatches", "expected", "unchecked"}
    lines = stf.read_text().splitlines()
    sent = [number for number, line in enumerate(lines, 1) if line.startswith("packet")]
    assert [packet["line"] for packet in report["packets"]] == sent
    assert all(packet["hops"][0]["trace"]["events"] for packet in report["packets"])
    checks = ("expect", "no_packet", "check_counter")
    conditions = [line for line in lines if line.startswith(checks) and not line.endswith("(both)")]
    assert report["expected"] == len(conditions)
    assert report["mismatches"] == []
    assert report["unchecked"] == 0


def test_copies_to_ports_that_are_not_named_have_queues_of_their_own(
    tmp_path: Path, run_json: Callable[..., Any]
) -> None:
    lines = ("mc_mgrp_create 1", "mc_node_create 0 2 3 4 511", "mc_node_associate 1 0", "packet 1 0001 00 0000 0000 00")
    (tmp_path / "copies.stf").write_text("\n".join(lines))
    (packet,) = run_json(*_arguments("multicast", tmp_path / "copies.stf"))["packets"]
    text = json.dumps(packet)
    assert text.count('"depth_found": 0') == text.count('"depth_left": 0') == 4


def test_what_commands_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(_arguments("register_48", PROGRAMS / "stf" / "register_48.stf")) == 0
    out = capsys.readouterr().out
    assert f"r[3]= {0x112233445567}" in out
    assert out.splitlines()[-1] == "5 packets, 5 expectations: all as expected"


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ("expect 1 010011", "test.stf:2: port 1, of line 1: byte 2 is 00, not 11; it is 010000"),
        ("expect 1 0100$", "test.stf:2: port 1, of line 1: 6 digits, and no more than 4 are expected"),
        ("expect 1 01000000", "test.stf:2: port 1, of line 1: 6 digits of 8 that are expected"),
        ("expect 2 010000", "test.stf:2: no frame left by port 2, where 010000 is expected"),
        ("no_packet", "test.stf:2: nothing should come of line 1; port 1: 010000"),
        ("wait", "test.stf:1: a frame that is not expected left by port 1: 010000"),
        ("check_counter both(0)\nexpect 1", "test.stf:2: Invalid table operation (INVALID_HANDLE)"),
    ],
)
def test_what_is_not_as_expected(expect: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = _play(tmp_path, f"packet 1 010000\n{expect}\n")
    printed = capsys.readouterr()
    assert code == (2 if "Invalid" in says else 1)
    assert says in (printed.err if code == 2 else printed.out)


def test_a_counter_that_counts_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "add by_both h.a:1 h.b:0 default_counted() = X\npacket 1 010000\nexpect 1\ncheck_counter both(X) bytes > 3\n"
    assert _play(tmp_path, text) == 1
    assert "test.stf:4: counter both(X): 1 packets, 3 bytes, not bytes > 3" in capsys.readouterr().out


def test_ports_that_are_not_named_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _play(tmp_path, "packet 1 03030000000000000000\n", "register_48") == 0
    assert "1 frames left by ports that the file does not name" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sent 1 00", "there is no statement 'sent'"),
        ("packet", "packet needs a port number"),
        ("packet x 00", "packet needs a port number, not 'x'"),
        ("packet 512 00", "port 512: a port of v1model has 9 bits"),
        ("packet 1 0", "a packet of 1 digits of hex"),
        ("packet 1 0*", "'*' is not a digit of a frame in hex"),
        ("expect 1 0g", "'g' is not a digit of a frame in hex"),
        ("expect 1 $00", "'$' is not a digit of a frame in hex"),
        ("add by_both", "a field of the key, or an action is expected, not the end of the line"),
        ("add by_both h.a:1 counted(v:1", "',' is expected, not the end of the line"),
        ("add by_both h.a:1 counted(v:1) x", "'x' is too much behind add"),
        ("add by_both h.a:1 ~", "'~' has no meaning here"),
        ("mc_mgrp_create 0x1*", "a number has no wildcards: 0x1*"),
        ("check_counter both(0) frames == 1", "a counter counts packets or bytes, not frames"),
        ("check_counter both(0) packets = 1", "'=' is not a condition"),
    ],
)
def test_statements_that_are_none(line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _play(tmp_path, f"# first\n\n{line}  # here\n") == 2
    assert f"test.stf:3: {says}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("add nowhere h.a:1 counted(v:1)", "there is no table 'nowhere'"),
        ("add by_packet h.z:1 counted(v:1)", "has no field 'h.z': it has h.a"),
        ("add by_packet h.a:1 silent(v:1)", "there is no action 'silent'"),
        ("add by_packet h.a:1 counted()", "needs v as well"),
        ("add by_packet h.a:1 counted(w:1)", "has no argument w"),
        ("add by_packet h.a:0x1* counted(v:1)", "is exact: it takes no wildcards"),
        ("add by_packet h.a:1/3 counted(v:1)", "is exact: it takes no prefix length"),
        ("add by_packet h.a:1..3 counted(v:1)", "is exact: it takes no range"),
        ("add by_packet h.a:0x101 counted(v:1)", "Parameter is too large"),
        ("setdefault by_both counted(v:1)", "has no argument v: ()"),
        ("check_counter both(X)", "no entry was added as X"),
        ("remove X", "no entry was added as X"),
        ("no_packet", "no packet was sent before"),
        ("mirroring_delete 4", "Invalid mirroring operation"),
        ("register_read r 0", "Invalid register name (r)"),
    ],
)
def test_statements_that_do_not_fit(line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _play(tmp_path, line) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"detour: {tmp_path / 'test.stf'}:1: ")
    assert says in err
    assert len(err.splitlines()) == 1


def test_other_options_beside_it(tmp_path: Path, refused: Callable[..., str]) -> None:
    arguments = _arguments("counter_direct", tmp_path / "none.stf")
    assert "none.stf: No such file or directory" in refused(*arguments)
    assert "--packet and --all do not go with it" in refused(*arguments, "--packet", "00")
    assert "need --program" in refused("trace", "h0", "h1", "--stf", "x")


def test_what_is_read() -> None:
    [add, expect] = parse_stf('add "a b".t 7 x[2].$valid$:0b1 y:0x0a000000/8 c.act(p:0x10, q:3) = E\nEXPECT 3 A*\n')
    assert isinstance(add, StfAdd)
    assert (add.table, add.priority, add.name) == ("a b.t", 7, "E")
    assert add.key == (StfMatch("x[2].$valid$", StfNumber("0b1")), StfMatch("y", StfNumber("0x0a000000"), 8))
    assert (add.action.name, add.action.arguments) == ("c.act", (("p", 16), ("q", 3)))
    assert isinstance(expect, StfExpect)
    assert (expect.port, expect.digits, expect.exact) == (3, "a*", False)
    assert (StfNumber("0x1*").value, StfNumber("0x1*").mask) == (0x10, 0xF0)
    assert (StfNumber("0b1*0").value, StfNumber("0b1*0").mask, StfNumber("12").mask) == (4, 5, None)
    with pytest.raises(StfError, match=r"^2: "):
        parse_stf("wait\nwait wait")


@pytest.mark.parametrize("name", ["I.t", "x[2].$valid$", "a b", "9", "steps | # times", "◕.x"])
def test_names_are_quoted_where_they_must_be(name: str) -> None:
    [add] = parse_stf(f"add {stf_name(name)} {stf_name(name)}:1 {stf_name(name)}() # a comment")
    assert isinstance(add, StfAdd)
    assert (add.table, add.key[0].field, add.action.name) == (name, name, name)
    assert ('"' in stf_name(name)) == (name not in ("I.t", "x[2].$valid$"))


def test_a_random_number_behind_a_checksum_is_traced(tmp_path: Path, run_json: Callable[..., Any]) -> None:
    """The record of a choice has the input of its own hash, not of one in another part of the program."""
    program = PROGRAMS.parent / "unit" / "testgen" / "kinds.p4"
    stf = tmp_path / "test.stf"
    stf.write_text("add I.exact_t hdr.h.a:9 I.to(port:3)\npacket 1 0109000000000000fef6\nexpect 3 **09\n")
    report = run_json("trace", "--program", str(program), "--stf", str(stf))
    events = report["packets"][0]["hops"][0]["trace"]["events"]
    assert [each["extern"] for each in events if each["kind"] == "extern_call"][-2:] == ["choice", "random"]
    assert report["mismatches"] == []
