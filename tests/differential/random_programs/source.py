# SPDX-License-Identifier: Apache-2.0
"""What all parts of the generator share: lines of text, random choices, and what code at a place can use."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

OURS, P4C = "ours", "p4c"
WIDTHS = (1, 3, 4, 7, 8, 8, 9, 12, 16, 16, 24, 32, 33, 48, 64)


@dataclass(frozen=True)
class Kind:
    """`bool` (width 0), `bit<width>` or `int<width>`."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return "bool" if not self.width else f"{'int' if self.signed else 'bit'}<{self.width}>"


BOOL = Kind(0)
Names = list[tuple[str, Kind]]
"""Variables, fields or parameters with their types."""
Parameters = list[tuple[str, Kind]]
"""Directions and types."""


@dataclass(frozen=True)
class Action:
    """`parameters`: those with a direction, which the caller or the table binds; `data`: those that entries give."""

    name: str
    parameters: Parameters
    data: list[Kind] = field(default_factory=list)
    exits: bool = False
    """Whether it has an `exit`, or calls an action that has one."""

    @property
    def copies_out_on_exit(self) -> bool:
        """Whether an `exit` in it assigns arguments."""
        return self.exits and any("out" in direction for direction, _ in self.parameters)


@dataclass(frozen=True)
class Table:
    """A table and the names of its actions."""

    name: str
    actions: list[str]


@dataclass
class Scope:
    """What code at a place can read and write: expressions with their types."""

    readable: Names = field(default_factory=list)
    writable: Names = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    """Headers that may be invalid, by name: their fields are readable where they are known to be valid."""
    actions: list[Action] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    """Tables that have not been applied yet."""
    controls: list[tuple[str, Parameters]] = field(default_factory=list)
    registers: Names = field(default_factory=list)
    """Of 8 cells each."""
    loops: bool = False
    switches: bool = False
    ends: tuple[str, ...] = ()
    """Statements that may end the code: `return`, `exit`."""


class Source:
    """A program in the making."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"random program {seed}")
        self.lines: list[tuple[str, str]] = []
        """With whose they are: `OURS`, `P4C`, or empty for both."""
        self.rewritten = seed % 4 == 0
        """Whether there is code that p4c gets in other words."""
        self.reader = ""
        self.depth = 0
        self.counter = 0
        self.headers: dict[str, Names] = {}
        """Fields of headers, by their name in the struct: `h1`, `stack[0]`, `union.a`."""
        self.functions: list[tuple[str, Kind, Names]] = []

    def emit(self, line: str) -> None:
        self.lines.append(("    " * self.depth + line, self.reader))

    @contextmanager
    def only(self, reader: str) -> Iterator[None]:
        """What is written within is for one of the compilers."""
        self.reader = reader
        yield
        self.reader = ""

    def source(self, reader: str) -> str:
        """The program that a compiler gets."""
        return "".join(f"{line}\n" for line, whose in self.lines if whose in ("", reader))

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self.emit(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.emit(tail)

    def name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def kind(self) -> Kind:
        width = self.rng.choice(WIDTHS)
        return Kind(width, width > 1 and self.chance(0.15))
