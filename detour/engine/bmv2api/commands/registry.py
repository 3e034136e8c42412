# SPDX-License-Identifier: Apache-2.0
"""Commands as rows: a name, a help text, the arguments, and what is called with their values.

A command is parsed before it is carried out: `understand` gets the words and the program, and returns what does the
work. So a file can be checked as a whole before the first command of it changes anything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.program import Named, ProgramNames
from detour.engine.bmv2api.interface import SERVICES, Api
from detour.engine.bmv2api.wire import methods

Say = Callable[[str], None]
"""takes a line of output"""
CommandWork = Callable[[Api, Say], None]
CommandLines = Callable[..., Iterable[str]]
"""gets an `Api` and the values of the arguments, and yields lines of output"""
F = TypeVar("F", bound=CommandLines)

REST = sys.maxsize
"""for `Argument.most`: all words that are left"""


@dataclass
class CommandScope:
    """The context in which commands are parsed. `program` is that of the switch, or the one loaded by a command
    before."""

    program: ProgramNames


@dataclass(frozen=True)
class Parsed:
    """The values of the arguments that come before the one that is being parsed."""

    scope: CommandScope
    values: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Argument:
    """`usage`: as help shows it. `parse` gets the argument's words, of which there are `least` to `most`; it returns a
    value, or a tuple of several. `names`: what completion offers after the words of the arguments before."""

    usage: str
    parse: Callable[[list[str], Parsed], Any]
    least: int = 1
    most: int = 1
    names: Callable[[ProgramNames, Sequence[str]], Iterable[str]] = lambda program, words: ()


@dataclass(frozen=True)
class Command:
    """See the module."""

    name: str
    text: str
    arguments: tuple[Argument, ...]
    run: CommandLines

    @property
    def usage(self) -> str:
        """All arguments, as help shows them."""
        return " ".join(argument.usage for argument in self.arguments if argument.usage)

    def understand(self, words: list[str], scope: CommandScope) -> CommandWork:
        """Parse the arguments. Raises CommandError for the first thing that is wrong with them."""
        self._check_count(len(words))
        parsed = Parsed(scope)
        for argument in self.arguments:
            own, words = words[: argument.most], words[argument.most :]
            value = argument.parse(own, parsed)
            parsed.values.extend(value if isinstance(value, tuple) else (value,))

        def work(api: Api, say: Say) -> None:
            for line in self.run(api, *parsed.values):
                say(line)

        return work

    def _check_count(self, count: int) -> None:
        least = sum(argument.least for argument in self.arguments)
        most = sum(argument.most for argument in self.arguments)
        if count < least < most:
            raise CommandError("Insufficient number of args", f"at least {least}, not {count}")
        if not least <= count <= most:
            expected = least if least == most else f"{least} to {most}"
            raise CommandError(f"Wrong number of args, expected {expected} but got {count}")


@dataclass(frozen=True)
class CommandByTable(Command):
    """Takes a table in place of the action profile that `substitute` takes."""

    substitute: Command
    deprecated: bool

    def understand(self, words: list[str], scope: CommandScope) -> CommandWork:
        if not words:
            raise CommandError("Insufficient number of args", "at least 1, not 0")
        profile = self.arguments[0].parse(words, Parsed(scope)).profile
        if self.deprecated and len(profile.tables) > 1:
            raise CommandError(
                "Legacy command does not work with shared action profiles", f"use {self.substitute.name}"
            )
        work = self.substitute.understand([profile.name, *words[1:]], scope)

        def warned(api: Api, say: Say) -> None:
            print(f"This is a deprecated command, use '{self.substitute.name}' instead", file=sys.stderr)
            work(api, say)

        return warned if self.deprecated else work


COMMANDS: dict[str, Command] = {}


def command(name: str, text: str, *arguments: Argument) -> Callable[[F], F]:
    """Declare a command that the function carries out."""

    def declare(function: F) -> F:
        COMMANDS[name] = Command(name, text, arguments, function)
        return function

    return declare


_SERVICE_OF = {name: service for service in SERVICES for name in methods(service)}


def calls(
    name: str,
    text: str,
    function: Callable[..., Any],
    *arguments: Argument,
    before: str = "",
    result: str | Callable[..., Iterable[str]] = lambda answer, *values: (),
    direct: Callable[..., Any] | None = None,
    before_direct: str = "",
) -> None:
    """Declare a command that is one call of `function` with its arguments.

    `before` is a format of the arguments' values and is printed before the call; `result` makes lines of what the call
    returns and those values, or is a format of them (`answer`). `direct` is called instead if the first argument is an
    array of direct counters or meters, with the name of their table; then `before_direct` is printed before.
    """

    @command(name, text, *arguments)
    def run(api: Api, *values: Any) -> Iterable[str]:
        plain = [value.name if isinstance(value, Named) else value for value in values]
        called, line = function, before
        if direct is not None and values[0].table is not None:
            called, line, plain[0] = direct, before_direct, values[0].table
        if line:
            yield line.format(*values)
        service = _SERVICE_OF[called.__name__]
        answer = getattr(api.service(service), called.__name__)(*plain)
        yield from (result.format(*values, answer=answer),) if isinstance(result, str) else result(answer, *values)
