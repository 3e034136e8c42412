# SPDX-License-Identifier: Apache-2.0
"""L-values (specification, section 6.6): what can be assigned to."""

from __future__ import annotations

from detour.p4 import core
from detour.p4.check.checker import Checker
from detour.p4.types import Tuple


def require_place(c: Checker, value: core.Expression, purpose: str) -> None:
    """Reports an expression that is not an l-value."""
    reason = _why_not(value)
    if isinstance(value, core.Index) and isinstance(value.base.type, Tuple):
        reason = "elements of a tuple cannot be changed one by one"
    if reason is not None:
        c.fail(value.span, f"{value.span.text} cannot be {purpose}: {reason}")


def root_of(value: core.Expression) -> core.Declaration | None:
    """The variable that the value is, or is a part of."""
    while isinstance(value, core.Member | core.Index | core.StackMember | core.Slice):
        value = value.base
    return value.declaration if isinstance(value, core.Ref) else None


def _why_not(value: core.Expression) -> str | None:
    kind = type(value)
    if kind is core.Ref:
        return _why_not_name(value.declaration)  # type: ignore[attr-defined]
    if kind is core.StackMember and value.name == "lastIndex":  # type: ignore[attr-defined]
        return "lastIndex follows from the elements"
    if kind in (core.Member, core.StackMember, core.Index, core.Slice):
        return _why_not(value.base)  # type: ignore[attr-defined]
    return "it is a value, not a variable"


def _why_not_name(declaration: core.Declaration) -> str | None:
    if not isinstance(declaration, core.Variable):
        return "it is not a variable"
    if not declaration.is_parameter or declaration.direction in ("out", "inout"):
        return None
    if declaration.direction == "in":
        return f"{declaration.name} is an in parameter"
    return f"{declaration.name} is a parameter without a direction"
