# SPDX-License-Identifier: Apache-2.0
"""Table entries as traces show them."""

from __future__ import annotations

from typing import Any

from detour.engine.compiler.model import KeyField
from detour.engine.tables.match import Entry, GroupRef, MatchTable


def describe_entry(table: MatchTable, handle: int) -> dict[str, Any]:
    """The entry with that handle, by the names of P4Info.

    Raises:
        TableError: there is none.
    """
    entry = table.get(handle)
    key = [_matched(spec, value) for spec, value in zip(table.spec.key, entry.key, strict=True)]
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
    """What an entry does: an action with its parameters, a member or a group."""
    if entry.action is not None:
        names = [p.name for p in entry.action.params]
        return {"action": entry.action.name, "parameters": dict(zip(names, entry.params, strict=True))}
    if isinstance(entry.target, GroupRef):
        return {"group": entry.target.group}
    return {} if entry.target is None else {"member": entry.target.member}
