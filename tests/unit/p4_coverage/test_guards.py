# SPDX-License-Identifier: Apache-2.0
"""`detour coverage --suggest`: what packets need to get to what is not covered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from detour import cli
from detour.engine.compiler.program import Program
from detour.engine.coverage.document import Point
from detour.engine.coverage.guards import Guards
from tests.unit.trace.logged import COMPILED

ROUTER = COMPILED / "small_router"
IPV4 = ["h.kind = 0x0800"]
ROUTED = [*IPV4, "ipv4.ttl >= 0x02"]
FORWARDED = [
    *ROUTED,
    "an entry of TheIngress.routes (hdr.ipv4.dst: lpm) that matches, with TheIngress.nexthop",
    "an entry of TheIngress.nexthops (meta.nexthop: exact) that matches, with TheIngress.forward",
    "an entry of TheIngress.acl (hdr.ipv4.protocol: exact, hdr.ipv4.src: ternary) that matches, with NoAction",
]


@pytest.fixture
def covered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """What a packet that is not an IPv4 reaches of a router."""
    file = tmp_path / "p4.coverage"
    program = f"{ROUTER}.p4info.txtpb,{ROUTER}.json"
    assert cli.main(["trace", "--program", program, "--packet", "01" * 64, "--coverage", str(file)]) == 0
    capsys.readouterr()
    return file


def test_header_values_and_entries_that_lead_to_what_is_missing(
    covered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["coverage", str(covered), "--suggest", f"{ROUTER}.json", "--json"]) == 0
    suggestions = json.loads(capsys.readouterr().out)["suggestions"]
    needs = {each["point"]: each["needs"] for each in suggestions}
    assert needs["state start: 0x0800 -> ipv4"] == needs["state ipv4 #0 extract"] == IPV4
    assert needs["small_router.p4:53 node_2: false (!hdr.ipv4.isValid() || hdr.ipv4.ttl < 2)"] == ROUTED
    miss = "no entry of TheIngress.routes (hdr.ipv4.dst: lpm) that matches"
    assert needs["table TheIngress.routes: miss"] == [*ROUTED, miss]
    assert needs["small_router.p4:27 TheIngress.nexthop #0 assign (meta.nexthop = id)"] == FORWARDED[:3]
    # A packet that an action has dropped does not come to egress.
    hit = "an entry of TheEgress.sources (std.egress_port: exact) that matches"
    assert needs["table TheEgress.sources: hit"] == [*FORWARDED, hit]
    assert {each["line"] for each in suggestions if each["point"].startswith("table TheEgress")} == {66}
    assert all(needs.values())


def test_as_text(covered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["coverage", str(covered), "--suggest", f"{ROUTER}.json"]) == 0
    assert "state ipv4 #0 extract\n    h.kind = 0x0800\n" in capsys.readouterr().out


def test_of_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, file = str(COMPILED.parent / "small_router.p4"), str(tmp_path / "p4.coverage")
    assert cli.main(["trace", "--program", source, "--packet", "01" * 64, "--coverage", file]) == 0
    assert cli.main(["coverage", file, "--suggest", source]) == 0
    assert "table TheIngress.routes: miss\n    h.kind = 0x0800\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["fabric", "adaptive", "qcn"])
def test_every_point_of_our_programs_has_a_way(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = Path(cli.__file__).parents[1] / "p4src" / "build" / name
    file = str(tmp_path / "p4.coverage")
    arguments = ["trace", "--program", f"{build}.p4info.txtpb,{build}.json", "--packet", "01" * 64, "--coverage", file]
    assert cli.main(arguments) == 0
    capsys.readouterr()
    assert cli.main(["coverage", file, "--suggest", f"{build}.json", "--json"]) == 0
    suggestions = json.loads(capsys.readouterr().out)["suggestions"]
    assert len(suggestions) > 100
    assert not [each["point"] for each in suggestions if not each["needs"]]


@pytest.mark.parametrize(
    ("file", "error"),
    [
        (COMPILED / "multicast.json", "multicast.json: the coverage is for other programs: small_router"),
        (COMPILED / "small_router.p4info.txtpb", "not JSON"),
        (Path("nowhere.json"), "nowhere.json"),
    ],
)
def test_of_another_program_or_none(covered: Path, file: Path, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["coverage", str(covered), "--suggest", str(file)]) == 2
    assert error in capsys.readouterr().err


def test_actions_of_one_name_are_told_apart() -> None:
    def renamed(text: str) -> str:
        return re.sub(r"\bTheIngress\.nexthop\b", "TheIngress.forward", text)

    def needs(text: str) -> dict[tuple[str, ...], str]:
        source = json.loads(text)
        points = [Point.of(site, 0) for site in Program(source, covered=True).coverage_sites]
        guards = Guards(source)
        return {tuple(map(str, p.key)): renamed("; ".join(guards.needs(p))) for p in points if p.kind == "statement"}

    text = ROUTER.with_suffix(".json").read_text()
    assert needs(renamed(text)) == needs(text)
