# SPDX-License-Identifier: Apache-2.0
"""Entries and settings of generated tests as entities of P4Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from keyword import iskeyword
from pathlib import Path
from typing import Any

import finsy
from finsy.p4entity import P4ValueSetMember

from detour.base.errors import DetourError
from detour.control.p4runtime.pipeline import read_p4info
from detour.testgen.ptf_base import schema_of
from detour.testgen.testcase import RATES, SETTINGS, Default, Entry, Match, Setting, Test

_MICROSECONDS = 1_000_000
_LESS_THAN_HEX = 10


class Entities:
    """Makes entities of tests. `of` returns those of one, in the order in which they are written."""

    def __init__(self, p4info: Path) -> None:
        """Raise DetourError: the file cannot be read, is something else, or finsy does not take it."""
        info = read_p4info(p4info)
        try:
            self.schema = schema_of(info)
        except (LookupError, ValueError) as error:
            raise DetourError(f"{p4info}: finsy, which encodes entries, does not take it: {error}") from None

    def of(self, test: Test) -> list[Any]:
        above = int(any(entry.priority == 0 for entry in test.entries))  # P4Runtime's lowest priority is 1
        return [
            *(entity for number, group in enumerate(_groups(test), 1) for entity in self._entry(group, number, above)),
            *(finsy.P4TableEntry(d.table, action=_action(d), is_default_action=True) for d in test.defaults),
            *(entity for each in SETTINGS for entity in _settings(each, test.of(each))),
        ]

    def _entry(self, group: list[Entry], number: int, above: int) -> Iterator[Any]:
        entry, table = group[0], self.schema.tables[group[0].table]
        action: Any = _action(entry)
        if len(group) > 1:
            action = finsy.P4IndirectAction([(1, _action(each)) for each in group])
        key = {field.name: _match(match) for field, match in zip(table.match_fields, entry.key, strict=True)}
        match = finsy.P4TableMatch({name: value for name, value in key.items() if value is not None})
        if table.action_profile is not None and not table.action_profile.with_selector:
            yield finsy.P4ActionProfileMember(table.action_profile.name, member_id=number, action=action)
            action = finsy.P4IndirectAction(member_id=number)
        priority = 0 if entry.priority is None else entry.priority + above
        yield finsy.P4TableEntry(table.name, match=match, action=action, priority=priority)


def _groups(test: Test) -> list[list[Entry]]:
    """Entries, together if they are members of a group."""
    groups: dict[Any, list[Entry]] = {}
    for entry in test.entries:
        groups.setdefault((entry.table, entry.key), []).append(entry)
    return list(groups.values())


def _action(call: Entry | Default) -> finsy.P4TableAction:
    return finsy.P4TableAction(call.action, **dict(call.arguments))


def _settings(of: str, settings: list[Setting]) -> Iterator[Any]:
    members: dict[str, list[P4ValueSetMember]] = {}
    for each in settings:
        match of:
            case "register":
                yield finsy.P4RegisterEntry(each.name, index=each.at, data=each.value)
            case "meter":
                (cir, cburst), (pir, pburst) = (rate.split(":") for rate in RATES[each.value].split())
                rates = (round(float(rate) * _MICROSECONDS) for rate in (cir, pir))
                config = finsy.P4MeterConfig(cir=next(rates), pir=next(rates), cburst=int(cburst), pburst=int(pburst))
                yield finsy.P4MeterEntry(each.name, index=each.at, config=config)
            case "member":
                members.setdefault(each.name, []).append(P4ValueSetMember(each.at))
                yield finsy.P4ValueSetEntry(each.name, members=list(members[each.name]))
            case "session":
                yield finsy.P4CloneSessionEntry(each.at, replicas=[(each.port, 0)])
            case "group":
                yield finsy.P4MulticastGroupEntry(each.at, replicas=[(each.port, each.copy)])


def _match(match: Match) -> Any:
    """A component of a key as finsy takes it; None: it matches anything."""
    value, extent, full = match.value, match.extent, (1 << match.bits) - 1
    if match.kind == "exact" or (match.kind == "ternary" and extent == full):
        return value
    if match.kind == "range":
        return None if (value, extent) == (0, full) else f"{value:#x}...{extent:#x}"
    if not extent:
        return None
    return f"{value:#x}/{extent}" if match.kind == "lpm" else f"{value:#x}/&{extent:#x}"


def update_source(entity: Any) -> str:
    """An entity as Python that writes it with finsy: `+` inserts, `~` modifies; what always exists has neither."""
    if getattr(entity, "is_default_action", False):
        return f"~{_source(entity)}"
    return f"{'+' if hasattr(entity, '__pos__') else ''}{_source(entity)}"


def _source(value: Any) -> str:
    match value:
        case bool() | str():
            return repr(value)
        case int():
            return str(value) if value < _LESS_THAN_HEX else hex(value)
        case finsy.P4TableAction():
            given = "".join(f", {name}={_source(each)}" for name, each in value.args.items() if not iskeyword(name))
            others = {name: each for name, each in value.args.items() if iskeyword(name)}
            return f"fy.Action({value.name!r}{given}{f', **{_source(others)}' if others else ''})"
        case finsy.P4TableMatch() | P4ValueSetMember():
            name = "fy.Match" if isinstance(value, finsy.P4TableMatch) else "fy.p4entity.P4ValueSetMember"
            return f"{name}({_source(dict(value))})"
        case dict():
            return f"{{{', '.join(f'{name!r}: {_source(each)}' for name, each in value.items())}}}"
        case list() | tuple():
            inner = ", ".join(map(_source, value))
            return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    parts = [(field.name, getattr(value, field.name), field.default) for field in fields(value) if field.name != "_"]
    shown = [f"{name}={_source(each)}" for name, each, default in parts[1:] if each != default]
    return f"fy.{type(value).__name__}({', '.join([_source(parts[0][1]), *shown])})"
