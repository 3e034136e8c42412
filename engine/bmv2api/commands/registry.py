# SPDX-License-Identifier: Apache-2.0
"""Commands by name, and what they have in common.

A command is understood before it is carried out: its function gets the words and the program, and returns what does the
work. So a file can be checked as a whole before the first command of it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.engine.bmv2api.interface import Api

Say = Callable[[str], None]
"""takes a line of output"""


class CommandScope:
    """What a command is understood by. `program` is that of the switch, or the one loaded by a command before."""

    def __init__(self, program: ProgramNames) -> None:
        self.program = program


CommandWork = Callable[[Api, Say], None]
Understand = Callable[[list[str], CommandScope], CommandWork]
C = TypeVar("C", bound=Understand)


@dataclass(frozen=True)
class Command:
    """`usage`: of its arguments; `takes`: what these are, for completion."""

    name: str
    usage: str
    text: str
    takes: tuple[str, ...]
    understand: Understand


COMMANDS: dict[str, Command] = {}

REFUSED_COMMANDS = {"shell": "commands of the shell are not run from here"}
"""commands of BMv2's that are known and refused, and why"""


def command(name: str, usage: str, text: str, *takes: str) -> Callable[[C], C]:
    """Declares one."""

    def declare(function: C) -> C:
        COMMANDS[name] = Command(name, usage, text, takes, function)
        return function

    return declare


def exactly(words: Sequence[str], count: int) -> None:
    """Wants so many arguments."""
    if len(words) != count:
        raise CommandError(f"Wrong number of args, expected {count} but got {len(words)}")


def at_least(words: Sequence[str], count: int) -> None:
    """Wants so many arguments or more."""
    if len(words) < count:
        raise CommandError("Insufficient number of args", f"at least {count}, not {len(words)}")


def between(words: Sequence[str], low: int, high: int) -> None:
    """Wants as many arguments."""
    at_least(words, low)
    if len(words) > high:
        raise CommandError(f"Wrong number of args, expected {low} to {high} but got {len(words)}")


def whole(text: str, what: str, low: int = -(1 << 31), high: int = (1 << 31) - 1) -> int:
    """A whole number."""
    try:
        found = int(text)
    except ValueError:
        raise CommandError(f"Bad format for {what}, expected integer", repr(text)) from None
    if not low <= found <= high:
        raise CommandError(f"Bad value for {what}", f"{text} is not {low} to {high}")
    return found


def handle(text: str, what: str) -> int:
    """A handle; those of entries may be given unsigned or in hexadecimal, as `table_dump` shows them."""
    try:
        found = int(text, 0)
    except ValueError:
        raise CommandError(f"Bad format for {what} handle", repr(text)) from None
    if not -(1 << 31) <= found < 1 << 32:
        raise CommandError(f"Bad value for {what} handle", f"{text} has more than 32 bits")
    return found - (1 << 32) if found >> 31 > 0 else found
