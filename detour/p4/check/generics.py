# SPDX-License-Identifier: Apache-2.0
"""Type parameters (specification, sections 7.2.10 and 8.20): substitution, and inference by unification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from detour.p4 import core
from detour.p4.types import (
    ANYTHING,
    Block,
    Extern,
    FieldOf,
    Header,
    ListOf,
    Record,
    SetOf,
    Simple,
    Stack,
    Struct,
    Tuple,
    Type,
    TypeVariable,
    Union,
)

Bindings = Mapping[TypeVariable, Type]


def substitute(kind: Type, bindings: Bindings) -> Type:
    """The type with type parameters replaced."""
    if not bindings:
        return kind
    rule = SUBSTITUTE.get(type(kind))
    return rule(kind, bindings) if rule else kind


def _all(kinds: tuple[Type, ...], bindings: Bindings) -> tuple[Type, ...]:
    return tuple(substitute(kind, bindings) for kind in kinds)


def _record(kind: Record, bindings: Bindings) -> Record:
    if not kind.arguments:
        return kind
    arguments = _all(kind.arguments, bindings)
    if arguments == kind.arguments:
        return kind
    fields = tuple(FieldOf(part.name, substitute(part.type, bindings), part.annotations) for part in kind.fields)
    return type(kind)(kind.name, arguments, fields, kind.declaration)


def _extern(kind: Extern, bindings: Bindings) -> Extern:
    return Extern(kind.name, _all(kind.arguments, bindings), kind.declaration) if kind.arguments else kind


def _block(kind: Block, bindings: Bindings) -> Block:
    return Block(kind.kind, kind.name, _all(kind.arguments, bindings), kind.declaration) if kind.arguments else kind


SUBSTITUTE: dict[type, Callable] = {
    TypeVariable: lambda kind, bindings: bindings.get(kind, kind),
    Tuple: lambda kind, bindings: Tuple(_all(kind.elements, bindings)),
    ListOf: lambda kind, bindings: ListOf(substitute(kind.element, bindings)),
    SetOf: lambda kind, bindings: SetOf(substitute(kind.element, bindings)),
    Stack: lambda kind, bindings: Stack(substitute(kind.element, bindings), kind.size),
    Struct: _record,
    Header: _record,
    Union: _record,
    Extern: _extern,
    Block: _block,
}


def parts(kind: Type) -> tuple[Type, ...]:
    """Types that the type is written with."""
    if isinstance(kind, Tuple):
        return kind.elements
    if isinstance(kind, ListOf | SetOf | Stack):
        return (kind.element,)
    return getattr(kind, "arguments", ())


def mentions(kind: Type, test: Callable[[Type], bool]) -> bool:
    """Whether the type or one that it is written with passes the test."""
    return test(kind) or any(mentions(part, test) for part in parts(kind))


def is_open(kind: Type) -> bool:
    """Whether the type is, or is written with, a type parameter or `_`."""
    return mentions(kind, lambda part: isinstance(part, TypeVariable) or part == ANYTHING)


def specialize(parameters: tuple[core.Variable, ...], bindings: Bindings) -> tuple[core.Variable, ...]:
    """Parameters with type arguments filled in."""
    if not bindings:
        return parameters
    result = []
    for parameter in parameters:
        kind = substitute(parameter.type, bindings)
        result.append(parameter if kind is parameter.type else replace(parameter, type=kind))
    return tuple(result)


class Inference:
    """Finds type arguments: `unify` the type of each parameter with that of its argument, then ask `bindings`."""

    def __init__(self, variables: tuple[TypeVariable, ...], signature: Callable[[Block], Signature | None]) -> None:
        self.variables = frozenset(variables)
        self.bindings: dict[TypeVariable, Type] = {}
        self._signature = signature

    def unify(self, parameter: Type, argument: Type) -> None:
        """Binds type parameters so that the types are the same. Where they cannot be, the conversion says so later."""
        if argument == ANYTHING or parameter == ANYTHING:
            return
        if isinstance(parameter, TypeVariable):
            if parameter in self.variables and argument != parameter:
                self._bind(parameter, argument)
            return
        if isinstance(parameter, Block):
            self._blocks(parameter, argument)
        elif isinstance(argument, Tuple) and isinstance(parameter, Tuple | Record | Stack | ListOf):
            self._tuple(parameter, argument)
        elif isinstance(parameter, Record) and isinstance(argument, Struct) and not argument.name:
            for part in parameter.fields:
                given = argument.field_type(part.name)
                if given is not None:
                    self.unify(part.type, given)
        elif type(parameter) is type(argument) and getattr(parameter, "name", "") == getattr(argument, "name", ""):
            for one, other in zip(parts(parameter), parts(argument), strict=False):
                self.unify(one, other)

    def _bind(self, variable: TypeVariable, argument: Type) -> None:
        old = self.bindings.get(variable)
        if old is None or _is_looser(old, argument):
            self.bindings[variable] = argument

    def _tuple(self, parameter: Type, argument: Tuple) -> None:
        if isinstance(parameter, Tuple):
            wanted = parameter.elements
        elif isinstance(parameter, Record):
            wanted = tuple(part.type for part in parameter.fields)
        else:
            wanted = (parameter.element,) * len(argument.elements)  # type: ignore[attr-defined]
        for one, other in zip(wanted, argument.elements, strict=False):
            self.unify(one, other)

    def _blocks(self, parameter: Block, argument: Type) -> None:
        if not isinstance(argument, Block) or argument.kind != parameter.kind:
            return
        if argument.declaration is parameter.declaration:
            for one, other in zip(parameter.arguments, argument.arguments, strict=False):
                self.unify(one, other)
            return
        one, other = self._signature(parameter), self._signature(argument)
        if one is not None and other is not None:
            for mine, theirs in zip(one, other, strict=False):
                self.unify(mine.type, theirs.type)


Signature = tuple[core.Variable, ...]


def _is_looser(old: Type, new: Type) -> bool:
    """Whether a literal without a width, or an anonymous structure, gives way to what another argument says."""
    if isinstance(old, Simple) and old.name == "int":
        return True
    if isinstance(old, Tuple) and isinstance(new, Record):
        return True
    return isinstance(old, Record) and not old.name


def agree(one: Type, other: Type) -> bool:
    """Whether the types are the same where both are known."""
    if one == other or ANYTHING in (one, other):
        return True
    if type(one) is not type(other) or getattr(one, "name", None) != getattr(other, "name", None):
        return False
    mine, theirs = parts(one), parts(other)
    if not mine or len(mine) != len(theirs) or getattr(one, "size", 0) != getattr(other, "size", 0):
        return False
    return all(map(agree, mine, theirs))
