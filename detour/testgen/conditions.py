# SPDX-License-Identifier: Apache-2.0
"""Notes on expressions: reads of fields of invalid headers, whose value P4 leaves undefined; and what tests
should show of a condition beside both outcomes: each part of it true and false where it decides, and the two sides of a
comparison equal and one apart. Where possible, the packet would come out as another one if the condition, or the search
in a table, had the other outcome."""

from __future__ import annotations

from collections.abc import Iterator

from detour.engine.compiler.expressions import boolean, kind, unwrap
from detour.engine.compiler.ir import TRUE, Value
from detour.engine.compiler.model import Json, TableIr
from detour.testgen.context import Conditions, Goal, Replaced, SymbolicContext
from detour.testgen.state import z3
from detour.testgen.terms import Term, term_of, vector_of

INVALID_READ = "read of an invalid header"
_ORDER = ("<", "<=", ">", ">=")
_ONE = {"type": "hexstr", "value": "0x1"}


def note_reads(ctx: SymbolicContext, expression: Json) -> None:
    """Notes where an expression reads a field of a header that may be invalid."""
    if not ctx.notes or ctx.f.state.dead:
        return
    for part, when in _parts(ctx, expression, TRUE):
        if part["type"] != "field" or not isinstance(part["value"][0], str):
            continue
        name, field = part["value"]
        header = ctx.model.headers.get(name)
        if header is not None and not header.metadata and field != "$valid$":
            invalid = ctx.f.op("and", when, ctx.f.negate(ctx.is_valid(ctx.ref(header))))
            ctx.note_fault(f"{INVALID_READ}: {name}.{field}", invalid)


def note_goals(ctx: SymbolicContext, name: str, expression: Json) -> None:
    """Note the goals of a condition; `name`: what coverage calls it."""
    if not ctx.notes or ctx.f.state.dead:
        return
    decided = term_of(boolean(ctx, expression))
    otherwise = ((decided, z3.Not(decided)),)
    for number, (part, goal) in enumerate(_goals(ctx, expression)):
        if goal.const != 0:
            conditions = ctx.f.state.conditions
            ctx.findings.goals.append(Goal((name, number), f"{name}: {part}", conditions, term_of(goal), otherwise))


def note_hit(
    ctx: SymbolicContext,
    table: TableIr,
    text: str,
    conditions: Conditions,
    term: Term | bool,
    key: list[Value],
    missed: Replaced,
) -> None:
    """Notes that an entry of a table is hit, and that with each field of the key other than zero, which another field
    may be, too: coverage may have seen that of packets with which it makes no difference. `missed`: what to replace in
    terms if it is not."""
    title = f"{table.name}: {text}"
    if not ctx.notes or ctx.f.state.dead or isinstance(term, bool):
        return
    parts = [
        (f", {f.name} is not 0", vector_of(v) != 0) for f, v in zip(table.key, key, strict=True) if v.const is None
    ]
    for number, (more, also) in enumerate([("", z3.BoolVal(True)), *parts]):
        goal = Goal((title, number), f"table {title}{more}", conditions, z3.And(term, also), missed, is_hit=True)
        ctx.findings.goals.append(goal)


def _goals(ctx: SymbolicContext, expression: Json) -> Iterator[tuple[str, Value]]:
    f = ctx.f
    for part, when in _parts(ctx, expression, TRUE, decides=True):
        inner = part["value"] if part["type"] == "expression" else {}
        op, left, right = (inner.get(name) for name in ("op", "left", "right"))
        if kind(part) != "bool" or op in ("and", "or", "not"):
            continue
        value = boolean(ctx, part)
        yield "a part is true", f.op("and", when, value)
        yield "a part is false", f.op("and", when, f.negate(value))
        pairs: tuple[tuple[str, Json, Json], ...] = ()
        if op in _ORDER:
            pairs = (("equal", left, right), ("one below", _plus(left), right), ("one above", left, _plus(right)))
        elif left and right and op in ("==", "!=") and "hexstr" in (left["type"], right["type"]):
            pairs = (("with another last bit", _operation("^", left, _ONE), right),)
        for text, a, b in pairs:
            yield f"sides {text}", f.op("and", when, boolean(ctx, _operation("==", a, b)))


def _parts(ctx: SymbolicContext, e: Json, when: Value, decides: bool = False) -> Iterator[tuple[Json, Value]]:
    """An expression and what it is made of, each with the condition for being evaluated: the right side of `&&` and
    `||` is only where the left one leaves the result open. `decides`: the left one only where the right one does,
    too."""
    if not isinstance(e, dict) or "type" not in e or when.const == 0:
        return
    e = unwrap(e)
    yield e, when
    if e["type"] != "expression":
        return
    f, (op, left, right, cond) = ctx.f, (e["value"].get(name) for name in ("op", "left", "right", "cond"))
    before = after = when
    if op in ("and", "or"):
        value = boolean(ctx, left)
        after = f.op("and", when, value if op == "and" else f.negate(value))
        if decides:
            value = boolean(ctx, right)
            before = f.op("and", when, value if op == "and" else f.negate(value))
    elif op == "?":
        value = boolean(ctx, cond)
        before, after = f.op("and", when, value), f.op("and", when, f.negate(value))
    for part, condition in ((cond, when), (left, before), (right, after)):
        yield from _parts(ctx, part, condition, decides)


def _operation(op: str, left: Json, right: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def _plus(e: Json) -> Json:
    return _operation("+", e, _ONE)
