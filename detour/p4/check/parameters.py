# SPDX-License-Identifier: Apache-2.0
"""Parameters of all that has some (specification, sections 6.7, 7.2.13, 13.1 and 14, appendix F)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from detour.p4 import core, syntax, types
from detour.p4.check.checker import Checker
from detour.p4.check.constants import is_known
from detour.p4.check.convert import convert
from detour.p4.check.generics import is_open
from detour.p4.check.notes import begun
from detour.p4.check.typenames import describe, resolve
from detour.p4.types import INTEGER, STRING, VOID, Type


class Owner(Enum):
    """The kinds of declarations that parameters belong to."""

    FUNCTION = "a function"
    EXTERN = "an extern function or method"
    EXTERN_CONSTRUCTOR = "the constructor of an extern"
    ACTION = "an action"
    BLOCK = "a parser or control"
    BLOCK_TYPE = "a parser or control type"
    CONSTRUCTOR = "a constructor"
    PACKAGE = "a package"

    @property
    def constructs(self) -> bool:
        return self in (Owner.CONSTRUCTOR, Owner.PACKAGE, Owner.EXTERN_CONSTRUCTOR)


PROTOTYPES = MAY_BE_OPTIONAL = (Owner.EXTERN, Owner.EXTERN_CONSTRUCTOR, Owner.PACKAGE, Owner.BLOCK_TYPE)


def parameters(c: Checker, nodes: Sequence[syntax.Parameter], owner: Owner) -> tuple[core.Variable, ...]:
    """Declare parameters in the current scope."""
    result: list[core.Variable] = []
    for node in nodes:
        variable = _parameter(c, node, owner)
        c.declare(node.name, variable, prototype=owner in PROTOTYPES)
        result.append(variable)
    if owner is Owner.ACTION:
        _check_order(c, result)
    return tuple(result)


def _check_order(c: Checker, variables: list[core.Variable]) -> None:
    data = False
    for variable in variables:
        if variable.direction and data:
            hint = "Parameters without a direction, which the control plane sets, come last."
            c.fail(variable, f"{variable.name} has a direction and follows parameters without one", hint)
        data = data or not variable.direction


def _parameter(c: Checker, node: syntax.Parameter, owner: Owner) -> core.Variable:
    result = begun(c, core.Variable, node, direction=node.direction, is_parameter=True)
    name = result.name
    result.optional = core.annotation(result.annotations, "optional") is not None
    if result.optional and owner not in MAY_BE_OPTIONAL:
        c.fail(node, f"{name}: {owner.value} cannot have optional parameters")
    if node.direction and owner.constructs:
        text = f"{name}: parameters of {owner.value} cannot have a direction"
        c.fail(node, text, f"Leave {node.direction} away.")
    if node.default is not None and node.direction in ("out", "inout"):
        c.fail(node, f"{name}: {node.direction} parameters cannot have default values")
    result.type = kind = resolve(c, node.type)
    _check_type(c, node, kind, owner)
    if node.default is not None:
        default = c.expression(node.default, None if is_open(kind) else kind)
        if not is_open(kind) and not isinstance(kind, types.Block | types.Extern):
            default = convert(c, default, kind, f"the default value of {name}")
        if not is_known(default):
            c.fail(node.default, f"the default value of {name} must be known at compile time")
        result.default = default
    return result


def _check_type(c: Checker, node: syntax.Parameter, kind: Type, owner: Owner) -> None:
    name = node.name.text
    if kind == VOID:
        c.fail(node, f"{name} cannot have the type void")
    if isinstance(kind, types.Block):
        if kind.kind == "package" and owner is not Owner.PACKAGE:
            c.fail(node, f"{name}: a package cannot be a parameter of {owner.value}")
        if not owner.constructs or owner is Owner.EXTERN_CONSTRUCTOR:
            hint = "Constructors of parsers, controls and packages have such parameters."
            c.fail(node, f"{name}: {describe(kind)} cannot be a parameter of {owner.value}", hint)
        if isinstance(kind.declaration, core.ParserOrControl):
            c.fail(node, f"{name} must have a type without a body, not {describe(kind)}")
    is_object = isinstance(kind, types.Extern)
    if is_object and owner is Owner.ACTION:
        c.fail(node, f"{name}: actions cannot have parameters of extern types")
    if node.direction and (is_object or isinstance(kind, types.ListOf) or kind in (INTEGER, STRING)):
        text = f"{name}: a parameter of the type {describe(kind)} cannot have a direction"
        c.fail(node, text, f"Leave {node.direction} away.")
    if owner is Owner.ACTION and kind in (INTEGER, STRING):
        c.fail(node, f"{name}: actions cannot have parameters of the type {kind}", "Give the type a width.")
