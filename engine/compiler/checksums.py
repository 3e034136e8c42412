# SPDX-License-Identifier: Apache-2.0
"""Checksums: verified behind the parser, updated in front of the deparser."""

from __future__ import annotations

from functools import partial

from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler.calculations import hash_by
from detour.engine.compiler.context import FunctionContext, HeaderRef
from detour.engine.compiler.covering import STATEMENT
from detour.engine.compiler.expressions import boolean
from detour.engine.compiler.ir import TRUE, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import FieldSpec, Json, find, refuse
from detour.engine.compiler.values import store


def _checksums(ctx: FunctionContext, use: str) -> list[Json]:
    chosen = [c for c in ctx.model.json.get("checksums") or [] if c.get(use, True)]
    for c in chosen:
        if c["type"] != "generic":
            raise refuse(f"checksum type '{c['type']}'", c)
    return chosen


def _compute(ctx: FunctionContext, checksum: Json) -> Value:
    calculation = find(ctx.model.calculations, checksum["calculation"], "calculation", checksum)
    return hash_by(ctx, calculation, checksum)


def _target(ctx: FunctionContext, checksum: Json) -> tuple[HeaderRef, FieldSpec]:
    ref = ctx.header(checksum["target"][0], checksum)
    return ref, find_field(ref.header, checksum["target"][1], checksum)


def _condition(ctx: FunctionContext, checksum: Json) -> Value:
    return boolean(ctx, checksum["if_cond"]) if checksum.get("if_cond") is not None else TRUE


def verify_checksums(ctx: FunctionContext) -> Value:
    """i1: some checksum is wrong. One whose header is invalid or whose condition is false counts as right."""
    f = ctx.f
    checksums = _checksums(ctx, "verify")
    if not checksums:
        return const(1, 0)
    wrong = f.alloca("i8")
    f.store(const(8, 0), wrong)

    def check(c: Json, ref: HeaderRef, spec: FieldSpec) -> None:
        if ctx.cover:
            ctx.cover.reached(f, STATEMENT, f"verify_checksum {ref.header.name}.{spec.name}", at=c)
        have = f.resize(ctx.load_field(ref, spec), 64, spec.signed)
        computed = _compute(ctx, c)
        if ctx.trace:
            values = [("computed", computed), ("have", have)]
            of = f"{ref.header.name}.{spec.name}"
            ctx.trace.record(f, "extern_call", values, at=c, extern="verify_checksum", of=of)
        differs = f.resize(f.compare("ne", computed, have), 8)
        f.store(f.op("or", f.load(8, wrong), differs), wrong)

    for c in checksums:
        ref, spec = _target(ctx, c)
        ctx.when(f.op("and", ctx.is_valid(ref), _condition(ctx, c)), partial(check, c, ref, spec))
    return f.compare("ne", f.load(8, wrong), const(8, 0))


def update_checksums(ctx: FunctionContext) -> None:
    """Computes all checksums whose condition holds, in order."""

    def update(c: Json, ref: HeaderRef, spec: FieldSpec) -> None:
        if ctx.cover:
            ctx.cover.reached(ctx.f, STATEMENT, f"update_checksum {ref.header.name}.{spec.name}", at=c)
        before = steps.value_of(ctx, ref, spec.name) if ctx.trace else None
        store(ctx, ref, spec, _compute(ctx, c), False)
        if ctx.trace:
            steps.assigned(ctx, ref, spec.name, before, c, "update_checksum")

    for c in _checksums(ctx, "update"):
        ctx.when(_condition(ctx, c), partial(update, c, *_target(ctx, c)))
