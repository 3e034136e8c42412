# SPDX-License-Identifier: Apache-2.0
"""What the checker warns of: kinds and lines, in programs without errors."""

import pytest

from tests.unit.p4.checking import body, check

TYPES = """\
header h { bit<8> f; bit<8> g; }
header_union u { h one; h two; }
struct pair { bit<8> x; bit<16> y; }
struct all { h hdr; h[2] stack; u either; pair plain; }
extern void fill(out h x);
extern packet { void extract<T>(out T x); }
action NoAction() {}
match_kind { exact }
"""
BEFORE = len(TYPES.splitlines())
MAIN = """\
control C(inout bit<8> a, inout bit<16> b, in int<8> n);
package P(C x);
P(c()) main;
"""


def warnings_of(source: str) -> list[tuple[str, int]]:
    """Kinds and lines of the warnings about what stands after `TYPES`, in the order of their lines."""
    checked = check(TYPES + source)
    assert checked.errors == []
    places = ((one.kind, one.span.line - BEFORE) for one in checked.warnings)
    return sorted((one for one in places if one[1] > 0), key=lambda one: one[1])


def in_control(statements: str) -> list[tuple[str, int]]:
    """Warnings about statements of a control that `main` uses; the first one is on line 1."""
    return [(kind, line - 1) for kind, line in warnings_of(body(statements) + MAIN)]


UNSET = "uninitialized-use"
INVALID = "invalid-header"
STATEMENTS = [
    ("bit<8> x = 1;", "unused", 1),
    ("{ bit<8> x = 1; a = x; { bit<8> x = 2; a = x; } }", "shadow", 1),
    ("a = a << 8;", "overflow", 1),
    ("a = 256;", "mismatch", 1),
    ("bit<8> x;\na = x;", UNSET, 2),
    ("bit<8> x;\nx = x + 1;", UNSET, 2),
    ("bit<8> x;\nx[3:0] = 1;\na = x;", UNSET, 2),
    ("bit<8> x;\nif (a == 1) { x = 1; }\na = x;", UNSET, 3),
    ("bit<8> x;\nif (a == 1 && x == 1) { a = 2; }", UNSET, 2),
    ("bit<8> x;\nswitch (a) { 1: { x = 1; } }\na = x;", UNSET, 3),
    ("bit<8> x;\nfor (bit<8> i in 8w0 .. 3) { x = i; }\na = x;", UNSET, 3),
    ("bit<8> x;\nfor (bit<8> i in 8w0 .. 3) {\nif (i == 1) { break; }\nx = i; a = x; }\na = x;", UNSET, 5),
    ("bit<8> x;\nfor (bit<8> i = 0; i < 3; i = i + 1) {\nif (i > 1) { a = x; }\nx = i; }", UNSET, 3),
    ("pair p;\np.x = 1;\na = p.x; b = p.y;", UNSET, 3),
    ("pair p;\np.x = 1;\npair q = p; a = q.x;", UNSET, 3),
    ("tuple<bit<8>, bit<8>> t;\na = t[1];", UNSET, 2),
    ("h x;\nx.setValid();\nx.f = 1;\na = x.f + x.g;", UNSET, 4),
    ("h x;\nh y = x; y.setInvalid();", UNSET, 2),
    ("h x;\na = x.f;", INVALID, 2),
    ("h x;\nx.f = 1;", INVALID, 2),
    ("h x;\nx.setValid();\nx.setInvalid();\nx.f = 1;", INVALID, 4),
    ("h x;\nif (a == 1) { fill(x); }\na = x.f;", INVALID, 3),
    ("h x = { 1, 2 };\nx = {#};\na = x.f;", INVALID, 3),
    ("all x; all y;\nfill(x.hdr);\ny = x;\na = y.hdr.f;\na = y.stack[1].f;", INVALID, 5),
    ("all x;\nfill(x.either.one);\nfill(x.either.two);\na = x.either.one.f;", INVALID, 4),
    ("all x;\nx.stack[0] = { 1, 2 };\na = x.stack[1].f;", INVALID, 3),
    ("all x;\nfor (bit<8> i in 8w0 .. 1) {\nx.stack[i].f = i; }", INVALID, 3),
    ("all x;\nif (!x.hdr.isValid()) { a = 1; }\nelse { fill(x.hdr); }\nx.hdr.f = a;", INVALID, 4),
]


@pytest.mark.parametrize(("statements", "kind", "line"), STATEMENTS, ids=[text for text, *_ in STATEMENTS])
def test_one_place_is_warned_of(statements: str, kind: str, line: int) -> None:
    assert [one for one in in_control(statements) if one[0] == kind] == [(kind, line)]


@pytest.mark.parametrize(
    "statements",
    [
        "bit<8> x;\nif (a == 1) { x = 1; } else { x = 2; }\na = x;",
        "bit<8> x;\nif (a == 1) { x = 1; } else { return; }\na = x;",
        "bit<8> x;\nif (a == 1) { exit; }\nx = 1;\na = x;",
        "bit<8> x;\nswitch (a) { 1: { x = 1; } default: { x = 2; } }\na = x;",
        "bit<8> x;\nif (true) { x = 1; }\na = x;",
        "bit<8> x;\nswitch (8w2) { 1: {} 2: { x = 1; } default: {} }\na = x;",
        "bit<8> _x = 1;",
        "pair p;\np.x = 1;\np.y = 2;\npair q = p;\na = q.x;",
        "h x;\nfill(x);\na = x.f;",
        "h x;\nif (a == 1) { fill(x); }\nif (x.isValid() && x.f == 1) { a = x.f; }",
        "h x;\nif (!x.isValid()) { return; }\na = a + 1; x.setInvalid();",
        "h x = { 1, 2 };\nh y = x;\na = y.f;",
        "all x;\nfill(x.stack[1]);\nfill(x.either.one);\na = x.stack[1].f + x.either.one.f;",
        "all x;\nfor (bit<8> i in 8w0 .. 1) { fill(x.stack[i]);\na = x.stack[i].f; }",
        "all x;\nx.stack[0] = { 1, 2 };\nx.stack.push_front(1);\na = x.stack[1].f;",
        "for (bit<8> i in 8w0 .. 3) { a = 1; }",
        '@noWarn("uninitialized-use") { bit<8> x; a = x; }',
    ],
)
def test_nothing_is_warned_of(statements: str) -> None:
    assert in_control(statements) == []


CONTROL = "control c(inout bit<8> a, inout bit<16> b, in int<8> n) {\n"
PARSER = "parser p(packet k, out all x, in bit<8> v) { state start {\n"
PARSED = "parser Q(packet k, out all x, in bit<8> v);\npackage P(Q q);\nP(p()) main;\n"
PROGRAMS = [
    # Actions run where they are called, with what is known there.
    (CONTROL + "h x;\naction f() { x.setInvalid(); }\napply { fill(x); f();\na = x.f; } }\n" + MAIN, [(INVALID, 5)]),
    (CONTROL + "bit<8> x;\naction f() { x = 1; }\napply { f();\na = x; } }\n" + MAIN, []),
    (
        CONTROL + "bit<8> x;\naction f() { x = 1; }\n"
        "table t { key = { a : exact; } actions = { f; @defaultonly NoAction; } default_action = NoAction; }\n"
        "apply { t.apply();\na = x; } }\n" + MAIN,
        [(UNSET, 6)],
    ),
    (
        CONTROL + "action f(out bit<8> y) {\nif (a == 1) { return; } y = 1; }\napply { f(a); } }\n" + MAIN,
        [("uninitialized-out-param", 2)],
    ),
    (CONTROL + "action f(in bit<8> y,\nbit<8> z) { a = y; }\napply { f(a, 1); } }\n" + MAIN, [("unused", 3)]),
    # Of functions and other blocks a call sees the parameters; each is looked at once, if it is used.
    (
        "void f(out bit<8> x) {}\nvoid g(out bit<8> x) {}\n" + CONTROL + "apply { f(a); } }\n" + MAIN,
        [("uninitialized-out-param", 1), ("unused", 2)],
    ),
    (
        "control d(out bit<8> x) { apply {\nbit<8> y;\nx = y; } }\n"
        + CONTROL
        + "d() one; apply { one.apply(a); } }\n"
        + MAIN,
        [(UNSET, 3)],
    ),
    (
        "control d(out bit<8> x) { apply {\nbit<8> y;\nx = y; } }\n" + CONTROL + "apply { a = 1; } }\n" + MAIN,
        [("unused", 1)],
    ),
    # Paths of a parser meet at its states.
    (
        PARSER + "k.extract(x.hdr);\ntransition select(v) { 1: two; _: three; } }\n"
        "state two { x.plain = { 1, 2 }; transition three; }\n"
        "state three { bit<8> t = x.hdr.f;\nx.stack[0].g = t; bit<8> s = t; x.hdr.f = s;\ntransition accept; } }\n"
        + PARSED,
        [("uninitialized-out-param", 1), (INVALID, 6)],
    ),
    (
        PARSER + "x.plain = { 1, 2 }; k.extract(x.stack[0]); bit<8> t = x.stack[0].f;\n"
        "transition select(t) { 1: start; _: accept; } } }\n" + PARSED,
        [],
    ),
    (
        PARSER + "x.plain = { 1, 2 }; transition accept; }\nstate s { transition accept; } }\n" + PARSED,
        [("unreachable", 3)],
    ),
    (
        PARSER + "x.plain = { 1, 2 }; transition select(v) { _: accept;\n1: reject; } } }\n" + PARSED,
        [("unreachable", 3)],
    ),
    (
        "extern bool static_assert(in bool check);\nconst bool checked = static_assert(true);\n"
        + CONTROL
        + "apply {} }\n"
        + MAIN,
        [],
    ),
]


@pytest.mark.parametrize(("source", "expected"), PROGRAMS)
def test_programs(source: str, expected: list[tuple[str, int]]) -> None:
    assert warnings_of(source) == expected


def test_what_is_unused_and_what_hides_another() -> None:
    source = (
        "const bit<8> ONE = 1; typedef bit<8> byte; type bit<8> port; void f<T>(in bit<8> z) {}\n"
        "parser D<V>(packet h); enum e { a } extern x { x(); } bit<8> g(in bit<8> h) { return h; }\n"
        + CONTROL
        + "x() y; const bit<8> THREE = 3; table t { actions = { NoAction; } } apply { f<bit>(a); } }\n"
    )
    checked = check(TYPES + source + MAIN)
    unused = [one.text.removesuffix(" is not used") for one in checked.warnings if one.kind == "unused"]
    assert unused == [
        "constant ONE",
        "typedef byte",
        "type port",
        "type parameter T",
        "type parameter V",
        "parser D",
        "function g",
        "instance y",
        "constant THREE",
        "table t",
    ]
    assert [one.text.split(",")[0] for one in checked.warnings if one.kind == "shadow"] == ["h hides another h"]
