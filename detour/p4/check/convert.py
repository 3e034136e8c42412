# SPDX-License-Identifier: Apache-2.0
"""Casts (specification, section 8.12): implicit ones, explicit ones, and default values (7.3, 8.25)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from detour.p4 import core, types
from detour.p4.check.checker import Checker
from detour.p4.check.constants import Rest, as_integer, enum_value, fold_cast, limits, wrap
from detour.p4.check.typenames import describe
from detour.p4.source import Span
from detour.p4.types import ANYTHING, BOOL, ERROR, INTEGER, STRING, Bits, Enum, NewType, Type, underlying

DOTS = "..."


def convert(c: Checker, value: core.Expression, target: Type, what: str = "the value") -> core.Expression:
    """The value as one of the target's type, by implicit casts; `what` names it in messages."""
    if value.type == target or target == ANYTHING:
        return value
    result = _implicit(c, value, target)
    if result is None:
        text = f"{what} must have the type {describe(target)}, not {describe(value.type)}"
        c.fail(value, text, _hint(value, target))
    return result


def convert_stored(c: Checker, value: core.Expression, target: Type, what: str = "the value") -> core.Expression:
    """The value of a declaration, an assignment or a return. Here p4c takes a number without a width for a `type` of
    bits as well, and SONiC's programs rely on it, although the specification asks for a cast.
    """
    if isinstance(target, NewType) and isinstance(target.base, Bits) and value.type == INTEGER:
        return fold_cast(_sized(c, value, target.base), target)
    return convert(c, value, target, what)


def _hint(value: core.Expression, target: Type) -> str:
    source = underlying(value.type)
    if isinstance(source, Bits) and isinstance(underlying(target), Bits):
        return f"Write a cast: ({target})(...)."
    if value.type == INTEGER and isinstance(target, NewType | Enum):
        return f"Write a cast: ({target}){value.span.text or '(...)'}."
    if value.type == BOOL and target == Bits(1):
        return "Write a cast: (bit<1>)(...)."
    return "Write a comparison, like x != 0." if isinstance(source, Bits) and target == BOOL else ""


def _implicit(c: Checker, value: core.Expression, target: Type) -> core.Expression | None:
    if isinstance(value, Rest):
        return default_value(c, target, value.span)
    rule = IMPLICIT.get(type(value))
    if rule is not None and (result := rule(c, value, target)) is not None:
        return result
    if isinstance(value, core.InvalidHeader) and value.type == ANYTHING:
        return replace(value, type=target) if isinstance(target, types.Header | types.Union) else None
    if target == INTEGER and isinstance(value, core.Literal) and isinstance(value.type, Bits):
        return core.Literal(INTEGER, value.span, value.value)
    if isinstance(target, Bits):
        if value.type == INTEGER:
            return _sized(c, value, target)
        if isinstance(value.type, Enum) and value.type.base == target:
            return fold_cast(value, target)
    return None


def _sized(c: Checker, value: core.Expression, target: Bits) -> core.Expression:
    """A number without a width as one with it."""
    number, span = as_integer(value), value.span
    low, high = limits(target)
    if number is None:
        return fold_cast(value, target)
    if not target.signed and number < 0:
        c.warn("mismatch", span, f"{number} is negative: as {target} it is {wrap(number, target)}")
    elif (number > high and not (target.signed and number <= 2 * high + 1)) or number < low:
        c.warn("mismatch", span, f"{number} does not fit {target}: it becomes {wrap(number, target)}")
    elif number > high:
        c.warn("mismatch", span, f"{number} as {target} is {wrap(number, target)}")
    return fold_cast(value, target)


# ---------------------------------------------------------------- lists and structures


def _list(c: Checker, value: core.TupleValue, target: Type) -> core.Expression | None:
    """`{a, b}` as a structure, tuple, list or stack."""
    if not isinstance(value.type, types.Tuple):
        return None
    given = value.elements
    filled = bool(given) and type(given[-1]) is Rest
    if isinstance(target, types.ListOf) and not filled:
        elements = tuple(convert(c, one, target.element, "an element") for one in given)
        return core.TupleValue(target, value.span, elements)
    if filled:
        given = given[:-1]
    parts = _elements(target)
    if parts is None or len(given) > len(parts) or (len(given) < len(parts) and not filled):
        return None
    values = [
        convert(c, one, kind, f"field {name}" if name else "the element")
        for one, (name, kind) in zip(given, parts, strict=False)
    ]
    values += [default_value(c, kind, value.span) for _, kind in parts[len(given) :]]
    if isinstance(target, types.Record):
        names = (name for name, _ in parts)
        return core.StructValue(target, value.span, tuple(zip(names, values, strict=True)))
    return core.TupleValue(target, value.span, tuple(values))


def _elements(target: Type) -> list[tuple[str, Type]] | None:
    """Names and types of what a list gives the values of."""
    if isinstance(target, types.Struct | types.Header):
        return [(part.name, part.type) for part in target.fields]
    if isinstance(target, types.Tuple):
        return [("", kind) for kind in target.elements]
    return [("", target.element)] * target.size if isinstance(target, types.Stack) else None


def _structure(c: Checker, value: core.StructValue, target: Type) -> core.Expression | None:
    """`{x = a, y = b}` as a structure or header."""
    if not isinstance(target, types.Struct | types.Header) or not is_nameless(value.type):
        return None
    given = dict(value.fields)
    filled = given.pop(DOTS, None) is not None
    kinds = {part.name: part.type for part in target.fields}
    for name, field in given.items():
        if name not in kinds:
            c.fail(field, f"{describe(target)} has no field {name}")
    missing = [name for name in kinds if name not in given]
    if missing and not filled:
        names = ", ".join(missing)
        c.fail(value, f"no value for {names} of {describe(target)}", "Add it, or `...` for default values.")
    fields = [(name, convert(c, field, kinds[name], f"field {name}")) for name, field in given.items()]
    fields += [(name, default_value(c, kinds[name], value.span)) for name in missing]
    return core.StructValue(target, value.span, tuple(fields))


def _conditional(c: Checker, value: core.Conditional, target: Type) -> core.Expression | None:
    if value.type != ANYTHING and not isinstance(value.type, types.Tuple) and not is_nameless(value.type):
        return None
    yes, no = convert(c, value.yes, target), convert(c, value.no, target)
    return core.Conditional(target, value.span, value.condition, yes, no)


IMPLICIT: dict[type, Callable] = {
    core.TupleValue: _list,
    core.StructValue: _structure,
    core.Conditional: _conditional,
}


def is_nameless(kind: Type) -> bool:
    """Return whether the type is that of `{x = a, y = b}`, before the context tells the structure."""
    return isinstance(kind, types.Record) and not kind.name


def default_value(c: Checker, kind: Type, span: Span) -> core.Expression:
    """Default value of the type (7.3)."""
    if isinstance(kind, Bits) or kind in DEFAULTS:
        return core.Literal(kind, span, DEFAULTS.get(kind, 0))
    if kind == ERROR:
        return core.EnumMember(kind, span, "NoError")
    if isinstance(kind, Enum) and kind.base is not None:
        return enum_value(kind, 0, span)
    if isinstance(kind, Enum) and kind.members:
        return core.EnumMember(kind, span, kind.members[0][0])
    if isinstance(kind, types.Header | types.Union):
        return core.InvalidHeader(kind, span)
    if isinstance(kind, NewType):
        return fold_cast(default_value(c, kind.base, span), kind)
    if isinstance(kind, types.Struct):
        fields = tuple((part.name, default_value(c, part.type, span)) for part in kind.fields)
        return core.StructValue(kind, span, fields)
    if isinstance(kind, types.Tuple | types.Stack):
        elements = kind.elements if isinstance(kind, types.Tuple) else (kind.element,) * kind.size
        return core.TupleValue(kind, span, tuple(default_value(c, element, span) for element in elements))
    c.fail(span, f"{describe(kind)} has no default value", "Write the value instead of `...`.")


DEFAULTS: dict[Type, int | bool | str] = {INTEGER: 0, BOOL: False, STRING: ""}


# ---------------------------------------------------------------- explicit casts


def cast(c: Checker, value: core.Expression, target: Type, span: Span) -> core.Expression:
    """`(target) value`."""
    source = value.type
    implicit = replace(value, type=target, span=span) if source == target else _implicit(c, value, target)
    if implicit is not None:
        return implicit
    if isinstance(target, types.TypeVariable | types.ListOf) or not _castable(source, target):
        hint = ""
        if isinstance(source, Bits) and isinstance(target, Bits):
            between = Bits(source.width, target.signed)
            hint = f"Change sign and width one after the other: ({target})({between})(...)."
        c.fail(span, f"{describe(source)} cannot be cast to {describe(target)}", hint)
    if target == BOOL and source == INTEGER and as_integer(value) not in (0, 1, None):
        c.fail(span, f"only 0 and 1 can be cast to bool, not {as_integer(value)}", "Write a comparison, like x != 0.")
    return fold_cast(replace(value, span=span), target)


def _castable(source: Type, target: Type) -> bool:
    if isinstance(source, NewType) or isinstance(target, NewType):
        return _castable_new(source, target)
    if isinstance(source, Enum):
        return source.base is not None and _castable(source.base, target)
    if isinstance(target, Enum):
        return target.base is not None and _castable(source, target.base)
    if source == target:
        return not isinstance(source, types.Varbits)
    if source == INTEGER:
        return isinstance(target, Bits) or target == BOOL
    if isinstance(source, Bits):
        if isinstance(target, Bits):
            return source.signed == target.signed or source.width == target.width
        return target == INTEGER or (target == BOOL and source == Bits(1))
    return source == BOOL and target == Bits(1)


def _castable_new(source: Type, target: Type) -> bool:
    """Casts to or from a type declared by `type`: one step to the type under it, or several where that is one too."""
    if isinstance(target, NewType) and source == target.base:
        return True
    if isinstance(source, NewType) and source.base == target:
        return True
    if isinstance(target, NewType) and (isinstance(target.base, NewType) or source == INTEGER):
        return _castable(source, target.base)
    return isinstance(source, NewType) and isinstance(source.base, NewType) and _castable_new(source.base, target)
