# SPDX-License-Identifier: Apache-2.0
"""The parser: what the syntax tree says, and where errors stand."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from detour.p4 import syntax
from detour.p4.lexer import NumberParts, Token, lex, number, unquote
from detour.p4.messages import Messages
from detour.p4.parser import parse
from detour.p4.source import SourceFile, Span


def parsed(text: str) -> tuple[syntax.Program, Messages]:
    messages, tokens = Messages(), list[Token]()
    source = SourceFile("a.p4", text)
    lex(source, 0, tokens, messages)
    tokens.append(Token("end", "the end of the file", Span(source, len(text), len(text))))
    return parse(tokens, messages), messages


def tree(text: str) -> syntax.Program:
    program, messages = parsed(text)
    assert not messages.errors
    return program


def shown(node: Any) -> str:
    """The tree in brackets, without what most nodes do not have."""
    if isinstance(node, tuple):
        return "[" + " ".join(map(shown, node)) + "]"
    if isinstance(node, syntax.Name):
        return node.text
    if isinstance(node, syntax.Literal):
        return repr(node.value)
    if isinstance(node, syntax.Sign):
        return f"`{node.text}`"
    if isinstance(node, syntax.NamedType) and node.arguments is not None:
        return f"{node.name}<{' '.join(map(shown, node.arguments))}>"
    if isinstance(node, syntax.NameExpression | syntax.NamedType):
        return node.name
    if isinstance(node, syntax.TypeExpression):
        return f"type:{shown(node.type)}"
    if isinstance(node, syntax.Argument):
        return (f"{shown(node.name)}=" if node.name else "") + shown(node.value)
    if isinstance(node, syntax.SyntaxNode):
        parts = [shown(getattr(node, field.name)) for field in fields(node)[1:]]
        return f"({' '.join([type(node).__name__, *parts])})"
    return str(node)


def expression(text: str) -> str:
    program = tree(f"header h {{}} enum E {{ A }} struct S<T> {{}} const bool x = {text};")
    declaration = program.declarations[-1]
    assert isinstance(declaration, syntax.Constant)
    return shown(declaration.value)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a + b * c", "(Binary + a (Binary * b c))"),
        ("a - b - c", "(Binary - (Binary - a b) c)"),
        ("a | b ^ c & d << e", "(Binary | a (Binary ^ b (Binary & c (Binary << d e))))"),
        ("a == b & c", "(Binary == a (Binary & b c))"),
        ("a || b && c == d", "(Binary || a (Binary && b (Binary == c d)))"),
        ("a ? b : c ? d : e", "(Conditional a b (Conditional c d e))"),
        ("-a[3:0]", "(Unary - (Slice a 3 0))"),
        ("!a && ~b == c", "(Binary && (Unary ! a) (Binary == (Unary ~ b) c))"),
        ("a[i + 1 +: 4]", "(PlusSlice a (Binary + i 1) 4)"),
        ("(bit<8>) a + b", "(Binary + (Cast (BitsType bit 8) a) b)"),
        ("(h) {1, 2}", "(Cast h (ListExpression [1 2]))"),
        ("(a) + b", "(Binary + a b)"),
        ("(E.A)", "(Member type:E A)"),
        ("error.A", "(Member type:error A)"),
        ("a < b", "(Binary < a b)"),
        ("a < b > (c)", "(Binary > (Binary < a b) c)"),
        ("f<bit<8>>(x)", "(Call f [(BitsType bit 8)] [x])"),
        ("f<S<bit<8>>>(x, n = _)", "(Call f [S<(BitsType bit 8)>] [x n=`_`])"),
        ("f<h>(x)", "(Call f [h] [x])"),
        ("f<_>()", "(Call f [_] [])"),
        ("S<h>(1)", "(Call type:S<h> [] [1])"),
        ("a >> 1 > b", "(Binary > (Binary >> a 1) b)"),
        ("{1, ...}", "(ListExpression [1 `...`])"),
        ("{x = 1, ...}", "(StructExpression [(KeyValue x 1)] True)"),
        ("{#}", "`{#}`"),
        ("{a, b, }", "(ListExpression [a b])"),
        ("p.f(a).g[2]", "(Index (Member (Call (Member p f) [] [a]) g) 2)"),
        (".a", "a"),
        ("this.a", "(Member `this` a)"),
        ('"a" ++ "b"', "(Binary ++ 'a' 'b')"),
        ("key + apply", "(Binary + key apply)"),
        ("true", "True"),
    ],
)
def test_expressions(text: str, result: str) -> None:
    assert expression(text) == result


def test_a_name_is_a_type_only_where_it_is_declared_as_one() -> None:
    text = """
        control C(inout bit<8> h) { apply { bit<8> t = h < t > (h) ? h : t; } }
        struct t {}
        control D() { apply { f<t>(x); { bit<8> t; x = a < t; } t y; } }
    """
    first, _, second = tree(text).declarations
    assert isinstance(first, syntax.Control)
    assert isinstance(second, syntax.Control)
    assert "(Binary > (Binary < h t) h)" in shown(first.body)
    assert "(Call f [t] [x])" in shown(second.body)
    assert "(Binary < a t)" in shown(second.body)
    assert "(Variable [] y t None)" in shown(second.body)


STATEMENTS = [
    ("x += 1;", "(Assign x + 1)"),
    ("x |-|= 1;", "(Assign x |-| 1)"),
    ("(a.b)[1] = c;", "(Assign (Index (Member a b) 1) "),
    ("t.apply();", "(CallStatement (Call (Member t apply) [] []))"),
    ("T.apply(x);", "(CallStatement (Call (Member type:T apply) [] [x]))"),
    ("G<T>.apply(x);", "(Member type:G<T> apply)"),
    ("f<undeclared>(x);", "(Call f [undeclared] [x])"),
    ("T[4] x;", "(Variable [] x (ArrayType T 4) None)"),
    ("tuple<T, list<T>> x = {};", "tuple<T list<T>>"),
    ("T(1) x;", "(Instance [] x T [1] None)"),
    ("bit x; const int y = 1;", "(BitsType bit 1)"),
    ("if (a) ; else { exit; }", "(If a (Jump ) (Block [(Jump exit)] []))"),
    ("switch (t.apply().action_run) { a: b: {} default: {} }", "(SwitchCase b (Block [] []))"),
    ("for (bit<8> i = 0, T j; i < 3; i = i + 1, j = k) { break; }", "(Assign j  k)"),
    ("for (T x in a .. b) continue;", "(ForIn (Variable [] x T None) (Binary .. a b) (Jump continue) [])"),
    ("@atomic for (i in list) ;", None),
    ("@atomic { return 1 + 2; }", "(Return (Binary + 1 2))"),
    ("return;", "(Return None)"),
    ("type = key; key(); apply x;", None),
]


@pytest.mark.parametrize(("text", "result"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_statements(text: str, result: str | None) -> None:
    program, messages = parsed(f"struct T {{}} extern G<X> {{}} action a() {{ {text} }}")
    if result is None:
        assert len(program.declarations) >= 2
    else:
        assert not messages.errors
        assert result in shown(program.declarations[-1])


def test_everything_that_is_declared() -> None:
    text = """
        @pkginfo(name = "x") @structured[1, "a"] @free(a b ( c ) <) @pragma old "text"
        const bit<8> a = 8w1;
        error { A, B } match_kind { exact, lpm }
        typedef bit<32> address; type address other; typedef struct s { } s2;
        enum bit<8> E { A = 1, B = 2 } enum F { A, B, }
        header_union u { h one; h2 two; }
        extern X<T> { X(bit<8> n); T get<U>(in U x = 1); abstract void f(); }
        extern T f<T>(in T x); extern void g();
        parser P(packet_in p); control C<T>(inout T x); package K(P p, C<_> c = None());
        T h<T>(T x) { return x; }
        parser Q<T>(packet_in p, out T x)(bit<8> n) {
            value_set<bit<8>>(4) vs;
            state start { transition select(x, 1) { (1, _): accept; (a &&& b): q; 1 .. 2: q; vs: q; default: reject; } }
            state q { p.extract(x); transition accept; }
            state r {}
        }
        control D(inout s x) {
            X<bit<8>>(1) i = { void f() {} };
            table t {
                key = { x.a: exact @name("k"); } actions = { a; @defaultonly b(x); }
                const default_action = a; size = 16; @name("e") const entries = { const priority = 3: (1, _): a; 2: a; }
            }
            apply { t.apply(); }
        }
        K(Q(), D()) main;
    """
    program = tree(text)
    kinds = " ".join(type(each).__name__ for each in program.declarations)
    assert kinds == (
        "Constant Names Names Typedef Typedef Typedef Enum Enum RecordType Extern Function Function "
        "BlockType BlockType BlockType Function Parser Control Instance"
    )
    package, structured, free, old = program.declarations[0].annotations
    assert shown(package.pairs) == "[(KeyValue name 'x')]"
    assert shown(structured.values) == "[1 'a']"
    assert (free.values, free.tokens, free.text) == ((), ("a", "b", "(", "c", ")", "<"), "a b ( c ) <")
    assert (old.name, old.text) == ("old", '"text"')
    parser = program.declarations[-3]
    assert isinstance(parser, syntax.Parser)
    assert "(TupleSet [1 `_`])" in shown(parser.states[0])
    assert "(TupleSet [(Binary &&& a b)])" in shown(parser.states[0])
    control = program.declarations[-2]
    assert isinstance(control, syntax.Control)
    table = control.locals[1]
    assert isinstance(table, syntax.Table)
    assert "(Entry True 3 (TupleSet [1 `_`])" in shown(table.properties[-1])
    assert program.declarations[-1].span.text == "K(Q(), D()) main;"


ERRORS = [
    ("bit<8> x = 1;", 1, "a variable may not stand at the top level"),
    ("const bit<8> x = ;", 1, "expected an expression, not `;`"),
    ("header h { bit<8> a\n }", 2, "expected `;`, not `}`"),
    ("struct T {}\nconst bit<8> x = T;", 2, "is a type, not a value"),
    ("control C() { bit<8> x; }", 1, "expected `apply {...}`"),
    ("control C() { apply {} action a() {} }", 1, "after the body of apply"),
    ("parser P() { state start { return; } }", 1, "a statement of a parser"),
    ("const bit<8> x = 8q1;", 1, "not an integer"),
    ("action a() { if (x) bit<8> y; }", 1, "may not stand here"),
    ("action a() { f()(); }", 1, "expected `;`, not `(`"),
    ("action a() { x + 1; }", 1, "expected `=` or `(`"),
    ("const bit<8> x = {a = 1, a = 2};", 1, "a has two values"),
    ("error { A, A }", 1, "stands here twice"),
    ("@name\nconst bit<8> x = 1;", 1, "needs a body"),
    ("enum E { A = 1 }", 1, "expected `,` or `}`"),
    ("enum bit<8> E { A }", 1, "expected `=`"),
    ("action if() {}", 1, "expected the name of an action"),
]


@pytest.mark.parametrize(("text", "line", "message"), ERRORS)
def test_errors_are_told_at_their_lines(text: str, line: int, message: str) -> None:
    _, messages = parsed(text)
    error = messages.errors[0]
    assert error.span.line == line
    assert message in error.text + error.hint


def test_independent_errors_are_all_told() -> None:
    text = """
        header h { bit<8 a; bit<8> b; }
        control C() {
            action a() { x = ; y = 1; z = ); }
            table t { key = { x exact; } }
            apply { f(; }
        }
        struct s { bit<8>; }
        const bit<8> fine = 1;
    """
    program, messages = parsed(text)
    assert [error.span.line for error in messages.errors] == [2, 4, 4, 5, 6, 8]
    assert program.declarations[-1].name.text == "fine"


def test_numbers_and_strings() -> None:
    assert number("0x_Ff") == NumberParts(255)
    assert number("8w0b1010_0101") == NumberParts(0xA5, 8)
    assert number("4s7") == NumberParts(7, 4, True)
    assert number("0o17") == NumberParts(15)
    assert number("12ab") is number("0x") is None
    assert unquote('"a\\"b\\\\c\\n"') == 'a"b\\c\n'


def test_deep_nesting_and_long_chains() -> None:
    assert tree(f"const int x = {'(' * 100}1{')' * 100};").declarations
    assert tree("const int x = " + " + ".join(["1"] * 3000) + ";").declarations
