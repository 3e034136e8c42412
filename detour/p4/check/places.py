# SPDX-License-Identifier: Apache-2.0
"""L-values (specification, section 6.6): what can be assigned to."""

from __future__ import annotations

from detour.p4 import core, types
from detour.p4.check.checker import Checker

PARTS = (core.Member, core.Index, core.StackMember, core.Slice)
"""Expressions that are parts of their `base`."""


def require_place(c: Checker, value: core.Expression, purpose: str) -> None:
    """Report an expression that is not an l-value."""
    reason = _why_not(value)
    if isinstance(value, core.Index) and isinstance(value.base.type, types.Tuple):
        reason = "elements of a tuple cannot be changed one by one"
    if reason is not None:
        c.fail(value, f"{value.span.text} cannot be {purpose}: {reason}")


def root_of(value: core.Expression) -> core.Declaration | None:
    """The variable that the value is, or is a part of."""
    while isinstance(value, PARTS):
        value = value.base
    return value.declaration if isinstance(value, core.Ref) else None


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
    if not variable.is_parameter or variable.direction in ("out", "inout"):
        return None
    return f"{variable.name} is {'an in parameter' if variable.direction else 'a parameter without a direction'}"
