# SPDX-License-Identifier: Apache-2.0
"""Any packet at all: headers, metadata and standard metadata that a control may find, without following the parser.

Of the parser only this counts: which headers it extracts somewhere, which metadata it sets, and with which errors it
ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from detour.engine import phv
from detour.engine.compiler.expressions import constant
from detour.engine.compiler.ir import Value
from detour.engine.compiler.model import Json, Model, objects
from detour.testgen.context import SymbolicContext
from detour.testgen.state import UNKNOWN_WIDTH, z3
from detour.testgen.terms import term_of

_TYPES = (phv.TYPE_NORMAL, phv.TYPE_RECIRCULATION, phv.TYPE_RESUBMIT)
_RAISED = (
    "NoError", "PacketTooShort", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout", "ParserInvalidArgument",
)  # fmt: skip
"""the errors that operations of parsers, and loops of them, raise"""
_CLONES = (phv.TYPE_INGRESS_CLONE, phv.TYPE_EGRESS_CLONE)


def operations(model: Model) -> set[str]:
    """The primitives that a program names anywhere."""
    named = objects([model.json["actions"], model.json["parsers"]])
    return {each["op"] for each in named if isinstance(each.get("op"), str)}


def anything(ctx: SymbolicContext, preserved: bool, all_headers: bool = False) -> None:
    """Give the state where execution is any contents. `preserved`: metadata may come from an earlier pass.
    `all_headers`: headers may have been added, and the packet be a clone."""
    extracted = set(ctx.model.headers) if all_headers else _extracted(ctx.model)
    for header in ctx.model.headers.values():
        if header.metadata:
            if header.name != "standard_metadata":
                names = _kept(ctx.model, header.name) if preserved else set[str]()
                _fields(ctx, header.name, names | (set() if all_headers else _assigned(ctx.model, header.name)))
        else:
            if header.name in extracted:
                ctx.f.store(ctx.variable(f"{header.name}.$valid$", 1), f"{header.name}.$valid$")
            _fields(ctx, header.name, {s.name for s in header.type.fields})
    for name in (*ctx.model.stacks, *ctx.model.union_stacks):
        ctx.set_next(ctx.stack(name), ctx.variable(f"{name}.next", 32))
    _standard(ctx, preserved, all_headers)
    error = term_of(ctx.fixed(phv.PARSER_ERROR))
    if not preserved and (errors := _errors(ctx.model)):
        ctx.always(z3.Or(*(error == number for number in sorted(errors))))


def _kept(model: Model, header: str) -> set[str]:
    """The fields of metadata that lists name for packets that start over, or clones."""
    elements = (e["value"] for fields in model.json.get("field_lists") or () for e in fields["elements"])
    return {value[1] for value in elements if isinstance(value, list) and value[0] == header}


def _fields(ctx: SymbolicContext, header: str, names: set[str]) -> None:
    for spec in ctx.model.headers[header].type.fields:
        if spec.name in names:
            place = f"{header}.{spec.name}"
            value = ctx.variable(place, spec.bits)
            bits = spec.bits + spec.signed
            whole = Value(UNKNOWN_WIDTH, "") if spec.variable else ctx.f.resize(value, bits, spec.signed)
            ctx.f.store(whole, place)


def _standard(ctx: SymbolicContext, preserved: bool, clone: bool) -> None:
    port = ctx.variable("port", 9)
    ctx.set_fixed(phv.INGRESS_PORT, ctx.f.resize(port, 32))
    for place in (phv.PACKET_LENGTH, phv.LENGTH_REGISTER, phv.INGRESS_LENGTH, phv.PARSER_ERROR):
        ctx.set_fixed(place, ctx.variable("packet", 32))
    ctx.set_fixed(phv.INGRESS_GLOBAL_TIMESTAMP, ctx.variable("time", 64))
    if preserved:
        for name, (place, size) in phv.STANDARD_FIELDS.items():
            if name not in ("egress_port", "instance_type", "packet_length"):
                ctx.set_fixed(place, ctx.variable(f"standard_metadata.{name}", 8 * size))
        kind = ctx.variable("instance type", 32)
        ctx.set_fixed(phv.INSTANCE_TYPE, kind)
        kinds = _CLONES if clone else _TYPES
        ctx.always(z3.Or(*(term_of(kind) == number for number in kinds)))


def _parser_operations(model: Model) -> Iterator[Json]:
    for parser in model.json["parsers"][:1]:
        for state in parser["parse_states"]:
            yield from state["parser_ops"]


def _extracted(model: Model) -> set[str]:
    """The headers that the parser extracts, of a stack all elements."""
    names: set[str] = set()
    for op in _parser_operations(model):
        if op["op"] in ("extract", "extract_VL"):
            what = op["parameters"][0]
            if what["type"] == "regular":
                names.add(what["value"])
            else:
                name = what["value"] if what["type"] == "stack" else what["value"][0]
                stack = model.stacks.get(name) or model.union_stacks[name]
                names |= {header.name for header in stack.headers}
    return names


def _assigned(model: Model, header: str) -> set[str]:
    """The fields of metadata that the parser may set."""
    ops = list(_parser_operations(model))
    if any(op["op"] == "primitive" for op in ops):
        return {spec.name for spec in model.headers[header].type.fields}
    targets = (op["parameters"][0] for op in ops if op["op"] == "set")
    return {t["value"][1] for t in targets if t["type"] == "field" and t["value"][0] == header}


def _errors(model: Model) -> set[int]:
    """The errors with which the parser can end; none: nobody knows."""
    codes = {model.errors[name] for name in _RAISED}
    for op in _parser_operations(model):
        if op["op"] == "verify":
            code = op["parameters"][1]
            code = code if isinstance(code, int) else constant(code)
            if code is None:
                return set()
            codes.add(code)
    return codes
