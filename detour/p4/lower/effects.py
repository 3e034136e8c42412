# SPDX-License-Identifier: Apache-2.0
"""Which expressions have side effects."""

from __future__ import annotations

from detour.p4 import core
from detour.p4.core import walk

_CALLS = (core.CallFunction, core.CallAction, core.CallMethod, core.Apply, core.ApplyResult)
_PURE_METHODS = frozenset(("length",))


def has_effects(expression: core.Expression | None) -> bool:
    """Whether evaluating it may change something: whether there is a call in it."""
    return any(
        isinstance(node, _CALLS) and not (isinstance(node, core.CallMethod) and node.method.name in _PURE_METHODS)
        for node in walk(expression)
    )
