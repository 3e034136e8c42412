# SPDX-License-Identifier: Apache-2.0
"""Warnings about declarations that nothing mentions. Those with a name that begins with `_` are meant to be so."""

from __future__ import annotations

from detour.p4 import core, types
from detour.p4.check.checker import Checker
from detour.p4.check.scope import Overloads, Symbol, TypeName

KINDS: dict[type, str] = {
    core.Constant: "constant",
    core.Instance: "instance",
    core.Table: "table",
    core.Action: "action",
    core.ValueSet: "value set",
    types.TypeVariable: "type parameter",
    types.NewType: "type",
}


def warn_of_unused(c: Checker) -> None:
    """Warnings for a whole program. Of parameters only those of actions count: all others follow from a type."""
    data = {parameter for _, one in c.declared if isinstance(one, core.Action) for parameter in one.parameters}
    for name, symbol in c.declared:
        if symbol in c.used or name.startswith("_"):
            continue
        if isinstance(symbol, core.Variable):
            kind = "variable" if not symbol.is_parameter else "parameter" if symbol in data else None
        else:
            kind = _kind(name, symbol)
        if kind is not None:
            c.warn("unused", symbol, f"{kind} {name} is not used")


def _kind(name: str, symbol: Symbol) -> str | None:
    """The name of a kind of declaration. None: structures and externs may stand there for others to use."""
    if isinstance(symbol, Overloads):
        return "function" if symbol.functions[-1].body is not None else None
    if not isinstance(symbol, TypeName):
        return KINDS.get(type(symbol))
    kind = symbol.type
    if isinstance(kind, types.Block):
        return kind.kind
    if isinstance(kind, types.Enum | types.Record | types.Extern) and kind.name == name:
        return None
    return KINDS.get(type(kind), "typedef")
