# SPDX-License-Identifier: Apache-2.0
"""Type parameters (specification, sections 7.2.10 and 8.20): substitution, and inference by unification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from detour.p4 import core, types
from detour.p4.types import ANYTHING, Type

Bindings = Mapping[types.TypeVariable, Type]
Signature = tuple[core.Variable, ...]


def parts(kind: Type) -> tuple[Type, ...]:
    """Types that the type is written with."""
    if isinstance(kind, types.Tuple):
        return kind.elements
    if isinstance(kind, types.ListOf | types.SetOf | types.Stack):
        return (kind.element,)
    return kind.arguments if isinstance(kind, types.Generic) else ()


def name_of(kind: Type) -> str | None:
    """The name of a nominal type (empty for a structure without one); None for others."""
    return kind.name if isinstance(kind, types.Named) else None


def substitute(kind: Type, bindings: Bindings) -> Type:
    """The type with type parameters replaced."""
    if not bindings:
        return kind
    if isinstance(kind, types.TypeVariable):
        return bindings.get(kind, kind)
    old = parts(kind)
    new = tuple(substitute(part, bindings) for part in old)
    if new == old:
        return kind
    if isinstance(kind, types.Tuple):
        return types.Tuple(new)
    if isinstance(kind, types.ListOf | types.SetOf | types.Stack):
        return replace(kind, element=new[0])
    if isinstance(kind, types.Record):
        fields = tuple(replace(part, type=substitute(part.type, bindings)) for part in kind.fields)
        return replace(kind, arguments=new, fields=fields)
    return replace(kind, arguments=new)  # type: ignore[call-arg]


def mentions(kind: Type, test: Callable[[Type], bool]) -> bool:
    """Return whether the type or one that it is written with passes the test."""
    return test(kind) or any(mentions(part, test) for part in parts(kind))


def is_open(kind: Type) -> bool:
    """Return whether the type is, or is written with, a type parameter or `_`."""
    return mentions(kind, lambda part: isinstance(part, types.TypeVariable) or part == ANYTHING)


def specialize(parameters: Signature, bindings: Bindings) -> Signature:
    """Parameters with type arguments filled in."""
    if not bindings:
        return parameters
    kinds = (substitute(parameter.type, bindings) for parameter in parameters)
    changed = zip(parameters, kinds, strict=True)
    return tuple(one if kind is one.type else replace(one, type=kind) for one, kind in changed)


def arguments_of(kind: types.Generic) -> dict[types.TypeVariable, Type]:
    """The type arguments by the type parameters of the declaration."""
    return dict(zip(kind.declaration.variables, kind.arguments, strict=False))


def parameters_of(kind: types.Block) -> Signature:
    """Parameters of `apply` (of a package: of its constructor), with type arguments filled in."""
    return specialize(kind.declaration.parameters, arguments_of(kind))


class Inference:
    """The search for type arguments: `unify` each parameter's type with its argument's, then ask `bindings`."""

    def __init__(self, variables: Iterable[types.TypeVariable]) -> None:
        self.variables = frozenset(variables)
        self.bindings: dict[types.TypeVariable, Type] = {}

    def unify(self, parameter: Type, argument: Type) -> None:
        """Bind type parameters so that the types are the same. Where they cannot be, the conversion says so later."""
        if argument == ANYTHING or parameter == ANYTHING:
            return
        if isinstance(parameter, types.TypeVariable):
            if parameter in self.variables and argument != parameter:
                self._bind(parameter, argument)
        elif isinstance(parameter, types.Block):
            self._unify_blocks(parameter, argument)
        elif isinstance(argument, types.Tuple) and isinstance(parameter, types.Tuple | types.Record):
            self._unify_each(types.components(parameter), argument.elements)
        elif isinstance(argument, types.Tuple) and isinstance(parameter, types.Stack | types.ListOf):
            self._unify_each((parameter.element,) * len(argument.elements), argument.elements)
        elif isinstance(parameter, types.Record) and isinstance(argument, types.Struct) and not argument.name:
            for part in parameter.fields:
                given = argument.field_type(part.name)
                if given is not None:
                    self.unify(part.type, given)
        elif type(parameter) is type(argument) and name_of(parameter) == name_of(argument):
            self._unify_each(parts(parameter), parts(argument))

    def _unify_each(self, parameters: Iterable[Type], arguments: Iterable[Type]) -> None:
        for one, other in zip(parameters, arguments, strict=False):
            self.unify(one, other)

    def _bind(self, variable: types.TypeVariable, argument: Type) -> None:
        old = self.bindings.get(variable)
        if old is None or _is_looser(old, argument):
            self.bindings[variable] = argument

    def _unify_blocks(self, parameter: types.Block, argument: Type) -> None:
        if not isinstance(argument, types.Block) or argument.kind != parameter.kind:
            return
        if argument.declaration is parameter.declaration:
            self._unify_each(parameter.arguments, argument.arguments)
        else:
            mine, theirs = ((one.type for one in parameters_of(block)) for block in (parameter, argument))
            self._unify_each(mine, theirs)


def _is_looser(old: Type, new: Type) -> bool:
    """Return whether a literal without a width, or an anonymous structure, gives way to what another argument says."""
    if isinstance(old, types.Tuple):
        return isinstance(new, types.Record)
    return old == types.INTEGER or (isinstance(old, types.Record) and not old.name)


def agree(one: Type, other: Type) -> bool:
    """Return whether the types are the same where both are known."""
    if one == other or ANYTHING in (one, other):
        return True
    if type(one) is not type(other) or name_of(one) != name_of(other):
        return False
    mine, theirs = parts(one), parts(other)
    if not mine or len(mine) != len(theirs) or getattr(one, "size", 0) != getattr(other, "size", 0):
        return False
    return all(map(agree, mine, theirs))
