# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls (specification, sections 6.7 and 8.17): by place or name, overloads, inference, directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from detour.p4 import core, syntax
from detour.p4.check.checker import Checker
from detour.p4.check.constants import has_unsized, is_known
from detour.p4.check.convert import convert
from detour.p4.check.generics import Inference, agree, mentions, specialize, substitute
from detour.p4.check.places import require_place
from detour.p4.check.typenames import check_argument, describe, resolve
from detour.p4.source import Span
from detour.p4.types import ANYTHING, STRING, Block, Callable, Extern, Record, SetOf, Stack, Type, TypeVariable

Parameters = tuple[core.Variable, ...]


@dataclass(slots=True)
class Signature:
    """What is called: its name for messages, its parameters, and what is generic about it."""

    name: str
    parameters: Parameters
    returns: Type | None = None
    variables: tuple[TypeVariable, ...] = ()
    action: bool = False
    """Parameters without a direction take any value, as those of actions do."""
    run_time: bool = True
    """Called at run time: numbers need a width."""


@dataclass(slots=True)
class Bound:
    """Arguments in the order of the parameters, and type arguments."""

    parameters: Parameters
    arguments: tuple[core.Expression | None, ...]
    bindings: dict[TypeVariable, Type]


def could_take(parameters: Parameters, arguments: Sequence[syntax.Argument]) -> bool:
    """Whether number and names of the arguments fit the parameters."""
    if len(arguments) > len(parameters):
        return False
    if arguments and arguments[0].name is not None:
        names = {argument.name.text for argument in arguments if argument.name is not None}
        if not names <= {parameter.name for parameter in parameters}:
            return False
        return all(p.name in names or p.optional or p.default is not None for p in parameters)
    return all(p.optional or p.default is not None for p in parameters[len(arguments) :])


def choose(c: Checker, candidates: Sequence, arguments: Sequence[syntax.Argument], what: str, span: Span):
    """The overload that number and names of the arguments mean (7.2.9.2)."""
    if len(candidates) == 1:
        return candidates[0]
    fitting = [candidate for candidate in candidates if could_take(candidate.parameters, arguments)]
    if len(fitting) > 1:
        exact = [candidate for candidate in fitting if len(candidate.parameters) == len(arguments)]
        fitting = exact if len(exact) == 1 else fitting
    if len(fitting) == 1:
        return fitting[0]
    forms = ", ".join(f"{what}({', '.join(p.name for p in candidate.parameters)})" for candidate in candidates)
    if fitting:
        c.fail(span, f"the call of {what} is ambiguous", f"It could be any of {forms}.")
    c.fail(span, f"no {what} has parameters that fit {len(arguments)} argument(s)", f"There is {forms}.")


def match(
    c: Checker, parameters: Parameters, arguments: Sequence[syntax.Argument], what: str, span: Span
) -> list[syntax.Argument | None]:
    """The argument of each parameter; None where there is none and need not be one."""
    named = sum(argument.name is not None for argument in arguments)
    if named and named != len(arguments):
        c.fail(span, f"in the call of {what} some arguments have names and some have none", "Name all or none.")
    if len(arguments) > len(parameters):
        c.fail(span, f"{what} has {len(parameters)} parameter(s), the call {len(arguments)} argument(s)")
    if named:
        given = _by_name(c, parameters, arguments, what, span)
    else:
        given = [*arguments, *[None] * (len(parameters) - len(arguments))]
    for parameter, argument in zip(parameters, given, strict=True):
        if argument is None and parameter.default is None and not parameter.optional:
            c.fail(span, f"the call of {what} has no argument for {parameter.name}")
    return given


def _by_name(
    c: Checker, parameters: Parameters, arguments: Sequence[syntax.Argument], what: str, span: Span
) -> list[syntax.Argument | None]:
    by_name: dict[str, syntax.Argument] = {}
    for argument in arguments:
        assert argument.name is not None
        if argument.name.text in by_name:
            c.fail(span, f"argument {argument.name.text} of {what} is given twice")
        by_name[argument.name.text] = argument
    for name in by_name:
        if all(parameter.name != name for parameter in parameters):
            names = ", ".join(parameter.name for parameter in parameters)
            c.fail(span, f"{what} has no parameter {name}", f"Its parameters are {names or '(none)'}.")
    return [by_name.get(parameter.name) for parameter in parameters]


def bind(
    c: Checker,
    signature: Signature,
    type_arguments: Sequence[syntax.TypeNode],
    arguments: Sequence[syntax.Argument],
    span: Span,
    expected: Type | None = None,
) -> Bound:
    """Checks the arguments of a call, and finds its type arguments."""
    given = match(c, signature.parameters, arguments, signature.name, span)
    known = _explicit(c, signature, type_arguments, span)
    parameters = specialize(signature.parameters, known) if known else signature.parameters
    values = [_value(c, parameter, argument) for parameter, argument in zip(parameters, given, strict=True)]
    open_variables = tuple(v for v in signature.variables if known.get(v, ANYTHING) == ANYTHING)
    if open_variables:
        found = given, values, expected
        parameters = _infer(c, signature, open_variables, known, found, span, bool(type_arguments))
    checked = []
    for parameter, value in zip(parameters, values, strict=True):
        checked.append(_check(c, signature, parameter, _or_default(parameter, value, known)))
    return Bound(parameters, tuple(checked), known)


def _explicit(
    c: Checker, signature: Signature, written: Sequence[syntax.TypeNode], span: Span
) -> dict[TypeVariable, Type]:
    if not written:
        return {}
    if len(written) != len(signature.variables):
        count = len(signature.variables)
        c.fail(span, f"{signature.name} has {count} type parameter(s), the call {len(written)} type argument(s)")
    known = {}
    for variable, node in zip(signature.variables, written, strict=True):
        kind = resolve(c, node)
        check_argument(c, kind, node.span)
        if kind != ANYTHING:
            known[variable] = kind
    return known


def _value(c: Checker, parameter: core.Variable, argument: syntax.Argument | None) -> core.Expression | None:
    if argument is None:
        return None
    if type(argument.value) is syntax.DontCare:
        if parameter.direction != "out":
            c.fail(argument.span, f"_ can only stand for an out argument: {parameter.name} is none")
        return None
    return c.expression(argument.value)


def _infer(
    c: Checker,
    signature: Signature,
    variables: tuple[TypeVariable, ...],
    known: dict[TypeVariable, Type],
    given: tuple[list[syntax.Argument | None], list[core.Expression | None], Type | None],
    span: Span,
    written: bool = False,
) -> Parameters:
    """Finds the type arguments that are not written (or are `_`), and returns the parameters with all of them."""
    arguments, values, expected = given
    inference = Inference(variables, lambda block: parameters_of(c, block))
    for parameter, value in zip(signature.parameters, values, strict=True):
        value = value or parameter.default
        if value is not None:
            inference.unify(parameter.type, value.type)
    if expected is not None and signature.returns is not None:
        for variable in variables:
            if variable not in inference.bindings and mentions(signature.returns, lambda k, v=variable: k == v):
                inference.unify(signature.returns, expected)
    for variable in variables:
        kind = inference.bindings.get(variable)
        if kind is None:
            if not written and not _is_optional(signature, variable, arguments):
                c.fail(
                    span,
                    f"the type {variable} of {signature.name} does not follow from the arguments",
                    _write(signature),
                )
            kind = ANYTHING
        if signature.run_time and isinstance(kind, Block | Callable | SetOf):
            c.fail(span, f"{describe(kind)} cannot be an argument of {signature.name}")
        if signature.run_time and has_unsized(kind):
            at = _argument_with(signature, variable, values) or span
            c.fail(at, f"the width of {at.text} does not follow from the call", "Write a width, like 8w1, or a cast.")
        if isinstance(kind, Record) and not kind.name:
            c.fail(
                span,
                f"the type {variable} of {signature.name} does not follow from a structure without a name",
                "Write a cast: (S){...}.",
            )
        known[variable] = kind
    return specialize(signature.parameters, known)


def _is_optional(signature: Signature, variable: TypeVariable, arguments: list[syntax.Argument | None]) -> bool:
    return all(
        argument is None
        for parameter, argument in zip(signature.parameters, arguments, strict=True)
        if mentions(parameter.type, lambda kind: kind == variable)
    ) and any(parameter.optional for parameter in signature.parameters)


def _write(signature: Signature) -> str:
    return f"Write {signature.name}<{', '.join(map(str, signature.variables))}>(...) with types in their places."


def _argument_with(signature: Signature, variable: TypeVariable, values: list[core.Expression | None]) -> Span | None:
    for parameter, value in zip(signature.parameters, values, strict=True):
        if value is not None and parameter.type == variable and has_unsized(value.type):
            return value.span
    return None


def _or_default(
    parameter: core.Variable, value: core.Expression | None, known: dict[TypeVariable, Type]
) -> core.Expression | None:
    """The argument, or the default value with type arguments filled in."""
    default = parameter.default
    if value is not None or default is None or not known:
        return value or default
    return replace(default, type=substitute(default.type, known))


def _check(
    c: Checker, signature: Signature, parameter: core.Variable, value: core.Expression | None
) -> core.Expression | None:
    """Converts an argument, or requires an l-value, as the direction of its parameter says."""
    what = f"argument {parameter.name} of {signature.name}"
    kind = parameter.type
    if value is None or (value is parameter.default and value.type == kind):
        return value
    if kind == ANYTHING:
        c.fail(value.span, f"the type of {what} is not known", "Write the type instead of _.")
    if parameter.direction and kind == STRING:
        c.fail(value.span, f"{what} has a direction and cannot be a string")
    if parameter.direction in ("out", "inout"):
        if not agree(value.type, kind):
            c.fail(value.span, f"{what} must have the type {describe(kind)}, not {describe(value.type)}")
        require_place(c, value, f"an {parameter.direction} argument")
        return value
    if isinstance(kind, Block | Extern):
        return _object(c, what, kind, value)
    value = convert(c, value, kind, what)
    if not parameter.direction and not signature.action and not is_known(value):
        c.fail(value.span, f"{what} must be known at compile time", "The parameter has no direction.")
    return value


def _object(c: Checker, what: str, kind: Block | Extern, value: core.Expression) -> core.Expression:
    """An extern, parser, control or package as an argument."""
    if isinstance(kind, Extern):
        if not agree(kind, value.type):
            c.fail(value.span, f"{what} must be {describe(kind)}, not {describe(value.type)}")
        return value
    reason = why_not_block(c, kind, value.type)
    if reason:
        c.fail(value.span, f"{what} must be {describe(kind)}, not {describe(value.type)}: {reason}")
    return value


def parameters_of(c: Checker, kind: Block) -> Parameters | None:
    """Parameters of `apply` (of a package: of its constructor), with type arguments filled in."""
    declaration = kind.declaration
    if declaration is None:
        return None
    return specialize(declaration.parameters, dict(zip(c.variables.get(declaration, ()), kind.arguments, strict=False)))


def why_not_block(c: Checker, wanted: Block, given: Type) -> str:
    """Reason why a parser, control or package does not have the type of a parameter; empty if it has."""
    if not isinstance(given, Block) or given.kind != wanted.kind:
        return f"a {wanted.kind} is needed"
    if wanted.declaration is given.declaration:
        return "" if agree(wanted, given) else "the type arguments differ"
    mine, theirs = parameters_of(c, wanted), parameters_of(c, given)
    if mine is None or theirs is None or wanted.kind == "package":
        return "it is declared by another name"
    if len(theirs) > len(mine) or any(not (p.optional or p.default) for p in mine[len(theirs) :]):
        return f"it has {len(theirs)} parameter(s), not {len(mine)}"
    for want, have in zip(mine, theirs, strict=False):
        if want.direction != have.direction:
            return f"parameter {have.name} must be {want.direction or 'without a direction'}"
        if not _same_parameter(want.type, have.type):
            return f"parameter {have.name} must have the type {describe(want.type)}, not {describe(have.type)}"
    return ""


def _same_parameter(want: Type, have: Type) -> bool:
    return agree(want, have) or (
        isinstance(want, Stack)
        and isinstance(have, Stack)
        and agree(want.element, have.element)
        and want.size == have.size
    )


def returned(bound: Bound, returns: Type) -> Type:
    """Type of the result of a call."""
    return substitute(returns, bound.bindings)
