# SPDX-License-Identifier: Apache-2.0
"""Tests with several packets or members of groups, paths, entries that --check and --suggest may use."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from detour import cli
from detour.engine.compiler.program import Program
from detour.p4.build import build
from detour.testgen.effort import Effort
from detour.testgen.generate import Paths, Plan, generate, load
from detour.testgen.solving import replayed
from detour.testgen.switch import TestSwitch, differences
from detour.testgen.switching import SymbolicSwitch
from detour.testgen.terms import NotModelled
from detour.testgen.testcase import Packet
from tests.unit.testgen.stored import FABRIC
from tests.unit.testgen.test_command import KINDS
from tests.unit.testgen.test_generate import CORPUS
from tests.unit.testgen.test_rules import RULES

_PATHS = """
        if (hdr.h.a > 5) { hdr.h.b = 1; }
        if (hdr.h.a > 3) { hdr.h.c = 2; }
        if (hdr.h.sum == 7) { hdr.h.sum = 3; }
"""

_LENGTHS = """
#include <core.p4>
#include <v1model.p4>
header len_t { bit<4> n; bit<4> pad; bit<32> x; bit<32> y; }
header opt_t { varbit<256> data; }
struct headers { len_t len; opt_t opt; }
struct meta { }
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(h.len); p.extract(h.opt, (bit<32>)(h.len.n & 7) << 3); transition accept; }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (s.parser_error == error.PacketTooShort && h.len.n == 6 && h.len.x * 3 + h.len.y == 0x12345678) {
            h.len.y = 5;
        }
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.fixture
def branching(tmp_path: Path) -> Path:
    """A program with three conditions, two of which depend on each other."""
    text = KINDS.read_text()
    start, end = text.index("        if (s.checksum_error == 1)"), text.index("    }\n}\n\ncontrol E")
    text = text[:start] + _PATHS + text[end:]
    text = text.replace(
        "transition select(hdr.h.kind) {", "transition accept; } state never { transition select(8w1) {"
    )
    (tmp_path / "branching.p4").write_text(text)
    return tmp_path / "branching.p4"


def test_every_path_has_a_test_or_is_proven_impossible(branching: Path) -> None:
    generated = generate(build(branching).json, Plan(cover="paths", packets=1))
    # A packet that is too short takes one path; of the eight others, a > 5 with a <= 3 are two.
    assert generated.paths == Paths(covered=7, impossible=2, unknown=0)
    few = generate(build(branching).json, Plan(cover="paths", most_tests=1)).paths
    assert few is not None
    assert few.covered <= 1
    assert few.impossible == 0 < few.unknown


def test_paths_are_counted_on_the_command_line(
    branching: Path, run_json: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    report = run_json("test", str(branching), "--cover", "paths")
    assert report["coverage"]["paths"] == {"covered": 7, "impossible": 2, "unknown": 0}
    assert cli.main(["test", str(branching), "--cover", "paths"]) == 0
    assert "paths: 7 covered, 2 impossible, 0 unknown\n" in capsys.readouterr().out


def test_a_second_packet_finds_what_the_first_has_left_in_registers() -> None:
    generated = generate(CORPUS / "register_egress.json", Plan())
    pairs = [test.packets for test in generated.tests if len(test.packets) > 1]
    assert pairs
    assert all(len(packets) == 2 and packets[0].frame == packets[1].frame for packets in pairs)
    assert all(packets[0].expected != packets[1].expected for packets in pairs)
    three = [test.packets for test in generate(CORPUS / "register_egress.json", Plan(packets=3)).tests]
    assert {len(packets) for packets in three} == {1, 3}
    alone = generate(CORPUS / "register_egress.json", Plan(packets=1)).tests
    assert {len(test.packets) for test in alone} == {1}


def test_a_test_is_not_followed_once_the_time_is_over() -> None:
    file = build(KINDS).json
    (test,) = generate(file, Plan(most_tests=1)).tests
    with pytest.raises(NotModelled):
        replayed(SymbolicSwitch(load(file, Plan()).model, {}, Effort(0)), test)
    assert (
        replayed(SymbolicSwitch(load(file, Plan()).model, {}, Effort()), test).packets[0].frame == test.packets[0].frame
    )


def test_long_packets_are_followed() -> None:
    """Also those that are longer than any value of P4."""
    file = build(KINDS).json
    short = next(test for test in generate(file, Plan(most_tests=9)).tests if test.packets[0].expected)
    frame = short.packets[0].frame
    long = replace(short, packets=(Packet(1, frame + bytes(1500 - len(frame))),))
    test = replayed(SymbolicSwitch(load(file, Plan()).model, {}, Effort()), long)
    assert [len(each.frame) for each in test.packets[0].expected] == [1500]
    with TestSwitch(Program.from_json(file)) as switch:
        assert not differences(switch.play(test.stf()))


@pytest.mark.parametrize("width", [1, 16])
def test_few_tests_set_registers_beforehand(tmp_path: Path, width: int) -> None:
    """Those that need it: nothing else depends on what is in them, also of one bit."""
    text = KINDS.read_text()
    if width == 1:
        text = text.replace("register<bit<16>>(16) counts;", "register<bit<1>>(16) counts; bit<1> was;")
        text = text.replace("counts.read(m.count,", "counts.read(was,").replace("m.count == 0xbeef", "was == 1")
        text = text.replace("counts.write(", "// counts.write(")
    (tmp_path / "kinds.p4").write_text(text)
    tests = generate(build(tmp_path / "kinds.p4").json, Plan()).tests
    setting = [test for test in tests if test.of("register")]
    assert 0 < len(setting) < len(tests) // 4


def test_groups_have_members_that_are_not_chosen() -> None:
    outcomes = set()
    for test in generate(CORPUS / "selector_crc16.json", Plan()).tests:
        groups = [[e for e in test.entries if (e.table, e.key) == (f.table, f.key)] for f in test.entries]
        if any(len(group) > 1 for group in groups):
            assert {entry.arguments for group in groups for entry in group} > {groups[0][0].arguments}
            outcomes.add(test.packets[0].expected)
    assert len(outcomes) > 1


def test_value_sets_with_masks(tmp_path: Path) -> None:
    source = json.loads((CORPUS / "parser_value_set.json").read_text())
    transitions = [t for p in source["parsers"] for s in p["parse_states"] for t in s["transitions"]]
    for each in transitions:
        if each["type"] == "parse_vset":
            each["mask"] = "0x0f0f"
    (tmp_path / "masked.json").write_text(json.dumps(source))
    generated = generate(tmp_path / "masked.json", Plan())
    assert not generated.unknown
    members = [each.at for test in generated.tests for each in test.of("member")]
    assert members
    assert not [at for at in members if at & ~0x0F0F]


def test_the_same_seed_makes_the_same_tests_whatever_was_done_before() -> None:
    first = generate(build(KINDS).json, Plan(seed=5)).as_json()["tests"]
    generate(CORPUS / "table_exact.json", Plan())
    assert generate(build(KINDS).json, Plan(seed=5)).as_json()["tests"] == first


def test_mistakes_that_only_forbidden_entries_lead_to_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = RULES.read_text().replace("hops.apply();", "hops.apply(); assert(s.egress_spec != 2);")
    (tmp_path / "rules.p4").write_text(text)
    cli.main(["test", str(tmp_path / "rules.p4"), "--check"])
    assert "egress_spec" not in capsys.readouterr().out
    (tmp_path / "alone.json").write_bytes(build(tmp_path / "rules.p4").json.read_bytes())
    assert cli.main(["test", str(tmp_path / "alone.json"), "--check"]) == 1
    assert "I.out_of(port:2)" in capsys.readouterr().out


def test_protobuf_has_one_packet(tmp_path: Path) -> None:
    arguments = ["test", str(CORPUS / "register_egress.json"), "--out", str(tmp_path), "--format", "protobuf"]
    assert cli.main([*arguments, "--packets", "5"]) == 0
    assert list(tmp_path.glob("*.txtpb"))


def test_places_that_only_packets_in_queues_reach_say_so(tmp_path: Path) -> None:
    text = KINDS.read_text()
    start = "control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { apply { "
    assert text.count(start) == 1
    (tmp_path / "queue.p4").write_text(text.replace(start, start + "if (s.enq_qdepth > 3) { hdr.h.a = 1; } "))
    reasons = [each.reason for each in generate(build(tmp_path / "queue.p4").json, Plan()).unknown]
    assert reasons.count("packets come there only after others that wait in queues") == 2


def test_bits_of_invalid_headers_are_not_compared_and_decide_nothing(tmp_path: Path) -> None:
    text = KINDS.read_text()
    start, headers = "            random(m.draw, 0, 255);", "struct headers { h_t h; "
    assert text.count(headers) == text.count(start) == 1
    text = text.replace(headers, headers + "h_t other; ")
    decides = "if (hdr.other.c == 0) { to(2); } else { to(3); }"
    hashes = "hash(m.draw, HashAlgorithm.crc16, 8w0, { hdr.other.c }, 8w255);"
    hashed = hashes + decides.replace("hdr.other.c", "m.draw")
    made = {}
    for name, reads in (("copies", "hdr.h.b = hdr.other.b;"), ("decides", decides), ("hashed", hashed)):
        (tmp_path / f"{name}.p4").write_text(text.replace(start, reads + start))
        made[name] = generate(build(tmp_path / f"{name}.p4").json, Plan(cover="statements"))
    digits = [e.digits for test in made["copies"].tests for packet in test.packets for e in packet.expected]
    assert any(each[4:8] == "****" for each in digits)
    for name in ("decides", "hashed"):
        assert any("invalid headers" in each.reason for each in made[name].unknown), name


def test_ways_that_differ_in_a_length_alone_are_each_followed(tmp_path: Path) -> None:
    """Only packets that are too short for 6 bytes set `y`; others that are too short come through the same states."""
    (tmp_path / "lengths.p4").write_text(_LENGTHS)
    generated = generate(build(tmp_path / "lengths.p4").json, Plan())
    assert not [*generated.unreachable, *generated.unknown]


def test_checksums_of_constants_and_fields(tmp_path: Path) -> None:
    text = KINDS.read_text()
    assert text.count("{ hdr.h.kind, hdr.h.a, hdr.h.b,") == 2
    (tmp_path / "constant.p4").write_text(text.replace("hdr.h.a, hdr.h.b,", "hdr.h.a, 16w7, hdr.h.b,"))
    generated = generate(build(tmp_path / "constant.p4").json, Plan())
    assert len(generated.tests) > 30
    assert not [each for each in generated.unknown if "engine" in each.reason]


def test_packets_that_start_over_are_normal_ones_in_egress() -> None:
    """But for copies, as in simple_switch, of which egress of this program sees the type of instance."""
    generated = generate(CORPUS.parents[1] / "compiler" / "copies.json", Plan())
    assert not generated.unknown
    assert {each.point.line for each in generated.unreachable} == {39}  # it is behind an exit


def test_proofs_are_about_all_that_fabric_does() -> None:
    switch = SymbolicSwitch(load(FABRIC, Plan()).model, {}, Effort(), proves=True)
    assert not switch.any_packet().findings.not_followed  # it has headers of variable length


def test_suggestions_say_what_rules_make_unreachable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rules.coverage"
    assert cli.main(["trace", "--program", str(RULES), "--packet", "01" * 20, "--coverage", str(file)]) == 0
    assert cli.main(["coverage", str(file), "--suggest", str(RULES)]) == 0
    assert "(hdr.h.id = 8)\n    unreachable: " in capsys.readouterr().out
