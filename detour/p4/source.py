# SPDX-License-Identifier: Apache-2.0
"""Source files, places in them, and the base of nodes that stand there."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, dataclass_transform


class SourceFile:
    """A file as it was read. `name` is the path as the user or an `#include` gave it."""

    def __init__(self, name: str, text: str, *, standard: bool = False) -> None:
        self.name = name
        self.text = text
        self.standard = standard
        """True for declarations of the language and the architectures that come with the compiler."""
        self.shift = 0
        """What `#line` adds to line numbers."""

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(at + 1 for at, char in enumerate(self.text) if char == "\n")]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._starts, offset)
        return line + self.shift, offset - self._starts[line - 1] + 1

    def renumbered(self, name: str, offset: int, number: int) -> SourceFile:
        """The same text under another name, with `number` for the line of `offset` (`#line`)."""
        other = SourceFile(name, self.text, standard=self.standard)
        other.shift = number - (self.position(offset)[0] - self.shift)
        return other

    def line(self, number: int) -> str:
        """Text of a line (from 1) without its end."""
        start = self._starts[number - 1 - self.shift]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)]


class Located(Protocol):
    """Anything that stands at a place."""

    @property
    def span(self) -> Span: ...


class Span(NamedTuple):
    """The place of a node: offsets into the text of its file, before preprocessing. What a macro made stands where
    the macro was used.
    """

    file: SourceFile
    start: int
    end: int

    @property
    def span(self) -> Span:
        """Itself: a place is given as a span or as the node that stands there."""
        return self

    @property
    def line(self) -> int:
        return self.file.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.file.position(self.start)[1]

    @property
    def text(self) -> str:
        return self.file.text[self.start : self.end]

    def to(self, last: Span) -> Span:
        """From the start of this one to the end of `last`, where both are in one file."""
        return Span(self.file, self.start, last.end) if last.file is self.file else self

    def holds(self, other: Span) -> bool:
        """Return whether another place begins inside of this one."""
        return other.file is self.file and self.start <= other.start < self.end

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}:{self.column}"


NOWHERE = Span(SourceFile("", "", standard=True), 0, 0)
"""Place of what no source declares, like the built-in methods of headers."""


@dataclass_transform(eq_default=False, frozen_default=True)
class Node:
    """Base of immutable nodes. Each subclass is a dataclass; its instances are equal only to themselves.

    The type checker sees to it that none is changed: at run time that makes a node cost three times as much.
    """

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)
