# SPDX-License-Identifier: Apache-2.0
"""Types of P4_16 (specification 1.2.5, section 7), as the checker leaves them: aliases resolved, generics filled in.

Types are compared with `==`: structural types by their parts, nominal ones (structs, headers, enums, externs) by name
and arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, dataclass_transform

from detour.p4.source import NOWHERE, Span

Declared = Any
"""A declaration of `core`, which imports this module."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name`, `@name(...)` or `@name[...]` of a declaration, type or statement (section 20).

    `values` and `pairs` are what the expressions of the body are worth (int, str, bool, or nested tuples);
    `text` is the body as written, between the brackets, which is all that an unstructured annotation of an unknown
    name has.
    """

    name: str
    values: tuple[object, ...] = ()
    pairs: tuple[tuple[str, object], ...] = ()
    text: str = ""
    structured: bool = False
    span: Span = NOWHERE


def annotation(of: tuple[Annotation, ...], name: str) -> Annotation | None:
    """The annotation of that name, if there is one. Of several the first counts, as in p4c."""
    return next((one for one in of if one.name == name), None)


def annotated(of: tuple[Annotation, ...], name: str) -> object | None:
    """The first value in the annotation of that name, if there is one."""
    note = annotation(of, name)
    return note.values[0] if note and note.values else None


@dataclass_transform(frozen_default=True)
class Type:
    """Base of all types. Each subclass is a dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Bits(Type):
    """`bit<width>`, or `int<width>` if signed."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


class Varbits(Type):
    width: int
    """Largest width in bits."""

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


class Tuple(Type):
    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


class ListOf(Type):
    """`list<T>`, for compile-time lists of arguments of constructors."""

    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


class SetOf(Type):
    """Sets that select labels and table entries denote: values, masks, ranges."""

    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


class Stack(Type):
    """A header stack, or an array of header unions."""

    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


# ---------------------------------------------------------------- types with names


class Named(Type):
    name: str

    def __str__(self) -> str:
        return self.name


class Simple(Named):
    """A type without parts: see the constants below."""


VOID = Simple("void")
BOOL = Simple("bool")
INTEGER = Simple("int")
"""Compile-time integers of any size."""
STRING = Simple("string")
ERROR = Simple("error")
MATCH_KIND = Simple("match_kind")
ANYTHING = Simple("_")
"""`_` as an argument of a generic, or what an error left open: equal to nothing, accepted everywhere."""


class TypeVariable(Named):
    """A parameter of a generic declaration, inside of it."""

    owner: int
    """Tells type parameters of the same name apart: the declaration's number."""


class NewType(Named):
    """`type base name`: a type of its own, with the values of another."""

    base: Type
    declaration: Declared = field(compare=False, repr=False)


class Enum(Named):
    """`enum name {...}`; with `base`, one whose members have values (`enum bit<8> name {...}`)."""

    base: Type | None = None
    declaration: Declared = field(default=None, compare=False, repr=False)
    members: tuple[tuple[str, int | None], ...] = field(default=(), compare=False, repr=False)
    """Names and, with `base`, values, in the order of the source."""


class Callable(Named):
    """Type of a name that is called, or of what `apply` of a table returns."""

    kind: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Generic(Named):
    """A type whose declaration may have type parameters; `arguments` are given for these."""

    arguments: tuple[Type, ...] = ()
    declaration: Declared = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name + (f"<{', '.join(map(str, self.arguments))}>" if self.arguments else "")


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of a struct, header or header union."""

    name: str
    type: Type
    annotations: tuple[Annotation, ...] = ()


class Record(Generic):
    """Base of structs, headers and header unions."""

    fields: tuple[FieldOf, ...] = field(default=(), compare=False, repr=False)

    def field_type(self, name: str) -> Type | None:
        return next((part.type for part in self.fields if part.name == name), None)


class Struct(Record):
    pass


class Header(Record):
    pass


class Union(Record):
    """A header union: at most one of its headers is valid."""


class Extern(Generic):
    """Methods have the parameters of the declaration; `core.CallMethod` has those with the arguments filled in."""


class Block(Generic):
    """A parser, control or package type, declared as a type or by a parser or control itself."""

    kind: str = ""
    """`parser`, `control` or `package`."""


# ---------------------------------------------------------------- values


def underlying(kind: Type) -> Type:
    """The type whose values these are: of `type` declarations and enums with values, their base."""
    while True:
        base = kind.base if isinstance(kind, NewType | Enum) else None
        if base is None:
            return kind
        kind = base


def components(kind: Type) -> tuple[Type, ...]:
    """Types of the fields or elements that a value has; that of a stack once."""
    if isinstance(kind, Record):
        return tuple(part.type for part in kind.fields)
    if isinstance(kind, Tuple):
        return kind.elements
    return (kind.element,) if isinstance(kind, Stack) else ()


def members(kind: Type) -> list[tuple[str, Type]]:
    """Names and types of the parts of a value; those of a tuple or stack are numbers."""
    if isinstance(kind, Record):
        return [(each.name, each.type) for each in kind.fields]
    if isinstance(kind, Tuple):
        return [(str(number), each) for number, each in enumerate(kind.elements)]
    return [(str(number), kind.element) for number in range(kind.size)] if isinstance(kind, Stack) else []


def width(kind: Type, *, least: bool = False) -> int:
    """Bits of the largest value of the type, or of the smallest: they differ where a varbit is in it.

    Raises:
        TypeError: the type has no width (externs, `int`, enums without values).
    """
    kind = underlying(kind)
    if isinstance(kind, Bits | Varbits):
        return 0 if least and isinstance(kind, Varbits) else kind.width
    if kind == BOOL:
        return 1
    if isinstance(kind, Record | Tuple | Stack):
        widths = [width(part, least=least) for part in components(kind)]
        if isinstance(kind, Union):
            return max(widths, default=0)
        return kind.size * widths[0] if isinstance(kind, Stack) else sum(widths)
    raise TypeError(f"{kind} has no width")
