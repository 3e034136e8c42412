# SPDX-License-Identifier: Apache-2.0
"""Table entries as traces show them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from detour.engine.compiler.model import KeyField
from detour.engine.tables.errors import TableError
from detour.engine.tables.match import Entry, GroupRef, MatchTable

_KEPT = 4096
"""descriptions of a table's entries; when there are more, all are made anew"""


@dataclass(frozen=True, slots=True)
class Described:
    """An entry as the controller wrote it. `text`: as JSON."""

    facts: dict[str, Any]
    text: str


@dataclass(slots=True)
class _Kept:
    """Descriptions made since a table's entries were written last."""

    changes: int
    entries: dict[int, Described] = field(default_factory=dict)


class EntryReader:
    """Describes the entries of a switch's tables; an entry that nobody has written since is described once."""

    def __init__(self, tables: Mapping[str, MatchTable]) -> None:
        self._tables = tables
        self._kept: dict[str, _Kept] = {}

    def read(self, table: str, handle: int) -> Described | None:
        """An entry; None if it was deleted."""
        now = self._tables[table].changes
        kept = self._kept.get(table)
        if kept is None or kept.changes != now or len(kept.entries) >= _KEPT:
            kept = self._kept[table] = _Kept(now)
        if handle not in kept.entries:
            try:
                facts = describe_entry(self._tables[table], handle)
            except TableError:
                return None
            kept.entries[handle] = Described(facts, json.dumps(facts))
        return kept.entries[handle]


def describe_entry(table: MatchTable, handle: int) -> dict[str, Any]:
    """The entry with that handle, by the names of P4Info. Raises TableError if there is none."""
    entry = table.get(handle)
    key = [_matched(spec, value) for spec, value in zip(table.spec.key, table.written_key(handle), strict=True)]
    return {"handle": handle, "key": key, "priority": entry.priority, **_does(entry)}


def _matched(spec: KeyField, value: Any) -> dict[str, Any]:
    named: dict[str, Any] = {"name": spec.name or f"{spec.header}.{spec.field}", "match": spec.match_type}
    if spec.match_type == "lpm":
        return named | {"value": value[0], "prefix_len": value[1]}
    if spec.match_type == "range":
        return named | {"low": value[0], "high": value[1]}
    if spec.match_type == "ternary" and not isinstance(value, int):
        return named | ({"any": True} if value is None else {"value": value[0], "mask": value[1]})
    return named | {"value": value}


def _does(entry: Entry) -> dict[str, Any]:
    if entry.action is not None:
        names = [p.name for p in entry.action.params]
        return {"action": entry.action.name, "parameters": dict(zip(names, entry.params, strict=True))}
    if isinstance(entry.target, GroupRef):
        return {"group": entry.target.group}
    return {} if entry.target is None else {"member": entry.target.member}
