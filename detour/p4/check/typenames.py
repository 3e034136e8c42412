# SPDX-License-Identifier: Apache-2.0
"""Types as written: what they mean, where they may stand (specification, section 7), and arguments of generic ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from detour.p4 import syntax, types
from detour.p4.check.checker import Checker
from detour.p4.check.constants import MAX_WIDTH, as_integer
from detour.p4.check.generics import mentions, name_of, substitute
from detour.p4.check.scope import TypeName
from detour.p4.source import Located
from detour.p4.types import ANYTHING, BOOL, ERROR, INTEGER, MATCH_KIND, STRING, VOID, Type

SIMPLE: dict[str, Type] = {str(kind): kind for kind in (BOOL, ERROR, MATCH_KIND, STRING, VOID, INTEGER, ANYTHING)}
LISTS = ("tuple", "list")
MAX_STACK = 1 << 31

bits = lru_cache(maxsize=None)(types.Bits)
"""`Bits`, one object for each width."""


def resolve(c: Checker, node: syntax.TypeNode) -> Type:
    """The type that is written; generic ones must have arguments."""
    return RULES[type(node)](c, node)


def resolve_value_type(c: Checker, node: syntax.TypeNode, what: str) -> Type:
    """The type of a variable, constant or field: one of values, with no `_` in it."""
    kind = resolve(c, node)
    if mentions(kind, lambda part: part == ANYTHING):
        c.fail(node, f"{what} cannot have a type with _ in it", "Write the type.")
    return kind


def describe(kind: Type) -> str:
    """The type as messages write it."""
    if isinstance(kind, types.Record) and not kind.name:
        return "structure {" + ", ".join(f"{part.name} = {describe(part.type)}" for part in kind.fields) + "}"
    word = kind.kind if isinstance(kind, types.Block) else WORDS.get(type(kind), "")
    return f"{word} {kind}" if word else str(kind)


WORDS: dict[type, str] = {
    types.Struct: "struct",
    types.Header: "header",
    types.Union: "header_union",
    types.Enum: "enum",
    types.Extern: "extern",
    types.NewType: "type",
}


def type_name(c: Checker, node: syntax.NamedType) -> TypeName:
    """The meaning of a type's name."""
    if node.name_span is not None:
        node = syntax.NamedType(node.name_span, node.name, node.absolute)
    symbol = c.find(node)
    if isinstance(symbol, TypeName):
        return symbol
    hidden = c.scope.find_type(node.name)
    if hidden is None:
        c.fail(node, f"{node.name} is not a type")
    return hidden


def generic_type(c: Checker, node: syntax.TypeNode) -> tuple[TypeName, tuple[syntax.TypeNode, ...]]:
    """The meaning of a type's name, and the type arguments that are written."""
    if not isinstance(node, syntax.NamedType) or node.name in SIMPLE or (node.arguments and node.name in LISTS):
        return TypeName(resolve(c, node)), ()
    return type_name(c, node), node.arguments or ()


def _named(c: Checker, node: syntax.NamedType) -> Type:
    if node.arguments is not None:
        return _specialized(c, node, node.arguments)
    if node.name in SIMPLE:
        return SIMPLE[node.name]
    symbol = type_name(c, node)
    if symbol.parameters:
        count = len(symbol.parameters)
        names = ", ".join(str(variable) for variable in symbol.parameters)
        hint = f"Write {node.name}<{names}> with types in their places."
        c.fail(node, f"{node.name} needs {count} type argument{'s' if count > 1 else ''}", hint)
    return symbol.type


def _specialized(c: Checker, node: syntax.NamedType, written: tuple[syntax.TypeNode, ...]) -> Type:
    if node.name not in LISTS:
        symbol = type_name(c, node)
        return _instantiate(c, symbol, tuple(resolve(c, argument) for argument in written), node, written)
    arguments = tuple(resolve(c, argument) for argument in written)
    if node.name == "tuple":
        for kind, argument in zip(arguments, written, strict=True):
            check_field(c, kind, "", types.Tuple, argument)
        return types.Tuple(arguments)
    element = arguments[0]
    if isinstance(element, types.Block | types.Extern) or element == VOID:
        c.fail(written[0], f"a list of {describe(element)} is not allowed")
    return types.ListOf(element)


def _instantiate(
    c: Checker,
    symbol: TypeName,
    arguments: tuple[Type, ...],
    node: syntax.NamedType,
    written: tuple[syntax.TypeNode, ...],
) -> Type:
    """A generic type with arguments."""
    if not symbol.parameters:
        c.fail(node, f"{node.name} is not generic", "Leave <...> away.")
    if len(arguments) != len(symbol.parameters):
        c.fail(node, f"{node.name} has {len(symbol.parameters)} type parameter(s), not {len(arguments)}")
    for argument, at in zip(arguments, written, strict=True):
        check_argument(c, argument, at)
        check_not_inside(c, symbol.type, argument, node)
    kind = substitute(symbol.type, dict(zip(symbol.parameters, arguments, strict=True)))
    if isinstance(kind, types.Record):
        for part in kind.fields:
            check_field(c, part.type, part.name, type(kind), c.field_spans.get((kind.declaration, part.name), node))
    return kind


def check_argument(c: Checker, kind: Type, at: Located) -> None:
    """A type argument must be a type of values or an extern."""
    if isinstance(kind, types.Block):
        c.fail(at, f"{describe(kind)} cannot be a type argument")


def check_not_inside(c: Checker, kind: Type, argument: Type, at: Located) -> None:
    """Report a generic type that is an argument of itself."""
    if mentions(argument, lambda part: type(part) is type(kind) and name_of(part) == name_of(kind)):
        c.fail(at, f"{name_of(kind)} cannot be a type argument of itself")


def _bits(c: Checker, node: syntax.BitsType) -> Type:
    width = constant_integer(c, node.width, "the width of a type")
    if node.kind == "int" and width == 0:
        c.fail(node, "int<0>: the width of a signed type is at least 1")
    if width < 0:
        c.fail(node, f"{node.kind}<{width}>: a width cannot be negative")
    if width > MAX_WIDTH and node.kind != "varbit":
        c.fail(node, f"{node.kind}<{width}>: numbers have at most {MAX_WIDTH} bits")
    return types.Varbits(width) if node.kind == "varbit" else bits(width, node.kind == "int")


def _array(c: Checker, node: syntax.ArrayType) -> Type:
    element = resolve(c, node.element)
    size = constant_integer(c, node.size, "the size of a stack")
    if not 0 <= size < MAX_STACK:
        c.fail(node.size, f"a stack cannot have {size} elements")
    if isinstance(element, types.Stack) and isinstance(element.element, types.Header | types.Union):
        c.fail(node, "stacks of header stacks are not allowed")
    never = types.Varbits | types.Block | types.ListOf | types.Extern
    if isinstance(element, never) or element in (INTEGER, STRING, VOID, ERROR, MATCH_KIND):
        c.fail(node, f"an array of {describe(element)} is not allowed", "Elements are headers, unions or values.")
    return types.Stack(element, size)


RULES: dict[type, Callable[..., Type]] = {
    syntax.NamedType: _named,
    syntax.BitsType: _bits,
    syntax.ArrayType: _array,
}


def constant_integer(c: Checker, node: syntax.Expression, what: str) -> int:
    """The number that an expression in a type is."""
    if isinstance(node, syntax.Literal) and type(node.value) is int:
        return node.value
    value = as_integer(c.expression(node))
    if value is None:
        c.fail(node, f"{what} must be a number that is known at compile time")
    return value


# ---------------------------------------------------------------- nesting (7.2.8)


def check_field(c: Checker, kind: Type, name: str, container: type, at: Located) -> None:
    """Report a field whose type may not stand in the container."""
    if container is types.Header:
        allowed = _in_header(kind)
    elif container is types.Union:
        allowed = isinstance(kind, types.Header | types.TypeVariable)
    else:
        never = (STRING, VOID) if container is types.Tuple else (INTEGER, STRING, VOID, MATCH_KIND, ANYTHING)
        allowed = not isinstance(kind, types.Block | types.Extern | types.SetOf | types.ListOf) and kind not in never
    if not allowed:
        field = f"field {name} of a" if name else "an element of a"
        width_missing = container is types.Header and isinstance(kind, types.Enum)
        hint = "An enum in a header needs a width: enum bit<8> ..." if width_missing else ""
        c.fail(at, f"{field} {WORDS.get(container, 'tuple')} cannot have the type {describe(kind)}", hint)


def _in_header(kind: Type) -> bool:
    if isinstance(kind, types.Enum):
        return kind.base is not None
    if isinstance(kind, types.NewType):
        return _in_header(kind.base)
    if isinstance(kind, types.Struct):
        return all(_in_header(part.type) and not isinstance(part.type, types.Varbits) for part in kind.fields)
    if isinstance(kind, types.Stack):
        return not isinstance(kind.element, types.Header | types.Union) and _in_header(kind.element)
    return isinstance(kind, types.Bits | types.Varbits | types.TypeVariable) or kind == BOOL


# ---------------------------------------------------------------- properties of types


def comparable(kind: Type) -> bool:
    """Return whether `==` is defined on values of the type."""
    if isinstance(kind, types.NewType):
        return comparable(kind.base)
    if isinstance(kind, types.Record | types.Tuple | types.Stack):
        return all(map(comparable, types.components(kind)))
    return isinstance(kind, types.Bits | types.Varbits | types.Enum) or kind in (BOOL, ERROR, INTEGER, MATCH_KIND)


def has_varbit(kind: Type) -> bool:
    """Return whether values of the type have a size that differs from packet to packet."""
    return isinstance(kind, types.Varbits) or any(map(has_varbit, types.components(kind)))
