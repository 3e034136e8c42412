# SPDX-License-Identifier: Apache-2.0
"""Output from the PHV: valid headers, one behind the other (the deparser), and field lists: the fields that survive a
clone, resubmit or recirculation, and those of a digest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from detour.engine import phv
from detour.engine.compiler import intrinsics
from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler.actions import run_primitives
from detour.engine.compiler.bits import emit, field_bits
from detour.engine.compiler.calculations import update_checksums
from detour.engine.compiler.context import DEPARSE, CompilationUnit, FunctionContext, HeaderRef
from detour.engine.compiler.covering import STATEMENT
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import Json, Model, check_width, parse_hex, refuse
from detour.engine.compiler.portable import INGRESS_DEPARSER


def deparser_of(model: Model, name: str) -> tuple[list[str], list[Json]]:
    """Names of headers in order, and primitives."""
    deparsers = model.json.get("deparsers") or []
    if not deparsers:
        return [], []
    d = next((d for d in deparsers if d["name"] == name), deparsers[0])
    return d["order"], d.get("primitives") or []


def max_header_bytes(model: Model) -> int:
    """The most that a deparser writes."""
    names = ("deparser", INGRESS_DEPARSER)
    return max(sum(model.header(h).type.max_bytes for h in deparser_of(model, name)[0]) for name in names)


def write_deparser(program: CompilationUnit) -> None:
    """Write `deparse`: (sw, phv, out, payload, bytes of payload) -> bytes of headers written to `out`."""
    ctx = FunctionContext(program, f"i64 @{program.prefix}deparse{DEPARSE}")
    _look_at_payload(ctx)
    update_checksums(ctx)
    end = ctx.f.variable(64)
    _deparse(ctx, "deparser", end)
    ctx.f.ret(ctx.f.load(64, end, 8))


def write_ingress_deparser(program: CompilationUnit) -> None:
    """Write `ingress_deparse` for PSA, with the parameters of `deparse`: what egress gets to parse. A clone of egress
    is written by the deparser of egress."""
    ctx = FunctionContext(program, f"i64 @{program.prefix}ingress_deparse{DEPARSE}")
    _look_at_payload(ctx)
    end = ctx.f.variable(64)
    clone = ctx.f.compare("eq", ctx.fixed(phv.INSTANCE_TYPE), const(32, phv.TYPE_EGRESS_CLONE))
    ctx.when(clone, lambda: _deparse(ctx, "deparser", end), lambda: _deparse(ctx, INGRESS_DEPARSER, end))
    ctx.f.ret(ctx.f.load(64, end, 8))


def _look_at_payload(ctx: FunctionContext) -> None:
    """Set the payload that checksums see: BMv2 cuts it to the length of truncate() already here."""
    f = ctx.f
    n, limit = Value(64, "%n"), f.resize(ctx.fixed(phv.TRUNCATE), 64)
    cut = f.op("and", f.compare("ne", limit, const(64, 0)), f.compare("ult", limit, n))
    ctx.payload = ("%payload", f.select(cut, limit, n))


def _deparse(ctx: FunctionContext, name: str, end: str) -> None:
    """Run a deparser; `end`: a variable for the number of bytes written."""
    f = ctx.f
    order, primitives = deparser_of(ctx.model, name)
    run_primitives(ctx, primitives, name)

    def write(ref: HeaderRef) -> None:
        at = f.load(64, end, 8)
        count = emit(ctx, ref, f.at("%out", at))
        f.store(f.op("add", at, count), end, 8)
        if ctx.trace:
            data = f.at("%out", at), count
            ctx.trace.record(f, "deparser_emit", data=data, **steps.header_of(ref))
        if ctx.cover:
            ctx.cover.reached(f, STATEMENT, f"{name} emit {ref.header.name}")

    for header in order:
        ref = ctx.header(header)
        ctx.when(ctx.is_valid(ref), partial(write, ref))


# -- field lists


@dataclass(frozen=True, slots=True)
class DigestList:
    """A digest: its name in the program and the widths of its fields in bits."""

    id: int
    name: str
    bits: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Length of a serialised digest: every field takes whole bytes."""
        return sum((b + 7) // 8 for b in self.bits)


def digest_lists(model: Model) -> dict[int, DigestList]:
    return {
        d["id"]: DigestList(d["id"], d["name"], tuple(_bits(model, e) for e in d["elements"]))
        for d in model.json.get("learn_lists") or []
    }


def _bits(model: Model, e: Json) -> int:
    if e["type"] == "field":
        if e["value"][1] == "$valid$":
            return 1
        return find_field(model.header(e["value"][0], e), e["value"][1], e).bits
    if e["type"] == "hexstr":
        bits = e.get("bitwidth")
        return check_width(8 * ((len(e["value"]) - 1) // 2) if bits is None else bits, "a digest's constant", e)
    raise refuse(f"'{e['type']}' in a digest", e)


def _cases(f: Function, lists: list[Json], argument: str) -> list[tuple[Json, str]]:
    """A block for every list, and one for an unknown id that returns 0."""
    labels = [(item, f.block("list")) for item in lists]
    unknown = f.block("unknown")
    f.switch(Value(64, argument), unknown, ((item["id"], label) for item, label in labels))
    f.enter(unknown)
    f.ret(const(64, 0))
    return labels


def write_preserve(program: CompilationUnit, keep_trace: bool = False) -> None:
    """Write `preserve`: (list, src, dst): metadata of `dst` to zero, then the fields of the list from `src`.
    `keep_trace`: the number of the packet's trace as well."""
    head = "i64 @preserve(i64 %list, ptr noalias align 8 %src, ptr noalias align 8 %phv) nounwind"
    ctx = FunctionContext(program, head)
    f, lay = ctx.f, ctx.layout
    f.clear(f.at("%phv", lay.metadata), lay.headers - lay.metadata)
    intrinsics.preserved(ctx)
    if keep_trace:
        f.store(f.load(24, f.at("%src", lay.trace)), f.at("%phv", lay.trace))
    for item, label in _cases(f, program.model.json.get("field_lists") or [], "%list"):
        f.enter(label)
        for e in item["elements"]:
            if e["type"] == "field":
                _copy_field(ctx, e)
            elif e["type"] != "hexstr":
                raise refuse(f"'{e['type']}' in a field list", e)
        f.ret(const(64, 0))


def _copy_field(ctx: FunctionContext, e: Json) -> None:
    ref = ctx.header(e["value"][0], e)
    if e["value"][1] == "$valid$":
        raise refuse(f"validity of '{ref.header.name}' in a field list", e)
    place = ctx.place(ref, find_field(ref.header, e["value"][1], e))
    start, size = place.offset, place.size
    if place.length >= 0:
        start, size = place.length, place.offset + place.size - place.length
    ctx.touch(ref.header)
    ctx.f.copy(ctx.f.at("%phv", start), ctx.f.at("%src", start), size)


def write_digest(program: CompilationUnit) -> None:
    """Write `digest`: (list, phv, out) -> bytes written to `out`."""
    ctx = FunctionContext(program, "i64 @digest(i64 %list, ptr noalias align 8 %phv, ptr noalias %out) nounwind")
    f = ctx.f
    for item, label in _cases(f, program.model.json.get("learn_lists") or [], "%list"):
        f.enter(label)
        at = 0
        for e in item["elements"]:
            v = _value(ctx, e)
            size = (v.bits + 7) // 8
            f.store(f.swap_bytes(f.resize(v, 8 * size)), f.at("%out", at))
            at += size
        f.ret(const(64, at))


def _value(ctx: FunctionContext, e: Json) -> Value:
    if e["type"] == "hexstr":
        return const(_bits(ctx.model, e), parse_hex(e["value"]))
    ref = ctx.header(e["value"][0], e)
    if e["value"][1] == "$valid$":
        return ctx.is_valid(ref)
    return field_bits(ctx, ref, find_field(ref.header, e["value"][1], e))
