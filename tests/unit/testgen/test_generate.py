# SPDX-License-Identifier: Apache-2.0
"""Generated tests: they cover a program, hold on the engine, and what they leave out is proven or named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.engine.compiler.covering import BRANCH
from detour.engine.compiler.program import Program
from detour.fabric.tracing.stf import StfAdd, StfCommand, StfExpect, StfPacket, parse_stf
from detour.p4.build import build
from detour.testgen.context import Conditions
from detour.testgen.effort import Effort
from detour.testgen.generate import Generated, Plan, generate, load
from detour.testgen.mutation import Mutator
from detour.testgen.solving import Question, replayed
from detour.testgen.switch import TestSwitch, differences
from detour.testgen.switching import SymbolicSwitch
from detour.testgen.terms import NotModelled
from detour.testgen.testcase import Packet, Test

KINDS = Path(__file__).parent / "kinds.p4"
ODD = Path(__file__).parent / "odd.p4"
ROUNDS = Path(__file__).parent / "rounds.p4"
CORPUS = Path(__file__).resolve().parents[2] / "programs" / "corpus" / "compiled"
NOT_FOLLOWED = {"meter_direct", "parser_value_set", "stack_runtime_index"}
"""programs of the corpus with what tests do not set or follow (docs/test-generation.md)"""
ALWAYS = {"action_profile_shared", "clone_egress", "clone_ingress", "copies_of_copies", "recirculate", "resubmit",
          "selector_crc16"}  # fmt: skip
SAMPLE = [path for path in sorted(CORPUS.glob("*.json")) if path.stem != "sources"]
SAMPLE = [path for number, path in enumerate(SAMPLE) if number % 6 == 0 or path.stem in ALWAYS]


@pytest.fixture(scope="module")
def kinds() -> Generated:
    return generate(build(KINDS).json, Plan(seed=3))


def _statements(generated: Generated, kind: type) -> list:
    return [each for test in generated.tests for each in parse_stf(test.stf()) if isinstance(each, kind)]


def test_everything_is_covered_or_accounted_for(kinds: Generated) -> None:
    document = kinds.as_json()["coverage"]
    missing = sum(document[each]["reachable"] - document[each]["covered"] for each in ("statements", "branches"))
    assert document["outcomes"]["covered"] == document["outcomes"]["reachable"]
    assert missing == len(document["unreachable"]) + len(document["unknown"]) == 5


def test_what_no_packet_reaches_is_proven_with_the_conditions_that_contradict_each_other(kinds: Generated) -> None:
    lines = {int(match[1]) for each in kinds.unreachable if (match := re.search(r"kinds\.p4:(\d+) ", each.where))}
    assert lines == {68, 69}
    in_controls = [each for each in kinds.unreachable if "kinds.p4" in each.where]
    assert all("hdr.h.kind == 1 && hdr.h.kind != 1" in each.reason for each in in_controls)
    (other,) = (each for each in kinds.unreachable if each not in in_controls)
    assert other.where == "state reject_it: default -> accept"


def test_what_depends_on_random_numbers_is_unknown_and_its_bits_are_not_compared(kinds: Generated) -> None:
    assert {int(each.where.split(":")[1].split()[0]) for each in kinds.unknown} == {73, 74}
    expects = _statements(kinds, StfExpect)
    assert expects
    changed = [each for each in expects if "*" in each.digits]
    assert changed
    assert all(each.digits.startswith("**") and set(each.digits[16:20]) == {"*"} for each in changed)


def test_tests_set_every_match_kind_and_registers(kinds: Generated) -> None:
    entries = _statements(kinds, StfAdd)
    assert {each.table for each in entries} == {"I.exact_t", "I.lpm_t", "I.ternary_t", "I.range_t"}
    assert all((each.priority is not None) == (each.table in ("I.ternary_t", "I.range_t")) for each in entries)
    assert 0xBEEF in {int(each.words[3]) for each in _statements(kinds, StfCommand)}


def test_entries_match_more_than_the_packet_and_lie_above_others_that_it_must_not_take(kinds: Generated) -> None:
    entries = _statements(kinds, StfAdd)
    matches = [(each.table, match) for each in entries for match in each.key]
    assert {match.prefix for table, match in matches if table == "I.lpm_t"} > {0, 32}
    assert any(match.last > match.number.value for table, match in matches if table == "I.range_t")
    masks = {match.number.mask for table, match in matches if table == "I.ternary_t"}
    assert masks > {0, 0xFF, 0xFFFF}
    assert len(masks) > 4
    assert {each.priority for each in entries if each.table == "I.ternary_t"} == {0, 1}


def test_packets_have_right_checksums_and_wrong_ones(kinds: Generated) -> None:
    def is_right(frame: bytes) -> bool:
        total = sum(int.from_bytes(frame[at : at + 2], "big") for at in range(0, 10, 2))
        return (total & 0xFFFF) + (total >> 16) in (0xFFFF, 0x1FFFE)

    sums = {is_right(each.frame) for each in _statements(kinds, StfPacket) if len(each.frame) >= 10}
    assert sums == {True, False}


def test_the_engine_confirms_every_test(kinds: Generated) -> None:
    with TestSwitch(Program.from_json(build(KINDS).json)) as switch:
        assert [differences(switch.play(test.stf())) for test in kinds.tests] == [[] for _ in kinds.tests]
        first = next(test for test in kinds.tests if test.packets[0].expected)
        port = first.packets[0].expected[0].port
        wrong = first.stf().replace(f"expect {port} ", f"expect {port ^ 1} ")
        assert differences(switch.play(wrong))


def test_the_same_seed_makes_the_same_tests() -> None:
    """In any process."""
    built = build(KINDS)

    def tests(seed: int) -> list[dict]:
        generated = generate(built.json, Plan(seed=seed, p4info=built.p4info)).as_json()
        return json.loads(json.dumps(generated))["tests"]

    command = [sys.executable, "-m", "detour", "test", str(KINDS), "--json", "--seed", "3"]
    first = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["tests"]
    assert tests(3) == first
    assert tests(4) != first


def test_a_fixed_field_has_its_value_in_every_packet() -> None:
    generated = generate(build(KINDS).json, Plan(fixed={"h.a": 77}))
    frames = [each.frame for each in _statements(generated, StfPacket)]
    assert {frame[1] for frame in frames if len(frame) >= 10} == {77}
    assert any("hdr.h.a > 7" in each.where or "verify: false" in each.where for each in generated.unreachable)


def test_registers_that_one_branch_alone_names(tmp_path: Path) -> None:
    text = KINDS.read_text().replace("counts.read(", "if (hdr.h.a == 9) counts.read(")
    (tmp_path / "branch.p4").write_text(text)
    generated = generate(build(tmp_path / "branch.p4").json, Plan())
    assert 0xBEEF in {int(each.words[3]) for each in _statements(generated, StfCommand)}
    assert len(generated.unknown) == 2


def test_loops_written_metadata_and_quoted_names() -> None:
    program = build(ODD)
    generated = generate(program.json, Plan())
    assert (generated.unreachable, generated.unknown) == ([], [])
    assert {each.table for each in _statements(generated, StfAdd)} == {"I.steps | # times"}
    assert {each.port for each in _statements(generated, StfPacket)} >= {0, 1}, "not 2, which the parser writes over 0"
    with TestSwitch(Program.from_json(program.json)) as switch:
        assert not any(differences(switch.play(test.stf())) for test in generated.tests)


def test_a_loop_that_never_ends_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "odd.p4").write_text(ODD.read_text().replace("i < 10; i = i + 1", "i < 10; i = i + 2"))
    generated = generate(build(tmp_path / "odd.p4").json, Plan())
    assert not generated.unknown
    (tmp_path / "odd.p4").write_text(ODD.read_text().replace("i < 10; i = i + 1", "i < 10; i = i & 3"))
    generated = generate(build(tmp_path / "odd.p4").json, Plan())
    assert {each.reason for each in generated.unknown} == {
        "not followed: a loop in an action that goes round too often"
    }


def test_statements_alone_take_fewer_tests(kinds: Generated) -> None:
    fewer = generate(build(KINDS).json, Plan(cover="statements", seed=3))
    totals = fewer.coverage.totals()["statements"]
    assert totals["reachable"] - totals["covered"] == len(fewer.unreachable) + len(fewer.unknown) == 2
    assert len(fewer.tests) < len(kinds.tests)
    assert len(generate(build(KINDS).json, Plan(most_tests=2)).tests) == 2


@pytest.mark.parametrize("program", [pytest.param(path, id=path.stem) for path in SAMPLE])
def test_programs_of_the_corpus(program: Path) -> None:
    generated = generate(program, Plan(seconds=30))
    assert generated.tests
    assert not [each for each in generated.unknown if "engine" in each.reason]
    if program.stem not in NOT_FOLLOWED:
        assert not generated.unknown


REPLAYED = [
    "checksum_ipv4", "copies_of_copies", "meter_direct", "parser_value_set", "recirculate", "register_widths",
    "stack_runtime_index", "table_range",
]  # fmt: skip


@pytest.mark.parametrize("name", REPLAYED)
def test_a_replay_with_known_values_expects_what_the_solver_does(name: str) -> None:
    generated = generate(CORPUS / f"{name}.json", Plan(seconds=30))
    switch = SymbolicSwitch(load(CORPUS / f"{name}.json", Plan()).model, {}, Effort())
    assert generated.tests
    for test in generated.tests:
        bare = tuple(Packet(each.port, each.frame) for each in test.packets)
        for again, packet in zip(replayed(switch, replace(test, packets=bare)).packets, test.packets, strict=True):
            assert again.way == packet.way
            assert sorted(again.expected, key=str) == sorted(packet.expected, key=str)


def test_packets_that_go_round_often_come_out_and_those_that_never_do_are_no_tests() -> None:
    program = load(build(ROUNDS).json, Plan())
    with TestSwitch(program) as switch:
        assert not differences(switch.play("packet 0 c8 00\nexpect 1 00 c8 $"))
        with pytest.raises(DetourError, match="goes round"):
            switch.play("packet 0 ff 00\nno_packet")
        assert switch.faults == 1
    symbolic = SymbolicSwitch(program.model, {}, Effort())
    (packet,) = replayed(symbolic, Test((Packet(0, b"\x02\x00"),))).packets
    assert [each.digits for each in packet.expected] == ["0002"]
    with pytest.raises(NotModelled, match="recirculate"):
        replayed(symbolic, Test((Packet(0, b"\xc8\x00"),)))
    generated = generate(build(ROUNDS).json, Plan(seconds=20))
    assert {each.point.name for each in generated.unknown} == {"node_0", "rounds22 #0 recirculate"}
    frames = [each.frame for test in generated.tests for each in test.packets]
    assert max(frame[0] for frame in frames) < 255, "a packet that never comes out"
    assert any(frame[0] for frame in frames)


def test_places_that_only_packets_which_start_over_reach_need_no_second_round() -> None:
    switch = SymbolicSwitch(load(build(ROUNDS).json, Plan()).model, {}, Effort())
    way = next(way for way in switch.ways() if not way.error)
    question = Question(switch.execution(way, passes=0), Effort(), seed=0)

    def sent(conditions: Conditions) -> Packet:
        found = question.any_of([conditions])
        assert found is not None
        assert found.test is not None
        return found.test.packets[0]

    for name in ("rounds22 #0 recirculate", "rounds24 #0 assign"):
        (conditions,) = question.findings.reached["statement", name, ""]
        assert sent(conditions).frame[0] > 0
        assert not sent(conditions).expected, "what comes out is for the replay to say"
    assert sent(()).frame[0] == 0, "packets that do not start over are preferred"
    assert [each.digits[:2] for each in sent(()).expected] == ["00"]


def test_packets_that_are_changed_at_random_reach_what_an_empty_one_does_not() -> None:
    program = load(CORPUS / "parser_select.json", Plan())
    missing = np.ones(len(program.coverage), bool)
    start = Test((Packet(1, bytes(20)),))
    with Mutator(program, seed=1) as mutator, TestSwitch(program) as switch:
        for test in mutator.like(start, missing.copy):
            assert not program.coverage.any()
            switch.play(test.stf(expect=False))
            missing &= program.coverage == 0
            program.coverage[:] = 0
    branches = [site.kind == BRANCH for site in program.coverage_sites]
    assert sum(~missing & branches) > 4


def test_copies_leave_by_ports_of_their_own_where_their_order_would_matter() -> None:
    for test in generate(CORPUS / "copies_of_copies.json", Plan(seconds=30)).tests:
        frames = {(each.port, each.frame) for packet in test.packets for each in packet.expected}
        assert len({port for port, _ in frames}) == len(frames)
        assert len(test.settings) == len({(each.of, each.at) for each in test.settings})
