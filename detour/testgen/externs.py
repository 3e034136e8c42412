# SPDX-License-Identifier: Apache-2.0
"""Primitives that touch more than fields: headers as a whole, registers, meters, hashes, random numbers. All others
are evaluated by the compiler's own functions (`PRIMITIVES`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from detour.engine import phv
from detour.engine.compiler.context import HeaderRef
from detour.engine.compiler.expressions import Number, exact, header, low, lvalue, stack_name, union
from detour.engine.compiler.ir import TRUE, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import Array, Header, Json, Stack, named, parse_hex
from detour.engine.compiler.primitives import PRIMITIVES, assign_number
from detour.testgen.context import Hash, Setting, SymbolicContext, condition_text
from detour.testgen.hashing import ALGORITHMS
from detour.testgen.reads import note_reads
from detour.testgen.state import merged, z3
from detour.testgen.terms import NotModelled, concatenated, folded, from_vector, term_of, value_of, vector_of

Run = Callable[[SymbolicContext, list[Json], Json], None]
_OWN: dict[str, Run] = {}
_ASSIGNS = ("assign", "modify_field")
_JUMPS = ("_jump", "_jump_if_zero")
_HASH_BITS = 64
_WIDTHS = {"crc16": 16, "crc32": 32, "crcCCITT": 16, "csum16": 16, "cksum16": 16, "xor16": 16, "crc16_custom": 16,
           "crc32_custom": 32, "xor32": 32}  # fmt: skip


def _own(names: str) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        _OWN.update(dict.fromkeys(names.split(), run))
        return run

    return register


# -- lists of calls


def run_calls(ctx: SymbolicContext, calls: list[Json], where: str) -> None:
    """Executes the primitives of an action; `where`: what coverage calls the place."""
    waiting: dict[int, list[Any]] = {}
    going = True
    for number, call in enumerate(calls):
        if arrived := waiting.pop(number, None):
            ctx.f.state = merged([*arrived, *([ctx.f.state] if going else [])])
            going = True
        if not going:
            continue
        if call["op"] in _JUMPS:
            target = parse_hex(call["parameters"][-1]["value"])
            if target <= number:
                ctx.give_up("a loop in an action")
                continue
            going = _jump(ctx, call, f"{where} #{number}", waiting.setdefault(min(target, len(calls)), []))
            continue
        ctx.cover.statement(ctx.f, where, number, call)
        run_call(ctx, call)
    if arrived := waiting.pop(len(calls), None):
        ctx.f.state = merged([*arrived, *([ctx.f.state] if going else [])])


def _jump(ctx: SymbolicContext, call: Json, where: str, target: list[Any]) -> bool:
    """Leaves a state for the target of a jump. False: execution goes on there only."""
    if call["op"] == "_jump":
        target.append(ctx.f.state)
        return False
    zero = TRUE
    ctx.at = call
    with ctx.giving_up():
        note_reads(ctx, call["parameters"][0])
        number = exact(ctx, call["parameters"][0]).value
        zero = ctx.f.compare("eq", number, const(number.bits, 0))
    not_zero = ctx.f.negate(zero)
    ctx.cover.decided(ctx.f, not_zero, where, call)
    texts = [condition_text(where, call, outcome) for outcome in ("false", "true")]
    jumps, goes_on = ctx.fork_on(zero, texts)
    target.append(jumps)
    ctx.f.state = goes_on
    return True


def run_call(ctx: SymbolicContext, call: Json) -> None:
    """Executes one primitive, unless no packet comes here."""
    if ctx.f.state.dead:
        return
    ctx.at = call
    with ctx.giving_up():
        if call["op"] in _ASSIGNS:
            note_reads(ctx, call["parameters"][1])
        run = _OWN.get(call["op"])
        if run is not None:
            run(ctx, call["parameters"], call)
        elif call["op"] in PRIMITIVES:
            PRIMITIVES[call["op"]].write(ctx, call["parameters"], call)
        else:
            raise NotModelled(f"the primitive {call['op']}")


# -- headers


@_own("assign modify_field assign_VL")
def _assign(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    ref, name = lvalue(ctx, args[0])
    if name == "$valid$" or not find_field(ref.header, name).variable:
        PRIMITIVES[call["op"]].write(ctx, args, call)
        return
    of, source = lvalue(ctx, args[1])
    ctx.move(f"{of.header.name}.{source}", f"{ref.header.name}.{name}")


@_own("add_header")
def _add_header(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    ref = header(ctx, args[0])

    def add() -> None:
        ctx.clear_header(ref)
        ctx.set_valid(ref, True)
        _change_length(ctx, "add", ref)

    ctx.when(ctx.f.negate(ctx.is_valid(ref)), add)


@_own("remove_header")
def _remove_header(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    ref = header(ctx, args[0])

    def remove() -> None:
        _change_length(ctx, "sub", ref)
        ctx.set_valid(ref, False)

    if not ref.header.metadata:
        ctx.when(ctx.is_valid(ref), remove)


def _change_length(ctx: SymbolicContext, op: str, ref: HeaderRef) -> None:
    bits = ref.type.bits
    if ref.type.variable is not None:
        value = ctx.variable_field(ref, ref.type.variable)
        bits += value.bits if value is not None else 0
    before = ctx.fixed(phv.LENGTH_REGISTER)
    ctx.set_fixed(phv.LENGTH_REGISTER, ctx.f.op(op, before, const(32, bits // 8)))


@_own("assign_header copy_header")
def _assign_header(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    _copy(ctx, header(ctx, args[0]), header(ctx, args[1]))


def _copy(ctx: SymbolicContext, to: HeaderRef, of: HeaderRef) -> None:
    def copy() -> None:
        ctx.set_valid(to, True)
        ctx.copy_header(to, of)

    if to.header is not of.header:
        ctx.when(ctx.is_valid(of), copy, lambda: ctx.set_valid(to, False))


@_own("assign_union")
def _assign_union(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    for to, of in zip(union(ctx, args[0]), union(ctx, args[1]), strict=True):
        _copy(ctx, to, of)


@_own("assign_header_stack assign_union_stack")
def _assign_stack(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    to, of = (ctx.stack(stack_name(each), call) for each in args)
    if to is of:
        return
    ctx.set_next(to, ctx.next_index(of))
    for one, other in zip(to.headers, of.headers, strict=True):
        _copy(ctx, ctx.ref(one), ctx.ref(other))


@_own("push")
def _push(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    stack, count, size = _shifted(ctx, args, call)
    more = ctx.f.op("add", ctx.next_index(stack), const(32, count))
    full = const(32, size)
    ctx.set_next(stack, ctx.f.select(ctx.f.compare("ugt", more, full), full, more))
    for index in range(size - 1, count - 1, -1):
        _swap(ctx, stack.elements[index], stack.elements[index - count])
    _invalidate(ctx, stack, range(count))


@_own("pop")
def _pop(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    stack, count, size = _shifted(ctx, args, call)
    have, amount = ctx.next_index(stack), const(32, count)
    left = ctx.f.op("sub", have, amount)
    ctx.set_next(stack, ctx.f.select(ctx.f.compare("ugt", have, amount), left, const(32, 0)))
    for index in range(size - count):
        _swap(ctx, stack.elements[index], stack.elements[index + count])
    _invalidate(ctx, stack, range(size - count, size))


def _shifted(ctx: SymbolicContext, args: list[Json], call: Json) -> tuple[Stack, int, int]:
    """The stack of a push or pop, by how much, and its size."""
    stack = ctx.stack(stack_name(args[0]), call)
    if stack.members:
        raise NotModelled("a push or pop of header unions")
    size = len(stack.elements)
    return stack, min(parse_hex(args[1]["value"]), size), size


def _swap(ctx: SymbolicContext, one: Iterable[Header], other: Iterable[Header]) -> None:
    memory = ctx.f.state.memory
    for a, b in zip(one, other, strict=True):
        for field in (*(spec.name for spec in a.type.fields), "$valid$"):
            x, y = f"{a.name}.{field}", f"{b.name}.{field}"
            before, after = memory.get(x), memory.get(y)
            for place, value in ((x, after), (y, before)):
                if value is None:
                    memory.pop(place, None)
                else:
                    memory[place] = value


def _invalidate(ctx: SymbolicContext, stack: Stack, elements: range) -> None:
    for index in elements:
        ctx.set_valid(ctx.ref(stack.elements[index][0]), False)


# -- arrays


def _at_index(ctx: SymbolicContext, array: Array, index: Json, then: Callable[[Value], None]) -> None:
    """Runs `then` with the index, 32 bits, if it is in bounds; else nothing happens."""
    i = low(ctx, index, 32)
    inside = ctx.f.compare("ult", i, const(32, array.size))
    ctx.note_fault("index out of bounds", ctx.f.negate(inside))
    ctx.when(inside, lambda: then(i))


@_own("count")
def _count(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    _at_index(ctx, named(ctx.model.counters, args[0], "counter", call), args[1], lambda index: None)


@_own("log_msg")
def _log(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    pass


def register_array(ctx: SymbolicContext, array: Array) -> Any:
    """The contents of a register as they are; at first, what the test sets."""
    return ctx.f.state.arrays.setdefault(array.name, _set_before(ctx, array))


def _set_before(ctx: SymbolicContext, array: Array) -> Any:
    if ctx.given is None:
        return z3.Array(array.name, z3.BitVecSort(32), z3.BitVecSort(array.bits))
    contents = z3.K(z3.BitVecSort(32), z3.BitVecVal(0, array.bits))
    for each in ctx.given.of("register"):
        if each.name == array.name:
            contents = z3.Store(contents, z3.BitVecVal(each.at, 32), z3.BitVecVal(each.value, array.bits))
    return contents


@_own("register_read")
def _register_read(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    array = named(ctx.model.registers, args[1], "register", call)

    def read(index: Value) -> None:
        before, value = (
            from_vector(array.bits, z3.Select(each, vector_of(index)))
            for each in (_set_before(ctx, array), register_array(ctx, array))
        )
        ctx.findings.settings.append(Setting("register", array.name, ctx.f.state.conditions, index, before))
        assign_number(ctx, args[0], Number(value if ctx.given is None else folded(value), False))

    register_array(ctx, array)
    _at_index(ctx, array, args[2], read)


@_own("register_write")
def _register_write(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    array = named(ctx.model.registers, args[0], "register", call)

    def write(index: Value) -> None:
        value = low(ctx, args[2], array.bits)
        contents = register_array(ctx, array)
        ctx.f.state.arrays[array.name] = z3.Store(contents, vector_of(index), vector_of(value))

    register_array(ctx, array)
    _at_index(ctx, array, args[1], write)


@_own("execute_meter")
def _meter(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    array = named(ctx.model.meters, args[0], "meter", call)

    def run(index: Value) -> None:
        colour = meter_colour(ctx, array.name, index)
        assign_number(ctx, args[2], Number(colour, False))

    _at_index(ctx, array, args[1], run)


def meter_colour(ctx: SymbolicContext, name: str, index: Value) -> Value:
    """The colour, which a test chooses by rates that packets exceed. `index`: for a direct meter, of one bit."""
    colour = ctx.setting("meter", name, index, 2)
    ctx.always(z3.ULE(term_of(colour), 2))
    return ctx.f.resize(colour, 32)


# -- hashes and random numbers


def hashed(ctx: SymbolicContext, algorithm: str, inputs: Json, at: Json) -> Value:
    """The hash of a calculation's input, 64 bits: a term for checksums, a variable for all others."""
    parts: list[tuple[Any, Value]] | None = None
    with suppress(NotModelled):
        parts = list(hash_parts(ctx, inputs))
    if parts and algorithm in ("csum16", "cksum16") and (total := checksum(ctx, parts)) is not None:
        return total
    value = ctx.variable(f"hash {algorithm}", _HASH_BITS, free=True)
    if algorithm in _WIDTHS:
        ctx.always(z3.ULT(term_of(value), 1 << _WIDTHS[algorithm]))
    if parts and ctx.given is not None and algorithm in ALGORITHMS and (known := hash_of(algorithm, parts)) is not None:
        return const(_HASH_BITS, known)
    if parts and algorithm in ALGORITHMS and not any(part["type"] == "payload" for part in inputs):
        ctx.findings.hashes.append(Hash(term_of(value), algorithm, parts))
    return value


def hash_of(algorithm: str, parts: list[tuple[Any, Value]]) -> int | None:
    """The hash of parts that are known; None: one is not."""
    bits = number = 0
    for there, value in parts:
        part = folded(value)
        if part.const is None or not (z3.is_true(there) or z3.is_false(there)):
            return None
        if z3.is_true(there):
            bits, number = bits + part.bits, number << part.bits | part.const
    size = (bits + 7) // 8
    return ALGORITHMS[algorithm]((number << (8 * size - bits)).to_bytes(size, "big"))


def hash_parts(ctx: SymbolicContext, inputs: Json) -> Iterable[tuple[Any, Value]]:
    """The parts of a hash's input: whether each is there, and its value. A payload of zeros is left out."""
    for part in inputs:
        if part["type"] == "hexstr":
            yield z3.BoolVal(True), const(part["bitwidth"], parse_hex(part["value"]))
        elif part["type"] in ("field", "header"):
            ref = ctx.header(part["value"][0] if part["type"] == "field" else part["value"], part)
            there = z3.BoolVal(True) if part.get("always") else term_of(ctx.is_valid(ref))
            values = ctx.header_bits(ref) if part["type"] == "header" else _field_bits(ctx, ref, part["value"][1])
            for value in values:
                yield there, value
        elif part["type"] == "payload":
            for value in ctx.payload():
                yield z3.BoolVal(True), value
        else:
            raise NotModelled(f"{part['type']} as input of a hash")


def _field_bits(ctx: SymbolicContext, ref: HeaderRef, name: str) -> list[Value]:
    spec = find_field(ref.header, name)
    if spec.variable:
        value = ctx.variable_field(ref, spec)
        return [] if value is None else [value]
    return [ctx.f.resize(ctx.load_field(ref, spec), spec.bits)]


def checksum(ctx: SymbolicContext, parts: list[tuple[Any, Value]]) -> Value | None:
    """The internet checksum (RFC 1071) of these parts, 64 bits; None: their places depend on conditions in another way
    than by whole words of 16 bits."""
    total = const(32, 0)
    f = ctx.f
    at = 0
    while at < len(parts):
        there = parts[at][0]
        run = [value for _, value in _same(parts[at:], there)]
        at += len(run)
        bits = sum(value.bits for value in run)
        if bits % 16 and (at < len(parts) or bits % 8):
            return None
        whole = concatenated([*run, *([const(16 - bits % 16, 0)] if bits % 16 else [])])
        part = const(32, 0)
        for low_bit in range(0, whole.bits, 16):
            part = f.op("add", part, f.resize(f.resize(f.lshr(whole, low_bit), 16), 32))
        sure = z3.is_true(there)
        total = f.op("add", total, part if sure else f.select(value_of(1, there), part, const(32, 0)))
    for _ in range(2):
        total = f.op("add", f.op("and", total, const(32, 0xFFFF)), f.lshr(total, 16))
    return f.resize(f.op("xor", f.op("and", total, const(32, 0xFFFF)), const(32, 0xFFFF)), _HASH_BITS)


def _same(parts: list[tuple[Any, Value]], there: Any) -> Iterable[tuple[Any, Value]]:
    for part in parts:
        if not part[0].eq(there):
            return
        yield part


@_own("modify_field_with_hash_based_offset")
def _hash(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    calculation = named(ctx.model.calculations, args[2], "calculation", call)
    f = ctx.f
    value = hashed(ctx, calculation["algo"], calculation["input"], call)
    size = low(ctx, args[3], 64)
    size = f.select(f.compare("eq", size, const(64, 0)), const(64, 1), size)
    assign_number(ctx, args[0], Number(f.op("add", f.raw("urem", value, size), low(ctx, args[1], 64)), False))


@_own("modify_field_rng_uniform")
def _random(ctx: SymbolicContext, args: list[Json], call: Json) -> None:
    f = ctx.f
    first, last = low(ctx, args[1], 64), low(ctx, args[2], 64)

    def draw() -> None:
        value = ctx.variable("random", 64, free=True)
        inside = f.op("and", f.compare("ule", first, value), f.compare("ule", value, last))
        ctx.assume(term_of(inside))
        assign_number(ctx, args[0], Number(value, False))

    ctx.when(f.compare("ule", first, last), draw)
