# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls (specification, sections 6.7 and 8.17): by place or name, overloads, inference, directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from detour.p4 import core, syntax, types
from detour.p4.check.checker import Checker
from detour.p4.check.constants import has_unsized, is_known
from detour.p4.check.convert import convert, is_nameless
from detour.p4.check.generics import Inference, agree, mentions, parameters_of, specialize, substitute
from detour.p4.check.places import require_place
from detour.p4.check.typenames import check_argument, describe, resolve
from detour.p4.source import Located
from detour.p4.types import ANYTHING, STRING, Type

Parameters = tuple[core.Variable, ...]
Called = TypeVar("Called", bound=core.Function)


@dataclass(slots=True)
class Signature:
    """A function or the like that is called: its name for messages, its parameters and type parameters."""

    name: str
    parameters: Parameters
    returns: Type = types.VOID
    variables: tuple[types.TypeVariable, ...] = ()
    action: bool = False
    """Parameters without a direction take any value, as those of actions do."""
    run_time: bool = True
    """Called at run time: numbers need a width."""


@dataclass(slots=True)
class Bound:
    """Arguments in the order of the parameters, type arguments, and the type of the result."""

    parameters: Parameters
    arguments: tuple[core.Expression | None, ...]
    bindings: dict[types.TypeVariable, Type]
    returns: Type


def could_take(parameters: Parameters, arguments: Sequence[syntax.Argument]) -> bool:
    """Return whether number and names of the arguments fit the parameters."""
    if len(arguments) > len(parameters):
        return False
    names = {argument.name.text for argument in arguments if argument.name is not None}
    if arguments and arguments[0].name is not None:
        missing = [p for p in parameters if p.name not in names]
    else:
        names, missing = set(), parameters[len(arguments) :]
    return names <= {p.name for p in parameters} and all(p.optional or p.default is not None for p in missing)


def choose(
    c: Checker, candidates: Sequence[Called], arguments: Sequence[syntax.Argument], what: str, at: Located
) -> Called:
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
        c.fail(at, f"the call of {what} is ambiguous", f"It could be any of {forms}.")
    c.fail(at, f"no {what} has parameters that fit {len(arguments)} argument(s)", f"There is {forms}.")


def bind(
    c: Checker,
    signature: Signature,
    type_arguments: Sequence[syntax.TypeNode],
    arguments: Sequence[syntax.Argument],
    at: Located,
    expected: Type | None = None,
) -> Bound:
    """Check the arguments of a call, and find its type arguments."""
    return _Call(c, signature, at).bound(type_arguments, arguments, expected)


class _Call:
    """A call whose arguments are checked. In `given` and `values` each parameter has its argument, or None."""

    def __init__(self, c: Checker, signature: Signature, at: Located) -> None:
        self.c, self.signature, self.at = c, signature, at
        self.name, self.parameters = signature.name, signature.parameters
        self.given: Sequence[syntax.Argument | None] = ()
        self.values: list[core.Expression | None] = []
        self.bindings: dict[types.TypeVariable, Type] = {}

    def bound(
        self, written: Sequence[syntax.TypeNode], arguments: Sequence[syntax.Argument], expected: Type | None
    ) -> Bound:
        variables = self.signature.variables
        self.given = self._in_order(arguments)
        self._explicit(written)
        self.values = [*map(self._value, self.parameters, self.given)]
        unknown = [variable for variable in variables if variable not in self.bindings]
        inferred = self._infer(unknown, expected) if unknown else {}
        for variable in unknown:
            kind = inferred.get(variable)
            if kind is None and not written and not self._is_optional(variable):
                hint = f"Write {self.name}<{', '.join(map(str, variables))}>(...) with types in their places."
                self.c.fail(self.at, f"the type {variable} of {self.name} does not follow from the arguments", hint)
            self.bindings[variable] = kind = kind or ANYTHING
            self._check_inferred(variable, kind)
        parameters = specialize(self.parameters, self.bindings)
        checked = tuple(map(self._check, parameters, self.values))
        return Bound(parameters, checked, self.bindings, substitute(self.signature.returns, self.bindings))

    def _in_order(self, arguments: Sequence[syntax.Argument]) -> Sequence[syntax.Argument | None]:
        """The argument of each parameter; None where there is none and need not be one."""
        c, what, parameters = self.c, self.name, self.parameters
        named = [argument for argument in arguments if argument.name is not None]
        if named and len(named) != len(arguments):
            c.fail(self.at, f"in the call of {what} some arguments have names and some have none", "Name all or none.")
        if len(arguments) > len(parameters):
            c.fail(self.at, f"{what} has {len(parameters)} parameter(s), the call {len(arguments)} argument(s)")
        given = self._by_name(named) if named else [*arguments, *[None] * (len(parameters) - len(arguments))]
        for parameter, argument in zip(parameters, given, strict=True):
            if argument is None and parameter.default is None and not parameter.optional:
                c.fail(self.at, f"the call of {what} has no argument for {parameter.name}")
        return given

    def _by_name(self, arguments: Sequence[syntax.Argument]) -> list[syntax.Argument | None]:
        c, what = self.c, self.name
        by_name: dict[str, syntax.Argument] = {}
        for argument in arguments:
            name = argument.name.text if argument.name is not None else ""
            if name in by_name:
                c.fail(self.at, f"argument {name} of {what} is given twice")
            by_name[name] = argument
        names = [parameter.name for parameter in self.parameters]
        for name in by_name:
            if name not in names:
                hint = f"Its parameters are {', '.join(names) or '(none)'}."
                c.fail(self.at, f"{what} has no parameter {name}", hint)
        return [by_name.get(name) for name in names]

    # ------------------------------------------------------------ type arguments

    def _explicit(self, written: Sequence[syntax.TypeNode]) -> None:
        """Bind the type arguments that the call has, but for `_`."""
        count = len(self.signature.variables)
        if written and len(written) != count:
            text = f"{self.name} has {count} type parameter(s), the call {len(written)} type argument(s)"
            self.c.fail(self.at, text)
        for variable, node in zip(self.signature.variables, written, strict=False):
            kind = resolve(self.c, node)
            check_argument(self.c, kind, node)
            if kind != ANYTHING:
                self.bindings[variable] = kind

    def _infer(self, variables: Sequence[types.TypeVariable], expected: Type | None) -> dict[types.TypeVariable, Type]:
        """The type arguments that follow from the arguments, else from where the result is used."""
        inference, returns = Inference(variables), self.signature.returns
        for parameter, value in zip(self.parameters, self.values, strict=True):
            value = value or parameter.default
            if value is not None:
                inference.unify(parameter.type, value.type)
        for variable in variables:
            if expected is not None and variable not in inference.bindings and _mentions(returns, variable):
                inference.unify(returns, expected)
        return inference.bindings

    def _check_inferred(self, variable: types.TypeVariable, kind: Type) -> None:
        run_time, at = self.signature.run_time, self.at
        if run_time and isinstance(kind, types.Block | types.Callable | types.SetOf):
            self.c.fail(at, f"{describe(kind)} cannot be an argument of {self.name}")
        if run_time and has_unsized(kind):
            for parameter, value in zip(self.parameters, self.values, strict=True):
                if value is not None and parameter.type == variable and has_unsized(value.type):
                    at = value
                    break
            text = f"the width of {at.span.text} does not follow from the call"
            self.c.fail(at, text, "Write a width, like 8w1, or a cast.")
        if kind != ANYTHING and mentions(kind, lambda part: part == ANYTHING):
            text = f"the type {variable} of {self.name} does not follow from `...` or {{#}}"
            self.c.fail(at, text, "Write a cast, like (H){#}.")
        if is_nameless(kind):
            text = f"the type {variable} of {self.name} does not follow from a structure without a name"
            self.c.fail(at, text, "Write a cast: (S){...}.")

    def _is_optional(self, variable: types.TypeVariable) -> bool:
        """Return whether the type is only that of optional parameters without arguments."""
        pairs = zip(self.parameters, self.given, strict=True)
        unused = all(argument is None for parameter, argument in pairs if _mentions(parameter.type, variable))
        return unused and any(parameter.optional for parameter in self.parameters)

    # ------------------------------------------------------------ values

    def _value(self, parameter: core.Variable, argument: syntax.Argument | None) -> core.Expression | None:
        if argument is None:
            return None
        if isinstance(argument.value, syntax.Sign) and argument.value.text == "_":
            if parameter.direction != "out":
                self.c.fail(argument, f"_ can only stand for an out argument: {parameter.name} is none")
            return None
        return self.c.expression(argument.value)

    def _check(self, parameter: core.Variable, value: core.Expression | None) -> core.Expression | None:
        """Convert an argument, or require an l-value, as the direction of its parameter says."""
        c, kind, default = self.c, parameter.type, parameter.default
        if value is None and default is not None:
            value = replace(default, type=substitute(default.type, self.bindings)) if self.bindings else default
        if value is None or (value is default and value.type == kind):
            return value
        what = f"argument {parameter.name} of {self.name}"
        if kind == ANYTHING:
            c.fail(value, f"the type of {what} is not known", "Write the type instead of _.")
        if parameter.direction and kind == STRING:
            c.fail(value, f"{what} has a direction and cannot be a string")
        if parameter.is_output:
            if not agree(value.type, kind):
                c.fail(value, f"{what} must have the type {describe(kind)}, not {describe(value.type)}")
            require_place(c, value, f"an {parameter.direction} argument")
        elif isinstance(kind, types.Extern) and not agree(kind, value.type):
            c.fail(value, f"{what} must be {describe(kind)}, not {describe(value.type)}")
        elif isinstance(kind, types.Block) and (reason := why_not_block(kind, value.type)):
            c.fail(value, f"{what} must be {describe(kind)}, not {describe(value.type)}: {reason}")
        elif not isinstance(kind, types.Extern | types.Block):
            value = convert(c, value, kind, what)
            if not parameter.direction and not self.signature.action and not is_known(value):
                c.fail(value, f"{what} must be known at compile time", "The parameter has no direction.")
        return value


def _mentions(kind: Type, variable: types.TypeVariable) -> bool:
    return mentions(kind, lambda part: part == variable)


def why_not_block(needed: types.Block, given: Type) -> str:
    """Reason why a parser, control or package does not have the type of a parameter; empty if it has."""
    if not isinstance(given, types.Block) or given.kind != needed.kind:
        return f"a {needed.kind} is needed"
    if needed.declaration is given.declaration:
        return "" if agree(needed, given) else "the type arguments differ"
    if needed.kind == "package":
        return "it is declared by another name"
    mine, theirs = parameters_of(needed), parameters_of(given)
    if len(theirs) > len(mine) or any(not (p.optional or p.default) for p in mine[len(theirs) :]):
        return f"it has {len(theirs)} parameter(s), not {len(mine)}"
    for want, have in zip(mine, theirs, strict=False):
        if want.direction != have.direction:
            return f"parameter {have.name} must be {want.direction or 'without a direction'}"
        if not agree(want.type, have.type):
            return f"parameter {have.name} must have the type {describe(want.type)}, not {describe(have.type)}"
    return ""
