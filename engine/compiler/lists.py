# SPDX-License-Identifier: Apache-2.0
"""Field lists: what survives a clone, resubmit or recirculation, and what a digest tells."""

from __future__ import annotations

from dataclasses import dataclass

from detour.engine.compiler.bits import field_bits
from detour.engine.compiler.context import CompilationUnit, FunctionContext
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import Json, Model, check_width, parse_hex, refuse


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
    """Writes `preserve`: (list, src, dst): metadata of `dst` to zero, then the fields of the list from `src`.
    `keep_trace`: the number of the packet's trace as well."""
    head = "i64 @preserve(i64 %list, ptr noalias align 8 %src, ptr noalias align 8 %phv) nounwind"
    ctx = FunctionContext(program, head)
    f, lay = ctx.f, ctx.layout
    f.clear(f.at("%phv", lay.metadata), lay.headers - lay.metadata)
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
    """Writes `digest`: (list, phv, out) -> bytes written to `out`."""
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
