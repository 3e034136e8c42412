# SPDX-License-Identifier: Apache-2.0
"""Counters, meters and registers. An index out of bounds does nothing, as in BMv2."""

from __future__ import annotations

from collections.abc import Callable

from detour.engine import phv
from detour.engine.compiler.context import FunctionContext
from detour.engine.compiler.expressions import low
from detour.engine.compiler.ir import Value, const
from detour.engine.compiler.layout import container
from detour.engine.compiler.model import Array, Json, named, refuse
from detour.engine.compiler.runtime import runtime
from detour.engine.compiler.slots import COUNTER_USED, METER_WORDS, NOW


def _array(arrays: dict[str, Array], e: Json, what: str) -> Array:
    found = named(arrays, e, what, e)
    if found.direct:
        raise refuse(f"there is no {what} '{e['value']}'", e)
    return found


def _in_bounds(ctx: FunctionContext, array: Array, index: Json, then: Callable[[Value], None]) -> None:
    """Runs `then` with the index as i64 if it is below the array's size (BMv2 looks at its low 32 bits)."""
    i = ctx.f.resize(low(ctx, index, 32), 64)
    ctx.when(ctx.f.compare("ult", i, const(64, array.size)), lambda: then(i))


def count_packet(ctx: FunctionContext, packets_at: str, bytes_at: str) -> None:
    """Adds one packet and its ingress length."""
    f = ctx.f
    f.store(f.op("add", f.load(64, packets_at, 8), const(64, 1)), packets_at, 8)
    size = f.resize(ctx.fixed(phv.INGRESS_LENGTH), 64)
    f.store(f.op("add", f.load(64, bytes_at, 8), size), bytes_at, 8)


def count(ctx: FunctionContext, counter: Json, index: Json) -> None:
    """The primitive count(counter, index)."""
    array = _array(ctx.model.counters, counter, "counter")

    def add(i: Value) -> None:
        slot = ctx.slots.counters[array.name]
        ctx.f.store(const(64, 1), ctx.f.at("%sw", 8 * (slot + COUNTER_USED)), 8)
        at = ctx.f.at(ctx.slot(slot), ctx.f.shl(i, 4))
        count_packet(ctx, at, ctx.f.at(at, 8))

    _in_bounds(ctx, array, index, add)


def meter_colour(ctx: FunctionContext, row: str, unit: str) -> Value:
    """Runs the meter in that row; the colour, i32."""
    f = ctx.f
    now = f.load(64, f.at("%sw", 8 * NOW), 8)
    amount = const(64, 1) if unit == "packets" else f.resize(ctx.fixed(phv.INGRESS_LENGTH), 64)
    return f.call(32, runtime(ctx.module, "meter"), [row, now, amount])


def execute_meter(ctx: FunctionContext, meter: Json, index: Json, result: Callable[[Value], None]) -> None:
    """The primitive execute_meter(meter, index, field)."""
    array = _array(ctx.model.meters, meter, "meter")

    def run(i: Value) -> None:
        offset = ctx.f.op("mul", i, const(64, 8 * METER_WORDS))
        row = ctx.f.at(ctx.slot(ctx.slots.meters[array.name]), offset)
        result(meter_colour(ctx, row, array.unit))

    _in_bounds(ctx, array, index, run)


def _cell(ctx: FunctionContext, array: Array, i: Value) -> tuple[str, int]:
    size = container(array.bits)
    base = ctx.slot(ctx.slots.registers[array.name])
    return ctx.f.at(base, ctx.f.op("mul", i, const(64, size))), size


def read_register(ctx: FunctionContext, register: Json, index: Json, result: Callable[[Value], None]) -> None:
    """The primitive register_read(field, register, index)."""
    array = _array(ctx.model.registers, register, "register")

    def read(i: Value) -> None:
        at, size = _cell(ctx, array, i)
        result(ctx.f.resize(ctx.f.load(8 * size, at, min(size, 8)), array.bits))

    _in_bounds(ctx, array, index, read)


def write_register(ctx: FunctionContext, register: Json, index: Json, value: Json) -> None:
    """The primitive register_write(register, index, value)."""
    array = _array(ctx.model.registers, register, "register")

    def write(i: Value) -> None:
        v = low(ctx, value, array.bits)
        at, size = _cell(ctx, array, i)
        ctx.f.store(ctx.f.resize(v, 8 * size), at, min(size, 8))

    _in_bounds(ctx, array, index, write)
