# SPDX-License-Identifier: Apache-2.0
"""L-values (specification, section 6.6): what can be assigned to, and the parts of variables that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from detour.p4 import core, types
from detour.p4.check.checker import Checker
from detour.p4.check.constants import as_integer

PARTS = (core.Member, core.Index, core.StackMember, core.Slice)
"""Expressions that are parts of their `base`."""

Place = tuple[core.Declaration | str, ...]
"""A variable, and the names and numbers that lead to a part of it: a header, or a value without parts."""


def require_place(c: Checker, value: core.Expression, purpose: str) -> None:
    """Report an expression that is not an l-value."""
    reason = _why_not(value)
    if isinstance(value, core.Index) and isinstance(value.base.type, types.Tuple):
        reason = "elements of a tuple cannot be changed one by one"
    if reason is not None:
        c.fail(value, f"{value.span.text} cannot be {purpose}: {reason}")


def _why_not(value: core.Expression) -> str | None:
    if isinstance(value, core.StackMember) and value.name == "lastIndex":
        return "lastIndex follows from the elements"
    if isinstance(value, PARTS):
        return _why_not(value.base)
    if not isinstance(value, core.Ref):
        return "it is a value, not a variable"
    variable = value.declaration
    if not isinstance(variable, core.Variable):
        return "it is not a variable"
    if not variable.is_parameter or variable.is_output:
        return None
    return f"{variable.name} is {'an in parameter' if variable.direction else 'a parameter without a direction'}"


# ---------------------------------------------------------------- parts of variables


def places_below(place: Place, kind: types.Type) -> Iterator[Place]:
    """Headers and values in a variable, or in a part of one."""
    parts = types.members(kind)
    if isinstance(kind, types.Header) or not (parts or isinstance(kind, types.Record | types.Tuple)):
        yield place
    for name, part in parts:
        yield from places_below((*place, name), part)


def is_field(value: core.Expression) -> TypeGuard[core.Member]:
    """Return whether it is a field of a header."""
    return isinstance(value, core.Member) and isinstance(value.base.type, types.Header)


def places_of(value: core.Expression) -> list[Place]:
    """Places that an expression may name: several where an index is not known, none of what is no variable."""
    match value:
        case core.Ref(declaration=core.Variable()):
            return [(value.declaration,)]
        case core.Slice():
            return places_of(value.base)
        case core.Member():
            return [(*place, value.name) for place in places_of(value.base)]
        case core.StackMember(name="lastIndex"):
            return []
        case core.Index() | core.StackMember() if isinstance(value.base.type, types.Stack):
            known = as_integer(value.index) if isinstance(value, core.Index) else None
            indexes = range(value.base.type.size) if known is None else [known]
            return [(*place, str(at)) for place in places_of(value.base) for at in indexes]
        case core.Index():
            return [(*place, str(as_integer(value.index))) for place in places_of(value.base)]
    return []
