# SPDX-License-Identifier: Apache-2.0
"""The kinds of arguments that commands of several subjects take."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from detour.engine.bmv2api.commands.errors import CommandError, allowed
from detour.engine.bmv2api.commands.program import Named, NamedAction, NamedProfile, NamedTable, Names, ProgramNames
from detour.engine.bmv2api.commands.registry import REST, Argument, Parsed
from detour.engine.bmv2api.commands.values import action_data
from detour.engine.bmv2api.types import EntryOptions
from detour.engine.bmv2api.wire import signed

T = TypeVar("T", bound=Named)
INT31 = (1 << 31) - 1
INT63 = (1 << 63) - 1


def constant(value: Callable[[ProgramNames], Any]) -> Argument:
    """An argument without words: something of the program, or a value that a call always has."""
    return Argument("", lambda words, parsed: value(parsed.scope.program), least=0, most=0)


# -- numbers


def parse_integer(text: str, what: str, low: int = 0, high: int = INT31) -> int:
    """A decimal number. Raises CommandError if `what` is none, or out of range."""
    try:
        number = int(text)
    except ValueError:
        raise CommandError(f"Bad format for {what}, expected integer", repr(text)) from None
    if not low <= number <= high:
        raise CommandError(f"Bad value for {what}", f"{text} is not {low} to {high}")
    return number


def parse_handle(text: str, what: str) -> int:
    """A handle; those of entries may be given unsigned or in hexadecimal, as `table_dump` shows them."""
    try:
        number = int(text, 0)
    except ValueError:
        raise CommandError(f"Bad format for {what} handle", repr(text)) from None
    if not -(1 << 31) <= number < 1 << 32:
        raise CommandError(f"Bad value for {what} handle", f"{text} has more than 32 bits")
    return signed(number, 32)


def integer(usage: str, what: str, high: int = INT31) -> Argument:
    """A number from 0; `what`: as errors call it."""
    return Argument(usage, lambda words, parsed: parse_integer(words[0], what, 0, high))


def handle(usage: str, what: str) -> Argument:
    """The handle of an entry, a member, a group."""
    return Argument(usage, lambda words, parsed: parse_handle(words[0], what))


ENTRY, MEMBER, GROUP = handle("HANDLE", "entry"), handle("MEMBER", "member"), handle("GROUP", "group")
FILE_NAME = Argument("FILE", lambda words, parsed: words[0])


# -- names


def named(
    usage: str, kind: Callable[[ProgramNames], Names[T]], check: Callable[[T], None] = lambda named: None
) -> Argument:
    """Something that the program defines; `check` raises CommandError if the command does not work on it."""

    def parse(words: list[str], parsed: Parsed) -> T:
        value = kind(parsed.scope.program).find(words[0]).as_asked(words[0])
        check(value)
        return value

    return Argument(usage, parse, names=lambda program, words: kind(program))


TABLE = named("TABLE", lambda program: program.tables)
PROFILE = named("PROFILE", lambda program: program.profiles)


def _parse_action(words: list[str], parsed: Parsed) -> NamedAction:
    """simple_switch_CLI wants the name to be that of one action in the whole program; here it may be that of one action
    of the table or profile alone."""
    owner: NamedTable | NamedProfile = parsed.values[0]
    name = words[0]
    suited = [action for full, action in owner.actions.items() if full == name or full.endswith(f".{name}")]
    action = owner.actions.get(name, suited[0] if len(suited) == 1 else None)
    if action is None:
        what = f"Table {owner.asked}" if isinstance(owner, NamedTable) else f"Action profile '{owner.asked}'"
        raise CommandError(f"{what} has no action {name}", allowed(owner.actions))
    return action.as_asked(name)


def _actions_of(kind: Callable[[ProgramNames], Names[Any]]) -> Callable[..., Collection[str]]:
    return lambda program, words: kind(program).find(words[0]).actions


# Both come after their table or profile.
ACTION_NAME = Argument("ACTION", _parse_action, names=_actions_of(lambda program: program.tables))
PROFILE_ACTION = Argument("ACTION", _parse_action, names=_actions_of(lambda program: program.profiles))


PARAMETERS = Argument(
    "PARAMETER...",
    lambda words, parsed: action_data(parsed.values[1], words[1:] if words[:1] == ["=>"] else words),
    least=0,
    most=REST,
)
"""of the action, which is the second argument; some put `=>` in front of them"""


# -- keys


def split_priority(table: NamedTable, words: list[str]) -> tuple[list[str], EntryOptions]:
    """The words before the priority, which is the last word where entries have one."""
    if not table.prioritised:
        return words, EntryOptions(0)
    try:
        return words[:-1], EntryOptions(parse_integer(words[-1], "priority"))
    except (CommandError, IndexError):
        raise CommandError(
            "Table is ternary, but could not extract a valid priority from args", "give it as the last word, from 0"
        ) from None


def split_at_arrow(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the words before `=>` from those after it."""
    if "=>" not in words:
        raise CommandError("Missing =>", "put it between the match fields and what follows")
    at = words.index("=>")
    return words[:at], words[at + 1 :]
