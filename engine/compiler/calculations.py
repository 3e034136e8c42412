# SPDX-License-Identifier: Apache-2.0
"""Calculations: the input of a hash or checksum laid out as bytes, then hashed.

Fields follow each other bit by bit, fields of invalid headers are left out, the payload begins at a byte.
Positions are constants as long as no header may be missing; behind one that may be, they are computed.
"""

from __future__ import annotations

from itertools import groupby

from detour.engine import phv
from detour.engine.compiler.bits import field_bits, put_all, put_variable
from detour.engine.compiler.check import check_width
from detour.engine.compiler.context import FunctionContext, HeaderRef
from detour.engine.compiler.custom_crc import custom_crc_function
from detour.engine.compiler.hashes import ALGORITHMS, hash_function
from detour.engine.compiler.ir import Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import FieldSpec, Json, parse_hex, refuse
from detour.engine.compiler.runtime import runtime
from detour.engine.compiler.values import variable_bits, variable_data

_MAX_INPUT_BYTES = 1 << 16  # without the payload; it lies on the stack


class _Buffer:
    """Where the input is written. `base` is the byte at which the current run begins, `bit` counts from it."""

    def __init__(self, ctx: FunctionContext, size: int, payload: Value | None) -> None:
        f = ctx.f
        self.ctx = ctx
        # put() clears what follows, put_variable() adds to zeros; a few bytes of slack for both.
        if payload is None:
            self.start = f.alloca(f"[{size + 16} x i8]")
        else:
            count = f.op("add", payload, const(64, size + 16))
            self.start = f.value(f"alloca i8, {count.typed}, align 8")
        f.clear(self.start, size + 16)
        self.base = self.start
        self.bytes = const(64, 0)  # before `base`
        self.bit = 0
        self.loose: Value | None = None  # the position in bits once it is not known modulo 8

    def rebase(self, by: Value) -> None:
        """Moves `base` forward by whole bytes known at run time."""
        self.bytes = self.ctx.f.op("add", self.bytes, by)
        self.base = self.ctx.f.at(self.start, self.bytes)

    def length(self) -> Value:
        """Bytes so far, the last one filled up."""
        f = self.ctx.f
        if self.loose is not None:
            return f.lshr(f.op("add", self.loose, const(64, 7)), 3)
        return f.op("add", self.bytes, const(64, (self.bit + 7) // 8))


def hash_by(ctx: FunctionContext, calculation: Json, at: Json) -> Value:
    """The hash of a calculation, i64, with the parameters that were set for it."""
    return hash_of(ctx, calculation["algo"], calculation["input"], at, ctx.slots.custom_crcs.get(calculation["name"]))


def hash_of(ctx: FunctionContext, algorithm: str, inputs: Json, at: Json = None, slot: int | None = None) -> Value:
    """The hash of a calculation's input, i64. `slot`: where its parameters are, if they can be set."""
    if algorithm not in ALGORITHMS:
        raise refuse(f"hash algorithm '{algorithm}'", at)
    f = ctx.f
    if algorithm == "random":
        return f.call(64, runtime(ctx.module, "random"), ["%sw"])
    with_payload = any(i["type"] == "payload" for i in inputs)
    payload = _payload(ctx) if with_payload else None
    saved = f.value("call ptr @llvm.stacksave.p0()") if payload else ""
    buffer = _Buffer(ctx, _max_bytes(ctx, inputs), payload[1] if payload else None)
    for name, group in groupby((i for i in inputs if i["type"] != "payload"), key=_owner):
        _append_group(buffer, name, list(group))
    count = buffer.length()
    if payload:
        f.copy(f.at(buffer.start, count), payload[0], payload[1])
        count = f.op("add", count, payload[1])
    if ctx.trace:
        ctx.trace.hashed = None if payload else (buffer.start, count)
    if slot is None:
        result = f.call(64, hash_function(ctx.module, algorithm), [buffer.start, count])
    else:
        block = f.load(64, f.at("%sw", 8 * slot), 8)
        result = f.call(64, custom_crc_function(ctx.module, algorithm), [block, buffer.start, count])
    if payload:
        f.line(f"call void @llvm.stackrestore.p0(ptr {saved})")
    return result


def _payload(ctx: FunctionContext) -> tuple[str, Value]:
    if ctx.payload is not None:
        return ctx.payload
    f = ctx.f
    pointer = f.load_pointer(f.at("%phv", phv.PAYLOAD_PTR))
    return pointer, f.resize(ctx.fixed(phv.PAYLOAD_LEN), 64)


def _owner(entry: Json) -> str:
    if entry["type"] == "field":
        return entry["value"][0]
    return entry["value"] if entry["type"] == "header" else ""


def _max_bytes(ctx: FunctionContext, inputs: Json) -> int:
    bits = 0
    for i in inputs:
        match i["type"]:
            case "field":
                bits += find_field(ctx.model.header(i["value"][0]), i["value"][1], i).bits
            case "hexstr":
                bits += check_width(i["bitwidth"], "a constant that is hashed", i)
            case "header":
                bits += 8 * ctx.model.header(i["value"]).type.max_bytes
    if bits > 8 * _MAX_INPUT_BYTES:
        raise refuse(f"a hash over {bits} bits")
    return (bits + 7) // 8


def _append_group(b: _Buffer, name: str, group: list[Json]) -> None:
    """Appends neighbours that belong to the same header: one test for its validity."""
    ctx = b.ctx
    if not name:
        for i in group:
            if i["type"] != "hexstr":
                raise refuse(f"'{i['type']}' as input of a hash", i)
        _append_values(b, [const(i["bitwidth"], parse_hex(i["value"])) for i in group])
        return
    ref = ctx.header(name, group[0])
    specs: list[FieldSpec] = []
    for i in group:
        if i["type"] not in ("field", "header"):
            raise refuse(f"'{i['type']}' as input of a hash", i)
        specs += [find_field(ref.header, i["value"][1], i)] if i["type"] == "field" else ref.type.fields
    valid = ctx.is_valid(ref)
    whole = sum(s.bits for s in specs if not s.variable) % 8 == 0
    if valid.const or (whole and b.loose is None):
        _append_fixed(b, ref, specs, valid)
    else:
        _append_loose(b, ref, specs, valid)


def _append_values(b: _Buffer, values: list[Value]) -> None:
    if b.loose is None:
        b.bit = put_all(b.ctx.f, b.base, b.bit, values)
    else:
        for v in values:
            _put_loose(b, v)


def _append_fixed(b: _Buffer, ref: HeaderRef, specs: list[FieldSpec], valid: Value) -> None:
    """The group's size is a number of bytes, or it is always there: positions modulo 8 stay known."""
    if b.loose is not None:
        _append_loose(b, ref, specs, valid)
        return
    ctx, f = b.ctx, b.ctx.f
    added = f.alloca("i64")
    f.store(const(64, 0), added, 8)
    phase = b.bit

    def write() -> None:
        base, bit, extra = b.base, b.bit, const(64, 0)
        run: list[Value] = []
        for spec in specs:
            if not spec.variable:
                run.append(field_bits(ctx, ref, spec))
                continue
            bit = put_all(f, base, bit, run)
            run = []
            count = f.lshr(f.resize(variable_bits(ctx, ref, spec), 64), 3)
            put_variable(ctx, base, const(64, bit), variable_data(ctx, ref, spec), count)
            base = f.at(base, count)
            extra = f.op("add", extra, count)
        bit = put_all(f, base, bit, run)
        f.store(f.op("add", extra, const(64, (bit - phase) // 8)), added, 8)

    dynamic = not valid.const or any(s.variable for s in specs)
    if not dynamic:
        b.bit = put_all(f, b.base, b.bit, (field_bits(ctx, ref, s) for s in specs))
        return
    ctx.when(valid, write)
    fixed = sum(s.bits for s in specs if not s.variable)
    b.rebase(f.load(64, added, 8))
    b.bit = phase + (fixed % 8 if valid.const else 0)


def _append_loose(b: _Buffer, ref: HeaderRef, specs: list[FieldSpec], valid: Value) -> None:
    """Positions are known at run time only: everything goes through rt_put_bits."""
    ctx, f = b.ctx, b.ctx.f
    if b.loose is None:
        b.loose = f.op("add", f.shl(b.bytes, 3), const(64, b.bit))
    position = f.alloca("i64")
    f.store(b.loose, position, 8)

    def write() -> None:
        for spec in specs:
            b.loose = f.load(64, position, 8)
            if spec.variable:
                bits = f.resize(variable_bits(ctx, ref, spec), 64)
                put_variable(ctx, b.start, b.loose, variable_data(ctx, ref, spec), f.lshr(bits, 3))
                b.loose = f.op("add", b.loose, bits)
            else:
                _put_loose(b, field_bits(ctx, ref, spec))
            f.store(b.loose, position, 8)

    ctx.when(valid, write)
    b.loose = f.load(64, position, 8)


def _put_loose(b: _Buffer, v: Value) -> None:
    """Puts a value at the loose position: left-aligned bytes, whose surplus bits are zero, are or-ed in."""
    ctx, f = b.ctx, b.ctx.f
    assert b.loose is not None
    size = (v.bits + 7) // 8
    spare = f.alloca(f"[{size} x i8]")
    f.store(f.swap_bytes(f.shl(f.resize(v, 8 * size), 8 * size - v.bits)), spare)
    f.call_void(runtime(ctx.module, "put_bits"), [b.start, b.loose, spare, const(64, size)])
    b.loose = f.op("add", b.loose, const(64, v.bits))
