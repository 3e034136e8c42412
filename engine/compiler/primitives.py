# SPDX-License-Identifier: Apache-2.0
"""Primitives: what actions, parser states and deparsers call."""

from __future__ import annotations

from collections.abc import Callable

from detour.engine import phv
from detour.engine.compiler import stateful
from detour.engine.compiler.calculations import hash_by
from detour.engine.compiler.context import FunctionContext
from detour.engine.compiler.expressions import Number, exact, header, loggable, low, lvalue, stack_name, union
from detour.engine.compiler.ir import Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.log_ring import RING_WORDS, LogFormat
from detour.engine.compiler.model import Json, Stack, UnionStack, named, parse_hex, refuse
from detour.engine.compiler.runtime import runtime
from detour.engine.compiler.slots import LOG, RECENT_ERROR
from detour.engine.compiler.traced_primitives import trace_primitive
from detour.engine.compiler.values import (
    add_header,
    assign_header,
    assign_stack,
    assign_union,
    assign_variable,
    pop,
    push,
    remove_header,
    store,
)

Primitive = Callable[[FunctionContext, list[Json], Json], None]
_PRIMITIVES: dict[str, tuple[int, Primitive]] = {}


def run_primitive(ctx: FunctionContext, call: Json) -> None:
    """Compiles one call. Jumps are not handled here but by `actions`."""
    op, args = call["op"], call["parameters"]
    if op not in _PRIMITIVES:
        raise refuse(f"primitive '{op}'", call)
    count, write = _PRIMITIVES[op]
    if len(args) != count:
        raise refuse(f"primitive '{op}' takes {count} arguments, not {len(args)}", call)
    if ctx.trace:
        trace_primitive(ctx, op, args, call, lambda: write(ctx, args, call))
    else:
        write(ctx, args, call)


def _primitive(names: str, count: int) -> Callable[[Primitive], Primitive]:
    def register(f: Primitive) -> Primitive:
        for name in names.split():
            _PRIMITIVES[name] = (count, f)
        return f

    return register


def assign_number(ctx: FunctionContext, target: Json, n: Number) -> None:
    """Assigns an exact value to the field that `target` names."""
    ref, name = lvalue(ctx, target)
    if name == "$valid$":
        raise refuse(f"assignment to the validity of '{ref.header.name}'", target)
    store(ctx, ref, find_field(ref.header, name, target), n.value, n.signed)


def _result(ctx: FunctionContext, target: Json) -> Callable[[Value], None]:
    return lambda v: assign_number(ctx, target, Number(v, False))


# -- assignments


@_primitive("assign modify_field", 2)
def _assign(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ref, name = lvalue(ctx, args[0])
    spec = find_field(ref.header, name, call)
    if spec.variable:
        src, of = lvalue(ctx, args[1])
        assign_variable(ctx, ref, spec, src, find_field(src.header, of, call))
    elif spec.signed or spec.saturating:
        n = exact(ctx, args[1])
        store(ctx, ref, spec, n.value, n.signed)
    else:
        ctx.store_field(ref, spec, low(ctx, args[1], spec.bits))


@_primitive("assign_VL", 2)
def _assign_variable(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    _assign(ctx, args, call)


@_primitive("assign_header copy_header", 2)
def _assign_header(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    assign_header(ctx, header(ctx, args[0]), header(ctx, args[1]))


@_primitive("assign_union", 2)
def _assign_union(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    assign_union(ctx, union(ctx, args[0]), union(ctx, args[1]))


def _stack(ctx: FunctionContext, e: Json, call: Json) -> Stack | UnionStack:
    return ctx.stack(stack_name(e), call)


@_primitive("assign_header_stack assign_union_stack", 2)
def _assign_stack(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    assign_stack(ctx, _stack(ctx, args[0], call), _stack(ctx, args[1], call))


def _arithmetic(op: str) -> Primitive:
    def write(ctx: FunctionContext, args: list[Json], call: Json) -> None:
        left, right = (args[1], args[2]) if len(args) == 3 else (args[0], args[1])
        e = {"type": "expression", "value": {"op": op, "left": left, "right": right}}
        _assign(ctx, [args[0], e], call)

    return write


for _name, _op in (
    ("add", "+"),
    ("subtract", "-"),
    ("bit_and", "&"),
    ("bit_or", "|"),
    ("bit_xor", "^"),
    ("shift_left", "<<"),
    ("shift_right", ">>"),
):
    _primitive(_name, 3)(_arithmetic(_op))
_primitive("add_to_field", 2)(_arithmetic("+"))
_primitive("subtract_from_field", 2)(_arithmetic("-"))


# -- headers and stacks


@_primitive("add_header", 1)
def _add_header(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    add_header(ctx, header(ctx, args[0]))


@_primitive("add_header_fast", 1)
def _add_header_fast(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_valid(header(ctx, args[0]), True)


@_primitive("remove_header", 1)
def _remove_header(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    remove_header(ctx, header(ctx, args[0]))


def _amount(e: Json, call: Json) -> int:
    if e["type"] != "hexstr":
        raise refuse("a stack is pushed or popped by an amount that is not constant", call)
    if parse_hex(e["value"]) < 0:
        raise refuse("a stack is pushed or popped by an amount below 0", call)
    return parse_hex(e["value"])


@_primitive("push", 2)
def _push(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    push(ctx, _stack(ctx, args[0], call), _amount(args[1], call))


@_primitive("pop", 2)
def _pop(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    pop(ctx, _stack(ctx, args[0], call), _amount(args[1], call))


# -- what becomes of the packet


@_primitive("mark_to_drop", 1)
def _mark_to_drop(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """Sets the fields of the header that is given, which may be a copy of standard_metadata."""
    ref = header(ctx, args[0])
    for name, value in (("egress_spec", ctx.drop_port()), ("mcast_grp", const(32, 0))):
        store(ctx, ref, find_field(ref.header, name, call), value, False)


@_primitive("drop", 0)
def _drop(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    _mark_to_drop(ctx, [{"type": "header", "value": "standard_metadata"}], call)


@_primitive("exit", 0)
def _exit(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_fixed(phv.EXITED, const(32, 1))


@_primitive("no_op", 0)
def _no_op(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    pass


def _list_id(ctx: FunctionContext, e: Json) -> Value:
    """A field list as the PHV holds it: plus one."""
    return ctx.f.op("add", ctx.f.resize(low(ctx, e, 16), 32), const(32, 1))


@_primitive("clone_ingress_pkt_to_egress clone_egress_pkt_to_egress", 2)
def _clone(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    session = ctx.f.resize(low(ctx, args[0], 15), 32)
    ctx.set_fixed(phv.CLONE_SESSION, ctx.f.op("add", session, const(32, 1)))
    ctx.set_fixed(phv.CLONE_FIELDS, _list_id(ctx, args[1]))


@_primitive("resubmit", 1)
def _resubmit(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_fixed(phv.RESUBMIT, _list_id(ctx, args[0]))


@_primitive("recirculate", 1)
def _recirculate(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_fixed(phv.RECIRCULATE, _list_id(ctx, args[0]))


@_primitive("generate_digest", 2)
def _digest(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_fixed(phv.DIGEST_LIST, _list_id(ctx, args[1]))


@_primitive("truncate", 1)
def _truncate(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """The smallest of all lengths given; a length of 0 is kept as a flag, since 0 means "not" in the PHV."""
    f = ctx.f
    length = low(ctx, args[0], 64)
    most = const(64, 0xFFFFFFFF)
    length = f.resize(f.select(f.compare("ult", length, most), length, most), 32)
    before = ctx.fixed(phv.TRUNCATE)
    shorter = f.op("or", f.compare("eq", before, const(32, 0)), f.compare("ult", length, before))
    flag = f.at("%phv", ctx.layout.drop_flag)
    nothing = f.resize(f.compare("eq", length, const(32, 0)), 8)
    f.store(f.op("or", f.load(8, flag), nothing), flag)
    ctx.set_fixed(phv.TRUNCATE, f.select(shorter, length, before))


# -- externs


@_primitive("modify_field_with_hash_based_offset", 4)
def _hash(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """base + hash % max; a max of 0 counts as 1."""
    f = ctx.f
    calculation = named(ctx.model.calculations, args[2], "calculation", call)
    h = hash_by(ctx, calculation, call)
    size = low(ctx, args[3], 64)
    size = f.select(f.compare("eq", size, const(64, 0)), const(64, 1), size)
    part = f.raw("urem", h, size)
    if ctx.trace:
        part = ctx.trace.choice(f, "hash", part, size, call, algorithm=calculation["algo"])
    v = f.op("add", part, low(ctx, args[1], 64))
    assign_number(ctx, args[0], Number(v, False))


@_primitive("modify_field_rng_uniform", 3)
def _random(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """A number in lo..hi; with lo > hi BMv2 leaves the field alone."""
    f = ctx.f
    lo, hi = low(ctx, args[1], 64), low(ctx, args[2], 64)

    def draw() -> None:
        r = f.call(64, runtime(ctx.module, "random"), ["%sw"])
        span = f.op("add", f.op("sub", hi, lo), const(64, 1))
        scaled = f.op("mul", f.resize(r, 128), f.resize(span, 128))
        part = f.resize(f.lshr(scaled, 64), 64)
        if ctx.trace:
            part = ctx.trace.choice(f, "random", part, span, call)
        v = f.select(f.compare("eq", span, const(64, 0)), r, part)
        assign_number(ctx, args[0], Number(f.op("add", lo, v), False))

    ctx.when(f.compare("ule", lo, hi), draw)


@_primitive("count", 2)
def _count(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    stateful.count(ctx, args[0], args[1])


@_primitive("execute_meter", 3)
def _meter(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    stateful.execute_meter(ctx, args[0], args[1], _result(ctx, args[2]))


@_primitive("register_read", 3)
def _register_read(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    stateful.read_register(ctx, args[1], args[2], _result(ctx, args[0]))


@_primitive("register_write", 3)
def _register_write(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    stateful.write_register(ctx, args[0], args[1], args[2])


# -- debugging


@_primitive("assert assume", 1)
def _assert(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """simple_switch aborts; here the packet's error is set and the source line noted."""
    n = exact(ctx, args[0])
    failed = ctx.f.compare("eq", n.value, const(n.value.bits, 0))

    def fail() -> None:
        ctx.fail(phv.ERROR_ASSERT)
        info = call.get("source_info")
        line = info.get("line") if isinstance(info, dict) else 0
        line = line if type(line) is int else 0
        ctx.f.store(const(64, line), ctx.f.at("%sw", 8 * RECENT_ERROR), 8)

    ctx.when(failed, fail)


@_primitive("log_msg", 2)
def _log(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """Leaves the arguments in the log ring if somebody listens."""
    f = ctx.f
    listener = f.load(64, f.at("%sw", 8 * LOG), 8)
    values = list(args[1]["value"])
    if args[0]["type"] != "string" or args[1]["type"] != "parameters_vector":
        raise refuse("log_msg without a text", call)

    def write() -> None:
        numbers = [loggable(ctx, e) for e in values]
        fmt = LogFormat(args[0]["value"], tuple((n.value.bits, n.signed) for n in numbers))
        ctx.program.log_formats.append(fmt)
        ring = f.load_pointer(f.at("%sw", 8 * LOG))
        end = f.load(64, ring, 8)
        at = f.at(f.at(ring, 8), f.shl(f.op("and", end, const(64, RING_WORDS - 1)), 3))
        f.store(const(64, len(ctx.program.log_formats) - 1), at, 8)
        offset = 8
        for n in numbers:
            words = (n.value.bits + 63) // 64
            f.store(f.resize(n.value, 64 * words, n.signed), f.at(at, offset), 8)
            offset += 8 * words
        f.store(f.op("add", end, const(64, 1 + fmt.words)), ring, 8)

    ctx.when(f.compare("ne", listener, const(64, 0)), write)
