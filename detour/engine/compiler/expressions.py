# SPDX-License-Identifier: Apache-2.0
"""Expressions.

BMv2 computes with unlimited integers and cuts a value when it is stored. Two ways of compiling come to the
same: `low(e, n)` gives the value modulo 2^n, which for sums, products and bit operations needs no more than n
bits of the operands; `exact(e)` gives a value wide enough that nothing is lost, for comparisons, divisions,
right shifts and saturation. p4c masks every result that could grow, so widths stay near those of the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from detour.engine import phv
from detour.engine.compiler.context import FunctionContext, HeaderRef, UnionRef
from detour.engine.compiler.ir import FALSE, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import FieldSpec, Json, Stack, find, parse_hex, refuse
from detour.engine.compiler.runtime import runtime
from detour.engine.compiler.values import clamp

_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul"}
_BITWISE = {"&": "and", "|": "or", "^": "xor"}
_KINDS = {
    # what operators and types yield, if not data
    **dict.fromkeys(("and", "or", "not", "==", "!=", *_COMPARE, "valid", "valid_union", "d2b", "bool"), "bool"),
    **dict.fromkeys(("dereference_header_stack", "dereference_stack", "access_union_header", "header"), "header"),
    **dict.fromkeys(("dereference_union_stack", "header_union"), "union"),
    **dict.fromkeys(("header_stack", "header_union_stack"), "stack"),
}
_EFFECTS = ("/", "%", "dereference_header_stack", "dereference_stack", "dereference_union_stack")
_MAX_SHIFT_BITS = 10  # a left shift by a wider amount must be masked by the program


class Number(NamedTuple):
    """A value that is exact: unsigned, or in two's complement if `signed`."""

    value: Value
    signed: bool


def kind(e: Json) -> str:
    """Return the kind of value that an expression yields: data, bool, header, union, stack."""
    e = unwrap(e)
    if e["type"] != "expression":
        return _KINDS.get(e["type"], "data")
    v = e["value"]
    return kind(v["left"]) if v["op"] == "?" else _KINDS.get(v["op"], "data")


def unwrap(e: Json) -> Json:
    """p4c wraps some expressions in a second object."""
    while e["type"] == "expression" and "op" not in e["value"]:
        e = e["value"]
    return e


# -- headers


def header(ctx: FunctionContext, e: Json) -> HeaderRef:
    e = unwrap(e)
    if e["type"] == "header":
        return ctx.header(e["value"], e)
    v = e["value"]
    if e["type"] == "stack_field" and v[1] == "last":
        return ctx.last_element(_header_stack(ctx, v[0], e))[0]
    if e["type"] != "expression":
        raise refuse(f"'{e['type']}' as a header", e)
    match v.get("op"):
        case "dereference_header_stack" | "dereference_stack":
            return ctx.element(_header_stack(ctx, stack_name(v["left"]), e), exact(ctx, v["right"]).value)[0]
        case "access_union_header":
            members = union(ctx, v["left"])
            if not 0 <= v["right"] < len(members):
                raise refuse(f"member {v['right']} of a union of {len(members)} headers", e)
            return members[v["right"]]
    raise refuse(f"header expression '{v.get('op')}'", e)


def union(ctx: FunctionContext, e: Json) -> UnionRef:
    e = unwrap(e)
    if e["type"] == "header_union":
        return tuple(map(ctx.ref, find(ctx.model.unions, e["value"], "header union", e).headers))
    if e["type"] != "expression":
        raise refuse(f"'{e['type']}' as a header union", e)
    v = e["value"]
    if v.get("op") == "dereference_union_stack":
        stack = find(ctx.model.union_stacks, stack_name(v["left"]), "stack of header unions", e)
        return ctx.element(stack, exact(ctx, v["right"]).value)
    raise refuse(f"union expression '{v.get('op')}'", e)


def stack_name(e: Json) -> str:
    e = unwrap(e)
    if e["type"] not in ("header_stack", "header_union_stack"):
        raise refuse(f"'{e['type']}' as a header stack", e)
    return e["value"]


def _header_stack(ctx: FunctionContext, name: str, at: Json) -> Stack:
    return find(ctx.model.stacks, name, "header stack", at)


def member_of(stack: Stack, name: str, at: Json) -> int:
    """The number of a member of the unions in a stack."""
    if name not in stack.members:
        raise refuse(f"stack of header unions '{stack.name}' has no member '{name}'", at)
    return stack.members.index(name)


def lvalue(ctx: FunctionContext, e: Json) -> tuple[HeaderRef, str]:
    """The header and field that an expression names."""
    e = unwrap(e)
    v = e["value"]
    if e["type"] == "field":
        if isinstance(v[0], dict):  # validity of an element chosen at run time
            return header(ctx, {"type": "expression", "value": v[0]}), v[1]
        return ctx.header(v[0], e), v[1]
    if e["type"] == "stack_field":
        return ctx.last_element(_header_stack(ctx, v[0], e))[0], v[1]
    if e["type"] == "union_stack_field":
        stack = find(ctx.model.union_stacks, v[0], "stack of header unions", e)
        return ctx.last_element(stack)[member_of(stack, v[1], e)], v[2]
    if e["type"] == "expression" and v.get("op") == "access_field":
        ref, number = header(ctx, v["left"]), v["right"]
        if number < 0:
            raise refuse(f"field {number} of a header", e)
        return ref, ref.type.fields[number].name if number < len(ref.type.fields) else "$valid$"
    raise refuse(f"assignment to '{e['type']}'", e)


def read(ctx: FunctionContext, ref: HeaderRef, name: str) -> Number:
    if name == "$valid$":
        return Number(ctx.is_valid(ref), False)
    spec = find_field(ref.header, name)
    return Number(ctx.load_field(ref, spec), spec.signed)


# -- booleans


def boolean(ctx: FunctionContext, e: Json) -> Value:
    """A boolean expression, i1."""
    e = unwrap(e)
    if e["type"] == "bool":
        return const(1, int(bool(e["value"])))
    if e["type"] != "expression":
        raise refuse(f"'{e['type']}' as a condition", e)
    v = e["value"]
    op, f = v["op"], ctx.f
    match op:
        case "and" | "or":
            return f.op(op, boolean(ctx, v["left"]), boolean(ctx, v["right"]))
        case "not":
            return f.negate(boolean(ctx, v["right"]))
        case "d2b":
            n = exact(ctx, v["right"])
            return f.compare("ne", n.value, const(n.value.bits, 0))
        case "valid":
            return ctx.is_valid(header(ctx, v["right"]))
        case "valid_union":
            return ctx.union_valid(union(ctx, v["right"]))
        case "?":
            return _choose(ctx, v, lambda side: boolean(ctx, side), 1)
        case "==" | "!=":
            same = _equal(ctx, v["left"], v["right"])
            return same if op == "==" else f.negate(same)
        case "<" | "<=" | ">" | ">=":
            a, b, signed = _unify(ctx, exact(ctx, v["left"]), exact(ctx, v["right"]))
            return f.compare(("s" if signed else "u") + _COMPARE[op], a, b)
    raise refuse(f"condition '{op}'", e)


def _equal(ctx: FunctionContext, left: Json, right: Json) -> Value:
    match kind(left):
        case "bool":
            return ctx.f.negate(ctx.f.op("xor", boolean(ctx, left), boolean(ctx, right)))
        case "header":
            return _equal_headers(ctx, header(ctx, left), header(ctx, right))
        case "union":
            same, ones, others = FALSE, union(ctx, left), union(ctx, right)
            if len(ones) != len(others):
                raise refuse("a comparison of unions of different types")
            for a, b in zip(ones, others, strict=True):
                same = ctx.f.op("or", same, _equal_headers(ctx, a, b))
            return same
    variable = [_variable(ctx, e) for e in (left, right)]
    if variable[0] and variable[1]:
        return ctx.equal_variable(*variable[0], *variable[1])
    a, b, _ = _unify(ctx, exact(ctx, left), exact(ctx, right))
    return ctx.f.compare("eq", a, b)


def _variable(ctx: FunctionContext, e: Json) -> tuple[HeaderRef, FieldSpec] | None:
    """The variable-length field that an expression names, if it does."""
    e = unwrap(e)
    if e["type"] != "field" or isinstance(e["value"][0], dict):
        return None
    ref, name = lvalue(ctx, e)
    spec = ref.type.variable
    return (ref, spec) if spec and spec.name == name else None


def _equal_headers(ctx: FunctionContext, a: HeaderRef, b: HeaderRef) -> Value:
    """BMv2: both valid and all fields equal; two invalid headers are not equal."""
    if a.type.name != b.type.name:
        return FALSE
    same = ctx.f.op("and", ctx.is_valid(a), ctx.is_valid(b))
    for spec in a.type.fields:
        if spec.variable:
            equal = ctx.equal_variable(a, spec, b, spec)
        else:
            equal = ctx.f.compare("eq", ctx.load_field(a, spec), ctx.load_field(b, spec))
        same = ctx.f.op("and", same, equal)
    return same


def _has_effects(e: Json) -> bool:
    """Evaluating it when BMv2 would not could set an error."""
    if isinstance(e, list):
        return any(_has_effects(x) for x in e)
    if not isinstance(e, dict):
        return False
    return e.get("op") in _EFFECTS or e.get("type") in _EFFECTS or any(_has_effects(x) for x in e.values())


def _choose(ctx: FunctionContext, v: Json, side: Callable[[Json], Value], bits: int) -> Value:
    """`cond ? left : right`, where `side` compiles one of them to `bits` bits."""
    f, cond = ctx.f, boolean(ctx, v["cond"])
    if cond.const is not None:
        return side(v["left"] if cond.const else v["right"])
    if not _has_effects(v["left"]) and not _has_effects(v["right"]):
        return f.select(cond, side(v["left"]), side(v["right"]))
    result = f.alloca(f"i{bits}")
    ctx.when(cond, lambda: f.store(side(v["left"]), result, 8), lambda: f.store(side(v["right"]), result, 8))
    return f.load(bits, result, 8)


# -- numbers modulo 2^n


def low(ctx: FunctionContext, e: Json, n: int) -> Value:
    """The value modulo 2^n."""
    e = unwrap(e)
    f = ctx.f
    if e["type"] == "hexstr":
        return const(n, parse_hex(e["value"]))
    v = e["value"] if e["type"] == "expression" else {"op": None}
    op, left, right = v["op"], v.get("left"), v.get("right")
    match op:
        case "+" | "-" | "*":
            a = low(ctx, left, n) if left is not None else const(n, 0)
            return f.op(_ARITHMETIC[op], a, low(ctx, right, n))
        case "&":
            return _low_and(ctx, left, right, n)
        case "|" | "^":
            return f.op(_BITWISE[op], low(ctx, left, n), low(ctx, right, n))
        case "~":
            return f.op("xor", low(ctx, right, n), const(n, -1))
        case "<<":
            return _low_shift_left(ctx, left, right, n)
        case ">>":
            by = constant(right)
            if by is not None and by >= 0:
                return f.resize(f.lshr(low(ctx, left, n + by), by), n)
        case "?":
            return _choose(ctx, v, lambda side: low(ctx, side, n), n)
        case "two_comp_mod":
            width = constant(right)
            if width is not None:
                return f.resize(low(ctx, left, min(n, width)), n, signed=True)
    a = exact(ctx, e)
    return f.resize(a.value, n, a.signed)


def _mask(left: Json, right: Json, limit: float = float("inf")) -> tuple[Json, int] | None:
    """Split an `and` with a constant from 0 to below `limit`: the other operand, and the constant."""
    for value, mask in ((left, right), (right, left)):
        m = constant(mask)
        if m is not None and 0 <= m < limit:
            return value, m
    return None


def _low_and(ctx: FunctionContext, left: Json, right: Json, n: int) -> Value:
    f, masked = ctx.f, _mask(left, right, 1 << n)
    if masked is None:
        return f.op("and", low(ctx, left, n), low(ctx, right, n))
    value, m = masked
    k = max(m.bit_length(), 1)
    v = low(ctx, value, k)
    return f.resize(v if m == (1 << k) - 1 else f.op("and", v, const(k, m)), n)


def _low_shift_left(ctx: FunctionContext, left: Json, right: Json, n: int) -> Value:
    f, by = ctx.f, constant(right)
    if by is not None and by >= 0:
        return const(n, 0) if by >= n else f.shl(f.resize(low(ctx, left, n - by), n), by)
    amount = exact(ctx, right).value
    inside = _below(ctx, amount, n)
    shift = f.select(inside, f.resize(amount, n), const(n, 0))
    return f.select(inside, f.raw("shl", low(ctx, left, n), shift), const(n, 0))


def _below(ctx: FunctionContext, amount: Value, limit: int) -> Value:
    """i1: a shift is by less than a number of bits."""
    wide = max(amount.bits, 32)
    return ctx.f.compare("ult", ctx.f.resize(amount, wide), const(wide, limit))


def constant(e: Json) -> int | None:
    """The number that an expression is, if it is constant."""
    e = unwrap(e)
    return parse_hex(e["value"]) if e["type"] == "hexstr" else None


# -- exact numbers


def _number(value: int) -> Number:
    if value >= 0:
        return Number(const(max(value.bit_length(), 1), value), False)
    return Number(const((~value).bit_length() + 1, value), True)


def exact(ctx: FunctionContext, e: Json) -> Number:
    """The value with nothing lost."""
    e = unwrap(e)
    match e["type"]:
        case "hexstr":
            return _number(parse_hex(e["value"]))
        case "bool":
            return Number(const(1, int(bool(e["value"]))), False)
        case "field" | "stack_field" | "union_stack_field":
            return read(ctx, *lvalue(ctx, e))
        case "local" | "runtime_data":
            return _argument(ctx, e["value"], e)
        case "expression":
            return _exact_op(ctx, e)
    raise refuse(f"'{e['type']}' in an expression", e)


def _argument(ctx: FunctionContext, number: int, at: Json) -> Number:
    if ctx.action is None or ctx.arguments is None:
        raise refuse("action data outside an action", at)
    if not 0 <= number < len(ctx.action.params):
        raise refuse(f"action '{ctx.action.name}' has no parameter {number}", at)
    p = ctx.action.params[number]
    v = ctx.f.load(64 * p.words, ctx.f.at(ctx.arguments, 8 * p.offset), 8)
    return Number(ctx.f.resize(v, p.bits + p.signed), p.signed)


def _unify(ctx: FunctionContext, a: Number, b: Number) -> tuple[Value, Value, bool]:
    """Both at one width and signedness."""
    signed = a.signed or b.signed
    width = max(n.value.bits + (signed and not n.signed) for n in (a, b))
    x, y = (ctx.f.resize(n.value, width, n.signed) for n in (a, b))
    return x, y, signed


def _exact_op(ctx: FunctionContext, e: Json) -> Number:
    v = e["value"]
    op, left, right, f = v["op"], v.get("left"), v.get("right"), ctx.f
    match op:
        case "+" | "-" | "*":
            a = exact(ctx, left) if left is not None else _number(0)
            return _arithmetic(ctx, op, a, exact(ctx, right))
        case "&" | "|" | "^":
            return _bitwise(ctx, op, left, right)
        case "~":
            a = exact(ctx, right)
            width = a.value.bits + (not a.signed)
            return Number(f.op("xor", f.resize(a.value, width, a.signed), const(width, -1)), True)
        case "<<":
            return _exact_shift_left(ctx, e, left, right)
        case ">>":
            return _exact_shift_right(ctx, left, right)
        case "/" | "%":
            return _divide(ctx, op, left, right)
        case "?":
            return _exact_choice(ctx, v)
        case "two_comp_mod":
            return Number(low(ctx, left, _width(right, e)), True)
        case "usat_cast" | "sat_cast":
            a, width, signed = exact(ctx, left), _width(right, e), op == "sat_cast"
            return Number(f.resize(clamp(f, a.value, a.signed, width, signed), width), signed)
        case "b2d":
            return Number(boolean(ctx, right), False)
        case "last_stack_index" | "size_stack":
            # `size` is the number of elements in use; `lastIndex` of an empty stack is 2^64 - 1, as in BMv2.
            count = f.resize(ctx.next_index(ctx.stack(stack_name(right), right)), 64)
            return Number(f.op("sub", count, const(64, 1)) if op == "last_stack_index" else count, False)
        case "access_field":
            return read(ctx, *lvalue(ctx, e))
    raise refuse(f"operator '{op}'", e)


def _width(e: Json, at: Json) -> int:
    width = constant(e)
    if width is None or width < 1:
        raise refuse("a cast to a width that is not constant", at)
    return width


def _arithmetic(ctx: FunctionContext, op: str, a: Number, b: Number) -> Number:
    signed = a.signed or b.signed or op == "-"
    wa, wb = (n.value.bits + (signed and not n.signed) for n in (a, b))
    if op == "*":
        width = wa + wb
    elif op == "-" and not a.signed and not b.signed:
        width = max(a.value.bits, b.value.bits) + 1
    else:
        width = max(wa, wb) + 1
    x, y = (ctx.f.resize(n.value, width, n.signed) for n in (a, b))
    return Number(ctx.f.op(_ARITHMETIC[op], x, y), signed)


def _bitwise(ctx: FunctionContext, op: str, left: Json, right: Json) -> Number:
    if op == "&" and (masked := _mask(left, right)):
        value, m = masked
        width = max(m.bit_length(), 1)
        return Number(ctx.f.op("and", low(ctx, value, width), const(width, m)), False)
    a, b = exact(ctx, left), exact(ctx, right)
    if op == "&" and a.signed != b.signed:
        # What an unsigned operand does not have, the result has not.
        unsigned, other = (b, a) if a.signed else (a, b)
        resized = ctx.f.resize(other.value, unsigned.value.bits, True)
        return Number(ctx.f.op("and", unsigned.value, resized), False)
    x, y, signed = _unify(ctx, a, b)
    return Number(ctx.f.op(_BITWISE[op], x, y), signed)


def _exact_shift_left(ctx: FunctionContext, e: Json, left: Json, right: Json) -> Number:
    a, by = exact(ctx, left), constant(right)
    if by is not None:
        return Number(ctx.f.shl(ctx.f.resize(a.value, a.value.bits + by, a.signed), by), a.signed)
    amount = exact(ctx, right)
    if amount.signed or amount.value.bits > _MAX_SHIFT_BITS:
        raise refuse(f"a left shift by a {amount.value.bits}-bit amount whose result is not cut to a width", e)
    width = a.value.bits + (1 << amount.value.bits) - 1
    wide = ctx.f.resize(a.value, width, a.signed)
    return Number(ctx.f.raw("shl", wide, ctx.f.resize(amount.value, width)), a.signed)


def _exact_shift_right(ctx: FunctionContext, left: Json, right: Json) -> Number:
    f, a, by = ctx.f, exact(ctx, left), constant(right)
    how, bits = "ashr" if a.signed else "lshr", a.value.bits
    if by is not None:
        if by >= bits and not a.signed:
            return _number(0)
        by = min(by, bits - 1)
        v = f.raw(how, a.value, const(bits, by)) if by else a.value
        return Number(f.resize(v, bits - by), a.signed)
    amount = exact(ctx, right).value
    inside = _below(ctx, amount, bits)
    shift = f.select(inside, f.resize(amount, bits), const(bits, bits - 1 if a.signed else 0))
    v = f.raw(how, a.value, shift)
    return Number(v if a.signed else f.select(inside, v, const(bits, 0)), a.signed)


def _divide(ctx: FunctionContext, op: str, left: Json, right: Json) -> Number:
    """BMv2 aborts on a divisor of zero or a negative operand: the error is set and the result is 0."""
    f = ctx.f
    x, y, signed = _unify(ctx, exact(ctx, left), exact(ctx, right))
    zero = const(x.bits, 0)
    bad = f.compare("eq", y, zero)
    for operand in (x, y) if signed else ():
        bad = f.op("or", bad, f.compare("slt", operand, zero))
    ctx.fail(phv.ERROR_DIVISION, bad)
    if x.bits > 64:
        runtime(ctx.module, "wide_division")
    v = f.raw("udiv" if op == "/" else "urem", x, f.select(bad, const(y.bits, 1), y))
    return Number(f.select(bad, zero, v), False)


def _exact_choice(ctx: FunctionContext, v: Json) -> Number:
    """The width of both sides is found by compiling them into a block that is thrown away."""
    sides = [_probe(ctx, v["left"]), _probe(ctx, v["right"])]
    signed = any(s for _, s in sides)
    width = max(bits + (signed and not s) for bits, s in sides)

    def side(e: Json) -> Value:
        n = exact(ctx, e)
        return ctx.f.resize(n.value, width, n.signed)

    return Number(_choose(ctx, v, side, width), signed)


def _probe(ctx: FunctionContext, e: Json) -> tuple[int, bool]:
    """(bits, signed) of an expression. Remembered, or else time doubles with each choice within a choice."""
    key = id(e), id(ctx.action)
    if key not in ctx.widths:
        with ctx.f.scratch():
            n = exact(ctx, e)
        ctx.widths[key] = n.value.bits, n.signed
    return ctx.widths[key]


def loggable(ctx: FunctionContext, e: Json) -> Number:
    """A value as messages and traces have it."""
    return Number(boolean(ctx, e), False) if kind(e) == "bool" else exact(ctx, e)
