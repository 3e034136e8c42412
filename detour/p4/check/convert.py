# SPDX-License-Identifier: Apache-2.0
"""Casts (specification, section 8.12): implicit ones, explicit ones, and default values (7.3, 8.25)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from detour.p4 import core
from detour.p4.check.checker import Checker
from detour.p4.check.constants import as_integer, limits, wrap
from detour.p4.check.typenames import describe
from detour.p4.source import Span
from detour.p4.types import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    STRING,
    Bits,
    Enum,
    Header,
    ListOf,
    NewType,
    Record,
    Stack,
    Struct,
    Tuple,
    Type,
    TypeVariable,
    Union,
    Varbits,
    underlying,
)


@dataclass(frozen=True, slots=True, eq=False)
class Rest(core.Expression):
    """`...`: a default value whose type the context gives. At the end of a `TupleValue` it stands for all that is
    missing; in a `StructValue` its name is `...`. No `Rest` is left in the typed program.
    """


DOTS = "..."


def convert(c: Checker, value: core.Expression, target: Type, what: str = "") -> core.Expression:
    """The value as one of the target's type, by implicit casts.

    Args:
        c: The checker.
        value: What is converted.
        target: Its new type.
        what: Where this is, for the message: `the initial value of x`.
    """
    if value.type == target or target == ANYTHING:
        return value
    result = _implicit(c, value, target)
    if result is None:
        c.fail(
            value.span,
            f"{what or 'the value'} must have the type {describe(target)}, not {describe(value.type)}",
            _hint(value, target),
        )
    return result


def convert_stored(c: Checker, value: core.Expression, target: Type, what: str) -> core.Expression:
    """The value of a declaration, an assignment or a return. Here p4c takes a number without a width for a `type` of
    bits as well, and SONiC's programs rely on it, although the specification asks for a cast.
    """
    if isinstance(target, NewType) and isinstance(target.base, Bits) and value.type == INTEGER:
        return fold_cast(sized(c, value, target.base), target)
    return convert(c, value, target, what)


def _hint(value: core.Expression, target: Type) -> str:
    if isinstance(underlying(value.type), Bits) and isinstance(underlying(target), Bits):
        return f"Write a cast: ({target})(...)."
    if value.type == INTEGER and isinstance(target, NewType | Enum):
        return f"Write a cast: ({target}){value.span.text or '(...)'}."
    if value.type == BOOL and target == Bits(1):
        return "Write a cast: (bit<1>)(...)."
    if isinstance(underlying(value.type), Bits) and target == BOOL:
        return "Write a comparison, like x != 0."
    return ""


def _implicit(c: Checker, value: core.Expression, target: Type) -> core.Expression | None:
    rule = IMPLICIT.get(type(value))
    if rule is not None:
        result = rule(c, value, target)
        if result is not None:
            return result
    if target == INTEGER and isinstance(value, core.Literal) and isinstance(value.type, Bits):
        return core.Literal(INTEGER, value.span, value.value)
    if isinstance(target, Bits):
        if value.type == INTEGER:
            return sized(c, value, target)
        if isinstance(value.type, Enum) and value.type.base == target:
            return fold_cast(value, target)
    return None


def sized(c: Checker, value: core.Expression, target: Bits) -> core.Expression:
    """A number without a width as one with it."""
    number = as_integer(value)
    if number is None:
        return core.Cast(target, value.span, value)
    warn_overflow(c, number, target, value.span)
    return core.Literal(target, value.span, wrap(number, target))


def warn_overflow(c: Checker, number: int, target: Bits, span: Span) -> None:
    low, high = limits(target) if target.width else (0, 0)
    if not target.signed and number < 0:
        c.warn("mismatch", span, f"{number} is negative: as {target} it is {wrap(number, target)}")
    elif (number > high and not (target.signed and number <= 2 * high + 1)) or number < low:
        c.warn("mismatch", span, f"{number} does not fit {target}: it becomes {wrap(number, target)}")
    elif number > high:
        c.warn("mismatch", span, f"{number} as {target} is {wrap(number, target)}")


# ---------------------------------------------------------------- lists and structures


def _rest(c: Checker, value: Rest, target: Type) -> core.Expression:
    return default_value(c, target, value.span)


def _invalid(_: Checker, value: core.InvalidHeader, target: Type) -> core.Expression | None:
    if value.type == ANYTHING and isinstance(target, Header | Union):
        return core.InvalidHeader(target, value.span)
    return None


def _list(c: Checker, value: core.TupleValue, target: Type) -> core.Expression | None:
    """`{a, b}` as a structure, tuple, list or stack."""
    if not isinstance(value.type, Tuple):
        return None
    given = value.elements
    filled = bool(given) and type(given[-1]) is Rest
    if filled:
        given = given[:-1]
    if isinstance(target, ListOf):
        if filled:
            return None
        return core.TupleValue(
            target, value.span, tuple(convert(c, one, target.element, "an element") for one in given)
        )
    wanted = _elements(target)
    if wanted is None or len(given) > len(wanted) or (len(given) < len(wanted) and not filled):
        return None
    values = [convert(c, one, kind, _label(name)) for one, (name, kind) in zip(given, wanted, strict=False)]
    values += [default_value(c, kind, value.span) for _, kind in wanted[len(given) :]]
    if isinstance(target, Record):
        names = (name for name, _ in wanted)
        return core.StructValue(target, value.span, tuple(zip(names, values, strict=True)))
    return core.TupleValue(target, value.span, tuple(values))


def _label(name: str) -> str:
    return f"field {name}" if name else "the element"


def _elements(target: Type) -> list[tuple[str, Type]] | None:
    if isinstance(target, Struct | Header):
        return [(part.name, part.type) for part in target.fields]
    if isinstance(target, Tuple):
        return [("", kind) for kind in target.elements]
    if isinstance(target, Stack):
        return [("", target.element)] * target.size
    return None


def _structure(c: Checker, value: core.StructValue, target: Type) -> core.Expression | None:
    """`{x = a, y = b}` as a structure or header."""
    if not isinstance(target, Struct | Header) or getattr(value.type, "name", ""):
        return None
    given = dict(value.fields)
    filled = given.pop(DOTS, None) is not None
    for name, field in given.items():
        if target.field_type(name) is None:
            c.fail(field.span, f"{describe(target)} has no field {name}")
    missing = [part for part in target.fields if part.name not in given]
    if missing and not filled:
        names = ", ".join(part.name for part in missing)
        c.fail(value.span, f"no value for {names} of {describe(target)}", "Add it, or `...` for default values.")
    fields = [
        (name, convert(c, field, target.field_type(name) or ANYTHING, f"field {name}")) for name, field in given.items()
    ]
    fields += [(part.name, default_value(c, part.type, value.span)) for part in missing]
    return core.StructValue(target, value.span, tuple(fields))


def _conditional(c: Checker, value: core.Conditional, target: Type) -> core.Expression | None:
    if value.type != ANYTHING and not isinstance(value.type, Tuple) and getattr(value.type, "name", None) != "":
        return None
    yes, no = convert(c, value.yes, target), convert(c, value.no, target)
    return core.Conditional(target, value.span, value.condition, yes, no)


IMPLICIT: dict[type, Callable] = {
    Rest: _rest,
    core.InvalidHeader: _invalid,
    core.TupleValue: _list,
    core.StructValue: _structure,
    core.Conditional: _conditional,
}


def default_value(c: Checker, kind: Type, span: Span) -> core.Expression:
    """Default value of the type (7.3)."""
    if isinstance(kind, Bits) or kind == INTEGER:
        return core.Literal(kind, span, 0)
    if kind == BOOL:
        return core.Literal(kind, span, False)
    if kind == STRING:
        return core.Literal(kind, span, "")
    if kind == ERROR:
        return core.EnumMember(kind, span, "NoError")
    if isinstance(kind, Enum):
        if kind.base is not None:
            return enum_value(kind, 0, span)
        if kind.members:
            return core.EnumMember(kind, span, kind.members[0][0])
    if isinstance(kind, Header | Union):
        return core.InvalidHeader(kind, span)
    if isinstance(kind, NewType):
        return fold_cast(default_value(c, kind.base, span), kind)
    if isinstance(kind, Struct):
        return core.StructValue(kind, span, tuple((p.name, default_value(c, p.type, span)) for p in kind.fields))
    if isinstance(kind, Tuple | Stack):
        elements = kind.elements if isinstance(kind, Tuple) else (kind.element,) * kind.size
        return core.TupleValue(kind, span, tuple(default_value(c, element, span) for element in elements))
    c.fail(span, f"{describe(kind)} has no default value", "Write the value instead of `...`.")


def enum_value(kind: Enum, value: int, span: Span) -> core.EnumMember:
    """The member with the value; where no member has it, one without a name (8.4)."""
    name = next((name for name, number in kind.members if number == value), "")
    return core.EnumMember(kind, span, name, value)


# ---------------------------------------------------------------- explicit casts


def cast(c: Checker, value: core.Expression, target: Type, span: Span) -> core.Expression:
    """`(target) value`."""
    implicit = replace(value, type=target, span=span) if value.type == target else _implicit(c, value, target)
    if implicit is not None:
        return implicit
    if isinstance(target, TypeVariable | ListOf) or not _castable(value.type, target):
        c.fail(span, f"{describe(value.type)} cannot be cast to {describe(target)}", _cast_hint(value.type, target))
    if target == BOOL and value.type == INTEGER and as_integer(value) not in (0, 1, None):
        c.fail(span, f"only 0 and 1 can be cast to bool, not {as_integer(value)}", "Write a comparison, like x != 0.")
    return fold_cast(replace(value, span=span), target)


def _castable(source: Type, target: Type) -> bool:
    if isinstance(source, NewType) or isinstance(target, NewType):
        return _castable_new(source, target)
    if isinstance(source, Enum) and isinstance(target, Enum):
        return source.base is not None and target.base is not None and _castable(source.base, target.base)
    if isinstance(source, Enum):
        return source.base is not None and _castable(source.base, target)
    if isinstance(target, Enum):
        return target.base is not None and _castable(source, target.base)
    if source == target:
        return not isinstance(source, Varbits)
    if source == INTEGER:
        return isinstance(target, Bits) or target == BOOL
    if isinstance(source, Bits):
        if isinstance(target, Bits):
            return source.signed == target.signed or source.width == target.width
        return target == INTEGER or (target == BOOL and source == Bits(1))
    return source == BOOL and target == Bits(1)


def _castable_new(source: Type, target: Type) -> bool:
    if isinstance(target, NewType) and source == target.base:
        return True
    if isinstance(source, NewType) and source.base == target:
        return True
    if isinstance(target, NewType) and (isinstance(target.base, NewType) or source == INTEGER):
        return _castable(source, target.base)
    return isinstance(source, NewType) and isinstance(source.base, NewType) and _castable_new(source.base, target)


def _cast_hint(source: Type, target: Type) -> str:
    if isinstance(source, Bits) and isinstance(target, Bits):
        return f"Change sign and width one after the other: ({target})({Bits(source.width, target.signed)})(...)."
    return ""


def fold_cast(value: core.Expression, target: Type) -> core.Expression:
    """A cast that is known to be legal: of a constant, its result."""
    number: object = value.value if isinstance(value, core.Literal | core.EnumMember) else None
    if number is None or isinstance(number, str):
        return core.Cast(target, value.span, value)
    base = underlying(target)
    if isinstance(base, Bits):
        number = wrap(int(number), base)
    elif base == BOOL:
        number = bool(number)
    elif base == INTEGER:
        number = int(number)
    if isinstance(target, Enum):
        return enum_value(target, int(number), value.span)
    return core.Literal(target, value.span, number)  # type: ignore[arg-type]
