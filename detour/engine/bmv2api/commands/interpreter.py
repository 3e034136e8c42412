# SPDX-License-Identifier: Apache-2.0
"""Understands commands and carries them out, one by one or a file of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.files import read_text

# What declares the commands.
from detour.engine.bmv2api.commands import arrays, multicast, switch, tables  # noqa: F401
from detour.engine.bmv2api.commands.errors import CommandError, error_line
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.engine.bmv2api.commands.registry import COMMANDS, CommandScope, CommandWork, Say
from detour.engine.bmv2api.interface import Api
from detour.engine.bmv2api.wire import ServiceError

_COMMENTS = ("#", "//")


@dataclass(frozen=True)
class Understood:
    """A command of a file."""

    line: int
    text: str
    work: CommandWork


def program_of(api: Api) -> ProgramNames:
    """The program of a switch. Raises DetourError if it has none, or is not reached."""
    text = api.standard.bm_get_config()
    if not text:
        raise DetourError("the switch has no program yet")
    return _names(text)


@lru_cache(maxsize=2)
def _names(text: str) -> ProgramNames:
    """The names of a program, which a test suite asks for before each test; to read a large one takes 50 ms."""
    return ProgramNames(text)


def scope_of(api: Api) -> CommandScope:
    """Return the scope in which a switch's commands are parsed; raises DetourError as `program_of` does."""
    return CommandScope(program_of(api))


def understand(line: str, scope: CommandScope) -> CommandWork | None:
    """Parse a line; None: it is empty. Raises CommandError: it asks for nothing that can be done."""
    words = line.split()
    if not words or words[0].startswith(_COMMENTS):
        return None
    name = words[0]
    if name in ("help", "?"):
        text = help_text(words[1:])
        return lambda api, say: say(text)
    if name == "shell" or name.startswith("!"):
        raise CommandError(f"{name} is not supported", "shell commands are not supported")
    command = COMMANDS.get(name)
    if command is None:
        close = difflib.get_close_matches(name, COMMANDS, 3)
        raise CommandError(f"there is no command {name}", f"did you mean {' or '.join(close)}?" if close else "")
    return command.understand(words[1:], scope)


def understand_all(path: str | Path, text: str, scope: CommandScope) -> list[Understood]:
    """All commands of a file. Raises DetourError, `FILE:LINE: ...`, for the first line that asks for nothing that could
    be done."""
    commands = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            work = understand(line, scope)
        except DetourError as error:
            raise DetourError(f"{path}:{number}: {_reason(error)}") from None
        if work is not None:
            commands.append(Understood(number, line.strip(), work))
    return commands


def carry_out(path: str | Path, commands: list[Understood], api: Api) -> Iterator[tuple[Understood, list[str]]]:
    """Carry commands of a file out, one after the other, and give what each of them says. Raises DetourError,
    `FILE:LINE: ...`, for the first that the switch refuses; it says how many were carried out before."""
    for done, command in enumerate(commands):
        output: list[str] = []
        try:
            command.work(api, output.append)
        except (DetourError, ServiceError) as error:
            after = f" ({done} of {len(commands)} commands were carried out before)" if done else ""
            raise DetourError(f"{path}:{command.line}: {_reason(error)}{after}") from None
        yield command, output


def run_file(path: str | Path, api: Api, say: Say = lambda line: None) -> int:
    """Carry out the commands of a file; all of them are checked against the program first, so that nothing is done if
    one is wrong. Return how many there were. Raises DetourError if the file cannot be read; or `FILE:LINE: ...` with
    what is wrong and what is allowed."""
    commands = understand_all(path, read_text(Path(path)), scope_of(api))
    for _, output in carry_out(path, commands, api):
        for line in output:
            say(line)
    return len(commands)


def help_text(words: list[str]) -> str:
    """All commands, or how one of them is used. Raises DetourError if there is none of that name."""
    if not words:
        width = max(map(len, COMMANDS))
        return "\n".join(f"{name:{width}}  {COMMANDS[name].text}" for name in sorted(COMMANDS))
    command = COMMANDS.get(words[0])
    if command is None:
        raise CommandError(f"there is no command {words[0]}")
    return f"{command.name} {command.usage}".rstrip() + f": {command.text}"


def _reason(error: Exception) -> str:
    if isinstance(error, CommandError):
        return error.reason if error.kind == "Error" else str(error)
    return error_line(error) if isinstance(error, ServiceError) else str(error)
