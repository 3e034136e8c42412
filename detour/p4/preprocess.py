# SPDX-License-Identifier: Apache-2.0
"""The preprocessor (specification, section 6.2): files to one list of tokens, each with its place in its own file.

Works on the tokens of the lexer, so that text is scanned once. `pcpp` from PyPI is not used: it makes text, in which
columns are lost and which is scanned a second time (0.10 s for fabric.p4 before that).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from detour.p4.conditions import ConditionError, evaluate
from detour.p4.lexer import Token, lex, lex_line, unquote
from detour.p4.macros import Macros
from detour.p4.messages import Messages
from detour.p4.source import SourceFile, Span

STANDARD = Path(__file__).parent / "include"
"""Declarations of the language and the architectures."""

_MAX_DEPTH = 100

# A line of the preprocessor with its continuations; comments end it or are part of it.
_LINE = re.compile(r'#(?:\\\r?\n|/\*(?s:.*?)\*/|"(?:[^"\\\n]|\\.)*"|(?!//)[^\n])*')
_CONDITION_INSIDE = re.compile(r"\n[ \t]*#[ \t]*if")
_WORD = re.compile(r"#[ \t]*([A-Za-z_]+[ \t]*|(?=[0-9]))")
_INCLUDE = re.compile(r'(?:"([^"\n]+)"|<([^>\n]+)>)\s*(?:/\*.*)?')
_POSITION = re.compile(r'([0-9]+)(?:\s+("(?:[^"\\\n]|\\.)*"))?[\s0-9]*')
_CONDITIONS = ("if", "ifdef", "ifndef", "elif", "else", "endif")
_STANDARD_FOLDERS = ("/p4include/", f"{STANDARD}/")


@dataclass(slots=True)
class _Condition:
    """An open `#if`."""

    span: Span
    active: bool
    """The lines of the present branch count."""
    done: bool
    """A branch has been taken, or none may be."""
    last: bool = False
    """`#else` has been there."""


class Preprocessor:
    """Reader of a program and all that it includes."""

    def __init__(
        self,
        messages: Messages,
        include: Iterable[Path] = (),
        defines: Mapping[str, str] | None = None,
        edited: Mapping[Path, str] | None = None,
    ) -> None:
        """`edited`: texts that stand for those of files."""
        self.messages = messages
        self.edited = edited or {}
        self.include = [*include, STANDARD]
        self.macros = Macros(messages)
        self.files: dict[Path, bytes] = {}
        """All files that were read, with their contents."""
        self.tokens: list[Token] = []
        self._chunk: list[Token] = []
        """Tokens in which macros have not been replaced yet."""
        self._depth = 0
        self._folders: dict[SourceFile, tuple[str, str]] = {}
        """Folder of each file, as it is and as messages call it."""
        for name, value in (defines or {}).items():
            text = f"{name} {value}"
            self.macros.define(Span(SourceFile("<command line>", text), 0, len(text)))

    def run(self, path: Path, name: str | None = None) -> list[Token]:
        """The tokens of a program, the last of them of the kind "end".

        Args:
            name: what messages call the file instead of `path`.

        Raises:
            OSError: the file cannot be read.
            CompileError: an included file cannot be read.
        """
        source = self._read(path, name or str(path), standard=False)
        self._process(source)
        end = len(source.text)
        tokens, self.tokens = self.tokens, []
        tokens.append(Token("end", "the end of the file", Span(source, end, end)))
        return tokens

    def _read(self, path: Path, name: str, *, standard: bool) -> SourceFile:
        text = self.edited.get(path)
        data = path.read_bytes() if text is None else text.encode()
        self.files[path] = data
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
        source = SourceFile(name, text, standard=standard)
        self._folders[source] = os.path.dirname(path), os.path.dirname(name)
        return source

    def _process(self, source: SourceFile) -> None:
        conditions: list[_Condition] = []
        at = 0
        while True:
            active = not conditions or conditions[-1].active
            at = lex(source, at, self._chunk if active else [], self.messages if active else None)
            if at >= len(source.text):
                break
            line = _LINE.match(source.text, at)
            assert line is not None  # a # stands there
            word = _WORD.match(source.text, at)
            kind = "" if word is None else word[1].strip() or "line"
            rest = Span(source, at + 1 if word is None else word.end(), line.end())
            at = line.end()
            if kind in _CONDITIONS:
                self._flush()
                self._condition(kind, rest, conditions)
            elif active and kind == "line":
                self._flush()
                source = self._renumbered(rest)
            elif active and kind:
                self._flush()
                self._directive(kind, rest)
        self._flush()
        for condition in conditions:
            self.messages.error(condition.span, "this condition has no #endif")

    def _flush(self) -> None:
        """Replace macros in what has been read by what they are until here."""
        for at, token in enumerate(self._chunk):
            if token.kind == "text" and _CONDITION_INSIDE.search(token.text):
                self._chunk[at] = self._chosen_lines(token)
        if self._chunk:
            self.tokens += self.macros.program(self._chunk) if self.macros.used_in(self._chunk) else self._chunk
            self._chunk = []

    def _chosen_lines(self, token: Token) -> Token:
        """A string over several lines that has `#if` inside, as cpp has it: an empty line for each that is left out."""
        conditions: list[_Condition] = []
        lines: list[str] = []
        at = token.span.start
        for line in token.text.splitlines(keepends=True):
            begin = at + len(line) - len(line.lstrip())
            end, at = at + len(line.rstrip()), at + len(line)
            word = _WORD.match(token.span.file.text, begin, end) if lines else None
            kind = word[1].strip() if word else ""
            if word and kind in _CONDITIONS:
                self._condition(kind, Span(token.span.file, word.end(), end), conditions)
            shown = kind not in _CONDITIONS and (not conditions or conditions[-1].active)
            lines.append(line if shown else "\n")
        for condition in conditions:
            self.messages.error(condition.span, "this condition has no #endif")
        return token._replace(text="".join(lines))

    def _directive(self, kind: str, rest: Span) -> None:
        if kind == "define":
            self.macros.define(rest)
        elif kind == "undef":
            self.macros.undefine(rest.text.strip())
        elif kind in ("include", "include_next", "import"):
            self._include(rest)
        elif kind == "error":
            self.messages.error(rest, f"#error: {rest.text.strip()}")
        elif kind == "warning":
            self.messages.warn("preprocessor", rest, rest.text.strip())
        elif kind not in ("pragma", "ident"):
            self.messages.error(rest, f"the preprocessor has no #{kind}")

    def _renumbered(self, rest: Span) -> SourceFile:
        """The file as `#line number "name"` says, from the next line on."""
        position = _POSITION.fullmatch(rest.text.strip())
        if position is None:
            self.messages.error(rest, '#line needs a number, and may have a file: #line 5 "program.p4"')
            return rest.file
        name = unquote(position[2]) if position[2] else rest.file.name
        source = rest.file.renumbered(name, rest.start, int(position[1]) - 1)
        self._folders[source] = self._folders[rest.file]
        if position[2]:
            source.standard = any(folder in name for folder in _STANDARD_FOLDERS)
        return source

    # ---------------------------------------------------------------- files

    def _include(self, rest: Span) -> None:
        text = rest.text.strip()
        if text[:1] not in ('"', "<"):
            text = "".join(token.text for token in self.macros.expand(lex_line(rest, self.messages)))
        match = _INCLUDE.fullmatch(text)
        if match is None:
            self.messages.error(rest, '#include needs a file: "file.p4" or <file.p4>')
            return
        wanted = match[1] or match[2]
        path, name = self._find(wanted, rest.file if match[1] else None)
        if not path:
            places = ", ".join(str(folder) for folder in self.include[:-1]) or "no folder is given with -I"
            raise self.messages.fail(rest, f"{wanted} is not there", f"looked beside the program and in: {places}")
        if self._depth >= _MAX_DEPTH:
            raise self.messages.fail(rest, f"{wanted} includes itself", "guard it with #ifndef ... #define ... #endif")
        standard = path.startswith(str(STANDARD)) or (match[2] is not None and "/p4include/" in path)
        self._depth += 1
        self._process(self._read(Path(path), name, standard=standard))
        self._depth -= 1

    def _find(self, wanted: str, beside: SourceFile | None) -> tuple[str, str]:
        """The place of the file, and its name in messages; nothing if it is not there."""
        folders = [(str(folder), "" if folder == STANDARD else str(folder)) for folder in self.include]
        if beside is not None:
            folder, shown = self._folders[beside]
            folders.insert(0, (folder, "" if beside.standard else shown))
        for folder, shown in folders:
            path = os.path.join(folder, wanted)
            if os.path.isfile(path):
                return path, os.path.join(shown, wanted)
        return "", ""

    # ---------------------------------------------------------------- conditions

    def _condition(self, kind: str, rest: Span, conditions: list[_Condition]) -> None:
        """Take a line that decides which others count."""
        if kind in ("if", "ifdef", "ifndef"):
            outer = not conditions or conditions[-1].active
            holds = outer and self._holds(kind, rest)
            conditions.append(_Condition(rest, holds, holds or not outer))
        elif not conditions or (conditions[-1].last and kind != "endif"):
            self.messages.error(rest, f"#{kind} without #if")
        elif kind == "endif":
            conditions.pop()
        else:
            condition = conditions[-1]
            condition.active = not condition.done and (kind == "else" or self._holds("if", rest))
            condition.done |= condition.active
            condition.last = kind == "else"

    def _holds(self, kind: str, rest: Span) -> bool:
        if kind != "if":
            return (rest.text.strip() in self.macros) == (kind == "ifdef")
        try:
            return bool(evaluate(lex_line(rest, self.messages), self.macros))
        except ConditionError as error:
            self.messages.error(rest, f"this condition cannot be computed: {error}")
            return False


def as_text(tokens: Iterable[Token]) -> str:
    """The program as one text, with lines `# number "file"` where another file or place begins."""
    parts: list[str] = []
    file, line, end = None, 0, 0
    for token in tokens:
        if token.kind == "end":
            break
        span, at = token.span, token.span.line
        if span.file is not file or not line <= at <= line + 8:
            parts.append(f'\n# {at} "{span.file.name}"\n' if parts else f'# {at} "{span.file.name}"\n')
        elif at > line:
            parts.append("\n" * (at - line))
        elif span.start != end:
            parts.append(" ")
        parts.append(token.text)
        file, line, end = span.file, at, span.end
    return "".join(parts) + "\n"
