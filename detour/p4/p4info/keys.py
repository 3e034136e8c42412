# SPDX-License-Identifier: Apache-2.0
"""Names of match fields: those that `@name` gives, or the expressions as a control plane writes them."""

from __future__ import annotations

from detour.p4 import core, types
from detour.p4.elaborate import Block

_OPERATORS = frozenset({"&"})


def field_name(key: core.Key, block: Block) -> str | None:
    """The name of a match field; None for one that is computed (P4_16, section 14.2.1.1)."""
    note = core.annotation(key.annotations, "name")
    if note and note.values:
        return str(note.values[0]).removeprefix(".")
    return written(key.expression, block)


def written(node: core.Expression, block: Block) -> str | None:
    """An expression as text: `h.ipv4.src`, `h.vlan[1].id`, `m.x[7:4]`, `h.ipv4.$valid$`."""
    if isinstance(node, core.Ref):
        return node.declaration.name
    if isinstance(node, core.Literal):
        return _number(node)
    if isinstance(node, core.Slice):
        low = block.number(node.low)
        base = written(node.base, block)
        return f"{base}[{low + node.width - 1}:{low}]" if base and low is not None else None
    if isinstance(node, core.Index):
        base, index = written(node.base, block), block.number(node.index)
        return f"{base}[{index}]" if base and index is not None else None
    if isinstance(node, (core.Member, core.StackMember)):
        return _member(node, block)
    if isinstance(node, core.CallBuiltin) and node.name == "isValid":
        base = written(node.receiver, block)
        return f"{base}.$valid$" if base else None
    if isinstance(node, core.Binary) and node.operator in _OPERATORS:
        left, right = written(node.left, block), written(node.right, block)
        return f"{left} {node.operator} {right}" if left and right else None
    return None


def _member(node: core.Member | core.StackMember, block: Block) -> str | None:
    """A field by its `@name`, if it has one; a name that begins with a dot stands for the whole path."""
    fields = node.base.type.fields if isinstance(node.base.type, types.Record) else ()
    notes = next((one.annotations for one in fields if one.name == node.name), ())
    note = core.annotation(notes, "name")
    name = str(note.values[0]) if note and note.values else node.name
    if name.startswith("."):
        return name[1:]
    base = written(node.base, block)
    return f"{base}.{name}" if base else None


def _number(node: core.Literal) -> str:
    """A number in the base of the source, without width and leading zeros."""
    text = node.span.text.lower().split("w")[-1].split("s")[-1]
    forms = {"0x": "0x{:x}", "0b": "0b{:b}", "0o": "0o{:o}"}
    return forms.get(text[:2], "{}").format(node.value)
