# SPDX-License-Identifier: Apache-2.0
"""The judge of generated tests: changes of programs, and which of them make no difference (`mutants`)."""

from __future__ import annotations

import json
from pathlib import Path

from detour.p4.build import build
from detour.testgen.generate import Plan, generate
from tests.differential.equivalence import equivalent
from tests.differential.mutants import PROGRAMS, changes, drawn, found


def test_changes_that_make_a_difference_are_told_apart(tmp_path: Path) -> None:
    file = PROGRAMS["ipv4"]()
    source = json.loads(file.read_text())
    verdicts = {}
    for number, (text, program) in enumerate(drawn(source, len(list(changes(source))), 1)):
        if "line 108" in text or "line 120: 0x02" in text:
            (tmp_path / f"{number}.json").write_text(json.dumps(program))
            verdicts[text] = equivalent(file, tmp_path / f"{number}.json")
    assert verdicts.pop("egress line 120: 0x02 is 0x03")  # where a queue is long
    assert len(verdicts) > 2
    assert not any(verdicts.values())
    assert equivalent(file, file)


def test_the_same_seed_draws_the_same_changes() -> None:
    source = json.loads(PROGRAMS["ipv4"]().read_text())
    one, same, other = ([text for text, _ in drawn(source, 9, seed)] for seed in (1, 1, 2))
    assert one == same != other


_SMALL = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { h_t h; }
struct meta_t { bit<1> admitted; bit<8> x; bit<8> y; }
parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t m) { apply { } }
control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action admit() { m.admitted = 1; }
    action set_x(bit<8> x, bit<8> y) { m.x = x; m.y = y; }
    action leave(bit<9> port, bit<8> least) {
        s.egress_spec = port;
        if (hdr.h.d >= least) { hdr.h.d = 0; }
    }
    table admitted { key = { hdr.h.a: ternary; s.ingress_port: ternary; } actions = { admit; NoAction; }
        const default_action = NoAction(); }
    table first { key = { hdr.h.b: lpm; } actions = { set_x; drop; } const default_action = drop(); }
    table second { key = { m.x: exact; m.y: exact; } actions = { leave; drop; } const default_action = drop(); }
    apply {
        admitted.apply();
        if (m.admitted == 0 || hdr.h.c < 2) { drop(); }
        else { first.apply(); second.apply(); }
    }
}
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    action deny() { mark_to_drop(s); }
    table acl { key = { s.egress_port: ternary; hdr.h.d: range; } actions = { deny; NoAction; }
        const default_action = NoAction(); }
    apply { acl.apply(); }
}
control C(inout headers_t hdr, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_tests_find_every_change_where_one_table_decides_what_another_is_searched_for(tmp_path: Path) -> None:
    (tmp_path / "small.p4").write_text(_SMALL)
    file = build(tmp_path / "small.p4").json
    source, tests = json.loads(file.read_text()), generate(file, Plan()).tests
    mutant, missed = tmp_path / "mutant.json", []
    every = list(drawn(source, 1000, 1))
    for text, program in every:
        mutant.write_text(json.dumps(program))
        if not found(mutant, tests):
            missed.append(text)
    assert len(every) > 20
    assert not missed
