# SPDX-License-Identifier: Apache-2.0
"""Calls (specification, sections 8.17 to 8.19 and appendix F): functions, actions, methods, `apply`, constructors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from detour.p4 import core, syntax
from detour.p4.check.arguments import Signature, bind, choose, could_take, parameters_of, returned
from detour.p4.check.checker import EXPRESSIONS, Checker, rule
from detour.p4.check.constants import as_integer
from detour.p4.check.generics import specialize, substitute
from detour.p4.check.packets import check_packet_call
from detour.p4.check.places import require_place
from detour.p4.check.scope import Overloads, Place, TypeName
from detour.p4.check.typenames import check_not_inside, describe, resolve, type_name
from detour.p4.source import Span
from detour.p4.types import (
    ANYTHING,
    BOOL,
    INTEGER,
    VOID,
    Block,
    Extern,
    Header,
    Record,
    Stack,
    Tuple,
    Type,
    Union,
    Varbits,
    underlying,
    width,
)
from detour.p4.types import Callable as CallableType


@rule(EXPRESSIONS, syntax.Call)
def call(c: Checker, node: syntax.Call, expected: Type | None) -> core.Expression:
    call_form = FORMS.get(type(node.function))
    if call_form is None:
        value = c.expression(node.function)
        c.fail(node.span, f"{describe(value.type)} cannot be called")
    return call_form(c, node, expected)


# ---------------------------------------------------------------- functions and actions


def _by_name(c: Checker, node: syntax.Call, expected: Type | None) -> core.Expression:
    callee = node.function
    assert isinstance(callee, syntax.NameExpression)
    symbol = _find_callee(c, callee, node)
    if isinstance(symbol, core.Action):
        return _action(c, symbol, node)
    if not isinstance(symbol, Overloads):
        hint = f"Write {callee.name}.apply()." if isinstance(symbol, core.Table | core.Instance) else ""
        c.fail(node.span, f"{callee.name} cannot be called", hint)
    function = choose(c, symbol.functions, node.arguments, callee.name, node.span)
    c.used.add(function)
    _check_function_place(c, function, node)
    signature = Signature(callee.name, function.parameters, function.returns, c.variables.get(function, ()))
    if c.place is Place.TOP or function.name == "static_assert":
        signature.run_time = False
    bound = bind(c, signature, node.type_arguments, node.arguments, node.span, expected)
    if function.name == "static_assert" and function.body is None:
        return _static_assert(c, bound.arguments, node)
    types = tuple(bound.bindings[variable] for variable in signature.variables)
    return core.CallFunction(returned(bound, function.returns), node.span, function, types, bound.arguments)


def _find_callee(c: Checker, callee: syntax.NameExpression, node: syntax.Call):
    """What a name that is called means: of overloads in several scopes, the innermost that fits."""
    symbol = c.find(callee.name, callee.absolute, callee.span)
    if isinstance(symbol, Overloads | core.Action) or callee.absolute:
        return symbol
    outer = c.top.symbols.get(callee.name)
    if isinstance(outer, Overloads) and any(could_take(f.parameters, node.arguments) for f in outer.functions):
        return outer
    return symbol


def _check_function_place(c: Checker, function: core.Function, node: syntax.Call) -> None:
    if c.place is Place.TOP and function.name != "static_assert":
        c.fail(node.span, f"{function.name} cannot be called at the top level")
    if function.name == "verify" and function.body is None and not c.place.in_parser:
        c.fail(node.span, "verify can only be called in a parser")


def _static_assert(c: Checker, arguments: tuple[core.Expression | None, ...], node: syntax.Call) -> core.Expression:
    condition = arguments[0]
    if not isinstance(condition, core.Literal):
        c.fail(node.span, "static_assert needs a condition that is known at compile time")
    if not condition.value:
        text = arguments[1] if len(arguments) > 1 else None
        c.fail(node.span, f"static_assert: {text.value}" if isinstance(text, core.Literal) else "static_assert fails")
    return core.Literal(BOOL, node.span, True)


ACTION_CALLERS = {
    Place.FUNCTION: "functions",
    Place.METHOD: "methods",
    Place.PARSER: "parsers",
    Place.STATE: "parsers",
    Place.TABLE: "tables",
    Place.TOP: "the top level",
}


def _action(c: Checker, action: core.Action, node: syntax.Call) -> core.Expression:
    if c.place in ACTION_CALLERS:
        c.fail(node.span, f"actions cannot be called from {ACTION_CALLERS[c.place]}")
    if node.type_arguments:
        c.fail(node.span, f"action {action.name} has no type parameters")
    bound = bind(c, Signature(action.name, action.parameters, action=True), (), node.arguments, node.span)
    return core.CallAction(VOID, node.span, action, bound.arguments)  # type: ignore[arg-type]


# ---------------------------------------------------------------- methods


def _by_member(c: Checker, node: syntax.Call, expected: Type | None) -> core.Expression:
    callee = node.function
    assert isinstance(callee, syntax.Member)
    if isinstance(callee.base, syntax.TypeExpression):
        return _of_type(c, callee.base, callee.name.text, node)
    if isinstance(callee.base, syntax.This):
        return _of_this(c, node)
    receiver = c.expression(callee.base)
    kind = receiver.type
    text = callee.name.text
    if text in SIZES and not isinstance(kind, Extern):
        return size_of(c, kind, text, node)
    if isinstance(kind, Extern):
        return _method(c, receiver, kind, callee.name, node, expected)
    if isinstance(kind, Block) and text == "apply":
        return _apply_block(c, receiver, kind, node)
    if isinstance(kind, CallableType) and kind.kind == "table" and text == "apply":
        return _apply_table(c, receiver, node)
    if text in BUILTIN:
        return _builtin(c, receiver, text, node)
    c.fail(callee.name.span, f"{describe(kind)} has no method {text}")


def _of_this(c: Checker, node: syntax.Call) -> core.Expression:
    c.fail(node.span, "`this` can only be used in the implementation of an abstract method")


def _method(
    c: Checker, receiver: core.Expression, kind: Extern, name: syntax.Name, node: syntax.Call, expected: Type | None
) -> core.Expression:
    declaration = kind.declaration
    assert declaration is not None
    candidates = [method for method in declaration.methods if method.name == name.text]
    if not candidates:
        names = ", ".join(dict.fromkeys(method.name for method in declaration.methods))
        c.fail(node.span, f"{describe(kind)} has no method {name.text}", f"It has {names or 'none'}.")
    if c.place is Place.TOP:
        c.fail(node.span, "methods cannot be called at the top level")
    method = choose(c, candidates, node.arguments, name.text, node.span)
    outer = dict(zip(c.variables.get(declaration, ()), kind.arguments, strict=False))
    parameters, returns = specialize(method.parameters, outer), substitute(method.returns, outer)
    variables = c.variables.get(method, ())
    signature = Signature(f"{kind.name}.{name.text}", parameters, returns, variables)
    bound = bind(c, signature, node.type_arguments, node.arguments, node.span, expected)
    check_packet_call(c, kind, name.text, bound, node)
    types = tuple(bound.bindings[variable] for variable in variables)
    returns = returned(bound, returns)
    if outer or types:
        method = replace(method, parameters=bound.parameters, returns=returns)
    return core.CallMethod(returns, node.span, receiver, method, types, bound.arguments)


def _apply_table(c: Checker, receiver: core.Expression, node: syntax.Call) -> core.Expression:
    if c.place is Place.TABLE:
        c.fail(node.span, "a table cannot be applied in an argument of an action or in a key")
    if c.place is not Place.APPLY:
        where = "actions" if c.place is Place.ACTION else "here"
        c.fail(node.span, f"a table cannot be applied from {where}", "Apply it in the apply block of the control.")
    if node.arguments:
        c.fail(node.span, "apply of a table has no parameters")
    return core.Apply(CallableType("result", ""), node.span, receiver)


def _apply_block(c: Checker, receiver: core.Expression, kind: Block, node: syntax.Call) -> core.Expression:
    parameters = parameters_of(c, kind)
    if parameters is None or kind.kind == "package":
        c.fail(node.span, f"{describe(kind)} cannot be applied")
    wanted = Place.STATE if kind.kind == "parser" else Place.APPLY
    if c.place is not wanted:
        where = "from actions" if c.place is Place.ACTION else c.place.value
        c.fail(node.span, f"a {kind.kind} cannot be applied {where}", f"Apply it {wanted.value}.")
    bound = bind(c, Signature(f"{kind.name}.apply", parameters), node.type_arguments, node.arguments, node.span)
    return core.Apply(VOID, node.span, receiver, bound.arguments)


BUILTIN = {"isValid": 0, "setValid": 0, "setInvalid": 0, "push_front": 1, "pop_front": 1}


def _builtin(c: Checker, receiver: core.Expression, text: str, node: syntax.Call) -> core.Expression:
    kind = receiver.type
    on_stack = text.endswith("front")
    if on_stack:
        fits = isinstance(kind, Stack) and isinstance(kind.element, Header | Union)
    else:
        fits = isinstance(kind, Header) or (isinstance(kind, Union) and text == "isValid")
    assert isinstance(node.function, syntax.Member)
    if not fits:
        owner = "header stacks" if on_stack else "headers"
        c.fail(node.function.name.span, f"{describe(kind)} has no method {text}", f"Only {owner} have it.")
    if len(node.arguments) != BUILTIN[text]:
        c.fail(node.span, f"{text} has {BUILTIN[text]} parameter(s), the call {len(node.arguments)} argument(s)")
    if text != "isValid":
        require_place(c, receiver, f"changed by {text}")
    arguments: tuple[core.Expression, ...] = ()
    if on_stack:
        count = as_integer(value := c.expression(node.arguments[0].value))
        if count is None or count < 0:
            c.fail(value.span, f"the argument of {text} must be a known number, not negative")
        arguments = (core.Literal(INTEGER, value.span, count),)
    return core.CallBuiltin(BOOL if text == "isValid" else VOID, node.span, receiver, text, arguments)


# ---------------------------------------------------------------- sizes (8.26)

SIZES = ("minSizeInBits", "maxSizeInBits", "minSizeInBytes", "maxSizeInBytes")


def size_of(c: Checker, kind: Type, text: str, node: syntax.Call) -> core.Expression:
    span = node.span
    if node.arguments or node.type_arguments:
        c.fail(span, f"{text} has no arguments")
    try:
        size = least_width(kind) if text.startswith("min") else width(kind)
    except TypeError:
        c.fail(span, f"{text} is not defined: {describe(kind)} has no size")
    return core.Literal(INTEGER, span, (size + 7) // 8 if text.endswith("Bytes") else size)


def least_width(kind: Type) -> int:
    """Bits of the smallest value of the type."""
    kind = underlying(kind)
    if isinstance(kind, Varbits):
        return 0
    if isinstance(kind, Union):
        return max((least_width(part.type) for part in kind.fields), default=0)
    if isinstance(kind, Record):
        return sum(least_width(part.type) for part in kind.fields)
    if isinstance(kind, Tuple):
        return sum(map(least_width, kind.elements))
    if isinstance(kind, Stack):
        return kind.size * least_width(kind.element)
    return width(kind)


def _of_type(c: Checker, base: syntax.TypeExpression, text: str, node: syntax.Call) -> core.Expression:
    """`C.apply(...)` (14.1), `T.minSizeInBits()`."""
    if text in SIZES:
        return size_of(c, resolve(c, base.type), text, node)
    if text != "apply":
        c.fail(node.span, f"{describe(resolve(c, base.type))} is a type and has no method {text}")
    instance = construct(c, base.type, (), base.span)
    if not isinstance(instance.type, Block) or instance.type.kind == "package":
        c.fail(node.span, f"{describe(instance.type)} cannot be applied")
    return _apply_block(c, instance, instance.type, node)


# ---------------------------------------------------------------- constructors


def _by_type(c: Checker, node: syntax.Call, expected: Type | None) -> core.Expression:
    callee = node.function
    assert isinstance(callee, syntax.TypeExpression)
    if node.type_arguments and isinstance(callee.type, syntax.NamedType):
        written: syntax.TypeNode = syntax.SpecializedType(callee.span, callee.type, node.type_arguments)
    else:
        written = callee.type
    result = construct(c, written, node.arguments, node.span, expected)
    declaration = result.type.declaration if isinstance(result.type, Extern) else None
    if declaration is not None and any(method.abstract for method in declaration.methods):
        c.fail(node.span, f"{describe(result.type)} has abstract methods", "Declare an instance that implements them.")
    at_run_time = c.place not in (Place.TOP, Place.CONTROL, Place.PARSER, Place.TABLE)
    if at_run_time and not isinstance(result.type, Extern):
        c.fail(
            node.span, f"{describe(result.type)} cannot be instantiated {c.place.value}", "Declare an instance of it."
        )
    return result


def construct(
    c: Checker,
    node: syntax.TypeNode,
    arguments: tuple[syntax.Argument, ...],
    span: Span,
    expected: Type | None = None,
) -> core.Construct:
    """An instance of an extern, parser, control or package."""
    symbol, written = _constructed_type(c, node)
    kind = symbol.type
    if not isinstance(kind, Extern | Block):
        what = describe(resolve(c, node))
        c.fail(span, f"{what} has no constructor", "Only externs, parsers, controls and packages have instances.")
    parameters = _constructor(c, kind, arguments, span)
    if not symbol.parameters and kind.arguments:
        known = dict(zip(c.variables.get(kind.declaration, ()), kind.arguments, strict=False))  # type: ignore[arg-type]
        parameters = specialize(parameters, known)
    variables = symbol.parameters
    signature = Signature(kind.name, parameters, kind, variables, run_time=False)
    bound = bind(c, signature, written, arguments, span, expected)
    for argument in bound.bindings.values():
        check_not_inside(c, kind, argument, span)
    kind = substitute(kind, bound.bindings) if variables else kind
    if isinstance(kind, Extern) and is_open_argument(kind) and not written:
        c.fail(span, f"the type arguments of {kind.name} do not follow from the call", f"Write {kind.name}<...>(...).")
    return core.Construct(kind, span, bound.arguments)  # type: ignore[arg-type]


def is_open_argument(kind: Extern) -> bool:
    return any(argument in (ANYTHING, INTEGER) for argument in kind.arguments)


def _constructed_type(c: Checker, node: syntax.TypeNode) -> tuple[TypeName, tuple[syntax.TypeNode, ...]]:
    if isinstance(node, syntax.NamedType):
        return type_name(c, node), ()
    if isinstance(node, syntax.SpecializedType):
        return type_name(c, node.base), node.arguments
    return TypeName(resolve(c, node)), ()


def _constructor(
    c: Checker, kind: Extern | Block, arguments: tuple[syntax.Argument, ...], span: Span
) -> tuple[core.Variable, ...]:
    """Parameters of the constructor that is called."""
    declaration = kind.declaration
    if isinstance(declaration, core.Extern):
        if not any(could_take(method.parameters, arguments) for method in declaration.constructors):
            c.fail(span, f"extern {kind.name} has no constructor with {len(arguments)} argument(s)")
        return choose(c, declaration.constructors, arguments, kind.name, span).parameters
    if isinstance(declaration, core.BlockType):
        if declaration.kind != "package":
            c.fail(span, f"{describe(kind)} is a type without a body and has no instances")
        return declaration.parameters
    assert declaration is not None
    return declaration.constructor_parameters


FORMS: dict[type, Callable[..., core.Expression]] = {
    syntax.NameExpression: _by_name,
    syntax.Member: _by_member,
    syntax.TypeExpression: _by_type,
}
