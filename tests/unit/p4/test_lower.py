# SPDX-License-Identifier: Apache-2.0
"""Lowering: what small programs become, statement by statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from detour.p4.compile import compile_file

_PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header head_t {{ bit<8> a; bit<8> b; bit<16> c; int<8> s; bit<8> d; }}
struct headers_t {{ head_t h; head_t[3] st; }}
struct meta_t {{ {metadata} }}
{top}
parser TheParser(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t std) {{
    state start {{ {parser} }}
    {states}
}}
control None(inout headers_t hdr, inout meta_t m) {{ apply {{ }} }}
control TheIngress(inout headers_t hdr, inout meta_t m, inout standard_metadata_t std) {{
    {locals}
    apply {{ {body} }}
}}
control TheEgress(inout headers_t hdr, inout meta_t m, inout standard_metadata_t std) {{ apply {{ }} }}
control TheDeparser(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr); }} }}
V1Switch(TheParser(), None(), TheIngress(), TheEgress(), None(), TheDeparser()) main;
"""
PLAIN = "p.extract(hdr.h); transition accept;"


class Compiler:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, body: str = "", **parts: str) -> dict[str, Any]:
        result = self.result(body, **parts)
        assert result.json is not None, [error.text for error in result.errors]
        return result.json

    def result(self, body: str = "", **parts: str) -> Any:
        path = self.folder / "program.p4"
        filled = {
            "top": "",
            "metadata": "bit<8> x; bool f;",
            "parser": PLAIN,
            "states": "",
            "locals": "",
            "body": body,
            **parts,
        }
        path.write_text(_PROGRAM.format(**filled))
        return compile_file(path, p4info=False)


@pytest.fixture
def compiled(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


def _text(e: Any) -> str:
    """A value of the JSON in short."""
    if not isinstance(e, dict):
        return str(e)
    kind, value = e["type"], e["value"]
    if kind == "expression":
        if "op" not in value:
            return _text(value)
        if value["op"] == "?":
            return f"({_text(value['cond'])} ? {_text(value['left'])} : {_text(value['right'])})"
        left = f"{_text(value['left'])} " if value["left"] is not None else ""
        return f"({left}{value['op']} {_text(value['right'])})"
    if kind in ("field", "stack_field"):
        return ".".join(value)
    if kind in ("runtime_data", "local"):
        return f"${value}"
    return str(value)


def _calls(action: dict[str, Any]) -> list[str]:
    return [f"{c['op']}({', '.join(map(_text, c['parameters']))})" for c in action["primitives"]]


def _action(json: dict[str, Any], name: str) -> list[str]:
    (action,) = [each for each in json["actions"] if each["name"] == name]
    return _calls(action)


def _statements(json: dict[str, Any]) -> list[str]:
    """All primitives outside of actions of the program, in the order in which they run where no table is between."""
    ingress = json["pipelines"][0]
    actions = {each["id"]: each for each in json["actions"]}
    tables = [table for table in ingress["tables"] if table["name"].startswith("tbl_")]
    return [call for table in tables for call in _calls(actions[table["action_ids"][0]])]


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("hdr.h.a = hdr.h.b + 1;", "assign(h.a, ((h.b + 0x01) & 0xff))"),
        ("hdr.h.a = hdr.h.b - 1;", "assign(h.a, ((h.b + 0xff) & 0xff))"),
        ("hdr.h.a = -hdr.h.b;", "assign(h.a, ((0x00 - h.b) & 0xff))"),
        ("hdr.h.s = hdr.h.s + 1;", "assign(h.s, ((h.s + 0x01) two_comp_mod 0x8))"),
        ("hdr.h.a = hdr.h.b |+| hdr.h.d;", "assign(h.a, ((h.b + h.d) usat_cast 0x8))"),
        ("hdr.h.a = hdr.h.b / 4;", "assign(h.a, (h.b >> 0x2))"),
        ("hdr.h.a = hdr.h.b % 4;", "assign(h.a, (h.b & 0x03))"),
        ("hdr.h.c = hdr.h.a ++ hdr.h.b;", "assign(h.c, ((h.a << 0x8) | h.b))"),
        ("hdr.h.a = hdr.h.c[11:4];", "assign(h.a, ((h.c >> 0x4) & 0xff))"),
        ("hdr.h.c[11:4] = hdr.h.a;", "assign(h.c, ((h.c & 0xf00f) | (h.a << 0x4)))"),
        ("hdr.h.a = (bit<8>)hdr.h.s;", "assign(h.a, (h.s & 0xff))"),
        ("hdr.h.a = (bit<8>)((int)hdr.h.b * 3 - (int)hdr.h.s);", "assign(h.a, (((h.b * 0x3) - h.s) & 0xff))"),
        ("hdr.h.s = (int<8>)-((int)hdr.h.b << 2);", "assign(h.s, ((0x0 - (h.b << 0x2)) two_comp_mod 0x8))"),
        ("m.f = (int)hdr.h.a + 1 > 255;", "assign(scalars.meta_t.f, (b2d ((h.a + 0x1) > 0xff)))"),
        ("hdr.h.a = hdr.h.b << 9;", "assign(h.a, 0x00)"),
        ("hdr.h.a = V1MODEL_METER_COLOR_RED;", "assign(h.a, 0x02)"),
        ("m.f = hdr.h.a > 4;", "assign(scalars.meta_t.f, (b2d (h.a > 0x04)))"),
        ("hdr.h.a = m.f ? hdr.h.b : 8w3;", "assign(h.a, ((d2b scalars.meta_t.f) ? h.b : 0x03))"),
        ("hdr.h.setInvalid();", "remove_header(h)"),
        ("hdr.st.push_front(1);", "push(st, 0x1)"),
        ("hdr.st[m.x] = hdr.h;", "assign_header((st dereference_header_stack scalars.meta_t.x), h)"),
    ],
)
def test_a_statement_is_one_primitive(statement: str, call: str, compiled: Compiler) -> None:
    assert _statements(compiled(statement)) == [call]


def test_what_is_known_is_not_computed(compiled: Compiler) -> None:
    assert _statements(compiled("bit<8> i = 1; hdr.st[i].a = hdr.st[i + 1].b;"))[-1] == "assign(st[1].a, st[2].b)"
    json = compiled("bit<8> i = 1; if (i == 2) { hdr.h.a = 1; }")
    assert json["pipelines"][0]["conditionals"] == []


def test_parts_of_an_aggregate_that_the_target_changes_are_saved(compiled: Compiler) -> None:
    calls = _statements(compiled("hdr.h = {hdr.h.b, hdr.h.a, 1, 2, 3};"))
    assert calls[:4] == [
        "assign(scalars.tmp, h.b)",
        "assign(scalars.tmp_0, h.a)",
        "add_header(h)",
        "assign(h.a, scalars.tmp)",
    ]


@pytest.mark.parametrize(
    ("body", "top", "expected"),
    [
        (
            "hdr.h.a = m.x + next(m.x);",
            "bit<8> next(inout bit<8> n) { n = n + 1; return n; }",
            [
                "assign(scalars.tmp, scalars.meta_t.x)",
                "assign(scalars.meta_t.x, ((scalars.meta_t.x + 0x01) & 0xff))",
                "assign(scalars.retval, scalars.meta_t.x)",
                "assign(h.a, ((scalars.tmp + scalars.retval) & 0xff))",
            ],
        ),
        (
            "f(hdr.h.a, g(hdr.h.a));",
            "bit<8> g(inout bit<8> n) { n = 3; return 1; } void f(inout bit<8> n, in bit<8> by) { n = n + by; }",
            [
                "assign(scalars.n, h.a)",
                "assign(h.a, 0x03)",
                "assign(scalars.retval, 0x01)",
                "assign(scalars.n, ((scalars.n + 0x01) & 0xff))",
                "assign(h.a, scalars.n)",
            ],
        ),
    ],
    ids=["operands", "inout argument"],
)
def test_operands_and_arguments_are_evaluated_from_left_to_right(
    body: str, top: str, expected: list[str], compiled: Compiler
) -> None:
    """Section 6.8: `f(a, g(a))` leaves in `a` what `f` makes of the value that it had before `g`."""
    assert _statements(compiled(body, top=top)) == expected


@pytest.mark.parametrize(("arguments", "copies"), [("hdr.h.a, hdr.h.b", 0), ("hdr.h.a, hdr.h.a", 2)])
def test_arguments_that_overlap_are_copied(arguments: str, copies: int, compiled: Compiler) -> None:
    top = "void both(inout bit<8> one, inout bit<8> two) { one = 1; two = 2; }"
    calls = _statements(compiled(f"both({arguments});", top=top))
    assert sum("scalars" in call.partition(",")[0] for call in calls) == 2 * copies


def test_a_variable_that_is_two_arguments_is_copied(compiled: Compiler) -> None:
    top = "void both(inout bit<8> one, inout bit<8> two) { one = one + 1; two = two + 1; }"
    calls = _statements(compiled("both(m.x, m.x);", top=top))
    assert calls[-2:] == ["assign(scalars.meta_t.x, scalars.one)", "assign(scalars.meta_t.x, scalars.two)"]


def test_an_argument_is_copied_if_the_action_changes_it_otherwise(compiled: Compiler) -> None:
    json = compiled("act(hdr.h);", locals="action act(in head_t h) { hdr.h.a = 1; hdr.h.a = h.a; }")
    assert _action(json, "TheIngress.act") == ["assign_header(h_0, h)", "assign(h.a, 0x01)", "assign(h.a, h_0.a)"]


def test_exit_copies_out_of_all_calls(compiled: Compiler) -> None:
    inner = "control Inner(inout bit<8> x, inout bit<8> y) { apply { x = 1; if (y == 0) { exit; } y = 2; } }"
    json = compiled("i.apply(hdr.h.a, hdr.h.a); hdr.h.b = 9;", top=inner, locals="Inner() i;")
    ingress = json["pipelines"][0]
    nodes = {each["name"]: each for each in [*ingress["tables"], *ingress["conditionals"]]}
    (condition,) = ingress["conditionals"]
    leaving = nodes[condition["true_next"]]
    actions = {each["id"]: each for each in json["actions"]}
    assert _calls(actions[leaving["action_ids"][0]]) == ["assign(h.a, 0x01)", "assign(h.a, scalars.y)"]
    assert leaving["base_default_next"] is None


def test_an_action_exits_by_a_mark_and_a_jump(compiled: Compiler) -> None:
    json = compiled("act();", locals="action act() { if (hdr.h.a == 1) { exit; } hdr.h.b = 2; }")
    assert _action(json, "TheIngress.act") == [
        "_jump_if_zero((b2d (h.a == 0x01)), 0x3)",
        "exit()",
        "_jump(0x4)",
        "assign(h.b, 0x02)",
    ]


def test_exit_copies_out_of_an_action_that_an_action_calls(compiled: Compiler) -> None:
    """p4c 1.2.5.16 does not; "Exit statement" in the specification says that it must."""
    inner = "action inner(inout bit<8> x, inout bit<8> y) { x = 0; if (y == 1) { exit; } }"
    json = compiled("outer();", locals=f"{inner} action outer() {{ inner(hdr.h.a, hdr.h.a); }}")
    calls = _action(json, "TheIngress.outer")
    assert calls[calls.index("exit()") - 1].startswith("assign(h.a, ")


def test_a_loop_in_an_action_stays_one(compiled: Compiler) -> None:
    body = "action sum() { for (bit<8> i = 0; i < hdr.h.a; i = i + 1) { hdr.h.b = hdr.h.b + i; } }"
    calls = _action(compiled("sum();", locals=body), "TheIngress.sum")
    assert calls[-1] == "_jump(0x1)"


def test_a_loop_in_a_control_is_unrolled(compiled: Compiler) -> None:
    calls = _statements(compiled("for (bit<8> i = 0; i < 3; i = i + 1) { hdr.st[i].a = i; }"))
    assert [call for call in calls if "st[" in call] == [f"assign(st[{i}].a, 0x0{i})" for i in range(3)]


def test_hit_and_switch_are_followers_of_the_table(compiled: Compiler) -> None:
    table = "action one() {} action two() {} table t { key = { hdr.h.a: exact; } actions = { one; two; } }"
    (t,) = [x for x in compiled("if (t.apply().hit) { m.x = 1; }", locals=table)["pipelines"][0]["tables"] if x["key"]]
    assert set(t["next_tables"]) == {"__HIT__", "__MISS__"}
    body = "switch (t.apply().action_run) { one: { m.x = 1; } default: { m.x = 2; } }"
    (t,) = [x for x in compiled(body, locals=table)["pipelines"][0]["tables"] if x["key"]]
    assert t["next_tables"]["TheIngress.one"] != t["next_tables"]["TheIngress.two"]
    assert t["next_tables"]["TheIngress.two"] == t["next_tables"]["NoAction"]


def test_a_switch_without_default_may_assign_nothing(compiled: Compiler) -> None:
    """p4c 1.2.5.16 takes what the only case assigns for assigned always, and writes `h.d = h.b`."""
    json = compiled("m.x = 1; switch (hdr.h.a) { 4: { m.x = hdr.h.b; } } hdr.h.d = m.x;")
    assert {"assign(scalars.meta_t.x, 0x01)", "assign(scalars.meta_t.x, h.b)"} <= set(_statements(json))
    assert "assign(h.d, scalars.meta_t.x)" in _statements(json)


def test_tables_that_known_values_rule_out_take_entries(compiled: Compiler) -> None:
    """The P4Info has them, so a controller may fill them; it has none that a constant rules out."""
    tables = "table t { key = { hdr.h.a: exact; } actions = { NoAction; } } table u { actions = { NoAction; } }"
    json = compiled("m.x = 1; if (m.x == 2) { if (m.f) { t.apply(); } } if (false) { u.apply(); }", locals=tables)
    made = {each["name"]: each["next_tables"] for each in json["pipelines"][0]["tables"]}
    assert made["TheIngress.t"] == {"NoAction": None}
    assert "TheIngress.u" not in made


def test_any_value_of_a_wide_range_key(compiled: Compiler) -> None:
    """p4c 1.2.5.16 ends the range at 0xffff."""
    key = 'hdr.h.a ++ hdr.h.c ++ hdr.h.c ++ hdr.h.b: range @name("k");'
    table = f"table t {{ key = {{ {key} }} actions = {{ NoAction; }} const entries = {{ _: NoAction(); }} }}"
    (made,) = [each for each in compiled("t.apply();", locals=table)["pipelines"][0]["tables"] if each["key"]]
    assert made["entries"][0]["match_key"] == [
        {"match_type": "range", "start": "0x000000000000", "end": "0xffffffffffff"}
    ]


def test_ranges_in_select_are_masks(compiled: Compiler) -> None:
    select = "p.extract(hdr.h); transition select(hdr.h.a) { 4 .. 9: more; default: accept; }"
    json = compiled(parser=select, states="state more { p.extract(hdr.st.next); transition accept; }")
    first = json["parsers"][0]["parse_states"][0]["transitions"]
    assert [(t["value"], t["mask"]) for t in first] == [("0x04", "0xfc"), ("0x08", "0xfe"), (None, None)]


def test_a_loop_over_a_stack_stays_one(compiled: Compiler) -> None:
    more = "state more { p.extract(hdr.st.next); transition select(hdr.st.last.a) { 0: more; default: accept; } }"
    json = compiled(parser="p.extract(hdr.h); transition more;", states=more)
    states = json["parsers"][0]["parse_states"]
    assert [state["name"] for state in states] == ["start", "more"]
    assert states[1]["transitions"][0]["next_state"] == "more"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("hdr.h.a = hdr.h.b / 3;", "/ of values that are not known at compile time"),
        ("t.apply(); t.apply();", "t is applied twice"),
        ("if (m.f) { t.apply(); m.x = 1; } else { t.apply(); }", "at two places that go on differently"),
        ("for (bit<8> i = 0; i < m.x; i = i + 1) { t.apply(); }", "how often this loop runs is not known"),
        ("digest(1, {hdr.h, hdr.st});", "a value of type head_t[3] cannot be used here"),
        ("hash(hdr.h.c, HashAlgorithm.crc16, hdr.h, {m.x}, 16w3);", "hash needs a number here"),
    ],
)
def test_what_bmv2_cannot_do_is_refused_by_name(body: str, says: str, compiled: Compiler) -> None:
    table = "table t { key = { hdr.h.a: exact; } actions = { NoAction; } }"
    (error,) = compiled.result(body, locals=table).errors
    assert says in error.text


def test_arrays_that_nothing_uses_are_there_for_controllers(compiled: Compiler) -> None:
    json = compiled(top="counter(8, CounterType.packets) all;", locals="register<bit<4>>(2) own;")
    assert [(each["name"], each["size"]) for each in json["counter_arrays"]] == [("all", 8)]
    assert [(each["name"], each["bitwidth"]) for each in json["register_arrays"]] == [("TheIngress.own", 4)]


def test_a_table_entry_gives_numbers_only(compiled: Compiler) -> None:
    declarations = "action set(pair x) { hdr.h.a = x.a; } table t { actions = { set; } }"
    (error,) = compiled.result("t.apply();", top="struct pair { bit<8> a; }", locals=declarations).errors
    assert error.text == "a parameter of type pair cannot come from a table entry"


def test_lists_of_fields_are_numbered_from_1_as_0_means_none_to_bmv2(compiled: Compiler) -> None:
    metadata = "@field_list(7) bit<8> x; @field_list(0, 7) bool f;"
    body = (
        "resubmit_preserving_field_list(0); clone(CloneType.I2E, 5); clone_preserving_field_list(CloneType.I2E, 5, 9);"
    )
    json = compiled(body, metadata=metadata)
    lists = [(each["id"], each["name"], len(each["elements"])) for each in json["field_lists"]]
    assert lists == [(1, "field_list0", 1), (2, "field_list7", 2), (3, "fl", 0), (4, "field_list9", 0)]
    calls = [call for action in json["actions"] for call in action["primitives"]]
    assert [int(call["parameters"][-1]["value"], 16) for call in calls] == [1, 3, 4]


def test_a_header_that_is_written_out_is_sent_hashed_and_shown(compiled: Compiler) -> None:
    header = "(head_t){1, 2, 3, 4, 5}"
    body = f'digest(1, {header}); hash(m.x, HashAlgorithm.crc16, 8w0, {header}, 8w9); log_msg("{{}}", {header});'
    json = compiled(body)
    assert len(json["learn_lists"][0]["elements"]) == 5
    (calculation,) = json["calculations"]
    assert [each["type"] for each in calculation["input"]] == ["header"]


@pytest.mark.parametrize("kind", ["header", "struct"])
def test_a_field_that_bmv2_cannot_store_is_shown_in_the_source(kind: str, compiled: Compiler) -> None:
    top = f"{kind} many_t {{ bit<8>[4] all; }} struct other_t {{ many_t many; }}"
    (error,) = compiled.result(top=top, locals="other_t other;", body="other.many.all[0] = 1;").errors
    assert error.text == "a value of type bit<8>[4] cannot be stored at run time"
    assert error.span.file.name.endswith("program.p4")


@pytest.mark.parametrize("name", ["V1Switch", "PSA_Switch", "PNA_NIC"])
def test_a_package_of_an_architecture_s_name_with_other_parts_is_refused(name: str, tmp_path: Path) -> None:
    source = tmp_path / "other.p4"
    source.write_text(
        f"parser P(); control C(); package {name}(P p, C c);\n"
        "parser MyP() { state start { transition accept; } } control MyC() { apply { } }\n"
        f"{name}(MyP(), MyC()) main;\n"
    )
    (error,) = compile_file(source).errors
    assert error.span.line == 3
    assert error.text.startswith(f"main is a {name}, whose parts are not")


def test_parameters_are_named_as_in_p4info(compiled: Compiler) -> None:
    action = 'action set(@name("y") bit<8> x, @name(".z") bit<8> a, bit<8> b) { hdr.h.a = x + a + b; }'
    json = compiled("t.apply();", locals=f"{action} table t {{ key = {{ hdr.h.b: exact; }} actions = {{ set; }} }}")
    (parameters,) = [[each["name"] for each in a["runtime_data"]] for a in json["actions"] if a["runtime_data"]]
    assert parameters == ["y", "z", "b"]


def test_match_fields_are_named_as_in_p4info(compiled: Compiler) -> None:
    top = 'struct inner_t { @name("y") bit<8> x; } struct outer_t { @name(".z") inner_t i; }'
    keys = 'inner.x: exact; o.i.x: exact; hdr.h.c[9:2]: exact; hdr.h.isValid(): exact; hdr.h.d: exact @name("k");'
    table = f"inner_t inner; outer_t o; table t {{ key = {{ {keys} }} actions = {{ NoAction; }} }}"
    body = "inner.x = 1; o.i.x = 2; t.apply();"
    (made,) = [each for each in compiled(body, top=top, locals=table)["pipelines"][0]["tables"] if each["key"]]
    assert [key["name"] for key in made["key"]] == ["inner.y", "z.y", "hdr.h.c[9:2]", "hdr.h.$valid$", "k"]
    info = compile_file(compiled.folder / "program.p4").p4info
    assert info is not None
    assert [key["name"] for key in made["key"]] == [field.name for field in info.tables[0].match_fields]
