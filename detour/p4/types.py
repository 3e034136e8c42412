# SPDX-License-Identifier: Apache-2.0
"""Types of P4_16 (specification 1.2.5, section 7), as the checker leaves them: aliases resolved, generics filled in.

Types are compared with `==`: structural types by their parts, nominal ones (structs, headers, enums, externs) by name
and arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from detour.p4.annotations import Annotation

Declared = Any
"""A declaration of `core`, which imports this module."""


def _applied(name: str, arguments: tuple[Type, ...]) -> str:
    """A generic type with its arguments."""
    return name + (f"<{', '.join(map(str, arguments))}>" if arguments else "")


class Type:
    """Base of all types."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Simple(Type):
    """A type without parts: see the constants below."""

    name: str

    def __str__(self) -> str:
        return self.name


VOID = Simple("void")
BOOL = Simple("bool")
INTEGER = Simple("int")
"""Compile-time integers of any size."""
STRING = Simple("string")
ERROR = Simple("error")
MATCH_KIND = Simple("match_kind")
ANYTHING = Simple("_")
"""`_` as an argument of a generic, or what an error left open: equal to nothing, accepted everywhere."""


@dataclass(frozen=True, slots=True)
class Bits(Type):
    """`bit<width>`, or `int<width>` if signed."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True, slots=True)
class Varbits(Type):
    width: int
    """Largest width in bits."""

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, slots=True)
class Tuple(Type):
    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True, slots=True)
class ListOf(Type):
    """`list<T>`, for compile-time lists of arguments of constructors."""

    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class SetOf(Type):
    """What select labels and table entries denote: values, masks, ranges."""

    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(frozen=True, slots=True)
class Stack(Type):
    """A header stack, or an array of header unions."""

    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, slots=True)
class TypeVariable(Type):
    """A parameter of a generic declaration, inside of it."""

    name: str
    owner: int
    """Tells type parameters of the same name apart: the declaration's number."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class NewType(Type):
    """`type base name`: a type of its own, with the values of another."""

    name: str
    base: Type
    declaration: Declared = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Enum(Type):
    """`enum name {...}`; with `base`, one whose members have values (`enum bit<8> name {...}`)."""

    name: str
    base: Type | None = None
    declaration: Declared = field(default=None, compare=False, repr=False)
    members: tuple[tuple[str, int | None], ...] = field(default=(), compare=False, repr=False)
    """Names and, with `base`, values, in the order of the source."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of a struct, header or header union."""

    name: str
    type: Type
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Record(Type):
    """Base of structs, headers and header unions. `arguments` are those of generic ones."""

    name: str
    arguments: tuple[Type, ...] = ()
    fields: tuple[FieldOf, ...] = field(default=(), compare=False, repr=False)
    declaration: Declared = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return _applied(self.name, self.arguments)

    def field_type(self, name: str) -> Type | None:
        return next((part.type for part in self.fields if part.name == name), None)


class Struct(Record):
    __slots__ = ()


class Header(Record):
    __slots__ = ()


class Union(Record):
    """A header union: at most one of its headers is valid."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Extern(Type):
    name: str
    arguments: tuple[Type, ...] = ()
    declaration: Declared = field(default=None, compare=False, repr=False)
    """Methods have the parameters of the declaration; `core.CallMethod` has those with the arguments filled in."""

    def __str__(self) -> str:
        return _applied(self.name, self.arguments)


@dataclass(frozen=True, slots=True)
class Block(Type):
    """A parser, control or package type, declared as a type or by a parser or control itself."""

    kind: str
    """`parser`, `control` or `package`."""
    name: str
    arguments: tuple[Type, ...] = ()
    declaration: Declared = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return _applied(self.name, self.arguments)


@dataclass(frozen=True, slots=True)
class Callable(Type):
    """Type of a name that is called: an action, a function, a table or a method."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def underlying(kind: Type) -> Type:
    """The type whose values these are: of `type` declarations and enums with values, their base."""
    while True:
        base = kind.base if isinstance(kind, NewType | Enum) else None
        if base is None:
            return kind
        kind = base


def width(kind: Type) -> int:
    """Bits of a value of the type; a varbit counts with its largest width.

    Raises:
        TypeError: the type has no width (externs, `int`, enums without values).
    """
    kind = underlying(kind)
    if isinstance(kind, (Bits, Varbits)):
        return kind.width
    if kind == BOOL:
        return 1
    if isinstance(kind, Union):
        return max(width(part.type) for part in kind.fields)
    if isinstance(kind, Record):
        return sum(width(part.type) for part in kind.fields)
    if isinstance(kind, Tuple):
        return sum(map(width, kind.elements))
    if isinstance(kind, Stack):
        return kind.size * width(kind.element)
    raise TypeError(f"{kind} has no width")
