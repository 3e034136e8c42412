# SPDX-License-Identifier: Apache-2.0
"""The deparser: valid headers, one behind the other."""

from __future__ import annotations

from functools import partial

from detour.engine import phv
from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler.actions import run_primitives
from detour.engine.compiler.bits import emit
from detour.engine.compiler.calculations import update_checksums
from detour.engine.compiler.context import DEPARSE, CompilationUnit, FunctionContext, HeaderRef
from detour.engine.compiler.covering import STATEMENT
from detour.engine.compiler.ir import Value, const
from detour.engine.compiler.model import Json, Model


def _deparser(model: Model) -> tuple[list[str], list[Json]]:
    """Names of headers in order, and primitives."""
    deparsers = model.json.get("deparsers") or []
    if not deparsers:
        return [], []
    d = next((d for d in deparsers if d["name"] == "deparser"), deparsers[0])
    return d["order"], d.get("primitives") or []


def max_header_bytes(model: Model) -> int:
    return sum(model.header(name).type.max_bytes for name in _deparser(model)[0])


def write_deparser(program: CompilationUnit) -> None:
    """Writes `deparse`: (sw, phv, out, payload, bytes of payload) -> bytes of headers written to `out`."""
    ctx = FunctionContext(program, f"i64 @{program.prefix}deparse{DEPARSE}")
    f = ctx.f
    order, primitives = _deparser(program.model)
    # What checksums see of the payload: BMv2 cuts it to the length of truncate() already here.
    n, limit = Value(64, "%n"), f.resize(ctx.fixed(phv.TRUNCATE), 64)
    cut = f.op("and", f.compare("ne", limit, const(64, 0)), f.compare("ult", limit, n))
    ctx.payload = ("%payload", f.select(cut, limit, n))
    update_checksums(ctx)
    run_primitives(ctx, primitives, "deparser")
    end = f.variable(64)

    def write(ref: HeaderRef) -> None:
        at = f.load(64, end, 8)
        count = emit(ctx, ref, f.at("%out", at))
        f.store(f.op("add", at, count), end, 8)
        if ctx.trace:
            data = f.at("%out", at), count
            ctx.trace.record(f, "deparser_emit", data=data, **steps.header_of(ref))
        if ctx.cover:
            ctx.cover.reached(f, STATEMENT, f"deparser emit {ref.header.name}")

    for name in order:
        ref = ctx.header(name)
        ctx.when(ctx.is_valid(ref), partial(write, ref))
    f.ret(f.load(64, end, 8))
