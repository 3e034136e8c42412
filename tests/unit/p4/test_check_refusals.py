# SPDX-License-Identifier: Apache-2.0
"""What the checker refuses: the line of the first error, and its words."""

import pytest

from tests.unit.p4.checking import body, check

H = "header h { bit<8> f; }\nstruct pair { bit<8> x; bit<16> y; }\n"

STATEMENTS = [
    ("a = b;", "must have the type bit<8>, not bit<16>"),
    ("a = a + b;", "same type on both sides, not bit<8> and bit<16>"),
    ("a = a + nope;", "nope is not declared"),
    ("s = 1;", "s is an in parameter"),
    ("a[7:4] = 8w1;", "must have the type bit<4>, not bit<8>"),
    ("a[8:1] = 1;", "bit 8 is not in bit<8>"),
    ("a[1:2] = 1;", "a slice is written [high:low]"),
    ("if (a) {}", "must be a bool, not bit<8>"),
    ("a = !a;", "! needs a bool"),
    ("a = ~1;", "not defined on numbers without a width"),
    ("a = a << s;", "an unsigned number on its right"),
    ("a = a << -1;", "cannot be negative"),
    ("a = 1 << a;", "without a width is shifted"),
    ("a = a / 0;", "division by zero"),
    ("bool x = s / 2 == 0;", "not defined on signed numbers"),
    ("b = a ++ 1;", "++ needs numbers with a width"),
    ("a = (bit<8>)(int<16>)s ++ 8w0;", "cannot be cast"),
    ("bool x = (bool)2;", "only 0 and 1 can be cast to bool"),
    ("int x = 1;", "cannot be a variable of the type int"),
    ("return 1;", "return cannot have a value"),
    ("break;", "break can only be used in a for loop"),
    ("for (bit<8> i in a) {}", "for cannot run over bit<8>"),
    ("a = a << (int) a;", "a shift needs an amount with a width"),
    ("for (bit<8> i in 8w1 .. 16w3) {}", "must have the type bit<8>, not bit<16>"),
    ("switch (a) { 1: {} 1: {} }", "stands twice"),
    ("switch (a) { default: {} 1: {} }", "after `default`"),
    ("pair x = { 1 };", "must have the type struct pair, not tuple<int>"),
    ("pair x = { x = 1 };", "no value for y"),
    ("pair x = { x = 1, z = 2, ... };", "has no field z"),
    ("h[2] x; x[2].f = 1;", "index 2 is not in a stack of 2"),
    ("h[2] x; x.next = {#};", "can only be used in a parser"),
    ("h[2] x; x.push_front(a);", "must be a known number"),
    ("pair x; x.setValid();", "has no method setValid"),
    ("bool x = { x = 1w1 } == { x = 1w1 };", "does not follow from the comparison"),
    ("f(a, a);", "f has 1 parameter(s), the call 2 argument(s)"),
    ("f();", "has no argument for x"),
    ("f(y = a);", "f has no parameter y"),
    ("f(b);", "argument x of f must have the type bit<8>"),
    ("f(8w1);", "cannot be an inout argument"),
    ("g(1);", "the width of 1 does not follow"),
    ("g({a, ...});", "does not follow from `...` or {#}"),
    ("g({#});", "the type T of g does not follow"),
    ("k(a);", "must be known at compile time"),
    ("verify(true, error.No);", "verify can only be called in a parser"),
    ("bit<8> a = 1;", "a has the name of a parameter"),
]


@pytest.mark.parametrize(("statement", "text"), STATEMENTS, ids=[statement for statement, _ in STATEMENTS])
def test_statements(statement, text):
    externs = "extern void f(inout bit<8> x); extern void g<T>(in T x); extern void k(bit<8> x); error { No }\n"
    line, found = check(body(f"\n{statement}", H + externs + "extern void verify(in bool c, in error e);\n")).first()
    assert text in found
    assert line == 7


ABSTRACT = "extern e { e(); abstract void f(); }\n"
DECLARATIONS = [
    ("const bit<8> x = 1;\nconst bit<8> x = 2;", 2, "x is declared already"),
    ("const bit<8> x = y;", 1, "y is not declared"),
    ("struct s { bit<8> f; bit<8> f; }", 1, "field f of struct s is declared already"),
    ("header h { tuple<bit<8>> t; }", 1, "field t of a header cannot have the type"),
    ("header h { bool b; }\nheader_union u { bit<8> b; }", 2, "field b of a header_union"),
    ("enum e { a }\nheader h { e f; }", 2, "field f of a header cannot have the type enum e"),
    ("enum bit<2> e { a = 4 }", 1, "e.a = 4 does not fit bit<2>"),
    ("enum bool e { a = true }", 1, "an enum has values of bit<w> or int<w>"),
    ("type int<8> t;\ntype t u;\ntype varbit<8> v;", 3, "`type` cannot be applied to varbit<8>"),
    ("const bit<-1> x = 0;", 1, "a width cannot be negative"),
    ("const int<0> x = 0;", 1, "at least 1"),
    ("struct s<T> { T f; }\nconst s x = { 1 };", 2, "s needs 1 type argument"),
    ("struct s<T> { T f; }\nconst s<bit, bit> x = { 1 };", 2, "s has 1 type parameter(s), not 2"),
    ("bit<8> f(in bit<8> x) { if (x == 1) { return x; } }", 1, "does not return a value on all paths"),
    ("void f(in bit<8> x) {}\nvoid f(in bit<16> x) {}", 2, "declared already with 1 parameters"),
    ("extern x { void f(); void x2(out int a); x(); }", 1, "cannot have a direction"),
    ("extern x {}\nvoid f(in x a) {}", 2, "a parameter of the type extern x cannot have a direction"),
    ("action a(bit<8> d, in bit<8> e) {}", 1, "follows parameters without one"),
    ("action a(int d) {}", 1, "actions cannot have parameters of the type int"),
    ("void f(out bit<8> x = 1) {}", 1, "out parameters cannot have default values"),
    ("void f() { exit; }", 1, "exit cannot be used in a function"),
    ("action a() {}\nvoid f() { a(); }", 2, "actions cannot be called from functions"),
    ("parser p() { state s { transition accept; } }", 1, "parser p has no state start"),
    ("parser p() { state start { transition s; } }", 1, "s is not a declared parser state"),
    ("parser p() { state start { transition start; } }", 1, "never reaches accept or reject"),
    ("parser p() { state accept {} state start {} }", 1, "state accept is built in"),
    ("parser p(in bit<8> x) { state start { transition select(x) {\n8w1: accept;\n9w1: reject; } } }", 3, "the label"),
    ("parser p(in bit<8> x) { state start { transition select(x, x) {\n(1, 2, 3): accept; } } }", 2, "needs 2 set(s)"),
    ("control c() { apply {} }\ncontrol d() { c() x; apply {} }\nc() x;", 3, "a control cannot be instantiated"),
    ("parser p() { state start {} }\ncontrol c() { p() x; apply {} }", 2, "a parser cannot be instantiated"),
    ("control c() { apply { c.apply(); } }", 1, "c cannot be used inside of itself"),
    (
        "control t();\npackage s(t x);\ncontrol c(in bit<8> a) { apply {} }\ns(c()) main;",
        4,
        "it has 1 parameter(s), not 0",
    ),
    ("extern e { e(bit<8> n); }\ne() x;", 2, "no constructor with 0 argument(s)"),
    (
        "extern e { e(); abstract void f(); }\ncontrol c() { e() x = { void f() {} }; apply {} }",
        2,
        "has abstract methods",
    ),
    (
        "extern e { e(); abstract void f(); }\ncontrol c() { e() x; apply {} }",
        2,
        "does not implement the abstract method f",
    ),
    ('extern bool static_assert(bool check, string message);\nconst bool x = static_assert(1 > 2, "no");', 2, "no"),
    ("@name(1)\nconst bit<8> x = 1;", 1, "needs a string"),
    ("@a[x = 1] @a[y = 2]\nconst bit<8> x = 1;", 1, "@a stands twice"),
    ("extern main {}", 1, "main must be an instance of a package"),
]


@pytest.mark.parametrize(("source", "line", "text"), DECLARATIONS, ids=[text for *_, text in DECLARATIONS])
def test_declarations(source, line, text):
    at, found = check(source).first()
    assert text in found
    assert at == line


TABLES = [
    ("actions = { x; }\nkey = { a : fuzzy; }", 2, "match kind fuzzy is not declared"),
    ("actions = { x; }\nkey = { a + 1 : exact; }", 2, "a computed key needs a name"),
    ("actions = { x; x; }", 1, "two actions x"),
    ("actions = { y; }", 1, "must give an argument for to"),
    ("actions = { y(a, 1); }", 1, "set by the control plane"),
    ("actions = { x; }\ndefault_action = y(a, 1);", 2, "y is not an action of table t"),
    ("actions = { y(a); }\ndefault_action = y(a);", 2, "has no argument for v"),
    ("actions = { y(a); }\ndefault_action = y(a, a);", 2, "must be known at compile time"),
    ("actions = { x; }\nsize = 1;\nsize = 2;", 3, "two properties size"),
    ("actions = { x; }\nsize = true;", 2, "size must be a number"),
    ("key = { a : exact; }", 0, "has no actions"),
    ("actions = { x; }\nentries = { _ : x; }", 0, "need a key"),
    ("key = { a : exact; }\nactions = { x; }\nconst entries = { 1: x;\n1: x; }", 4, "the same keys"),
    ("key = { a : exact; }\nactions = { x; }\nconst entries = { 1 &&& 1: x; }", 3, "a mask cannot be matched"),
    ("key = { a : lpm; }\nactions = { x; }\nconst entries = { 1 &&& 5: x; }", 3, "must be a prefix"),
    ("key = { a : lpm; }\nactions = { x; }\nconst entries = { (1, 2): x; }", 3, "needs 1 set(s), not 2"),
    (
        "key = { a : ternary; }\nactions = { x; }\nentries = {\n1: x; priority = 2: 2: x; }",
        4,
        "first entry needs a priority",
    ),
    ("key = { a : exact; }\nactions = { @defaultonly x; }\nconst entries = { 1: x; }", 3, "is @defaultonly"),
]


@pytest.mark.parametrize(("properties", "line", "text"), TABLES, ids=[text for *_, text in TABLES])
def test_tables(properties, line, text):
    before = (
        "match_kind { exact, ternary, lpm }\naction NoAction() {}\ncontrol c(inout bit<8> a) {\n"
        "action x() {}\naction y(inout bit<8> to, bit<8> v) { to = v; }\ntable t {\n"
    )
    at, found = check(f"{before}{properties}\n}}\napply {{ t.apply(); }} }}").first()
    assert text in found
    assert at == line + 6


def test_all_independent_errors_are_reported():
    checked = check(body("a = b;\nb = a;\nnope = 1;", H) + "const bit<8> x = 16w1;")
    assert [message.span.line for message in checked.errors] == [4, 5, 6, 8]


def test_an_error_in_a_declaration_is_reported_once():
    checked = check("struct s { nothing f; }\nconst s x = { 1 };\ncontrol c(inout s v) { apply { v.f = 1; } }")
    assert [message.text for message in checked.errors] == ["nothing is not declared"]
