# SPDX-License-Identifier: Apache-2.0
"""Calculations: the input of a hash or checksum laid out as bytes, then hashed. And checksums: verified behind the
parser, updated in front of the deparser.

Fields follow each other bit by bit, fields of invalid headers are left out, the payload begins at a byte.
Positions are constants as long as no header may be missing; behind one that may be, they are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby

from detour.engine import phv
from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler.bits import field_bits, put_all, put_variable
from detour.engine.compiler.context import FunctionContext, HeaderRef
from detour.engine.compiler.covering import STATEMENT
from detour.engine.compiler.expressions import boolean
from detour.engine.compiler.hashes import ALGORITHMS, custom_crc_function, hash_function
from detour.engine.compiler.ir import FALSE, TRUE, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import FieldSpec, Json, check_width, find, parse_hex, refuse
from detour.engine.compiler.runtime import runtime
from detour.engine.compiler.values import store

_MAX_INPUT_BYTES = 1 << 16  # without the payload; it lies on the stack


class _Buffer:
    """Buffer of the input. `base` is the byte at which the current run begins, `bit` counts from it."""

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

    def length(self) -> Value:
        """Bytes so far, the last one filled up."""
        f = self.ctx.f
        if self.loose is not None:
            return f.lshr(f.op("add", self.loose, const(64, 7)), 3)
        return f.op("add", self.bytes, const(64, (self.bit + 7) // 8))

    def append(self, inputs: list[Json], name: str) -> None:
        """Append neighbours that belong to the same header, `name`: one test for its validity."""
        ctx, f = self.ctx, self.ctx.f
        for i in inputs:
            if i["type"] not in (("field", "header") if name else ("hexstr",)):
                raise refuse(f"'{i['type']}' as input of a hash", i)
        if not name:
            self._append_values([const(i["bitwidth"], parse_hex(i["value"])) for i in inputs])
            return
        ref = ctx.header(name, inputs[0])
        specs: list[FieldSpec] = []
        for i in inputs:
            specs += [find_field(ref.header, i["value"][1], i)] if i["type"] == "field" else ref.type.fields
        valid = TRUE if inputs[0].get("always") else ctx.is_valid(ref)
        fixed = sum(s.bits for s in specs if not s.variable)
        if self.loose is not None or not (valid.const or fixed % 8 == 0):
            self._append_loose(ref, specs, valid)
            return
        added = f.variable(64)
        if valid.const and not any(s.variable for s in specs):
            self.bit = put_all(f, self.base, self.bit, (field_bits(ctx, ref, s) for s in specs))
        else:
            self._append_fixed(ref, specs, valid, added)
            self.bit += fixed % 8 if valid.const else 0

    def _append_values(self, values: list[Value]) -> None:
        if self.loose is None:
            self.bit = put_all(self.ctx.f, self.base, self.bit, values)
            return
        for v in values:
            self._put_loose(v)

    def _append_fixed(self, ref: HeaderRef, specs: list[FieldSpec], valid: Value, added: str) -> None:
        """The group's size is a number of bytes, or it is always there: positions modulo 8 stay known. `added`: a
        variable for the number of bytes."""
        ctx, f = self.ctx, self.ctx.f

        def write() -> None:
            base, bit, extra = self.base, self.bit, const(64, 0)
            run: list[Value] = []
            for spec in specs:
                if not spec.variable:
                    run.append(field_bits(ctx, ref, spec))
                    continue
                bit = put_all(f, base, bit, run)
                run = []
                count = ctx.variable_bytes(ref, spec)
                put_variable(ctx, base, const(64, bit), ctx.variable_data(ref, spec), count)
                base = f.at(base, count)
                extra = f.op("add", extra, count)
            bit = put_all(f, base, bit, run)
            f.store(f.op("add", extra, const(64, (bit - self.bit) // 8)), added, 8)

        ctx.when(valid, write)
        self.bytes = f.op("add", self.bytes, f.load(64, added, 8))
        self.base = f.at(self.start, self.bytes)

    def _append_loose(self, ref: HeaderRef, specs: list[FieldSpec], valid: Value) -> None:
        """Positions are known at run time only: everything goes through rt_put_bits."""
        ctx, f = self.ctx, self.ctx.f
        if self.loose is None:
            self.loose = f.op("add", f.shl(self.bytes, 3), const(64, self.bit))
        position = f.variable(64, self.loose)

        def write() -> None:
            for spec in specs:
                self.loose = f.load(64, position, 8)
                if spec.variable:
                    bits = f.resize(ctx.variable_bits(ref, spec), 64)
                    put_variable(ctx, self.start, self.loose, ctx.variable_data(ref, spec), f.lshr(bits, 3))
                    self.loose = f.op("add", self.loose, bits)
                else:
                    self._put_loose(field_bits(ctx, ref, spec))
                f.store(self.loose, position, 8)

        ctx.when(valid, write)
        self.loose = f.load(64, position, 8)

    def _put_loose(self, v: Value) -> None:
        """Put a value at the loose position: left-aligned bytes, whose surplus bits are zero, are or-ed in."""
        f = self.ctx.f
        assert self.loose is not None
        size = (v.bits + 7) // 8
        spare = f.alloca(f"[{size} x i8]")
        f.store(f.swap_bytes(f.shl(f.resize(v, 8 * size), 8 * size - v.bits)), spare)
        f.call_void(runtime(self.ctx.module, "put_bits"), [self.start, self.loose, spare, const(64, size)])
        self.loose = f.op("add", self.loose, const(64, v.bits))


def hash_by(ctx: FunctionContext, calculation: Json, at: Json) -> Value:
    """The hash of a calculation, i64, with the parameters that were set for it."""
    return hash_of(ctx, calculation["algo"], calculation["input"], at, ctx.slots.custom_crcs.get(calculation["name"]))


def hash_of(ctx: FunctionContext, algorithm: str, inputs: Json, at: Json = None, slot: int | None = None) -> Value:
    """The hash of a calculation's input, i64. `slot`: where its parameters are, if they can be set."""
    if algorithm not in ALGORITHMS:
        raise refuse(f"hash algorithm '{algorithm}'", at)
    if ctx.hashes is not None:
        return ctx.hashes(algorithm, inputs)
    f = ctx.f
    if ctx.trace:
        ctx.trace.hashed = None
    if algorithm == "random":
        return f.call(64, runtime(ctx.module, "random"), ["%sw"])
    payload = _payload(ctx) if any(i["type"] == "payload" for i in inputs) else None
    saved = f.value("call ptr @llvm.stacksave.p0()") if payload else ""
    buffer = _Buffer(ctx, _max_bytes(ctx, inputs), payload[1] if payload else None)
    for name, group in groupby((i for i in inputs if i["type"] != "payload"), key=_owner):
        buffer.append(list(group), name)
    count = buffer.length()
    if payload:
        f.copy(f.at(buffer.start, count), payload[0], payload[1])
        count = f.op("add", count, payload[1])
    if ctx.trace and not payload:
        ctx.trace.hashed = buffer.start, count
    if slot is None:
        result = f.call(64, hash_function(ctx.module, algorithm), [buffer.start, count])
    else:
        block = ctx.word(slot)
        result = f.call(64, custom_crc_function(ctx.module, algorithm), [block, buffer.start, count])
    if payload:
        f.line(f"call void @llvm.stackrestore.p0(ptr {saved})")
    return result


def _payload(ctx: FunctionContext) -> tuple[str, Value]:
    if ctx.payload is not None:
        return ctx.payload
    pointer = ctx.f.load_pointer(ctx.f.at("%phv", phv.PAYLOAD_PTR))
    return pointer, ctx.f.resize(ctx.fixed(phv.PAYLOAD_LEN), 64)


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


# -- checksums


def _checksums(ctx: FunctionContext, use: str) -> Iterator[tuple[Json, HeaderRef, FieldSpec]]:
    """Yield the checksums to verify or update, with their fields."""
    chosen = [c for c in ctx.model.json.get("checksums") or [] if c.get(use, True)]
    for c in chosen:
        if c["type"] != "generic":
            raise refuse(f"checksum type '{c['type']}'", c)
    for c in chosen:
        ref = ctx.header(c["target"][0], c)
        yield c, ref, find_field(ref.header, c["target"][1], c)


def _compute(ctx: FunctionContext, checksum: Json) -> Value:
    calculation = find(ctx.model.calculations, checksum["calculation"], "calculation", checksum)
    return hash_by(ctx, calculation, checksum)


def _condition(ctx: FunctionContext, checksum: Json) -> Value:
    return boolean(ctx, checksum["if_cond"]) if checksum.get("if_cond") is not None else TRUE


def verify_checksums(ctx: FunctionContext) -> Value:
    """i1: some checksum is wrong. One whose header is invalid or whose condition is false counts as right."""
    f = ctx.f
    checksums = list(_checksums(ctx, "verify"))
    if not checksums:
        return FALSE
    wrong = f.variable(8)

    def check(c: Json, ref: HeaderRef, spec: FieldSpec) -> None:
        target = f"{ref.header.name}.{spec.name}"
        if ctx.cover:
            ctx.cover.reached(f, STATEMENT, f"verify_checksum {target}", at=c)
        have = f.resize(ctx.load_field(ref, spec), 64, spec.signed)
        computed = _compute(ctx, c)
        if ctx.trace:
            values = [("computed", computed), ("have", have)]
            ctx.trace.record(f, "extern_call", values, at=c, extern="verify_checksum", of=target)
        differs = f.resize(f.compare("ne", computed, have), 8)
        f.store(f.op("or", f.load(8, wrong), differs), wrong)

    for c, ref, spec in checksums:
        ctx.when(f.op("and", ctx.is_valid(ref), _condition(ctx, c)), partial(check, c, ref, spec))
    return f.compare("ne", f.load(8, wrong), const(8, 0))


def update_checksums(ctx: FunctionContext) -> None:
    """Compute all checksums whose condition holds, in order."""

    def update(c: Json, ref: HeaderRef, spec: FieldSpec) -> None:
        if ctx.cover:
            ctx.cover.reached(ctx.f, STATEMENT, f"update_checksum {ref.header.name}.{spec.name}", at=c)
        before = steps.value_of(ctx, ref, spec.name) if ctx.trace else None
        store(ctx, ref, spec, _compute(ctx, c))
        if ctx.trace:
            steps.assigned(ctx, ref, spec.name, before, c, "update_checksum")

    for c, ref, spec in _checksums(ctx, "update"):
        ctx.when(_condition(ctx, c), partial(update, c, ref, spec))
