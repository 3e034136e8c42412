# SPDX-License-Identifier: Apache-2.0
"""The native function `prefetch`: asks the cache for what most packets of a switch will touch.

In a large fabric every switch finds the processor's cache full of other switches' state when its turn comes
(`detour.engine.loop.prefetch`). Its packets would wait for one line after the other; asked for at once, the waits
overlap.
Asked for are the state block, default entries, the filters of prefixes, the beginnings of blocks, of counters and of
registers, which usually are indexed by port, and what packets have touched in tables (`trail`); counters that are not
in use are left out. Nothing is changed, and a hint for memory that is not there does no harm.
"""

from __future__ import annotations

from functools import partial

from detour.engine.compiler import slots, trail
from detour.engine.compiler.context import CompilationUnit, FunctionContext
from detour.engine.compiler.ir import Module, Value, const
from detour.engine.compiler.model import TableIr
from detour.engine.compiler.runtime import loop
from detour.engine.compiler.slots import key_layout, record_words

_LINE = 64
_BLOCK_BYTES = 5 * _LINE
_MOST_GROUPS = 8
_MOST_FILTER_WORDS = 128


def write_prefetch(program: CompilationUnit) -> None:
    """Write `prefetch`: (sw, bytes at the beginning of every array) -> 0. With 0 bytes it asks for the state block,
    which says where all else is; with more, once that is there, for the rest."""
    _write_region(program.module)
    ctx = FunctionContext(program, "i64 @prefetch(ptr noalias align 8 %sw, i64 %reach) nounwind")
    begin = ctx.f.compare("eq", Value(64, "%reach"), const(64, 0))
    ctx.when(begin, partial(_block, ctx), partial(_rest, ctx))
    ctx.f.ret(const(64, 0))


def _block(ctx: FunctionContext) -> None:
    f, own = ctx.f, ctx.program.slots
    _region(ctx, "%sw", const(64, 8 * own.used))
    _region(ctx, f.at("%sw", 8 * own.trail), const(64, slots.TRAIL_BYTES * slots.TRAIL))


def _rest(ctx: FunctionContext) -> None:
    f, own = ctx.f, ctx.program.slots
    every = [(table, own.tables[table.name]) for table in ctx.program.model.tables.values()]
    tables = [(table, slot) for table, slot in every if table.key]
    for table, slot in tables:
        if table.match_type != "exact":
            _region(ctx, ctx.slot(slot + slots.GROUPS), f.op("mul", _groups(ctx, slot), const(64, _row_bytes(table))))
    for table, slot in every:
        if table.key or record_words(table) > 1:  # else it has one action, without parameters
            _region(ctx, ctx.slot(slot + slots.RECORDS), const(64, 8 * record_words(table)))
    for first in own.counters.values():
        used = f.compare("ne", ctx.word(first + slots.COUNTER_USED), const(64, 0))
        ctx.when(used, partial(_region, ctx, ctx.slot(first), Value(64, "%reach")))
    for first in own.registers.values():
        _region(ctx, ctx.slot(first), Value(64, "%reach"))
    trail.follow(f, own)
    for table, slot in tables:
        if table.match_type != "exact":
            (_filters if table.match_type == "lpm" else _first_block)(ctx, table, slot)


def _write_region(module: Module) -> None:
    """fetch_region(base, bytes): all lines of it, wherever in one it begins."""
    f = module.function("internal void @fetch_region(ptr %base, i64 %bytes) noinline nounwind")
    begin = Value(64, f.value("ptrtoint ptr %base to i64"))
    before = f.op("and", begin, const(64, _LINE - 1))
    lines = f.lshr(f.op("add", f.op("add", before, Value(64, "%bytes")), const(64, _LINE - 1)), 6)

    def ask(i: Value) -> None:
        line = f.at("%base", f.op("sub", f.shl(i, 6), before))
        f.line(f"call void @llvm.prefetch.p0(ptr {line}, i32 1, i32 3, i32 1)")

    loop(f, lines, ask)
    f.ret()


def _region(ctx: FunctionContext, base: str, size: Value) -> None:
    ctx.f.call_void("fetch_region", [base, size])


def _groups(ctx: FunctionContext, slot: int) -> Value:
    """The number of groups or blocks of a table that are asked for."""
    f, count = ctx.f, ctx.word(slot + slots.GROUP_COUNT)
    return f.select(f.compare("ult", count, const(64, _MOST_GROUPS)), count, const(64, _MOST_GROUPS))


def _row_bytes(table: TableIr) -> int:
    """Bytes of the row of a group or block."""
    return 8 * (slots.GROUP_HEAD + key_layout(table.key).words * (table.match_type == "lpm"))


def _filters(ctx: FunctionContext, table: TableIr, slot: int) -> None:
    """The rows of an LPM table's groups, and the filters in front of their slots."""
    f = ctx.f
    rows = ctx.slot(slot + slots.GROUPS)

    def ask(i: Value) -> None:
        row = f.at(rows, f.op("mul", i, const(64, _row_bytes(table))))
        mask = f.load(64, f.at(row, 8), 8)
        _filter(ctx, row, mask)

    loop(f, _groups(ctx, slot), ask)


def _first_block(ctx: FunctionContext, table: TableIr, slot: int) -> None:
    """Prefetch the head of a ternary table's first block, and the part looked at for two nibbles."""
    rows = ctx.slot(slot + slots.GROUPS)

    def ask() -> None:
        _region(ctx, ctx.f.load_pointer(rows), const(64, _BLOCK_BYTES))

    ctx.when(ctx.f.compare("ne", ctx.word(slot + slots.GROUP_COUNT), const(64, 0)), ask)


def _filter(ctx: FunctionContext, row: str, mask: Value) -> None:
    f = ctx.f
    words = f.op("add", f.op("or", f.lshr(mask, slots.FILTER_SLOTS_SHIFT), const(64, slots.FILTER_LEAST)), const(64, 1))
    size = f.shl(words, 3)
    short = f.compare("ule", words, const(64, _MOST_FILTER_WORDS))
    begin = f.at(f.load_pointer(row), f.op("sub", const(64, 0), size))
    _region(ctx, begin, f.select(short, size, const(64, 0)))
