# SPDX-License-Identifier: Apache-2.0
"""Primitives: what actions, parser states and deparsers call (`actions` compiles the calls)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from detour.engine import phv
from detour.engine.compiler import values
from detour.engine.compiler.calculations import hash_by
from detour.engine.compiler.context import FunctionContext, HeaderRef, UnionRef
from detour.engine.compiler.expressions import Number, exact, header, loggable, low, lvalue, stack_name, union
from detour.engine.compiler.ir import Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.log_ring import RING_WORDS, LogFormat
from detour.engine.compiler.model import Array, Json, Stack, named, parse_hex, refuse
from detour.engine.compiler.slots import LOG, RECENT_ERROR

Write = Callable[[FunctionContext, list[Json], Json], None]
"""compiles a call, given its parameters and itself"""


@dataclass(frozen=True)
class Extern:
    """The form of an extern's call in traces. `numbers`: by name which parameter it is and its bits; `result`: the
    parameter that it writes to, `of`: that names what it works on; `name`: in P4, if it is not the primitive's."""

    numbers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    result: int | None = None
    of: int | None = None
    name: str = ""


class Primitive(NamedTuple):
    """A primitive. `assigns`: a trace says that a field was written, by which method if it is a header's validity."""

    parameters: int
    write: Write
    assigns: str = ""
    extern: Extern | None = None


PRIMITIVES: dict[str, Primitive] = {}


def primitive(names: str, count: int, assigns: str = "", extern: Extern | None = None) -> Callable[[Write], Write]:
    """Register a function that compiles the calls of some primitives, with so many parameters."""

    def register(f: Write) -> Write:
        PRIMITIVES.update(dict.fromkeys(names.split(), Primitive(count, f, assigns, extern)))
        return f

    return register


# -- assignments


def assign_number(ctx: FunctionContext, target: Json, n: Number) -> None:
    """Assign an exact value to the field that `target` names."""
    ref, name = lvalue(ctx, target)
    if name == "$valid$":
        raise refuse(f"assignment to the validity of '{ref.header.name}'", target)
    values.store(ctx, ref, find_field(ref.header, name, target), n.value, n.signed)


@primitive("assign modify_field assign_VL", 2, "assign")
def assign(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ref, name = lvalue(ctx, args[0])
    spec = find_field(ref.header, name, call)
    if spec.variable:
        src, of = lvalue(ctx, args[1])
        ctx.copy_variable(ref, spec, src, find_field(src.header, of, call))
    elif spec.signed or spec.saturating:
        values.store(ctx, ref, spec, *exact(ctx, args[1]))
    else:
        ctx.store_field(ref, spec, low(ctx, args[1], spec.bits))


def _arithmetic(op: str, ctx: FunctionContext, args: list[Json], call: Json) -> None:
    left, right = args[-2:]
    assign(ctx, [args[0], {"type": "expression", "value": {"op": op, "left": left, "right": right}}], call)


_OPERATORS = {"add": "+", "subtract": "-", "bit_and": "&", "bit_or": "|", "bit_xor": "^"}
for _name, _op in (_OPERATORS | {"shift_left": "<<", "shift_right": ">>"}).items():
    primitive(_name, 3, "assign")(partial(_arithmetic, _op))
primitive("add_to_field", 2, "assign")(partial(_arithmetic, "+"))
primitive("subtract_from_field", 2, "assign")(partial(_arithmetic, "-"))


# -- headers and stacks


def _header(ctx: FunctionContext, e: Json, call: Json) -> HeaderRef:
    return header(ctx, e)


def _union(ctx: FunctionContext, e: Json, call: Json) -> UnionRef:
    return union(ctx, e)


def _stack(ctx: FunctionContext, e: Json, call: Json) -> Stack:
    return ctx.stack(stack_name(e), call)


def _amount(ctx: FunctionContext, e: Json, call: Json) -> int:
    if e["type"] != "hexstr":
        raise refuse("a stack is pushed or popped by an amount that is not constant", call)
    if parse_hex(e["value"]) < 0:
        raise refuse("a stack is pushed or popped by an amount below 0", call)
    return parse_hex(e["value"])


def _on_headers(names: str, write: Callable[..., None], *kinds: Callable[..., Any], assigns: str = "") -> None:
    """Register a primitive whose parameters are read by `kinds`."""

    def with_arguments(ctx: FunctionContext, args: list[Json], call: Json) -> None:
        write(ctx, *(kind(ctx, e, call) for kind, e in zip(kinds, args, strict=True)))

    primitive(names, len(kinds), assigns)(with_arguments)


_on_headers("assign_header copy_header", values.assign_header, _header, _header)
_on_headers("assign_union", values.assign_union, _union, _union)
_on_headers("assign_header_stack assign_union_stack", values.assign_stack, _stack, _stack)
_on_headers("add_header", values.add_header, _header, assigns="setValid")
_on_headers("add_header_fast", lambda ctx, ref: ctx.set_valid(ref, True), _header, assigns="setValid")
_on_headers("remove_header", values.remove_header, _header, assigns="setInvalid")
_on_headers("push", values.push, _stack, _amount)
_on_headers("pop", values.pop, _stack, _amount)


# -- what becomes of the packet


@primitive("mark_to_drop", 1)
def _mark_to_drop(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """Set the fields of the header that is given, which may be a copy of standard_metadata; P4_14's has no group."""
    ref = header(ctx, args[0])
    values.store(ctx, ref, find_field(ref.header, "egress_spec", call), ctx.drop_port())
    for spec in ref.type.fields:
        if spec.name == "mcast_grp":
            values.store(ctx, ref, spec, const(32, 0))


@primitive("drop", 0)
def _drop(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    _mark_to_drop(ctx, [{"type": "header", "value": "standard_metadata"}], call)


@primitive("exit", 0)
def _exit(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    ctx.set_fixed(phv.EXITED, const(32, 1))


@primitive("no_op", 0)
def _no_op(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    pass


def _request(names: str, count: int, places: Mapping[int, tuple[int, int]], extern: Extern) -> None:
    """A primitive that leaves parameters in the PHV, each plus one; `places`: where, which parameter, and its bits."""

    def write(ctx: FunctionContext, args: list[Json], call: Json) -> None:
        for place, (argument, bits) in places.items():
            v = ctx.f.resize(low(ctx, args[argument], bits), 32)
            ctx.set_fixed(place, ctx.f.op("add", v, const(32, 1)))

    primitive(names, count, extern=extern)(write)


_request(
    "clone_ingress_pkt_to_egress clone_egress_pkt_to_egress",
    2,
    {phv.CLONE_SESSION: (0, 15), phv.CLONE_FIELDS: (1, 16)},
    Extern({"session": (0, 32), "fields": (1, 16)}),
)
_request("resubmit", 1, {phv.RESUBMIT: (0, 16)}, Extern({"fields": (0, 16)}))
_request("recirculate", 1, {phv.RECIRCULATE: (0, 16)}, Extern({"fields": (0, 16)}))
_request(
    "generate_digest", 2, {phv.DIGEST_LIST: (1, 16)}, Extern({"receiver": (0, 32), "fields": (1, 16)}, name="digest")
)


@primitive("truncate", 1, extern=Extern({"bytes": (0, 32)}))
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


# -- hashes and random numbers


@primitive(
    "modify_field_with_hash_based_offset",
    4,
    extern=Extern({"base": (1, 64), "max": (3, 64)}, result=0, of=2, name="hash"),
)
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


@primitive("modify_field_rng_uniform", 3, extern=Extern({"low": (1, 64), "high": (2, 64)}, result=0, name="random"))
def _random(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """A number in lo..hi; with lo > hi BMv2 leaves the field alone."""
    f = ctx.f
    lo, hi = low(ctx, args[1], 64), low(ctx, args[2], 64)

    def draw() -> None:
        assign_number(ctx, args[0], Number(ctx.random(lo, hi, call), False))

    ctx.when(f.compare("ule", lo, hi), draw)


# -- counters, meters and registers


def _at_index(ctx: FunctionContext, what: str, e: Json, index: Json, then: Callable[[Array, Value], None]) -> None:
    """Run `then` with the array and the index, i64, if that is in bounds (BMv2 looks at its low 32 bits); else nothing
    happens, as in BMv2."""
    arrays = {"counter": ctx.model.counters, "meter": ctx.model.meters, "register": ctx.model.registers}
    array = named(arrays[what], e, what, e)
    if array.direct:
        raise refuse(f"there is no {what} '{e['value']}'", e)
    i = ctx.f.resize(low(ctx, index, 32), 64)
    ctx.when(ctx.in_bounds(i, array), lambda: then(array, i))


@primitive("count", 2, extern=Extern({"index": (1, 32)}, of=0))
def _count(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    _at_index(ctx, "counter", args[0], args[1], ctx.count)


def execute_meter(ctx: FunctionContext, args: list[Json], colour: Callable[[FunctionContext, Value], Value]) -> None:
    """Run a meter of an array; `colour` numbers what comes of it."""

    def run(array: Array, i: Value) -> None:
        assign_number(ctx, args[2], Number(colour(ctx, ctx.meter(array, i)), False))

    _at_index(ctx, "meter", args[0], args[1], run)


@primitive("execute_meter", 3, extern=Extern({"index": (1, 32)}, result=2, of=0, name="meter"))
def _meter(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    execute_meter(ctx, args, lambda ctx, colour: colour)


@primitive("register_read", 3, extern=Extern({"index": (2, 32)}, result=0, of=1))
def _register_read(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    def read(array: Array, i: Value) -> None:
        assign_number(ctx, args[0], Number(ctx.load_register(array, i), False))

    _at_index(ctx, "register", args[1], args[2], read)


@primitive("register_write", 3, extern=Extern({"index": (1, 32)}, of=0))
def _register_write(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    def write(array: Array, i: Value) -> None:
        ctx.store_register(array, i, low(ctx, args[2], array.bits))

    _at_index(ctx, "register", args[0], args[1], write)


# -- debugging


@primitive("assert assume", 1)
def _assert(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """simple_switch aborts; here the packet's error is set and the source line noted."""
    n = exact(ctx, args[0])
    failed = ctx.f.compare("eq", n.value, const(n.value.bits, 0))

    def fail() -> None:
        ctx.fail(phv.ERROR_ASSERT)
        info = call.get("source_info")
        line = info.get("line") if isinstance(info, dict) else 0
        ctx.f.store(const(64, line if type(line) is int else 0), ctx.f.at("%sw", 8 * RECENT_ERROR), 8)

    ctx.when(failed, fail)


@primitive("log_msg", 2)
def _log(ctx: FunctionContext, args: list[Json], call: Json) -> None:
    """Leave the arguments in the log ring if somebody listens."""
    f = ctx.f
    listener = ctx.word(LOG)
    arguments = list(args[1]["value"])
    if args[0]["type"] != "string" or args[1]["type"] != "parameters_vector":
        raise refuse("log_msg without a text", call)

    def write() -> None:
        numbers = [loggable(ctx, e) for e in arguments]
        fmt = LogFormat(args[0]["value"], tuple((n.value.bits, n.signed) for n in numbers))
        ctx.program.log_formats.append(fmt)
        ring = ctx.slot(LOG)
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
