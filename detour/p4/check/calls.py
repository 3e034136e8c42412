# SPDX-License-Identifier: Apache-2.0
"""Calls (specification, sections 8.17 to 8.19 and appendix F): functions, actions, methods, `apply`, constructors."""

from __future__ import annotations

from dataclasses import replace

from detour.p4 import core, syntax, types
from detour.p4.check.arguments import Parameters, Signature, bind, choose, could_take
from detour.p4.check.checker import EXPRESSIONS, Checker, rule
from detour.p4.check.constants import as_integer
from detour.p4.check.generics import arguments_of, parameters_of, specialize, substitute
from detour.p4.check.packets import check_packet_call
from detour.p4.check.places import require_place
from detour.p4.check.scope import Overloads, Place, Symbol
from detour.p4.check.typenames import check_not_inside, describe, generic_type, resolve
from detour.p4.source import Span
from detour.p4.types import BOOL, INTEGER, VOID, Type


@rule(EXPRESSIONS, syntax.Call)
def call(c: Checker, node: syntax.Call, expected: Type | None) -> core.Expression:
    match node.function:
        case syntax.NameExpression() as callee:
            return _by_name(c, callee, node, expected)
        case syntax.Member() as callee:
            return _by_member(c, callee, node, expected)
        case syntax.TypeExpression() as callee:
            return _by_type(c, callee, node, expected)
    value = c.expression(node.function)
    c.fail(node, f"{describe(value.type)} cannot be called")


# ---------------------------------------------------------------- functions and actions


def _by_name(c: Checker, callee: syntax.NameExpression, node: syntax.Call, expected: Type | None) -> core.Expression:
    symbol = _find_callee(c, callee, node)
    if isinstance(symbol, core.Action):
        return _action(c, symbol, node)
    if not isinstance(symbol, Overloads):
        hint = f"Write {callee.name}.apply()." if isinstance(symbol, core.Table | core.Instance) else ""
        c.fail(node, f"{callee.name} cannot be called", hint)
    function = choose(c, symbol.functions, node.arguments, callee.name, node)
    c.used.add(function)
    is_assertion = function.name == "static_assert"
    if c.place is Place.TOP and not is_assertion:
        c.fail(node, f"{function.name} cannot be called at the top level")
    if function.name == "verify" and function.body is None and not c.place.in_parser:
        c.fail(node, "verify can only be called in a parser")
    signature = Signature(callee.name, function.parameters, function.returns, function.variables)
    signature.run_time = not is_assertion
    bound = bind(c, signature, node.type_arguments, node.arguments, node, expected)
    if is_assertion and function.body is None:
        return _static_assert(c, bound.arguments, node)
    type_arguments = tuple(bound.bindings[variable] for variable in function.variables)
    return core.CallFunction(bound.returns, node.span, function, type_arguments, bound.arguments)


def _find_callee(c: Checker, callee: syntax.NameExpression, node: syntax.Call) -> Symbol:
    """The meaning of a name that is called: of overloads in several scopes, the innermost that fits."""
    symbol = c.find(callee)
    if isinstance(symbol, Overloads | core.Action) or callee.absolute:
        return symbol
    outer = c.top.symbols.get(callee.name)
    if isinstance(outer, Overloads) and any(could_take(f.parameters, node.arguments) for f in outer.functions):
        return outer
    return symbol


def _static_assert(c: Checker, arguments: tuple[core.Expression | None, ...], node: syntax.Call) -> core.Expression:
    condition = arguments[0]
    if not isinstance(condition, core.Literal):
        c.fail(node, "static_assert needs a condition that is known at compile time")
    if not condition.value:
        text = arguments[1] if len(arguments) > 1 else None
        c.fail(node, f"static_assert: {text.value}" if isinstance(text, core.Literal) else "static_assert fails")
    return core.Literal(BOOL, node.span, True)


NO_ACTION_CALLS = {
    Place.FUNCTION: "functions",
    Place.PARSER: "parsers",
    Place.STATE: "parsers",
    Place.TABLE: "tables",
    Place.TOP: "the top level",
}


def _action(c: Checker, action: core.Action, node: syntax.Call) -> core.Expression:
    if c.place in NO_ACTION_CALLS:
        c.fail(node, f"actions cannot be called from {NO_ACTION_CALLS[c.place]}")
    if node.type_arguments:
        c.fail(node, f"action {action.name} has no type parameters")
    bound = bind(c, Signature(action.name, action.parameters, action=True), (), node.arguments, node)
    return core.CallAction(VOID, node.span, action, bound.arguments)  # type: ignore[arg-type]


# ---------------------------------------------------------------- methods


def _by_member(c: Checker, callee: syntax.Member, node: syntax.Call, expected: Type | None) -> core.Expression:
    if isinstance(callee.base, syntax.TypeExpression):
        return _of_type(c, callee.base, callee.name.text, node)
    if isinstance(callee.base, syntax.Sign) and callee.base.text == "this":
        c.fail(node, "`this` can only be used in the implementation of an abstract method")
    receiver = c.expression(callee.base)
    kind, text = receiver.type, callee.name.text
    if isinstance(kind, types.Extern):
        return _method(c, receiver, kind, text, node, expected)
    if text in SIZES:
        return _size_of(c, kind, text, node)
    if text == "apply" and isinstance(kind, types.Block):
        return _apply_block(c, receiver, kind, node)
    if text == "apply" and isinstance(kind, types.Callable) and kind.kind == "table":
        return _apply_table(c, receiver, node)
    if text in BUILTIN:
        return _builtin(c, receiver, callee.name, node)
    c.fail(callee.name, f"{describe(kind)} has no method {text}")


def _method(
    c: Checker, receiver: core.Expression, kind: types.Extern, name: str, node: syntax.Call, expected: Type | None
) -> core.Expression:
    methods: tuple[core.Function, ...] = kind.declaration.methods
    candidates = [method for method in methods if method.name == name]
    if not candidates:
        names = ", ".join(dict.fromkeys(method.name for method in methods))
        c.fail(node, f"{describe(kind)} has no method {name}", f"It has {names or 'none'}.")
    if c.place is Place.TOP:
        c.fail(node, "methods cannot be called at the top level")
    method = choose(c, candidates, node.arguments, name, node)
    outer = arguments_of(kind)
    parameters, returns = specialize(method.parameters, outer), substitute(method.returns, outer)
    signature = Signature(f"{kind.name}.{name}", parameters, returns, method.variables)
    bound = bind(c, signature, node.type_arguments, node.arguments, node, expected)
    check_packet_call(c, kind, name, bound, node)
    type_arguments = tuple(bound.bindings[variable] for variable in method.variables)
    if outer or type_arguments:
        method = replace(method, parameters=bound.parameters, returns=bound.returns)
    return core.CallMethod(bound.returns, node.span, receiver, method, type_arguments, bound.arguments)


def _apply_table(c: Checker, receiver: core.Expression, node: syntax.Call) -> core.Expression:
    if c.place is Place.TABLE:
        c.fail(node, "a table cannot be applied in an argument of an action or in a key")
    if c.place is not Place.APPLY:
        where = "actions" if c.place is Place.ACTION else "here"
        c.fail(node, f"a table cannot be applied from {where}", "Apply it in the apply block of the control.")
    if node.arguments:
        c.fail(node, "apply of a table has no parameters")
    return core.Apply(types.Callable("", "result"), node.span, receiver)


def _apply_block(c: Checker, receiver: core.Expression, kind: types.Block, node: syntax.Call) -> core.Expression:
    if kind.kind == "package":
        c.fail(node, f"{describe(kind)} cannot be applied")
    place = Place.STATE if kind.kind == "parser" else Place.APPLY
    if c.place is not place:
        where = "from actions" if c.place is Place.ACTION else c.place.value
        c.fail(node, f"a {kind.kind} cannot be applied {where}", f"Apply it {place.value}.")
    signature = Signature(f"{kind.name}.apply", parameters_of(kind))
    bound = bind(c, signature, node.type_arguments, node.arguments, node)
    return core.Apply(VOID, node.span, receiver, bound.arguments)


BUILTIN = {"isValid": 0, "setValid": 0, "setInvalid": 0, "push_front": 1, "pop_front": 1}
"""Methods of headers and their stacks, with the number of arguments."""


def _builtin(c: Checker, receiver: core.Expression, name: syntax.Name, node: syntax.Call) -> core.Expression:
    kind, text, count = receiver.type, name.text, BUILTIN[name.text]
    if count:
        fits = isinstance(kind, types.Stack) and isinstance(kind.element, types.Header | types.Union)
    else:
        fits = isinstance(kind, types.Header) or (isinstance(kind, types.Union) and text == "isValid")
    if not fits:
        owner = "header stacks" if count else "headers"
        c.fail(name, f"{describe(kind)} has no method {text}", f"Only {owner} have it.")
    if len(node.arguments) != count:
        c.fail(node, f"{text} has {count} parameter(s), the call {len(node.arguments)} argument(s)")
    if text != "isValid":
        require_place(c, receiver, f"changed by {text}")
    arguments: list[core.Expression] = []
    for argument in node.arguments:
        value = c.expression(argument.value)
        number = as_integer(value)
        if number is None or number < 0:
            c.fail(value, f"the argument of {text} must be a known number, not negative")
        arguments.append(core.Literal(INTEGER, value.span, number))
    result = BOOL if text == "isValid" else VOID
    return core.CallBuiltin(result, node.span, receiver, text, tuple(arguments))


# ---------------------------------------------------------------- methods of types

SIZES = ("minSizeInBits", "maxSizeInBits", "minSizeInBytes", "maxSizeInBytes")


def _size_of(c: Checker, kind: Type, text: str, node: syntax.Call) -> core.Expression:
    if node.arguments or node.type_arguments:
        c.fail(node, f"{text} has no arguments")
    try:
        size = types.width(kind, least=text.startswith("min"))
    except TypeError:
        c.fail(node, f"{text} is not defined: {describe(kind)} has no size")
    return core.Literal(INTEGER, node.span, (size + 7) // 8 if text.endswith("Bytes") else size)


def _of_type(c: Checker, base: syntax.TypeExpression, text: str, node: syntax.Call) -> core.Expression:
    """`C.apply(...)` (14.1), `T.minSizeInBits()` (8.26)."""
    if text in SIZES:
        return _size_of(c, resolve(c, base.type), text, node)
    if text != "apply":
        c.fail(node, f"{describe(resolve(c, base.type))} is a type and has no method {text}")
    instance = construct(c, base.type, (), base.span)
    if not isinstance(instance.type, types.Block):
        c.fail(node, f"{describe(instance.type)} cannot be applied")
    return _apply_block(c, instance, instance.type, node)


# ---------------------------------------------------------------- constructors


def _by_type(c: Checker, callee: syntax.TypeExpression, node: syntax.Call, expected: Type | None) -> core.Expression:
    written = callee.type
    if node.type_arguments and isinstance(written, syntax.NamedType):
        written = replace(written, arguments=node.type_arguments)
    result = construct(c, written, node.arguments, node.span, expected)
    if isinstance(result.type, types.Extern):
        if any(method.abstract for method in result.type.declaration.methods):
            hint = "Declare an instance that implements them."
            c.fail(node, f"{describe(result.type)} has abstract methods", hint)
    elif c.place not in (Place.TOP, Place.CONTROL, Place.PARSER, Place.TABLE):
        text = f"{describe(result.type)} cannot be instantiated {c.place.value}"
        c.fail(node, text, "Declare an instance of it.")
    return result


def construct(
    c: Checker,
    node: syntax.TypeNode,
    arguments: tuple[syntax.Argument, ...],
    span: Span,
    expected: Type | None = None,
) -> core.Construct:
    """An instance of an extern, parser, control or package."""
    symbol, written = generic_type(c, node)
    kind = symbol.type
    if not isinstance(kind, types.Extern | types.Block):
        what = describe(resolve(c, node))
        c.fail(span, f"{what} has no constructor", "Only externs, parsers, controls and packages have instances.")
    parameters = _constructor(c, kind, arguments, span)
    if not symbol.parameters:
        parameters = specialize(parameters, arguments_of(kind))
    signature = Signature(kind.name, parameters, kind, symbol.parameters, run_time=False)
    bound = bind(c, signature, written, arguments, span, expected)
    for argument in bound.bindings.values():
        check_not_inside(c, kind, argument, span)
    kind = bound.returns
    is_open = isinstance(kind, types.Extern) and any(each in (types.ANYTHING, INTEGER) for each in kind.arguments)
    if is_open and not written:
        name = signature.name
        c.fail(span, f"the type arguments of {name} do not follow from the call", f"Write {name}<...>(...).")
    return core.Construct(kind, span, bound.arguments)


def _constructor(
    c: Checker, kind: types.Extern | types.Block, arguments: tuple[syntax.Argument, ...], span: Span
) -> Parameters:
    """Parameters of the constructor that is called."""
    declaration = kind.declaration
    if isinstance(declaration, core.Extern):
        if not any(could_take(method.parameters, arguments) for method in declaration.constructors):
            c.fail(span, f"extern {kind.name} has no constructor with {len(arguments)} argument(s)")
        return choose(c, declaration.constructors, arguments, kind.name, span).parameters
    if isinstance(declaration, core.ParserOrControl):
        return declaration.constructor_parameters
    if kind.kind != "package":  # type: ignore[union-attr]
        c.fail(span, f"{describe(kind)} is a type without a body and has no instances")
    return declaration.parameters
