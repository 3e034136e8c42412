# SPDX-License-Identifier: Apache-2.0
"""The records of primitives: what they were given and what they left behind.

Arguments are computed before the primitive runs, since it may write to the fields that they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler.context import FunctionContext
from detour.engine.compiler.expressions import Number, exact, header, loggable, low, lvalue
from detour.engine.compiler.ir import Value
from detour.engine.compiler.model import Json

_ASSIGNMENTS = {
    *("assign", "modify_field", "assign_VL", "add", "subtract", "bit_and", "bit_or", "bit_xor"),
    *("shift_left", "shift_right", "add_to_field", "subtract_from_field"),
}
_VALIDITY = {"add_header": "setValid", "add_header_fast": "setValid", "remove_header": "setInvalid"}
_SILENT = {"no_op"}

_NUMBERS: dict[str, tuple[tuple[str, int, int], ...]] = {
    # primitive: (name, which argument, bits) of what it is given
    "clone_ingress_pkt_to_egress": (("session", 0, 32), ("fields", 1, 16)),
    "clone_egress_pkt_to_egress": (("session", 0, 32), ("fields", 1, 16)),
    "resubmit": (("fields", 0, 16),),
    "recirculate": (("fields", 0, 16),),
    "generate_digest": (("receiver", 0, 32), ("fields", 1, 16)),
    "truncate": (("bytes", 0, 32),),
    "modify_field_with_hash_based_offset": (("base", 1, 64), ("max", 3, 64)),
    "modify_field_rng_uniform": (("low", 1, 64), ("high", 2, 64)),
    "count": (("index", 1, 32),),
    "execute_meter": (("index", 1, 32),),
    "register_read": (("index", 2, 32),),
    "register_write": (("index", 1, 32),),
}
_RESULT = {
    "modify_field_with_hash_based_offset": 0,
    "modify_field_rng_uniform": 0,
    "execute_meter": 2,
    "register_read": 0,
}
"""primitive: the argument that its result is written to"""
_OBJECT = {
    "modify_field_with_hash_based_offset": 2,
    "count": 0,
    "execute_meter": 0,
    "register_read": 1,
    "register_write": 0,
}
"""primitive: the argument that names what it works on"""
_P4_NAMES = {
    "clone_ingress_pkt_to_egress": "clone",
    "clone_egress_pkt_to_egress": "clone",
    "generate_digest": "digest",
    "modify_field_with_hash_based_offset": "hash",
    "modify_field_rng_uniform": "random",
    "execute_meter": "meter",
}


def trace_primitive(ctx: FunctionContext, op: str, args: list[Json], call: Json, run: Callable[[], None]) -> None:
    """Compiles a primitive with `run` and records it."""
    if op in _ASSIGNMENTS:
        traced_set(ctx, args[0], call, run)
    elif op in _VALIDITY:
        ref = header(ctx, args[0])
        _around(ctx, ref, "$valid$", call, run, _VALIDITY[op])
    elif op in ("mark_to_drop", "drop"):
        run()
        _trace(ctx, "mark_to_drop", [], call)
    elif op in ("assert", "assume"):
        _trace(ctx, "assertion", [("value", exact(ctx, args[0]))], call, what=op)
        run()
    elif op == "log_msg":
        values = [(f"{i}", loggable(ctx, e)) for i, e in enumerate(args[1].get("value") or [])]
        _trace(ctx, "log_message", values, call, text=args[0]["value"])
        run()
    elif op in _NUMBERS:
        _extern(ctx, op, args, call, run)
    else:
        run()
        if op not in _SILENT:
            _trace(ctx, "extern_call", [], call, extern=op, of=_name(args[0]) if args else None)


def traced_set(ctx: FunctionContext, target: Json, at: Json, run: Callable[[], None]) -> None:
    """Compiles an assignment with `run`; records what the field was and is."""
    if not ctx.trace:
        run()
        return
    _around(ctx, *lvalue(ctx, target), at, run, "assign")


def _around(ctx: FunctionContext, ref: Any, name: str, at: Json, run: Callable[[], None], what: str) -> None:
    before = steps.value_of(ctx, ref, name)
    run()
    steps.assigned(ctx, ref, name, before, at, what)


def _extern(ctx: FunctionContext, op: str, args: list[Json], call: Json, run: Callable[[], None]) -> None:
    """A call of an extern: its numbers, its result, and for a register what was written."""
    values: list[tuple[str, Value | Number]] = [(name, low(ctx, args[i], bits)) for name, i, bits in _NUMBERS[op]]
    if op == "register_write":
        values.append(("value", exact(ctx, args[2])))
    about: dict[str, Any] = {"extern": _P4_NAMES.get(op, op)}
    if op in _OBJECT:
        about["of"] = _name(args[_OBJECT[op]])
    if op == "modify_field_with_hash_based_offset":
        calculation = ctx.model.calculations.get(str(about["of"]))
        about["algorithm"] = calculation["algo"] if calculation else None
    result = _RESULT.get(op)
    run()
    if result is not None:
        ref, name = lvalue(ctx, args[result])
        found = steps.value_of(ctx, ref, name)
        about["to"] = f"{ref.header.name}.{name}"
        if found is not None:
            values.append(("result", found))
    kind_of = "extern_call"
    if op.startswith("clone_"):
        kind_of, about = "clone", {"from": "ingress" if "ingress" in op else "egress"}
    _trace(ctx, kind_of, values, call, **about)


def _trace(
    ctx: FunctionContext, what_kind: str, values: Sequence[tuple[str, Value | Number]], call: Json, **about: Any
) -> None:
    steps.writer(ctx).record(ctx.f, what_kind, values, at=call, **about)


def _name(e: Json) -> str | None:
    """What a parameter names, as far as it is a name."""
    value = e.get("value") if isinstance(e, dict) else None
    if isinstance(value, list):
        return ".".join(str(each) for each in value)
    return value if isinstance(value, str) else None
