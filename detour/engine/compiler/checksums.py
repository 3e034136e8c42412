# SPDX-License-Identifier: Apache-2.0
"""Checksums: verified behind the parser, updated in front of the deparser."""

from __future__ import annotations

from detour.engine.compiler.calculations import hash_of
from detour.engine.compiler.context import Context
from detour.engine.compiler.expressions import boolean
from detour.engine.compiler.ir import Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import Json, refuse
from detour.engine.compiler.values import store


def _checksums(ctx: Context, use: str) -> list[Json]:
    chosen = [c for c in ctx.model.json.get("checksums") or [] if c.get(use, True)]
    for c in chosen:
        if c["type"] != "generic":
            raise refuse(f"checksum type '{c['type']}'", c)
    return chosen


def _compute(ctx: Context, checksum: Json) -> Value:
    calculation = ctx.model.calculations[checksum["calculation"]]
    return hash_of(ctx, calculation["algo"], calculation["input"], checksum)


def verify_checksums(ctx: Context) -> Value:
    """i1: some checksum is wrong. One whose header is invalid or whose condition is false counts as right."""
    f = ctx.f
    checksums = _checksums(ctx, "verify")
    if not checksums:
        return const(1, 0)
    wrong = f.alloca("i8")
    f.store(const(8, 0), wrong)
    for c in checksums:
        ref = ctx.header(c["target"][0], c)
        spec = find_field(ref.header, c["target"][1], c)
        cond = ctx.is_valid(ref)
        if c.get("if_cond") is not None:
            cond = f.op("and", cond, boolean(ctx, c["if_cond"]))

        def check(c: Json = c, ref=ref, spec=spec) -> None:  # type: ignore[no-untyped-def]
            have = f.resize(ctx.load_field(ref, spec), 64, spec.signed)
            differs = f.resize(f.compare("ne", _compute(ctx, c), have), 8)
            f.store(f.op("or", f.load(8, wrong), differs), wrong)

        ctx.when(cond, check)
    return f.compare("ne", f.load(8, wrong), const(8, 0))


def update_checksums(ctx: Context) -> None:
    """Computes all checksums whose condition holds, in order."""
    for c in _checksums(ctx, "update"):
        ref = ctx.header(c["target"][0], c)
        spec = find_field(ref.header, c["target"][1], c)
        cond = boolean(ctx, c["if_cond"]) if c.get("if_cond") is not None else const(1, 1)
        ctx.when(cond, lambda c=c, ref=ref, spec=spec: store(ctx, ref, spec, _compute(ctx, c), False))
