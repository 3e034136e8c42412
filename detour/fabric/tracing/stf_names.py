# SPDX-License-Identifier: Apache-2.0
"""Names in STF statements resolved in a program, and their entries as commands of simple_switch_CLI.

Names may be shortened, as in p4c's `backends/bmv2/bmv2stf.py`: a table or an action to any suffix that only one has, a
field to what is behind a dot. Fields that an entry does not name match everything, or 0 where they are exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeVar

from detour.base.errors import DetourError
from detour.engine.bmv2api.commands.program import NamedAction, NamedField, NamedTable, ProgramNames
from detour.engine.bmv2api.types import MatchType
from detour.engine.compiler.model import MAX_PRIORITY
from detour.fabric.tracing.stf import StfAction, StfAdd, StfDefault, StfMatch

T = TypeVar("T")
_ARRAY = re.compile(r"\$(\d+)")


def by_suffix(what: str, name: str, objects: Mapping[str, T]) -> T:
    """The one object of that name, or whose name ends so. Raises DetourError: there is none, or more than one."""
    if name in objects:
        return objects[name]
    dotted = [full for full in objects if full.endswith(f".{name}")]
    names = dotted if len(dotted) == 1 else [full for full in objects if full.endswith(name)]
    if len(names) == 1:
        return objects[names[0]]
    if names:
        raise DetourError(f"{what} {name!r} is ambiguous: {', '.join(sorted(names))}")
    raise DetourError(f"there is no {what} {name!r}: there are {', '.join(sorted(objects)) or 'none'}")


def add_command(add: StfAdd, program: ProgramNames) -> list[str]:
    """The words of `table_add`. Of two entries that match, STF takes the one with the higher priority. Raises
    DetourError: the program has no such names, or the entry does not fit its table."""
    table = by_suffix("table", add.table, program.tables)
    given: dict[NamedField, StfMatch] = {}
    for match in add.key:
        field = _field(table, match.field)
        if field in given:
            raise DetourError(f"the field {field.name} appears twice")
        given[field] = match
    key = [_key_word(field, given.get(field)) for field in table.key]
    action = by_suffix("action", add.action.name, table.actions)
    words = ["table_add", table.name, action.name, *key, "=>", *_arguments(action, add.action)]
    if not table.prioritised:
        return words
    if not 0 <= (add.priority or 0) <= MAX_PRIORITY:
        raise DetourError(f"priority {add.priority}: 0 to {MAX_PRIORITY}")
    return [*words, str(MAX_PRIORITY - (add.priority or 0))]


def default_command(default: StfDefault, program: ProgramNames) -> list[str]:
    """The words of `table_set_default`. Raises DetourError: the program has no such names."""
    table = by_suffix("table", default.table, program.tables)
    action = by_suffix("action", default.action.name, table.actions)
    return ["table_set_default", table.name, action.name, *_arguments(action, default.action)]


def _arguments(action: NamedAction, given: StfAction) -> list[str]:
    names = [name for name, _ in action.params]
    values = dict(given.arguments)
    unknown = next((name for name in values if name not in names), None)
    if unknown is not None or len(values) != len(given.arguments):
        what = f"no argument {unknown}" if unknown is not None else "its arguments once each"
        raise DetourError(f"the action {action.name} has {what}: ({', '.join(names)})")
    missing = [name for name in names if name not in values]
    if missing:
        raise DetourError(f"the action {action.name} needs {', '.join(missing)} as well")
    return [str(values[name]) for name in names]


def _field(table: NamedTable, name: str) -> NamedField:
    """A field of the key by one of its names: that of the JSON's field, or that of the key in the program."""
    fields = {field.name: field for field in table.key}
    keys = {field.source_name: field for field in table.key if field.source_name}
    indexed = _ARRAY.sub(r"[\1]", name)
    spellings = list(_spellings(indexed))
    exact = (named[full] for named in (keys, fields) for full in spellings if full in named)
    longer_names = (
        named[full] for named in (fields, keys) for suffix in spellings for full in named if full.endswith(f".{suffix}")
    )
    for found in chain(exact, longer_names):
        return found
    longer = [full for full in fields if indexed.endswith(f".{full}")]  # hdr.h.a, which the JSON may call h.a
    if len(longer) == 1:
        return fields[longer[0]]
    raise DetourError(f"the key of {table.name} has no field {name!r}: it has {', '.join(fields) or 'none'}")


def _spellings(name: str) -> Iterable[str]:
    yield name
    yield f"{name}$"
    yield f"{name}.$valid$"
    if name.endswith("valid"):
        yield name.removesuffix("valid") + "$valid$"


def _key_word(field: NamedField, match: StfMatch | None) -> str:
    """A field of a key as `table_add` takes it."""
    most = (1 << field.bits) - 1
    if match is None:
        return {MatchType.TERNARY: "0&&&0", MatchType.LPM: "0/0", MatchType.RANGE: f"0->{most}"}.get(field.kind, "0")
    if match.prefix is not None and field.kind is not MatchType.LPM:
        raise DetourError(f"the field {field.name} is {field.kind.name.lower()}: it takes no prefix length")
    if match.last is not None and field.kind is not MatchType.RANGE:
        raise DetourError(f"the field {field.name} is {field.kind.name.lower()}: it takes no range")
    number = match.number
    if field.kind is MatchType.TERNARY:
        mask = most if number.mask is None else number.mask & most
        return f"{number.value & mask}&&&{mask}"
    if field.kind is MatchType.LPM:
        return f"{number.value}/{_prefix(field, match)}"
    if number.has_wildcards:
        raise DetourError(f"the field {field.name} is {field.kind.name.lower()}: it takes no wildcards")
    if field.kind is MatchType.RANGE:
        return f"{number.value}->{number.value if match.last is None else match.last}"
    return str(number.value)


def _prefix(field: NamedField, match: StfMatch) -> int:
    """The length that was given, or that of the digits before the wildcards."""
    number = match.number
    if match.prefix is not None:
        return match.prefix
    if not number.bits_per_digit:
        return field.bits
    digits = number.digits.rstrip("*")
    if "*" in digits:
        raise DetourError(f"the field {field.name} is lpm: wildcards come last, not as in {number.text}")
    return min(len(digits) * number.bits_per_digit, field.bits)
