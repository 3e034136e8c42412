# SPDX-License-Identifier: Apache-2.0
"""What compiled programs count: exactly what packets reach, without changing what becomes of them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.base.places import BUILD
from detour.engine.compiler.covering import BRANCH, COLLECTOR, STATEMENT, TABLE_OUTCOME, Collector
from detour.engine.compiler.model import read_json
from detour.engine.compiler.program import Program
from detour.engine.coverage.document import CoverageDocument, collecting, document_of
from detour.fabric.tracing.walk import trace_planned
from tests.packet_runner import PacketRunner

SPEC = "dragonfly:p=1,a=2,h=1"
OTHERS = Path(__file__).parents[2] / "programs" / "compiler"
"""with all that P4 has: stacks, unions, loops, value sets"""
PROGRAMS = sorted([*BUILD.glob("*.json"), *OTHERS.glob("*.json")])
ETHERNET = bytes(12) + b"\x08\x00"


def _ipv4(ttl: int = 64) -> bytes:
    return ETHERNET + bytes([0x45, 0, 0, 40, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]) + bytes(20)


def _counts(program: Program) -> dict[tuple[str, str, str], int]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for site, hits in zip(program.coverage_sites, program.coverage, strict=False):
        counts[site.kind, site.name, site.outcome] += int(hits)
    return dict(counts)


def test_each_packet_is_counted_where_it_comes_by() -> None:
    source = Program.from_json(BUILD / "ipv4.json")
    assert not source.covered
    program = Program(source.json, use_cache=False, covered=True)
    runner = PacketRunner(program)
    for frame in (_ipv4(), _ipv4(), _ipv4(ttl=1), bytes(14), bytes(3)):
        runner.run(frame)
    counts = _counts(program)
    routes = "Ipv4Ingress.routes"
    assert {outcome: n for (kind, name, outcome), n in counts.items() if (kind, name) == (TABLE_OUTCOME, routes)} == {
        "hit": 0, "miss": 2, "Ipv4Ingress.forward": 0, "Ipv4Ingress.drop": 2,
    }  # fmt: skip
    assert counts[BRANCH, "state start", "0x0800 -> ipv4"] == 3
    assert counts[BRANCH, "state start", "default -> accept"] == 1
    assert counts[STATEMENT, "state start #0 extract", ""] == 5, "the frame that is too short comes to it as well"
    assert counts[STATEMENT, "state ipv4 #0 extract", ""] == 3
    assert counts[STATEMENT, "Ipv4Ingress.forward #0 assign", ""] == 0


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_traced_code_has_the_same_counters(path: Path) -> None:
    source = read_json(path)
    plain, traced = Program(source, covered=True), Program(source, covered=True, traced=True)
    assert plain.coverage_sites == traced.coverage_sites
    assert STATEMENT in {site.kind for site in plain.coverage_sites}


@pytest.mark.parametrize("name", ["fabric", "qcn"])
def test_counting_changes_nothing(name: str) -> None:
    plain = Program.from_json(BUILD / f"{name}.json")
    one, other = PacketRunner(plain, seed=3), PacketRunner(Program(plain.json, covered=True), seed=3)
    draw = random.Random(7)
    begin = bytes(12) + b"\x86\xdd\x60\x00\x00\x00"
    for _ in range(400):
        frame = begin[: draw.choice([18, 18, 18, 14, 9])] + draw.randbytes(draw.randrange(0, 160))
        assert one.run(frame, port=1) == other.run(frame, port=1)


def test_counters_and_events_of_a_trace_say_the_same() -> None:
    """The trace's records and the counters come from different code."""
    collector = Collector()
    events: list[dict[str, Any]] = []
    with COLLECTOR.set_to(collector):
        for sport in range(0, 0x10000, 0x1357):
            for hop in trace_planned(SPEC, "h0", "h5", sport=sport).as_json()["hops"]:
                assert "fork" not in hop["trace"]
                events += hop["trace"]["events"]
    program = document_of(collector).programs["fabric"]
    expected: Counter[tuple[Any, ...]] = Counter()
    for event in events:
        source = event["source"]
        if event["kind"] == "table_lookup":
            expected[event["table"], "hit" if event["hit"] else "miss"] += 1
        elif event["kind"] == "action" and event["table"]:
            expected[event["table"], event["action"]] += 1
        elif event["kind"] == "branch" and source:
            place = source["file"], source["line"], source["column"]
            expected[(*place, "true" if event["value"] else "false")] += 1
    counts: dict[tuple[Any, ...], int] = {(p.name, p.outcome): p.hits for p in program.of_kind(TABLE_OUTCOME)}
    counts |= {(p.file, p.line, p.column, p.outcome): p.hits for p in program.of_kind(BRANCH) if p.file}
    assert sum(expected.values()) > 500
    assert {key: counts.get(key) for key in expected} == dict(expected)


def test_switches_with_the_same_program_count_together(tmp_path: Path) -> None:
    file = tmp_path / "coverage"
    with collecting(file):
        for _ in range(3):
            PacketRunner(Program.from_json(BUILD / "ipv4.json")).run(_ipv4())
    (program,) = CoverageDocument.read([file]).programs.values()
    assert program.name == "ipv4"
    (taken,) = (p for p in program.of_kind(BRANCH) if (p.name, p.outcome) == ("state start", "0x0800 -> ipv4"))
    assert taken.hits == 3
    assert not Program.from_json(BUILD / "ipv4.json").covered, "it is over"


def test_the_file_is_written_when_something_goes_wrong_as_well(tmp_path: Path) -> None:
    def fail(compile_first: bool) -> None:
        with collecting(tmp_path / "coverage"):
            if compile_first:
                Program.from_json(BUILD / "ipv4.json")
            raise DetourError("something else")

    with pytest.raises(DetourError, match="something else"):
        fail(compile_first=False)
    assert not (tmp_path / "coverage").exists(), "nothing has run"
    with pytest.raises(DetourError, match="something else"):
        fail(compile_first=True)
    assert CoverageDocument.read([tmp_path / "coverage"]).programs
