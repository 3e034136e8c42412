# SPDX-License-Identifier: Apache-2.0
"""Which expressions have side effects."""

from __future__ import annotations

from collections.abc import Sequence

from detour.p4 import core

_CALLS = (core.CallFunction, core.CallAction, core.CallMethod, core.Apply, core.ApplyResult)
_PURE_METHODS = frozenset(("length",))


def has_effects(expression: core.Expression | None) -> bool:
    """Whether evaluating it may change something: whether there is a call in it."""
    kind = type(expression)
    if expression is None or kind is core.Ref or kind is core.Literal or kind is core.EnumMember:
        return False
    if kind in _CALLS:
        return not (kind is core.CallMethod and expression.method.name in _PURE_METHODS)  # type: ignore[attr-defined]
    return any(map(has_effects, _children(expression)))


def _children(expression: core.Expression) -> Sequence[core.Expression | None]:
    """Operands of an expression, in the order of evaluation."""
    match expression:
        case core.Member() | core.StackMember():
            return (expression.base,)
        case core.Index():
            return expression.base, expression.index
        case core.Slice():
            return expression.base, expression.low
        case core.Unary() | core.Cast():
            return (expression.operand,)
        case core.Binary():
            return expression.left, expression.right
        case core.Conditional():
            return expression.condition, expression.yes, expression.no
        case core.TupleValue():
            return expression.elements
        case core.StructValue():
            return [value for _, value in expression.fields]
        case core.CallBuiltin():
            return expression.receiver, *expression.arguments
        case core.MaskSet():
            return expression.value, expression.mask
        case core.RangeSet():
            return expression.low, expression.high
    return ()
