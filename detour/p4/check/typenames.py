# SPDX-License-Identifier: Apache-2.0
"""Types as written: what they mean, where they may stand (specification, section 7), and arguments of generic ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from detour.p4 import syntax
from detour.p4.check.checker import Checker
from detour.p4.check.constants import MAX_WIDTH, as_integer
from detour.p4.check.generics import mentions, substitute
from detour.p4.check.scope import TypeName, find_type
from detour.p4.source import Span
from detour.p4.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    MATCH_KIND,
    STRING,
    VOID,
    Bits,
    Block,
    Enum,
    Extern,
    Header,
    ListOf,
    NewType,
    Record,
    SetOf,
    Stack,
    Struct,
    Tuple,
    Type,
    TypeVariable,
    Union,
    Varbits,
)

SIMPLE: dict[str, Type] = {str(kind): kind for kind in (BOOL, ERROR, MATCH_KIND, STRING, VOID, INTEGER, ANYTHING)}
MAX_STACK = 1 << 31

bits = lru_cache(maxsize=None)(Bits)
"""`Bits`, one object for each width."""


def resolve(c: Checker, node: syntax.TypeNode) -> Type:
    """The type that is written; generic ones must have arguments."""
    return RULES[type(node)](c, node)


def resolve_value_type(c: Checker, node: syntax.TypeNode, what: str) -> Type:
    """The type of a variable, constant or field: one of values, with no `_` in it."""
    kind = resolve(c, node)
    if mentions(kind, lambda part: part == ANYTHING):
        c.fail(node.span, f"{what} cannot have a type with _ in it", "Write the type.")
    return kind


def describe(kind: Type) -> str:
    """The type as messages write it."""
    if isinstance(kind, Record) and not kind.name:
        return "structure {" + ", ".join(f"{part.name} = {describe(part.type)}" for part in kind.fields) + "}"
    words = WORDS.get(type(kind), "")
    if isinstance(kind, Block):
        words = kind.kind + " "
    return f"{words}{kind}"


WORDS: dict[type, str] = {
    Struct: "struct ",
    Header: "header ",
    Union: "header_union ",
    Enum: "enum ",
    Extern: "extern ",
    NewType: "type ",
}


def _simple(_: Checker, node: syntax.SimpleType) -> Type:
    return SIMPLE[node.name]


def _bits(c: Checker, node: syntax.BitsType) -> Type:
    width = constant_integer(c, node.width, "the width of a type")
    if node.kind == "int" and width == 0:
        c.fail(node.span, "int<0>: the width of a signed type is at least 1")
    if width < 0:
        c.fail(node.span, f"{node.kind}<{width}>: a width cannot be negative")
    if width > MAX_WIDTH:
        c.fail(node.span, f"{node.kind}<{width}>: numbers have at most {MAX_WIDTH} bits")
    return Varbits(width) if node.kind == "varbit" else bits(width, node.kind == "int")


def type_name(c: Checker, node: syntax.NamedType) -> TypeName:
    """What a type's name stands for."""
    symbol = c.find(node.name, node.absolute, node.span)
    if not isinstance(symbol, TypeName):
        hidden = find_type(c.scope, node.name)
        if hidden is None:
            c.fail(node.span, f"{node.name} is not a type")
        return hidden
    return symbol


def _named(c: Checker, node: syntax.NamedType) -> Type:
    symbol = type_name(c, node)
    if symbol.parameters:
        count = len(symbol.parameters)
        names = ", ".join(str(variable) for variable in symbol.parameters)
        c.fail(
            node.span,
            f"{node.name} needs {count} type argument{'s' if count > 1 else ''}",
            f"Write {node.name}<{names}> with types in their places.",
        )
    return symbol.type


def _specialized(c: Checker, node: syntax.SpecializedType) -> Type:
    symbol = type_name(c, node.base)
    arguments = tuple(resolve(c, argument) for argument in node.arguments)
    return instantiate(c, symbol, arguments, node)


def instantiate(c: Checker, symbol: TypeName, arguments: tuple[Type, ...], node: syntax.SpecializedType) -> Type:
    """A generic type with arguments."""
    name = node.base.name
    if not symbol.parameters:
        c.fail(node.span, f"{name} is not generic", "Leave <...> away.")
    if len(arguments) != len(symbol.parameters):
        c.fail(node.span, f"{name} has {len(symbol.parameters)} type parameter(s), not {len(arguments)}")
    for argument, written in zip(arguments, node.arguments, strict=True):
        check_argument(c, argument, written.span)
        check_not_inside(c, symbol.type, argument, node.span)
    kind = substitute(symbol.type, dict(zip(symbol.parameters, arguments, strict=True)))
    if isinstance(kind, Record):
        for part in kind.fields:
            at = c.field_spans.get((kind.declaration, part.name), node.span) if kind.declaration else node.span
            check_field(c, part.type, part.name, type(kind), at)
    return kind


def check_argument(c: Checker, kind: Type, span: Span) -> None:
    """A type argument must be a type of values or an extern."""
    if isinstance(kind, Block):
        c.fail(span, f"{describe(kind)} cannot be a type argument")


def check_not_inside(c: Checker, kind: Type, argument: Type, span: Span) -> None:
    """Reports a generic type that is an argument of itself."""
    name = getattr(kind, "name", "")
    if mentions(argument, lambda part: type(part) is type(kind) and getattr(part, "name", None) == name):
        c.fail(span, f"{name} cannot be a type argument of itself")


def _array(c: Checker, node: syntax.ArrayType) -> Type:
    element = resolve(c, node.element)
    size = constant_integer(c, node.size, "the size of a stack")
    if not 0 <= size < MAX_STACK:
        c.fail(node.size.span, f"a stack cannot have {size} elements")
    if isinstance(element, Stack) and isinstance(element.element, Header | Union):
        c.fail(node.span, "stacks of header stacks are not allowed")
    if isinstance(element, Varbits | Block | ListOf | Extern) or element in (INTEGER, STRING, VOID, ERROR, MATCH_KIND):
        c.fail(node.span, f"an array of {describe(element)} is not allowed", "Elements are headers, unions or values.")
    return Stack(element, size)


def _tuple(c: Checker, node: syntax.TupleType) -> Type:
    elements = tuple(resolve(c, element) for element in node.elements)
    for kind, written in zip(elements, node.elements, strict=True):
        check_field(c, kind, "", Tuple, written.span)
    return Tuple(elements)


def _list(c: Checker, node: syntax.ListType) -> Type:
    element = resolve(c, node.element)
    if isinstance(element, Block | Extern) or element == VOID:
        c.fail(node.element.span, f"a list of {describe(element)} is not allowed")
    return ListOf(element)


RULES: dict[type, Callable[..., Type]] = {
    syntax.SimpleType: _simple,
    syntax.BitsType: _bits,
    syntax.NamedType: _named,
    syntax.SpecializedType: _specialized,
    syntax.ArrayType: _array,
    syntax.TupleType: _tuple,
    syntax.ListType: _list,
}


def constant_integer(c: Checker, node: syntax.Expression, what: str) -> int:
    """The number that an expression in a type is."""
    if type(node) is syntax.Number:
        return node.value
    value = as_integer(c.expression(node))
    if value is None:
        c.fail(node.span, f"{what} must be a number that is known at compile time")
    return value


# ---------------------------------------------------------------- nesting (7.2.8)

NEVER = (Block, Extern, SetOf)
IN_HEADER = (Bits, Varbits, TypeVariable)
CONTAINERS: dict[type, str] = {Header: "header", Union: "header_union", Struct: "struct", Tuple: "tuple"}


def check_field(c: Checker, kind: Type, name: str, container: type, span: Span) -> None:
    """Reports a field whose type may not stand in the container."""
    if container is Header:
        allowed = _in_header(kind)
    elif container is Union:
        allowed = isinstance(kind, Header | TypeVariable)
    else:
        never = (STRING, VOID) if container is Tuple else (INTEGER, STRING, VOID, MATCH_KIND)
        allowed = not isinstance(kind, (*NEVER, ListOf)) and kind not in never
    if kind == ANYTHING and container is not Tuple:
        allowed = False
    if not allowed:
        field = f"field {name} of a" if name else "an element of a"
        hint = ""
        if container is Header and isinstance(kind, Enum):
            hint = "An enum in a header needs a width: enum bit<8> ..."
        c.fail(span, f"{field} {CONTAINERS[container]} cannot have the type {describe(kind)}", hint)


def _in_header(kind: Type) -> bool:
    if isinstance(kind, IN_HEADER) or kind == BOOL:
        return True
    if isinstance(kind, Enum):
        return kind.base is not None
    if isinstance(kind, NewType):
        return _in_header(kind.base)
    if isinstance(kind, Struct):
        return all(_in_header(part.type) and not isinstance(part.type, Varbits) for part in kind.fields)
    return isinstance(kind, Stack) and not isinstance(kind.element, Header | Union) and _in_header(kind.element)


# ---------------------------------------------------------------- properties of types


def comparable(kind: Type) -> bool:
    """Whether `==` is defined on values of the type."""
    if isinstance(kind, Bits | Varbits | Enum):
        return True
    if isinstance(kind, NewType):
        return comparable(kind.base)
    if isinstance(kind, Record):
        return all(comparable(part.type) for part in kind.fields)
    if isinstance(kind, Tuple):
        return all(map(comparable, kind.elements))
    if isinstance(kind, Stack):
        return comparable(kind.element)
    return kind in (BOOL, ERROR, INTEGER, MATCH_KIND)


def has_varbit(kind: Type) -> bool:
    """Whether values of the type have a size that differs from packet to packet."""
    if isinstance(kind, Record):
        return any(has_varbit(part.type) for part in kind.fields)
    if isinstance(kind, Stack):
        return has_varbit(kind.element)
    return isinstance(kind, Varbits)
