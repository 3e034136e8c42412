# SPDX-License-Identifier: Apache-2.0
"""The typed program: constants, casts, inference, structures, tables."""

import pytest

from detour.p4 import core
from detour.p4.types import BOOL, INTEGER, Bits, Header, Struct, Tuple
from tests.unit.p4.checking import body, check, statements_of

PAIR = "struct pair { bit<8> x; bit<16> y; }\nheader h { bit<8> f; }\n"


@pytest.mark.parametrize(
    ("kind", "expression", "value"),
    [
        ("bit<8>", "255 + 1", 0),
        ("bit<8>", "8w255 + 1", 0),
        ("bit<8>", "8w250 |+| 10", 255),
        ("bit<8>", "8w3 |-| 10", 0),
        ("int<8>", "8s127 + 1", -128),
        ("int<8>", "-8s128", -128),
        ("int", "1 << 70", 1 << 70),
        ("int", "-7 >> 1", -4),
        ("bit<16>", "8w1 ++ 8w2", 0x102),
        ("int<8>", "4s15 ++ 4w1", -15),
        ("bit<4>", "8w0xab[7:4]", 0xA),
        ("bit<4>", "0xabc[11:8]", 0xA),
        ("bit<4>", "8w0xab[4+:4]", 0xA),
        ("bit<8>", "~8w0", 255),
        ("bit<8>", "(bit<8>)(int<8>)-1", 255),
        ("bit<8>", "true ? 8w1 : 2", 1),
        ("int", "7 / 2 + 7 % 2", 4),
        ("bool", "8w3 > 2 && !(1 == 2)", True),
        ("bool", "(bool)1w1", True),
        ("string", '"a" ++ "b"', "ab"),
        ("bit<32>", "h.minSizeInBits()", 8),
        ("bit<8>", "pair.maxSizeInBytes()", 3),
        ("bit<8>", "P.y.x", 5),
        ("bit<8>", "T[1]", 7),
        ("bit<8>", "E.b", 4),
    ],
)
def test_constants_are_folded(kind, expression, value):
    before = f"{PAIR}struct outer {{ pair y; }}\nconst outer P = {{ {{ 5, 6 }} }};\n"
    before += "const tuple<bool, bit<8>> T = { true, 7 };\nenum bit<8> E { a = 3, b = 4 }\n"
    folded = check(f"{before}const {kind} K = {expression};").value("K")
    assert isinstance(folded, core.Literal)
    assert (folded.value, type(folded.value)) == (value, type(value))


def test_literals_take_the_type_of_the_other_operand():
    (statement,) = statements_of(check(body("a = a + 1;")))
    assert isinstance(statement, core.Assign)
    assert isinstance(statement.value, core.Binary)
    assert statement.value.right.type == Bits(8)


def test_shift_amounts_keep_their_type():
    (statement,) = statements_of(check(body("a = a << 1;")))
    assert isinstance(statement.value, core.Binary)
    assert statement.value.right.type == INTEGER


def test_members_of_enums_become_numbers_where_numbers_are_needed():
    (statement,) = statements_of(check(body("a = a + E.x;", "enum bit<8> E { x = 9 }\n")))
    right = statement.value.right
    assert (right.type, right.value) == (Bits(8), 9)


def test_compound_assignment_is_an_assignment():
    (statement,) = statements_of(check(body("a |+|= 3;")))
    assert (statement.value.operator, statement.value.right.value) == ("|+|", 3)


def test_calls_in_the_target_of_a_compound_assignment_are_saved():
    before = "extern bit<1> next();\nheader h { bit<8> f; }\nstruct s { h[2] hs; }\n"
    source = check(before + "control c(inout s m) { apply { m.hs[next()].f += 1; } }")
    (block,) = statements_of(source)
    declare, assign = block.statements
    assert isinstance(declare.initial, core.CallFunction)
    assert assign.target.base.index.declaration is declare.variable
    assert assign.value.left.base.index.declaration is declare.variable


class TestStructures:
    @pytest.mark.parametrize("written", ["{ 1, 2 }", "{ y = 2, x = 1 }", "(pair){ 1, 2 }"])
    def test_lists_and_named_values(self, written):
        value = check(f"{PAIR}const pair K = {written};").value("K")
        assert isinstance(value, core.StructValue)
        assert isinstance(value.type, Struct)
        parts = {name: (part.type, part.value) for name, part in value.fields if isinstance(part, core.Literal)}
        assert parts == {"x": (Bits(8), 1), "y": (Bits(16), 2)}

    @pytest.mark.parametrize("written", ["{ 1, ... }", "{ x = 1, ... }"])
    def test_default_values(self, written):
        value = check(f"{PAIR}const pair K = {written};").value("K")
        assert {name: part.value for name, part in value.fields} == {"x": 1, "y": 0}

    def test_invalid_header(self):
        declare, _ = statements_of(check(body("h x = {#};\na = x.f;", PAIR)))
        assert isinstance(declare.initial, core.InvalidHeader)
        assert isinstance(declare.initial.type, Header)

    def test_stacks(self):
        (declare,) = statements_of(check(body("h[3] x = { { 1 }, {#}, ... };", PAIR)))
        kinds = [type(element) for element in declare.initial.elements]
        assert kinds == [core.StructValue, core.InvalidHeader, core.InvalidHeader]

    def test_generic_ones(self):
        source = check("struct g<T> { T f; tuple<T, bool> t; }\nconst g<bit<4>> K = { 5, { 6, false } };")
        kind = source.value("K").type
        assert str(kind) == "g<bit<4>>"
        assert [part.type for part in kind.fields] == [Bits(4), Tuple((Bits(4), BOOL))]


class TestCalls:
    def test_type_arguments_are_inferred(self):
        before = "extern void f<T, U>(in T x, out U y);\n"
        (statement,) = statements_of(check(body("f(b, a);", before)))
        assert statement.call.type_arguments == (Bits(16), Bits(8))

    def test_type_arguments_follow_from_the_place_of_the_result(self):
        before = "extern p { T get<T>(); }\n"
        source = check(before + "control c(p x, out bit<8> a) { apply { a = x.get(); } }")
        assert statements_of(source)[0].value.type_arguments == (Bits(8),)

    def test_arguments_are_in_the_order_of_the_parameters(self):
        before = "extern void f(in bit<8> x, in bit<8> y = 7, in bit<16> z);\n"
        (statement,) = statements_of(check(body("f(z = 3, x = a);", before)))
        x, y, z = statement.call.arguments
        assert (x.declaration.name, y.value, z.value) == ("a", 7, 3)

    def test_overloads_differ_in_number_or_names(self):
        before = "extern void f(in bit<8> x);\nextern void f(in bit<16> y);\nextern void f();\n"
        calls = [s.call.function.parameters for s in statements_of(check(body("f();\nf(x = 1);\nf(y = 1);", before)))]
        assert [[p.name for p in parameters] for parameters in calls] == [[], ["x"], ["y"]]

    def test_an_out_argument_may_be_left_out(self):
        (statement,) = statements_of(check(body("f(_);", "extern void f(out bit<8> x);\n")))
        assert statement.call.arguments == (None,)

    def test_methods_of_generic_externs(self):
        before = "extern reg<T> { reg(bit<32> size); void write(in bit<32> i, in T v); }\n"
        source = check(before + "control c() { reg<bit<4>>(8) r; apply { r.write(1, 9); } }")
        call = statements_of(source)[0].call
        assert (call.arguments[1].type, call.method.parameters[1].type) == (Bits(4), Bits(4))

    def test_packages_infer_types_from_blocks(self):
        source = check(
            "control ingress<H>(inout H h);\npackage sw<H>(ingress<H> i, @optional ingress<H> e);\n"
            "struct hs { bit<8> x; }\ncontrol mine(inout hs h) { apply {} }\nsw(mine()) main;"
        )
        assert str(source.program.main.type) == "sw<hs>"
        assert source.program.main.arguments[1] is None

    def test_direct_application(self):
        before = "control d(inout bit<8> x) { apply { x = 1; } }\n"
        (statement,) = statements_of(check(body("d.apply(a);", before)))
        assert isinstance(statement.call.target, core.Construct)


class TestSwitch:
    def test_labels_that_share_a_body_are_one_case(self):
        source = check(body("switch (a) {\n1: 2: { b = 1; }\ndefault: {}\n}"))
        (statement,) = statements_of(source)
        assert [[label and label.value for label in case.labels] for case in statement.cases] == [[1, 2], [None]]

    def test_actions(self):
        source = check(TABLE.replace("t.apply();", "switch (t.apply().action_run) { x: {} default: {} }"))
        (statement,) = statements_of(source)
        assert statement.cases[0].labels[0].name == "x"


TABLE = """
match_kind { exact, ternary, lpm }
action NoAction() {}
control c(inout bit<8> a, inout bit<16> b) {
    action x() { a = 1; }
    action y(inout bit<8> to, bit<8> v) { to = v; }
    table t {
        key = { a : exact; b : ternary @name("B"); }
        actions = { x; y(a); }
        largest_priority_wins = false;
        priority_delta = 10;
        entries = { priority = 5: (1, 2 &&& 3): y(a, 9); const (2, _): x(); }
        size = 64;
    }
    apply { t.apply(); }
}
"""


class TestTables:
    @pytest.fixture
    def table(self):
        return next(one for one in check(TABLE)["c"].locals if isinstance(one, core.Table))

    def test_keys(self, table):
        assert [(key.match_kind, str(key.expression.type)) for key in table.keys] == [
            ("exact", "bit<8>"),
            ("ternary", "bit<16>"),
        ]
        note = core.annotation(table.keys[1].annotations, "name")
        assert note is not None
        assert note.values == ("B",)

    def test_a_table_without_a_default_action_has_no_action(self, table):
        assert table.default_action.action.name == "NoAction"
        assert core.annotation(table.actions[-1].annotations, "defaultonly") is not None

    def test_entries(self, table):
        first, second = table.entries
        assert isinstance(first.keys[1], core.MaskSet)
        assert isinstance(second.keys[1], core.Anything)
        assert [argument.span.text for argument in first.use.arguments] == ["a", "9"]
        assert (first.constant, second.constant) == (False, True)

    def test_priorities_are_filled_in(self, table):
        assert [entry.priority for entry in table.entries] == [5, 15]

    def test_other_properties(self, table):
        assert table.size == 64
        assert set(table.properties) == {"largest_priority_wins", "priority_delta"}


def test_value_sets_stand_for_one_or_all_selected_values():
    source = check(
        "struct two { bit<8> x; bit<8> y; }\nparser p(in bit<8> a) {\n"
        "value_set<bit<8>>(4) one; value_set<two>(4) both;\n"
        "state start { transition select(a) { one: next; 1 .. 5: next; _: accept; } }\n"
        "state next { transition select(a, a) { both: accept; (one, _): reject; } } }"
    )
    start, following = source["p"].states[:2]
    assert isinstance(start.transition.cases[0].labels.elements[0], core.Ref)
    assert isinstance(start.transition.cases[1].labels.elements[0], core.RangeSet)
    assert isinstance(following.transition.cases[0].labels, core.Ref)


def test_a_state_without_a_transition_rejects():
    state = check("parser p() { state start {} }")["p"].states[0]
    assert [case.state.name for case in state.transition.cases] == ["reject"]


def test_annotations_have_values():
    source = check('const int N = 3;\n@name("a" ++ "b") @id(N + 1) @k[x = 1, y = "z"]\nconst bit<8> K = 1;')
    name, number, pairs = source["K"].annotations
    assert (name.values, number.values, pairs.pairs) == (("ab",), (4,), (("x", 1), ("y", "z")))


def test_errors_are_numbered_in_order():
    assert check("error { A, B }\nerror { C }").program.errors == ("A", "B", "C")


def test_what_is_stored_in_a_type_of_bits_may_be_a_number_without_a_width():
    """As p4c has it, which asks for a cast elsewhere: in arguments, structures and comparisons."""
    before = "type bit<8> port_t;\nstruct link { port_t to; }\nconst port_t CPU = 255;\nport_t first() { return 1; }\n"
    literal = check(before).value("CPU")
    assert (literal.value, str(literal.type)) == (255, "port_t")
    assert not check(body("port_t p = 3; p = 4;", before)).errors
    for refused in ("link l = { 3 };", "port_t p = first(); bool same = p == 1;", "port_t p = 8w3;"):
        assert check(body(refused, before)).errors, refused


def test_a_varbit_may_be_longer_than_a_number():
    assert not check("header options { varbit<10944> all; }").errors
    assert "numbers have at most 2048 bits" in check("header options { bit<10944> all; }").first()[1]
