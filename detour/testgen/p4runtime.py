# SPDX-License-Identifier: Apache-2.0
"""What generated tests write into a switch, as entities of P4Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from keyword import iskeyword
from pathlib import Path
from typing import Any

import finsy
from finsy.p4entity import P4ValueSetMember
from finsy.proto import p4i
from google.protobuf import text_format

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.fabric.tracing.stf import StfAdd, StfCommand, StfDefault, StfStatement
from detour.fabric.tracing.stf_names import add_command, default_command

_MICROSECONDS = 1_000_000
_LESS_THAN_HEX = 10


class Entities:
    """Makes entities of statements of STF. `of` returns those of a test, in the order in which they are written."""

    def __init__(self, program: Path, p4info: Path) -> None:
        """Raises DetourError: a file cannot be read, or is something else."""
        try:
            self.schema = finsy.P4Schema(text_format.Parse(read_text(p4info), p4i.P4Info()))
        except text_format.ParseError as error:
            raise DetourError(f"{p4info} is not P4Info in text format: {error}") from None
        self._names = ProgramNames(read_text(program))

    def of(self, statements: Iterable[StfStatement]) -> list[Any]:
        """Raises DetourError: P4Runtime has nothing for a statement."""
        self._copies: list[tuple[int, int]] = []
        self._members: dict[str, list[Any]] = {}
        entities: list[Any] = []
        for statement in statements:
            if isinstance(statement, StfAdd):
                entities += self._entry(statement, len(entities))
            elif isinstance(statement, StfDefault):
                _, table, action, *values = default_command(statement, self._names)
                call = self._action(action, values)
                entities.append(finsy.P4TableEntry(table, action=call, is_default_action=True))
            elif isinstance(statement, StfCommand):
                entities += self._setting(*statement.words)
        return entities

    def _action(self, name: str, values: Iterable[str]) -> finsy.P4TableAction:
        names = [param.name for param in self.schema.actions[name].params]
        return finsy.P4TableAction(name, **{n: int(v) for n, v in zip(names, values, strict=True)})

    def _entry(self, statement: StfAdd, number: int) -> Iterator[Any]:
        words = add_command(statement, self._names)
        at = words.index("=>")
        table = self.schema.tables[words[1]]
        count = len(self.schema.actions[words[2]].params)
        action: Any = self._action(words[2], words[at + 1 : at + 1 + count])
        key = {field.name: _match(field, word) for field, word in zip(table.match_fields, words[3:at], strict=True)}
        match = finsy.P4TableMatch({name: value for name, value in key.items() if value is not None})
        if table.action_profile is not None and not table.action_profile.with_selector:
            yield finsy.P4ActionProfileMember(table.action_profile.name, member_id=number + 1, action=action)
            action = finsy.P4IndirectAction(member_id=number + 1)
        priority = (statement.priority or 1) if words[at + 1 + count :] else 0
        yield finsy.P4TableEntry(table.name, match=match, action=action, priority=priority)

    def _setting(self, command: str, *words: str) -> Iterator[Any]:
        match command:
            case "register_write":
                yield finsy.P4RegisterEntry(words[0], index=int(words[1]), data=int(words[2]))
            case "meter_set_rates":
                (cir, cburst), (pir, pburst) = (each.split(":") for each in words[2:])
                rates = (round(float(rate) * _MICROSECONDS) for rate in (cir, pir))
                config = finsy.P4MeterConfig(cir=next(rates), pir=next(rates), cburst=int(cburst), pburst=int(pburst))
                yield finsy.P4MeterEntry(words[0], index=int(words[1]), config=config)
            case "pvs_add":
                members = self._members.setdefault(words[0], [])
                members.append(P4ValueSetMember(int(words[1])))
                yield finsy.P4ValueSetEntry(words[0], members=list(members))
            case "mirroring_add":
                yield finsy.P4CloneSessionEntry(int(words[0]), replicas=[(int(words[1]), 0)])
            case "mc_mgrp_create":
                pass
            case "mc_node_create":
                self._copies.append((int(words[1]), int(words[0])))
            case "mc_node_associate":
                yield finsy.P4MulticastGroupEntry(int(words[0]), replicas=[self._copies[int(words[1])]])
            case _:
                raise DetourError(f"P4Runtime has nothing for {command}")


def _match(field: Any, word: str) -> Any:
    """A component of `table_add` as finsy takes it; None: it matches anything."""
    full = (1 << field.bitwidth) - 1
    if "&&&" in word:
        value, mask = (int(part) for part in word.split("&&&"))
        if not mask:
            return None
        return value if mask == full else f"{value:#x}/&{mask:#x}"
    if "/" in word:
        value, length = (int(part) for part in word.split("/"))
        return f"{value:#x}/{length}" if length else None
    if "->" in word:
        low, high = (int(part) for part in word.split("->"))
        return None if (low, high) == (0, full) else f"{low:#x}...{high:#x}"
    return int(word)


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
