# SPDX-License-Identifier: Apache-2.0
"""Macros, conditions and included files, and where their tokens stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from detour.p4.lexer import Token
from detour.p4.messages import CompileError, Messages
from detour.p4.preprocess import Preprocessor, as_text
from detour.p4.source import Span


def read(path: Path, text: str, **defines: str) -> tuple[list[Token], Messages]:
    messages = Messages()
    (path / "a.p4").write_text(text)
    return Preprocessor(messages, [path], defines).run(path / "a.p4")[:-1], messages


def words(path: Path, text: str, **defines: str) -> str:
    tokens, messages = read(path, text, **defines)
    assert not messages.errors
    return " ".join(token.text for token in tokens)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("#define A 1 // one\nA + A", "1 + 1"),
        ("#define F(x, y) x y\nF((a, b), c) F", "( a , b ) c F"),
        ("#define F(x) x\n#define G F\nG(1)", "1"),
        ("#define A A b\nA", "A b"),
        ("#define NAME(x) a ## x ## _t\nNAME(b) ab_t", "ab_t ab_t"),
        ('#define TEXT(x) #x\nTEXT(a + "b")', '"a + \\"b\\""'),
        ("#define ALL(first, ...) first [ __VA_ARGS__ ]\nALL(a, b, c) ALL(a)", "a [ b , c ] a [ ]"),
        ('#define A\n"\n #ifdef A\none\n#else\ntwo #if\n#endif\n# 5"', '"\n\none\n\n\n\n# 5"'),
        ("#define A_\\\nLONG_\\\nNAME 1\nA_LONG_NAME", "1"),
        ("#define S(x) #x\n#define N(i) S(a.b ## i: c|i)\nN(1)", '"a.b1: c|1"'),
        ("#define LONG a \\\n  b\nLONG", "a b"),
        ("#define A 1\n#undef A\nA", "A"),
        ("\n\n__LINE__", "3"),
        ("#if 1 + 1 == 2 && !defined(X)\nyes\n#else\nno\n#endif", "yes"),
        ("#if defined X || (3 > 4 ? 1 : 0)\nyes\n#elif 0x10 == 16\nother\n#else\nno\n#endif", "other"),
        ("#ifdef X\n#if nonsense (\n#endif\n/* #endif */ no\n#else\nyes\n#endif", "yes"),
        ("#ifndef X\n#ifndef Y\na\n#endif\nb\n#endif", "a b"),
        ("a /* #define a b\n */ a // a\n", "a a"),
        ("#pragma once\n# \na", "a"),
    ],
)
def test_what_comes_out(tmp_path: Path, text: str, result: str) -> None:
    assert words(tmp_path, text) == result


def test_macros_of_the_command_line(tmp_path: Path) -> None:
    assert words(tmp_path, "#if N > 3\nN\n#endif", N="4") == "4"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a\n#if 1\nb", 2, "has no #endif"),
        ("#endif", 1, "#endif without #if"),
        ("#if 1\n#else\n#else\n#endif", 3, "#else without #if"),
        ("#elif 1", 1, "#elif without #if"),
        ("#if 1 +\n#endif", 1, "not complete"),
        ("#if x y\n#endif", 1, "not expected"),
        ("#define F(a) a\nF(1, 2)", 2, "takes 1 argument, not 2"),
        ("#define F(a) a\nF(1", 2, "no closing bracket"),
        ("#define 1", 1, "needs a name"),
        ("#error stop here", 1, "stop here"),
        ("#include file", 1, "needs a file"),
        ("#assume", 1, "no #assume"),
        ("a\n/* b", 2, "comment does not end"),
        ('a\n"b', 2, "string does not end"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, line: int, message: str) -> None:
    _, messages = read(tmp_path, text)
    assert messages.errors[0].span.line == line
    assert message in messages.errors[0].text


def test_tokens_stand_in_their_own_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.p4").write_text('\n  b\n#include "c.p4"\n')
    (tmp_path / "sub" / "c.p4").write_text("c")
    (a, b, c, d), _ = read(tmp_path, 'a\n#include "sub/b.p4"\n d')
    assert (a.span.line, a.span.column) == (1, 1)
    assert (Path(b.span.file.name).name, b.span.line, b.span.column) == ("b.p4", 2, 3)
    assert c.span.file.name == str(tmp_path / "sub" / "c.p4")
    assert (d.span.file, d.span.line, d.span.column) == (a.span.file, 3, 2)


def test_what_a_macro_makes_stands_where_it_is_used(tmp_path: Path) -> None:
    (one, plus, argument), _ = read(tmp_path, "#define F(x) 1 + x\n  F(y)")
    assert one.span.text == plus.span.text == "F(y)"
    assert (argument.span.text, argument.span.column) == ("y", 5)


def test_lines_of_generated_programs_are_those_of_their_sources(tmp_path: Path) -> None:
    (a, b), _ = read(tmp_path, '# 7 "x.p4" 2\na\n#line 20\nb')
    assert str(a.span) == "x.p4:7:1"
    assert str(b.span) == "x.p4:20:1"
    assert b.span.file.line(20) == "b"


def test_standard_files_need_no_folder_and_one_that_is_missing_is_named(tmp_path: Path) -> None:
    tokens, _ = read(tmp_path, "#include <v1model.p4>\n#include <core.p4>\na")
    assert tokens[0].span.file.standard
    assert not tokens[-1].span.file.standard
    with pytest.raises(CompileError) as raised:
        read(tmp_path, "#include <none.p4>")
    assert raised.value.message is not None
    assert "none.p4 is not there" in raised.value.message.text
    (tmp_path / "b.p4").write_text('#include "b.p4"')
    with pytest.raises(CompileError, match="includes itself"):
        read(tmp_path, '#include "b.p4"')


def test_text_after_preprocessing_reads_as_the_same(tmp_path: Path) -> None:
    text = '#define F(x) x + 1\n#include <core.p4>\nconst bit<8> a = F(2);\n\n@name("x") header h { bit<(8 + 1)> f; }\n'
    tokens, _ = read(tmp_path, text)
    again, messages = read(tmp_path, as_text(tokens))
    assert not messages.errors
    assert [token.text for token in again] == [token.text for token in tokens]
    assert [token.span.line for token in again][-8:] == [token.span.line for token in tokens][-8:]


def test_tokens_of_macros_stand_where_the_macro_is_called(tmp_path: Path) -> None:
    tokens, _ = read(tmp_path, "#define A b.c\n\nA;")
    assert [(type(token.span), token.span.line) for token in tokens] == [(Span, 3)] * 4
