# SPDX-License-Identifier: Apache-2.0
"""Small native functions that compiled programs call; each is added to a module when first needed."""

from __future__ import annotations

from collections.abc import Callable

from detour.engine.compiler.ir import Function, Module, Value, const
from detour.engine.compiler.slots import RANDOM

_WRITERS: dict[str, Callable[[Module], None]] = {}


def runtime(module: Module, name: str) -> str:
    """Add a runtime function to the module unless it is there; return its name."""
    if name not in module.runtime:
        module.runtime.add(name)
        _WRITERS[name](module)
    return f"rt_{name}"


def _writer(f: Callable[[Module], None]) -> Callable[[Module], None]:
    _WRITERS[f.__name__.lstrip("_")] = f
    return f


def loop(f: Function, count: Value, body: Callable[[Value], None]) -> None:
    """for (i = 0; i < count; i++) body(i), all i64."""
    index = f.variable(64)
    head, inner, end = f.block("loop"), f.block("inner"), f.block("after")
    f.enter(head)
    i = f.load(64, index, 8)
    f.branch(f.compare("ult", i, count), inner, end)
    f.enter(inner)
    body(i)
    f.store(f.op("add", i, const(64, 1)), index, 8)
    f.jump(head)
    f.enter(end)


def each_bit(f: Function, bits: str, body: Callable[[Value], None]) -> None:
    """Take the bits that are set in a 64-bit variable out of it, the lowest one first: body(number)."""
    head, inner, end = f.block("bits"), f.block("bit"), f.block("after")
    f.enter(head)
    left = f.load(64, bits, 8)
    f.branch(f.compare("eq", left, const(64, 0)), end, inner)
    f.enter(inner)
    f.store(f.op("and", left, f.op("sub", left, const(64, 1))), bits, 8)
    body(f.trailing_zeros(left))
    f.jump(head)
    f.enter(end)


@_writer
def _variable_equal(module: Module) -> None:
    """rt_variable_equal(a, bytes of a, b, bytes of b): equal as big-endian numbers?"""
    f = module.function("internal i1 @rt_variable_equal(ptr %a, i64 %na, ptr %b, i64 %nb) nounwind")
    na, nb = Value(64, "%na"), Value(64, "%nb")
    more = f.compare("ugt", na, nb)
    longest = f.select(more, na, nb)
    differ = f.variable(8)

    def digit(base: str, count: Value, i: Value) -> Value:
        inside = f.compare("ult", i, count)
        at = f.op("sub", f.op("sub", count, const(64, 1)), i)
        at = f.select(inside, at, const(64, 0))
        # Both fields have at least one byte of memory, so the load is safe even for an empty one.
        return f.select(inside, f.load(8, f.at(base, at)), const(8, 0))

    def step(i: Value) -> None:
        x = f.op("xor", digit("%a", na, i), digit("%b", nb, i))
        f.store(f.op("or", f.load(8, differ), x), differ)

    loop(f, longest, step)
    f.ret(f.compare("eq", f.load(8, differ), const(8, 0)))


@_writer
def _put_bits(module: Module) -> None:
    """rt_put_bits(dst, bit offset, src, bytes): copies whole bytes to a bit position, or-ing into memory."""
    f = module.function("internal void @rt_put_bits(ptr %dst, i64 %at, ptr %src, i64 %n) nounwind")
    at = Value(64, "%at")
    shift = f.op("and", at, const(64, 7))
    base = f.at("%dst", f.lshr(at, 3))

    def step(i: Value) -> None:
        byte = f.resize(f.load(8, f.at("%src", i)), 16)
        wide = f.raw("shl", byte, f.resize(f.op("sub", const(64, 8), shift), 16))
        to = f.at(base, i)
        f.store(f.op("or", f.load(8, to), f.resize(f.lshr(wide, 8), 8)), to)
        following = f.at(to, 1)
        f.store(f.resize(wide, 8), following)

    loop(f, Value(64, "%n"), step)
    f.ret()


@_writer
def _get_bits(module: Module) -> None:
    """rt_get_bits(dst, src, bit offset, bytes): copies bytes from a bit position."""
    f = module.function("internal void @rt_get_bits(ptr %dst, ptr %src, i64 %at, i64 %n) nounwind")
    at = Value(64, "%at")
    shift = f.op("and", at, const(64, 7))
    base = f.at("%src", f.lshr(at, 3))
    aligned = f.compare("eq", shift, const(64, 0))

    def step(i: Value) -> None:
        first = f.at(base, i)
        # The byte behind is looked at only if bits of it are wanted.
        second = f.at(first, f.select(aligned, const(64, 0), const(64, 1)))
        wide = f.op("or", f.shl(f.resize(f.load(8, first), 16), 8), f.resize(f.load(8, second), 16))
        v = f.raw("lshr", wide, f.resize(f.op("sub", const(64, 8), shift), 16))
        f.store(f.resize(v, 8), f.at("%dst", i))

    loop(f, Value(64, "%n"), step)
    f.ret()


@_writer
def _wide_division(module: Module) -> None:
    """__udivti3 and __umodti3, which LLVM calls for divisions of more than 64 bits: nothing else provides them. Long
    division, a bit at a time."""
    for name, part in (("__udivti3", 0), ("__umodti3", 1)):
        f = module.function(f"i128 @{name}(i128 %a, i128 %b) noinline nounwind")
        rest, quotient = f.alloca("i128", 16), f.alloca("i128", 16)
        f.store(Value(128, "%a"), quotient, 16)
        f.store(const(128, 0), rest, 16)

        def step(_: Value, f: Function = f, rest: str = rest, quotient: str = quotient) -> None:
            q, r = f.load(128, quotient, 16), f.load(128, rest, 16)
            # The bit that leaves `rest` on the left counts as well.
            carry = f.resize(f.lshr(r, 127), 1)
            r = f.op("or", f.shl(r, 1), f.lshr(q, 127))
            divisor = Value(128, "%b")
            fits = f.op("or", carry, f.compare("uge", r, divisor))
            f.store(f.select(fits, f.op("sub", r, divisor), r), rest, 16)
            f.store(f.op("or", f.shl(q, 1), f.resize(fits, 128)), quotient, 16)

        loop(f, const(64, 128), step)
        f.ret(f.load(128, (quotient, rest)[part], 16))


@_writer
def _random(module: Module) -> None:
    """rt_random(sw): 64 random bits (splitmix64 on the switch's own state)."""
    f = module.function("internal i64 @rt_random(ptr %sw) nounwind")
    slot = f.at("%sw", 8 * RANDOM)
    z = f.op("add", f.load(64, slot, 8), const(64, 0x9E3779B97F4A7C15))
    f.store(z, slot, 8)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = f.op("mul", f.op("xor", z, f.lshr(z, shift)), const(64, factor))
    f.ret(f.op("xor", z, f.lshr(z, 31)))


@_writer
def _meter(module: Module) -> None:
    """rt_meter(row, now, amount): colour of a packet; peak rate first, then committed rate, as in BMv2."""
    f = module.function("internal i32 @rt_meter(ptr %row, i64 %now, i64 %amount) nounwind")
    amount = Value(64, "%amount")
    ready = f.block("ready")
    green = f.block("green")
    f.branch(f.compare("ne", f.load(64, "%row", 8), const(64, 0)), ready, green)
    f.enter(ready)
    ticks = f.load(64, f.at("%row", 8), 8)
    for rate, colour in ((2, 2), (6, 1)):
        burst = f.load(64, f.at("%row", 8 * (rate + 1)), 8)
        tokens_at, last_at = f.at("%row", 8 * (rate + 2)), f.at("%row", 8 * (rate + 3))
        total = _tokens_since_start(f, f.load(64, f.at("%row", 8 * rate), 8), ticks)
        fresh = f.op("sub", total, f.load(64, last_at, 8))
        f.store(total, last_at, 8)
        tokens = f.op("add", f.load(64, tokens_at, 8), fresh)
        tokens = f.select(f.compare("ult", tokens, burst), tokens, burst)
        enough, short = f.block("enough"), f.block("short")
        f.store(tokens, tokens_at, 8)
        f.branch(f.compare("uge", tokens, amount), enough, short)
        f.enter(short)
        f.ret(const(32, colour))
        f.enter(enough)
        f.store(f.op("sub", tokens, amount), tokens_at, 8)
    f.enter(green)
    f.ret(const(32, 0))


def _tokens_since_start(f: Function, rate: Value, ticks: Value) -> Value:
    """now * rate / ticks, rounded down: a floating point guess, and the remainder that it leaves, which fits 64 bits
    although the product does not."""
    now = Value(64, "%now")
    per_tick = f.value(f"fdiv double {_double(f, rate)}, {_double(f, ticks)}")
    product = f.value(f"fmul double {_double(f, now)}, {per_tick}")
    guess = Value(64, f.value(f"call i64 @llvm.fptoui.sat.i64.f64(double {product})"))
    left = f.op("sub", f.op("mul", now, rate), f.op("mul", guess, ticks))
    more = f.raw("sdiv", left, ticks)
    below = f.compare("slt", f.op("sub", left, f.op("mul", more, ticks)), const(64, 0))
    return f.op("sub", f.op("add", guess, more), f.resize(below, 64))


def _double(f: Function, value: Value) -> str:
    return f.value(f"uitofp i64 {value.ref} to double")
