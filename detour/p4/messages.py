# SPDX-License-Identifier: Apache-2.0
"""Messages of the compiler to its user: errors and warnings, each at a place."""

from __future__ import annotations

from dataclasses import dataclass, field

from detour.p4.source import Located, Span

MAX_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Message:
    """The error or warning, in P4's words, and a hint: what to write instead, where there is such a thing."""

    text: str
    span: Span
    hint: str = ""
    kind: str = ""
    """Of a warning, its name for `-W`, as p4c has it: `unused`, `shadow`, `uninitialized-use`, `invalid-header`..."""


class CompileError(Exception):
    """The end of a pass that cannot go on. The error is in `Messages` already, or in `message`."""

    def __init__(self, message: Message | None = None) -> None:
        super().__init__(message.text if message else "errors")
        self.message = message


@dataclass
class Messages:
    """Messages of all passes."""

    errors: list[Message] = field(default_factory=list)
    warnings: list[Message] = field(default_factory=list)
    silenced: list[tuple[object, Span]] = field(default_factory=list)
    """Kinds of warnings that `@noWarn` leaves out, and where."""

    def error(self, at: Located, text: str, hint: str = "") -> None:
        """Add an error; one at a place that has an error already says nothing new.

        Raises:
            CompileError: there are `MAX_ERRORS`.
        """
        span = at.span
        if any(old.span == span for old in self.errors):
            return
        self.errors.append(Message(text, span, hint))
        if len(self.errors) >= MAX_ERRORS:
            raise CompileError

    def warn(self, kind: str, at: Located, text: str) -> None:
        silent = any(kind == one and part.holds(at.span) for one, part in self.silenced)
        if not silent and not at.span.file.standard:
            self.warnings.append(Message(text, at.span, kind=kind))

    def stop_at_errors(self) -> None:
        """Raise `CompileError` if there are any."""
        if self.errors:
            raise CompileError

    def fail(self, at: Located, text: str, hint: str = "") -> CompileError:
        """An error after which the pass cannot go on: `raise messages.fail(...)`."""
        return CompileError(Message(text, at.span, hint))


def render(message: Message, level: str) -> str:
    """`file:line:column: error: text`, the source line, the place marked under it, and the hint."""
    span = message.span
    lines = [f"{span}: {level}: {message.text}" + (f" [-W{message.kind}]" if message.kind else "")]
    if span.file.name:
        line = span.file.line(span.line)
        width = max(1, min(span.end - span.start, len(line) - span.column + 1))
        indent = "".join("\t" if char == "\t" else " " for char in line[: span.column - 1])
        lines += [f"  {line}", f"  {indent}{'^' * width}"]
    if message.hint:
        lines.append(f"  {message.hint}")
    return "\n".join(lines)
