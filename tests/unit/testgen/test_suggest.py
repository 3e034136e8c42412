# SPDX-License-Identifier: Apache-2.0
"""`detour coverage --suggest`: tests for what packets have not reached."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detour import cli
from tests.unit.testgen.test_command import KINDS
from tests.unit.trace.logged import COMPILED

ROUTER = COMPILED / "small_router.json"
ROUTER_SOURCE = COMPILED.parent / "small_router.p4"
ROUTER_PROGRAM = f"{ROUTER.with_suffix('.p4info.txtpb')},{ROUTER}"


def _cover(program: Path | str, file: Path, *packets: str) -> None:
    """Writes what packets reach of a program into a file."""
    assert cli.main(["trace", "--program", str(program), *packets, "--coverage", str(file)]) == 0


@pytest.fixture
def covered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """What a packet that is not an IPv4 reaches of a router."""
    _cover(ROUTER_PROGRAM, tmp_path / "p4.coverage", "--packet", "01" * 64)
    capsys.readouterr()
    return tmp_path / "p4.coverage"


def test_what_is_suggested_reaches_what_is_missing(
    covered: Path, tmp_path: Path, run_json: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    suggestions = run_json("coverage", str(covered), "--suggest", str(ROUTER))["suggestions"]
    assert len(suggestions) > 20
    assert all(each["needs"] and not each["reason"] for each in suggestions)
    after = [str(covered)]
    for number, stf in enumerate({"\n".join(each["needs"]) for each in suggestions}):
        (tmp_path / f"{number}.stf").write_text(stf)
        after.append(str(tmp_path / f"{number}.coverage"))
        _cover(ROUTER_PROGRAM, Path(after[-1]), "--stf", str(tmp_path / f"{number}.stf"))
    capsys.readouterr()
    totals = run_json("coverage", *after)["small_router"]
    assert all(counts["covered"] == counts["reachable"] for counts in totals.values())


def test_places_that_no_packet_reaches_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _cover(KINDS, tmp_path / "kinds.coverage", "--packet", "01" * 12)
    assert cli.main(["coverage", str(tmp_path / "kinds.coverage"), "--suggest", str(KINDS)]) == 0
    shown = capsys.readouterr().out
    condition = re.escape("hdr.h.kind == 1 && hdr.h.kind != 1 is true")
    assert re.search(rf"\(hdr\.h\.c = 1\)\n    unreachable: \S*kinds\.p4:68 {condition}\n", shown)
    unknown = "whether packets come there depends on time, random numbers, a hash or invalid headers"
    assert f"(hdr.h.c = 2)\n    unknown: {unknown}" in shown


def test_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _cover(ROUTER_SOURCE, tmp_path / "p4.coverage", "--packet", "01" * 64)
    assert cli.main(["coverage", str(tmp_path / "p4.coverage"), "--suggest", str(ROUTER_SOURCE)]) == 0
    assert "table TheIngress.routes: hit\n" in (shown := capsys.readouterr().out)
    assert shown.count("\n    packet ") < 10


@pytest.mark.parametrize(
    ("file", "error"),
    [
        (COMPILED / "multicast.json", "multicast.json: the coverage is for other programs: small_router"),
        (COMPILED / "small_router.p4info.txtpb", "not JSON"),
        (Path("nowhere.json"), "nowhere.json"),
    ],
)
def test_another_program_or_none(covered: Path, file: Path, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["coverage", str(covered), "--suggest", str(file)]) == 2
    assert error in capsys.readouterr().err


@pytest.mark.usefixtures("no_z3")
def test_without_z3_the_extra_is_named(covered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["coverage", str(covered), "--suggest", str(ROUTER)]) == 2
    error = capsys.readouterr().err
    assert error.count("detour-fabric[test]") == error.count("\n") == 1
