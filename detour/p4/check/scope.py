# SPDX-License-Identifier: Apache-2.0
"""Names and what they mean (specification, section 6.8): nested scopes, overloads, declaration before use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from detour.p4 import core, types
from detour.p4.source import NOWHERE, Span


@dataclass(eq=False, slots=True)
class TypeName:
    """A name that stands for a type. With `parameters` it is generic: `type` has them in the places of arguments."""

    type: types.Type
    parameters: tuple[types.TypeVariable, ...] = ()
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

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, from the inside out."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def find(self, name: str) -> Symbol | None:
        scope: Scope | None = self
        while scope is not None:
            symbol = scope.symbols.get(name)
            if symbol is not None:
                return symbol
            scope = scope.outer
        return None

    def find_type(self, name: str) -> TypeName | None:
        """The type of the name, even where a variable hides it: the context tells that a type is meant."""
        symbols = (scope.symbols.get(name) for scope in self.chain())
        return next((symbol for symbol in symbols if isinstance(symbol, TypeName)), None)


class Place(Enum):
    """The place of an expression or statement, which decides what it may call (appendix F)."""

    TOP = "at the top level"
    PARSER = "among the declarations of a parser"
    STATE = "in a parser state"
    CONTROL = "among the declarations of a control"
    APPLY = "in the apply block of a control"
    ACTION = "in an action"
    FUNCTION = "in a function"
    TABLE = "in a table"

    @property
    def in_parser(self) -> bool:
        return self in (Place.PARSER, Place.STATE)
