# SPDX-License-Identifier: Apache-2.0
"""`bit<0>`: a field without bits is always 0 and takes no place in a packet. p4c keeps it in its JSON; everything
behind this module has fields with bits only."""

from __future__ import annotations

from typing import Any

from detour.engine.compiler.model import Json, refuse

_LISTS = ("elements", "input", "transition_key")
_ASSIGNMENTS = ("assign", "modify_field")
_ZERO = {"type": "hexstr", "value": "0x0"}


def without_empty_fields(source: Json) -> Json:
    """The same program without its fields of 0 bits; itself if it has none. Raises DetourError if it uses one where a
    constant cannot stand: in the key of a table, or by a number."""
    empty = {(kind["name"], f[0]) for kind in source["header_types"] for f in kind["fields"] if f[1] == 0}
    if not empty:
        return source
    named = [each for kind in ("headers", "header_stacks") for each in source.get(kind) or []]
    gone = {(each["name"], f) for each in named for kind, f in empty if kind == each["header_type"]}
    kinds = [{**k, "fields": [f for f in k["fields"] if f[1] != 0]} for k in source["header_types"]]
    return {**_rewritten(source, gone), "header_types": kinds}


def _rewritten(node: Any, gone: set[tuple[str, str]]) -> Any:
    if isinstance(node, list):
        return [_rewritten(each, gone) for each in node if not _is_set(each, "set", gone)]
    if not isinstance(node, dict):
        return node
    if _is_gone(node, gone):
        return _ZERO
    if node.get("op") == "access_field":
        raise refuse("a field is named by its number in a program with fields of 0 bits", node)
    if any(_is_set(node, op, gone) for op in _ASSIGNMENTS):
        return {"op": "no_op", "parameters": []}  # jumps count primitives
    if "match_type" in node and isinstance(node.get("target"), list) and tuple(node["target"]) in gone:
        raise refuse(f"table key '{'.'.join(node['target'])}' has 0 bits", node)
    return {
        key: _rewritten([e for e in value if key not in _LISTS or not _is_gone(e, gone)], gone)
        if isinstance(value, list)
        else _rewritten(value, gone)
        for key, value in node.items()
    }


def _is_gone(node: Any, gone: set[tuple[str, str]]) -> bool:
    kind = node.get("type") if isinstance(node, dict) else None
    return kind in ("field", "stack_field") and tuple(node["value"]) in gone


def _is_set(node: Any, op: str, gone: set[tuple[str, str]]) -> bool:
    """Whether it assigns to such a field; `set` is the parser's."""
    return isinstance(node, dict) and node.get("op") == op and _is_gone(node["parameters"][0], gone)
