# SPDX-License-Identifier: Apache-2.0
"""A program's demands on entries: `@entry_restriction` and `@action_restriction` (p4-constraints), `@refers_to`."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from finsy.proto import p4i

from detour.base.errors import DetourError
from detour.control.p4runtime.pipeline import read_p4info
from detour.engine.compiler.ir import Value
from detour.engine.compiler.model import TableIr
from detour.engine.p4runtime import annotations
from detour.engine.p4runtime.errors import Refused
from detour.engine.p4runtime.restrictions import Logic, Restrictions, Values
from detour.testgen.entries import anything_of, exact_match
from detour.testgen.state import z3
from detour.testgen.terms import Term, vector_of
from detour.testgen.testcase import Default, Entry

_KIND = p4i.MatchField
_PRIORITY = 1
_UNSIGNED = {operator.lt: z3.ULT, operator.le: z3.ULE, operator.gt: z3.UGT, operator.ge: z3.UGE}


def _compare(sign: Any, a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        same = z3.And(*(x == y for x, y in zip(a, b, strict=True)))
        return same if sign is operator.eq else z3.Not(same)
    if sign in _UNSIGNED and (z3.is_bv(a) or z3.is_bv(b)):
        return _UNSIGNED[sign](
            *(x if z3.is_bv(x) else z3.BitVecVal(x, (b if z3.is_bv(b) else a).size()) for x in (a, b))
        )
    return sign(a, b)


_TERMS = Logic(lambda terms: z3.And(*terms), lambda terms: z3.Or(*terms), z3.Not, _compare)


class _Reference(NamedTuple):
    """A value of a key's field or of an action's parameter is that of a field in another table."""

    source: str
    table: str
    field: str


class EntryRules:
    """The demands of one program."""

    def __init__(self, p4info: Path, tables: Mapping[str, TableIr]) -> None:
        """`tables`: all of the program. Raises DetourError: the file cannot be read, or is something else."""
        info = read_p4info(p4info)
        try:
            self._plain, self._terms = Restrictions(info), Restrictions(info, _TERMS)
        except Refused as error:
            raise DetourError(f"{p4info}: {error}") from None
        self._program = tables
        self._tables = {table.preamble.name: table for table in info.tables}
        self._actions = {action.preamble.name: action for action in info.actions}
        names = {action.preamble.id: action.preamble.name for action in info.actions}
        self._never = {
            (table.preamble.name, ref.scope == p4i.ActionRef.DEFAULT_ONLY, names[ref.id])
            for table in info.tables
            for ref in table.action_refs
            if ref.scope != p4i.ActionRef.TABLE_AND_DEFAULT
        }
        """tables, whether in entries, and actions that may not be there"""
        full = {name: each.preamble.name for each in info.tables for name in (each.preamble.alias, each.preamble.name)}
        self._references = {
            name: [
                _Reference(part.name, full[table], field)
                for part in parts
                for text in annotations.arguments(part.annotations, "refers_to")
                for table, field in [annotations.names(text)]
                if full.get(table) in tables
            ]
            for name, parts in (
                *((name, table.match_fields) for name, table in self._tables.items()),
                *((name, action.params) for name, action in self._actions.items()),
            )
        }

    def may_be_wide(self, table: str) -> bool:
        """Whether it is restricted with which masks, prefixes and ranges a table matches."""
        there = self._tables.get(table)
        return there is not None and any(text.startswith("@entry_restriction") for text in there.preamble.annotations)

    def of_key(self, table: str, key: list[Value], wide: tuple[Term, ...]) -> Term:
        """The condition that an entry of exactly this key may be, but for the fields that match everything (`wide`)."""
        values: Values = {"::priority": (_PRIORITY,)}
        for field, value, anything in zip(self._tables[table].match_fields, key, wide, strict=True):
            values[field.name] = _parts(field, vector_of(value), anything)
        return z3.And(*self._terms.terms(self._tables[table].preamble.id, values))

    def of_call(self, table: str, is_hit: bool, action: str, arguments: list[Value]) -> Term:
        """The condition that an entry with this action may be, or that as a default action."""
        if (table, is_hit, action) in self._never:
            return z3.BoolVal(False)
        if action not in self._actions:
            return z3.BoolVal(True)
        info = self._actions[action]
        values: Values = {p.name: (vector_of(v),) for p, v in zip(info.params, arguments, strict=True)}
        return z3.And(*self._terms.terms(info.preamble.id, values))

    def allow(self, entry: Entry) -> bool:
        """Whether an entry may be."""
        table, action = self._tables.get(entry.table), self._actions.get(entry.action)
        if table is None or action is None:
            return True
        if (entry.table, True, entry.action) in self._never:
            return False
        values: Values = {"::priority": (entry.priority or 0,)}
        for field, match in zip(table.match_fields, entry.key, strict=True):
            values[field.name] = (match.value,) if field.match_type == _KIND.EXACT else (match.value, match.extent)
            if field.match_type == _KIND.OPTIONAL and match.extent not in (0, (1 << match.bits) - 1):
                return False  # BMv2 JSON may say that it is ternary
        arguments: Values = {name: (value,) for name, value in entry.arguments}
        terms = self._plain.terms(table.preamble.id, values) + self._plain.terms(action.preamble.id, arguments)
        return all(terms) and (entry.priority is None or entry.priority > 0)

    @property
    def refer(self) -> bool:
        """Whether entries may refer to others."""
        return any(self._references.values())

    def with_targets(self, entries: list[Entry], defaults: list[Default]) -> list[Entry]:
        """Entries behind those to which they, or default actions, refer, which are added where they are missing."""
        result: dict[Entry, None] = {}

        def place(entry: Entry, users: tuple[Entry, ...]) -> None:
            if entry not in result and entry not in users:
                place_targets(entry, (*users, entry))
                result[entry] = None

        def place_targets(call: Entry | Default, users: tuple[Entry, ...] = ()) -> None:
            for target, fields in self._targets(call):
                alike = (e for e in (*result, *entries) if _is_target(e, target, fields))
                place(next(alike, target), users)

        for each in defaults:
            place_targets(each)
        for entry in entries:
            place(entry, ())
        return list(result)

    def _targets(self, call: Entry | Default) -> Iterator[tuple[Entry, list[int]]]:
        """An entry for each that an entry or default action refers to, and which fields of its key that is about."""
        if call.table not in self._tables or call.action not in self._actions:
            return
        values, references = dict(call.arguments), list(self._references[call.action])
        if isinstance(call, Entry):
            names = [field.name for field in self._tables[call.table].match_fields]
            values |= {name: match.value for name, match in zip(names, call.key, strict=True)}
            references += self._references[call.table]
        wanted: dict[str, dict[str, int]] = {}
        for reference in references:
            wanted.setdefault(reference.table, {})[reference.field] = values[reference.source]
        for name, fields in wanted.items():
            table = self._program[name]
            named = [field.name for field in self._tables[name].match_fields]
            key = tuple(
                exact_match(table, at, fields[each]) if each in fields else anything_of(exact_match(table, at, 0))
                for at, each in enumerate(named)
            )
            priority = 1 if table.match_type in ("ternary", "range") else None
            choices = [
                Entry(name, key, action.name, tuple((param.name, 0) for param in action.params), priority)
                for action in table.actions
            ]
            yield next(filter(self.allow, choices), choices[0]), [named.index(each) for each in fields]


def _parts(field: Any, value: Term, wide: Term) -> tuple[Any, ...]:
    """A component of a key as p4-constraints has it: it matches one value, or everything."""
    zero, full = z3.BitVecVal(0, value.size()), z3.BitVecVal(-1, value.size())
    first = z3.If(wide, zero, value)
    match field.match_type:
        case _KIND.EXACT:
            return (value,)
        case _KIND.LPM:
            return first, z3.If(wide, 0, value.size())
        case _KIND.RANGE:
            return first, z3.If(wide, full, value)
    return first, z3.If(wide, zero, full)


def _is_target(entry: Entry, target: Entry, fields: list[int]) -> bool:
    """Whether an entry has the values of a target's key."""
    return entry.table == target.table and all(entry.key[at].value == target.key[at].value for at in fields)
