# SPDX-License-Identifier: Apache-2.0
"""P4Info of a program that has one of everything, as p4c 1.2.5.16 makes it, and entries."""

from __future__ import annotations

from pathlib import Path

import pytest
from finsy.proto import p4i, p4r

from detour import cli
from detour.engine.compiler.program import Program
from detour.p4 import compile
from detour.p4.build import build
from detour.p4.compile import Refused, compile_file
from detour.p4.p4info import as_text
from detour.p4.p4info.names import aliases, hashed
from tests.differential.p4c_corpus import reference

HEAD = """
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("com.example/port", bit<32>) type bit<9> port_t;
enum bit<8> kind_t { A = 1, B = 2 }
header h_t { bit<8> a; kind_t k; port_t p; bit<7> rest; }
@controller_header("packet_in") header in_t { bit<9> port; @padding bit<7> pad; }
struct hdr_t { h_t h; }
struct meta_t { port_t p; bit<32> x; }
struct learned_t { bit<8> a; port_t p; }
parser P(packet_in b, out hdr_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<8>>(4) tags;
    state start { b.extract(h.h); transition select(h.h.a) { tags: accept; _: accept; } }
}
control V(inout hdr_t h, inout meta_t m) { apply { } }
control E(inout hdr_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in hdr_t h) { apply { b.emit(h.h); } }
"""
SOURCE = (
    HEAD
    + """
@brief("all of them") counter(16, CounterType.packets_and_bytes) total;
action everywhere() { }
control Part(inout hdr_t h)(bit<32> n) {
    register<port_t>(n) ports;
    action set(bit<8> v) { h.h.a = v; ports.write(0, h.h.p); }
    table t { key = { h.h.a: exact; } actions = { set; everywhere; } size = 5; }
    apply { t.apply(); }
}
control I(inout hdr_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.bytes) hits;
    meter(4, MeterType.bytes) rates;
    @max_group_size(8) action_selector(HashAlgorithm.crc16, 32w64, 32w10) choice;
    @id(7) @size(1 + 2) action go(@id(3) port_t p, kind_t k) { m.p = p; h.h.k = k; }
    @hidden action internal() { }
    action learn() { total.count(3); digest<learned_t>(1, { h.h.a, m.p }); rates.execute_meter(1, m.x); }
    action unused() { }
    table first {
        key = { h.h.a: ternary @name("tag"); h.h.k: optional; h.h.isValid(): exact; m.x[7:4]: range; }
        actions = { go; learn; @defaultonly internal; NoAction; }
        counters = hits;
        default_action = learn();
        support_timeout = true;
    }
    table second { key = { h.h.a: exact; m.x: selector; } actions = { learn; NoAction; } implementation = choice; }
    table third {
        key = { m.x: lpm; h.h.a: ternary; }
        actions = { go; NoAction; }
        const entries = { (32w0x0a000000 &&& 32w0xff000000, 1 &&& 3): go((port_t)9w1, kind_t.B); (_, _): NoAction(); }
    }
    table dead { actions = { unused; } }
    Part(12) one;
    Part(13) two;
    apply {
        first.apply(); second.apply(); third.apply(); one.apply(h); two.apply(h);
        if (false) { dead.apply(); }
    }
}
@pkginfo(name = "test", version = "3") V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("p4info") / "everything.p4"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def made(source: Path) -> tuple[p4i.P4Info, p4r.WriteRequest]:
    result = compile_file(source, entries=True)
    assert not result.errors, result.rendered()
    return result.p4info, result.entries  # type: ignore[return-value]


def _names(objects: object) -> list[str]:
    return [one.preamble.name for one in objects]  # type: ignore[attr-defined]


def _action(info: p4i.P4Info, name: str) -> p4i.Action:
    return next(one for one in info.actions if one.preamble.name == name)


def test_objects_and_their_order(made: tuple[p4i.P4Info, p4r.WriteRequest]) -> None:
    info, _ = made
    assert _names(info.tables) == ["I.first", "I.second", "I.third", "I.one.t", "I.two.t"]
    assert _names(info.actions) == ["NoAction", "everywhere", "I.go", "I.learn", "I.one.set", "I.two.set"]
    assert _names(info.counters) == ["total"]
    assert _names(info.registers) == ["I.one.ports", "I.two.ports"]
    assert [one.size for one in info.registers] == [12, 13]
    assert _names(info.value_sets) == ["P.tags"]
    assert _names(info.digests) == ["learned_t"]
    assert _names(info.controller_packet_metadata) == ["packet_in"]
    assert (info.pkg_info.name, info.pkg_info.version, info.pkg_info.arch) == ("test", "3", "v1model")


def test_a_table(made: tuple[p4i.P4Info, p4r.WriteRequest]) -> None:
    info, _ = made
    table = info.tables[0]
    assert [(one.name, one.bitwidth) for one in table.match_fields] == [
        ("tag", 8), ("h.h.k", 8), ("h.h.$valid$", 1), ("m.x[7:4]", 4),
    ]  # fmt: skip
    assert [one.scope for one in table.action_refs] == [0, 0, p4i.ActionRef.DEFAULT_ONLY, 0]
    assert table.initial_default_action.action_id == _action(info, "I.learn").preamble.id
    assert list(table.direct_resource_ids) == [info.direct_counters[0].preamble.id]
    assert table.idle_timeout_behavior == p4i.Table.NOTIFY_CONTROL
    assert (table.size, info.tables[3].size) == (1024, 5)
    assert [one.name for one in info.tables[1].match_fields] == ["h.h.a"]
    assert info.tables[1].implementation_id == info.action_profiles[0].preamble.id
    assert info.action_profiles[0].max_group_size == 8


def test_an_action(made: tuple[p4i.P4Info, p4r.WriteRequest]) -> None:
    info, _ = made
    action = _action(info, "I.go")
    assert (action.preamble.id, list(action.preamble.annotations)) == (0x01000007, ["@size(1 + 2)"])
    assert [(one.id, one.bitwidth, one.type_name.name) for one in action.params] == [(3, 32, "port_t"), (2, 8, "")]
    assert info.type_info.new_types["port_t"].translated_type.uri == "com.example/port"
    assert [one.name for one in info.type_info.structs["learned_t"].members] == ["a", "p"]


def test_entries_of_the_source(made: tuple[p4i.P4Info, p4r.WriteRequest]) -> None:
    _, request = made
    first, second = (update.entity.table_entry for update in request.updates)
    assert (first.priority, second.priority) == (2, 1)
    assert first.is_const
    assert first.match[0].lpm.prefix_len == 8
    assert (first.match[1].ternary.value, first.match[1].ternary.mask) == (b"\1", b"\3")
    assert [one.value for one in first.action.action.params] == [b"\0\0\0\1", b"\2"]
    assert not second.match


@pytest.mark.skipif(reference.missing() is not None, reason="p4c is not on PATH")
def test_p4c_makes_the_same(source: Path, made: tuple[p4i.P4Info, p4r.WriteRequest], tmp_path: Path) -> None:
    from unittest.mock import patch

    with patch.object(reference, "CACHE", tmp_path):
        theirs = reference.compiled(source)
        assert theirs.p4info.read_text() == as_text(made[0]), theirs.messages


def test_names_that_clash_are_refused(tmp_path: Path) -> None:
    actions = 'action a() { } @name("a") action b() { }'
    table = "table t { actions = { a; b; NoAction; } } apply { t.apply(); }"
    control = f"control I(inout hdr_t h, inout meta_t m, inout standard_metadata_t s) {{ {actions} {table} }}"
    (tmp_path / "clash.p4").write_text(f"{HEAD}{control}\nV1Switch(P(), V(), I(), E(), V(), D()) main;\n")
    errors = compile_file(tmp_path / "clash.p4").errors
    assert [error.text for error in errors] == ["two actions have the control-plane name I.a"]


def test_programs_whose_names_clash_have_json_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As P4_14 programs that p4c has translated."""
    table = "table t { actions = { nop; } key = { h.h.a: exact; } } apply { t.apply(); }"
    body = f'{{ @name(".nop") action nop() {{ }} {table} }}'
    controls = [f"control {name}(inout hdr_t h, inout meta_t m, inout standard_metadata_t s) {body}" for name in "XY"]
    source, output = tmp_path / "clash.p4", str(tmp_path / "clash.json")
    source.write_text(f"{HEAD}{' '.join(controls)}\nV1Switch(P(), V(), X(), Y(), V(), D()) main;\n")
    made = build(source)
    assert not made.p4info.exists()
    assert list(Program.from_json(made.json).model.tables) == ["X.t", "Y.t"]
    with pytest.raises(Refused, match="two actions have the control-plane name nop"):
        build(source, p4info=True)
    assert cli.main(["compile", str(source), "-o", output]) == 0
    assert cli.main(["compile", str(source)]) == cli.main(["compile", str(source), "-o", output, "--p4info", "x"]) == 2
    assert "control-plane name" in capsys.readouterr().err


def test_aliases_are_the_shortest_suffixes() -> None:
    assert aliases({"a.b.t", "a.c.t", "u", "x.u", "y.v"}) == {
        "a.b.t": "b.t", "a.c.t": "c.t", "u": "u", "x.u": "x.u", "y.v": "v",
    }  # fmt: skip


def test_the_hash_of_a_name() -> None:
    assert hashed("NoAction") & 0xFFFFFF == 0x445B37


def test_annotations_of_types_are_written_without_comments(tmp_path: Path) -> None:
    source = tmp_path / "types.p4"
    note = '@p4runtime_translation_mappings({\n  // "", 0 is one\n  {"//", 0} /* and\n all */\n}) type'
    source.write_text(SOURCE.replace(" type", note, 1))
    info = compile_file(source, p4info=True).p4info
    assert info is not None
    assert info.type_info.new_types["port_t"].annotations == ['@p4runtime_translation_mappings({ { "//" , 0 } })']


def test_a_selector_without_a_name_has_the_annotations_of_the_property(tmp_path: Path) -> None:
    source = tmp_path / "profile.p4"
    selector = "action_selector(HashAlgorithm.crc16, 32w64, 32w10)"
    made = f'@name("group") @max_group_size(8) @selector_size_semantics("sum_of_weights") implementation = {selector}'
    source.write_text(
        f"{HEAD}control I(inout hdr_t h, inout meta_t m, inout standard_metadata_t s) {{\n"
        f"    table t {{ key = {{ h.h.a: selector; }} actions = {{ NoAction; }} {made}; }} apply {{ t.apply(); }}\n}}\n"
        "V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    )
    info = compile_file(source, p4info=True).p4info
    assert info is not None
    (profile,) = info.action_profiles
    assert (profile.preamble.name, profile.max_group_size) == ("group", 8)
    assert profile.HasField("sum_of_weights")


def test_of_several_names_the_first_counts(tmp_path: Path) -> None:
    source = tmp_path / "names.p4"
    table = '@name("first") @name("second") table t { key = { h.h.a: exact; } actions = { NoAction; } }'
    source.write_text(
        f"{HEAD}control I(inout hdr_t h, inout meta_t m, inout standard_metadata_t s) {{\n"
        f"    {table} apply {{ t.apply(); }}\n}}\n"
        "V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    )
    info = compile_file(source, p4info=True).p4info
    assert info is not None
    assert [table.preamble.name for table in info.tables] == ["I.first"]


def test_an_architecture_beside_the_program_has_its_externs_in_p4info(tmp_path: Path) -> None:
    own = (Path(compile.__file__).parent / "include" / "v1model.p4").read_text()
    (tmp_path / "own.p4").write_text(own)
    source = tmp_path / "program.p4"
    source.write_text(
        HEAD.replace("<v1model.p4>", '"own.p4"')
        + "control I(inout hdr_t h, inout meta_t m, inout standard_metadata_t s) {\n"
        + "    register<bit<8>>(4) values; apply { values.write(0, 1); }\n}\n"
        + "V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    )
    info = compile_file(source, p4info=True).p4info
    assert info is not None
    assert [register.preamble.name for register in info.registers] == ["I.values"]
