# SPDX-License-Identifier: Apache-2.0
"""P4's operators in BMv2's, and their values where operands are known.

BMv2 computes with integers without bounds, so a result that may leave the range of its type is brought back: by a mask
for `bit<W>`, by `two_comp_mod` for `int<W>` (specification, sections 8.5 to 8.11).
"""

from __future__ import annotations

from detour.p4 import ir
from detour.p4.check.constants import OPERATORS, compute, wrap
from detour.p4.ir import Const, Op, Truth, Value
from detour.p4.types import BOOL, Bits, Type, underlying


def constant(number: int, kind: Type) -> Const:
    kind = underlying(kind)
    return Const(number, kind.width if type(kind) is Bits else 32)


def cut(value: Value, kind: Bits) -> Value:
    """Bring a result into the range of its type."""
    if type(value) is Const:
        return Const(wrap(value.number, kind), kind.width)
    if kind.signed:
        return Op("two_comp_mod", value, Const(kind.width))
    return mask(value, (1 << kind.width) - 1, kind.width)


def mask(value: Value, bits: int, width: int) -> Value:
    """`value & bits`; nothing if an inner mask does that already."""
    if type(value) is Const:
        return Const(value.number & bits, width)
    if type(value) is Op and value.operator == "&" and type(value.right) is Const:
        inner = value.right.number
        if inner >= 0 and inner & bits == inner:
            return value
        if type(value.left) is Op and value.left.operator == "&":
            return Op("&", value.left, Const(inner & bits, width))
    return Op("&", value, Const(bits, width))


def binary(sign: str, kind: Type, left: Value, right: Value) -> Value:
    """An operator on two values of `kind`; of a shift, only the left one is."""
    if type(left) is Const and type(right) is Const and (sign not in ("/", "%") or left.number >= 0 < right.number):
        return constant(compute(sign, left.number, right.number, kind, kind), kind)
    if type(kind) is not Bits:
        return Op(sign, left, right)  # an `int`: a number of BMv2 has no bounds either
    if sign in ("<<", ">>"):
        return shift(sign, kind, left, right)
    if sign in ("|+|", "|-|"):
        return Op("sat_cast" if kind.signed else "usat_cast", Op(sign[1], left, right), Const(kind.width))
    if sign in ("/", "%"):
        return _division(sign, kind, left, right)
    neutral = _neutral(sign, left, right)
    if neutral is not None:
        return neutral
    if sign in ("&", "|", "^"):
        return Op(sign, left, right)
    if sign == "-" and not kind.signed and type(right) is Const:
        return cut(Op("+", left, Const(wrap(-right.number, kind), kind.width)), kind)
    return cut(Op(sign, left, right), kind)


def _neutral(sign: str, left: Value, right: Value) -> Value | None:
    """The result where one operand does not change the other."""
    if type(right) is Const and right.number == 0 and sign in ("+", "-", "|", "^"):
        return left
    if type(left) is Const and left.number == 0 and sign in ("+", "|", "^"):
        return right
    if sign == "*":
        for one, other in ((left, right), (right, left)):
            if type(one) is Const and one.number == 1:
                return other
    return None


def _division(sign: str, kind: Bits, left: Value, right: Value) -> Value:
    if type(right) is Const and right.number > 0 and not right.number & (right.number - 1) and not kind.signed:
        if sign == "/":
            return shift(">>", kind, left, Const(right.number.bit_length() - 1))
        return mask(left, right.number - 1, kind.width)
    return Op(sign, left, right)


def shift(sign: str, kind: Bits, left: Value, right: Value) -> Value:
    """A shift; one by the width or more gives 0, or -1 for negative numbers shifted to the right."""
    if type(right) is Const:
        if right.number == 0:
            return left
        if right.number >= kind.width and (sign == "<<" or not kind.signed):
            return Const(0, kind.width)
        right = Const(min(right.number, kind.width - 1))
    moved = Op(sign, left, right)
    return cut(moved, kind) if sign == "<<" else moved


def piece(value: Value, low: int, width: int) -> Value:
    """Bits `low` to `low + width - 1` as a `bit<width>`."""
    if type(value) is Const:
        return Const(value.number >> low & ((1 << width) - 1), width)
    moved = Op(">>", value, Const(low)) if low else value
    return mask(moved, (1 << width) - 1, width)


def with_piece(whole: Value, low: int, width: int, total: Bits, new: Value) -> Value:
    """`whole` with bits `low` to `low + width - 1` replaced."""
    ones = (1 << width) - 1
    if width == total.width:
        return convert(new, Bits(width), total)
    kept = Op("&", whole, Const(((1 << total.width) - 1) & ~(ones << low), total.width))
    if type(new) is Const:
        number = (new.number & ones) << low
        merged: Value = Op("|", kept, Const(number, total.width)) if number else kept
    else:
        merged = Op("|", kept, Op("<<", new, Const(low)) if low else new)
    return Op("two_comp_mod", merged, Const(total.width)) if total.signed else merged


def concatenate(left: Value, left_type: Bits, right: Value, right_type: Bits, kind: Bits) -> Value:
    high = convert(left, left_type, Bits(left_type.width))
    low = convert(right, right_type, Bits(right_type.width))
    if type(high) is Const and type(low) is Const:
        return Const(wrap(high.number << right_type.width | low.number, kind), kind.width)
    shifted: Value
    if type(high) is Const:
        shifted = Const(high.number << right_type.width, kind.width)
    else:
        shifted = Op("<<", high, Const(right_type.width))
    joined = Op("|", shifted, low)
    return cut(joined, kind) if kind.signed else joined


def convert(value: Value, source: Type, target: Type) -> Value:
    """A cast between scalars (section 8.11)."""
    source, target = underlying(source), underlying(target)
    if source == target:
        return value
    if target == BOOL:
        return compare("==", value, Const(1, 1))
    if source == BOOL:
        bit = as_data(value)
        return Const(wrap(bit.number, target), target.width) if type(bit) is Const and type(target) is Bits else bit
    if type(target) is not Bits:
        return value
    if type(value) is Const:
        return Const(wrap(value.number, target), target.width)
    if type(source) is Bits:
        unsigned_fits = not source.signed and not target.signed and target.width >= source.width
        if unsigned_fits or (target.signed and target.width >= source.width + (not source.signed)):
            return value
    return cut(value, target)


def negate(kind: Bits, value: Value) -> Value:
    if type(value) is Const:
        return Const(wrap(-value.number, kind), kind.width)
    return cut(Op("-", Const(0, kind.width), value), kind)


def complement(kind: Bits, value: Value) -> Value:
    if type(value) is Const:
        return Const(wrap(~value.number, kind), kind.width)
    inverted = Op("~", None, value)
    return inverted if kind.signed else cut(inverted, kind)


# ---------------------------------------------------------------- conditions


def compare(sign: str, left: Value, right: Value) -> Value:
    if type(left) is Const and type(right) is Const:
        return Truth(OPERATORS[sign](left.number, right.number))
    return Op(sign, left, right)


def same_truth(left: Value, right: Value, *, equal: bool) -> Value:
    """Return whether two conditions are equal, or different."""
    for one, other in ((left, right), (right, left)):
        if type(one) is Truth:
            return other if one.value == equal else invert(other)
    return Op("==" if equal else "!=", left, right)


def invert(condition: Value) -> Value:
    if type(condition) is Truth:
        return Truth(not condition.value)
    if type(condition) is Op and condition.operator == "not" and isinstance(condition.right, Value):
        return condition.right
    return Op("not", None, condition)


def both(left: Value, right: Value) -> Value:
    for one, other in ((left, right), (right, left)):
        if type(one) is Truth:
            return other if one.value else one
    return Op("and", left, right)


def either(left: Value, right: Value) -> Value:
    for one, other in ((left, right), (right, left)):
        if type(one) is Truth:
            return one if one.value else other
    return Op("or", left, right)


def choose(condition: Value, yes: Value, no: Value) -> Value:
    """`condition ? yes : no` of two numbers."""
    if type(condition) is Truth:
        return yes if condition.value else no
    if yes == no:
        return yes
    return Op("?", yes, no, condition)


def as_data(condition: Value) -> Value:
    """A condition as the number 0 or 1."""
    if type(condition) is Truth:
        return Const(int(condition.value), 1)
    if type(condition) is Op and condition.operator == "d2b" and type(condition.right) is ir.Field:
        return condition.right
    return Op("b2d", None, condition)


def as_condition(bit: Value) -> Value:
    """A number of one bit as a condition."""
    if type(bit) is Const:
        return Truth(bit.number != 0)
    if type(bit) is Op and bit.operator == "b2d" and isinstance(bit.right, Value):
        return bit.right
    return Op("d2b", None, bit)
