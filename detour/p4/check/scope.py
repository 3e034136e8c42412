# SPDX-License-Identifier: Apache-2.0
"""Names and what they mean (specification, section 6.8): nested scopes, overloads, declaration before use."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from detour.p4 import core
from detour.p4.source import NOWHERE, Span
from detour.p4.types import Type, TypeVariable


@dataclass(eq=False, slots=True)
class TypeName:
    """A name that stands for a type. With `parameters` it is generic: `type` has them in the places of arguments."""

    type: Type
    parameters: tuple[TypeVariable, ...] = ()
    span: Span = NOWHERE


@dataclass(eq=False, slots=True)
class Overloads:
    """Functions of one name."""

    functions: list[core.Function]

    @property
    def span(self) -> Span:
        return self.functions[-1].span


@dataclass(eq=False, slots=True)
class MatchKind:
    """A member of `match_kind`: unlike those of enums it is a name of the top level."""

    name: str
    span: Span


@dataclass(eq=False, slots=True)
class Broken:
    """A name whose declaration has an error. Its uses are not reported."""

    span: Span


Symbol = core.Declaration | TypeName | Overloads | MatchKind | Broken


@dataclass(eq=False, slots=True)
class Scope:
    """Names of one block, parameter list or declaration, in the order of their declarations."""

    outer: Scope | None = None
    parameters: bool = False
    """A list of parameters: the scope right inside of it must not declare the same names."""
    symbols: dict[str, Symbol] = field(default_factory=dict)

    def find(self, name: str) -> Symbol | None:
        scope: Scope | None = self
        while scope is not None:
            symbol = scope.symbols.get(name)
            if symbol is not None:
                return symbol
            scope = scope.outer
        return None


def find_type(scope: Scope | None, name: str) -> TypeName | None:
    """The type of the name, even where a variable hides it: the context tells that a type is meant."""
    while scope is not None:
        symbol = scope.symbols.get(name)
        if isinstance(symbol, TypeName):
            return symbol
        scope = scope.outer
    return None


class Place(Enum):
    """Where an expression or statement stands, which decides what it may call (appendix F)."""

    TOP = "at the top level"
    PARSER = "among the declarations of a parser"
    STATE = "in a parser state"
    CONTROL = "among the declarations of a control"
    APPLY = "in the apply block of a control"
    ACTION = "in an action"
    FUNCTION = "in a function"
    TABLE = "in a table"
    METHOD = "in the implementation of a method"

    @property
    def in_parser(self) -> bool:
        return self in (Place.PARSER, Place.STATE)
