# SPDX-License-Identifier: Apache-2.0
"""Any packet at all: headers, metadata and standard metadata that a control may find, without following the parser.

Of the parser only its graph counts: which headers it extracts at all, which of them never without another one, and
which never together.
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
_CLONES = (phv.TYPE_INGRESS_CLONE, phv.TYPE_EGRESS_CLONE)


def operations(model: Model) -> set[str]:
    """The primitives that a program names anywhere."""
    return _named([model.json["actions"], model.json["parsers"]])


def _named(part: Json) -> set[str]:
    return {each["op"] for each in objects(part) if isinstance(each.get("op"), str)}


def anything(ctx: SymbolicContext, preserved: bool, all_headers: bool = False) -> None:
    """Give the state where execution is any contents. `preserved`: metadata may come from an earlier pass.
    `all_headers`: headers may have been added, and the packet be a clone."""
    parser = _ParserGraph(ctx.model)
    extracted = set(ctx.model.headers) if all_headers else parser.headers
    for header in ctx.model.headers.values():
        if header.metadata:
            if header.name != "standard_metadata":
                names = _kept(ctx.model, header.name) if preserved else set[str]()
                _fields(ctx, header.name, names | (set() if all_headers else parser.assigned(header.name)))
        else:
            if header.name in extracted:
                ctx.f.store(ctx.variable(f"{header.name}.$valid$", 1), f"{header.name}.$valid$")
            _fields(ctx, header.name, {s.name for s in header.type.fields})
    for name in (*ctx.model.stacks, *ctx.model.union_stacks):
        ctx.set_next(ctx.stack(name), ctx.variable(f"{name}.next", 32))
    if not all_headers:
        parser.agree(ctx)
    _standard(ctx, preserved, all_headers)
    error = term_of(ctx.fixed(phv.PARSER_ERROR))
    if not preserved and (errors := parser.errors()) is not None:
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


class _ParserGraph:
    """States with the headers that each extracts, in order."""

    def __init__(self, model: Model) -> None:
        self._model = model
        parsers = model.json["parsers"][:1]
        self._states: dict[str, Json] = {s["name"]: s for p in parsers for s in p["parse_states"]}
        self._first: str = (parsers[0]["init_state"] if parsers else None) or ""
        self._next = {
            name: [t["next_state"] for t in state["transitions"] if t["next_state"]]
            for name, state in self._states.items()
        }
        self._extracts = {name: list(self._of(state)) for name, state in self._states.items()}
        self._behind = {name: self._reached(after) for name, after in self._next.items()}
        """the states to which each leads, over one or more transitions"""
        self.headers = {header for headers in self._extracts.values() for header in headers}

    def _reached(self, starts: list[str], until: str = "") -> set[str]:
        """The states that come from some, these too; not behind those that extract the header `until`."""
        seen, waiting = set[str](), list(starts)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += [] if until in self._extracts[name] else self._next[name]
        return seen

    def _of(self, state: Json) -> Iterator[str]:
        for op in state["parser_ops"]:
            if op["op"] not in ("extract", "extract_VL"):
                continue
            what = op["parameters"][0]
            if what["type"] == "regular":
                yield what["value"]
            else:
                name = what["value"] if what["type"] == "stack" else what["value"][0]
                stack = self._model.stacks.get(name) or self._model.union_stacks[name]
                yield from (header.name for header in stack.headers)

    def assigned(self, header: str) -> set[str]:
        """The fields of metadata that the parser may set."""
        names: set[str] = set()
        for state in self._states.values():
            for op in state["parser_ops"]:
                if op["op"] == "set":
                    target = op["parameters"][0]
                    if target["type"] == "field" and target["value"][0] == header:
                        names.add(target["value"][1])
                elif op["op"] == "primitive":
                    return {spec.name for spec in self._model.headers[header].type.fields}
        return names

    def errors(self) -> set[int] | None:
        """The errors with which the parser can end; None: any."""
        numbers, names = self._model.errors, {"NoError"}
        codes: set[int] = set()
        for state in self._states.values():
            for op in state["parser_ops"]:
                names |= _ERRORS.get(op["op"], set())
                if op["op"] == "verify":
                    code = op["parameters"][1]
                    code = code if isinstance(code, int) else constant(code)
                    if code is None:
                        return None
                    codes.add(code)
            if any(key["type"] == "lookahead" for key in state["transition_key"]):
                names.add("PacketTooShort")
        if any(name in behind for name, behind in self._behind.items()):
            names.add("ParserTimeout")
        return codes | {numbers[name] for name in names}

    def agree(self, ctx: SymbolicContext) -> None:
        """Assume of the validity of headers what follows from the graph."""
        if not self._first or not _CHANGES.isdisjoint(_named(self._model.json["parsers"])):
            return
        alone = {h.name for h in self._model.headers.values() if not h.metadata and h.union is None} & self.headers
        stacked = {
            h.name for s in (*self._model.stacks.values(), *self._model.union_stacks.values()) for h in s.headers
        }
        names = sorted(alone - stacked)
        valid = {name: term_of(ctx.is_valid(ctx.header(name))) for name in names}
        for one in names:
            without = self._without(one)
            for other in names:
                if other != one and other not in without:
                    ctx.always(z3.Implies(valid[other], valid[one]))
                if other > one and not self._together(one, other):
                    ctx.always(z3.Not(z3.And(valid[one], valid[other])))

    def _without(self, header: str) -> set[str]:
        """The headers that the parser can extract before, or without, this one."""
        found: set[str] = set()
        for name in self._reached([self._first], header):
            extracts = self._extracts[name]
            found.update(extracts[: extracts.index(header)] if header in extracts else extracts)
        return found

    def _together(self, one: str, other: str) -> bool:
        """Whether one packet may have both headers."""
        places = {h: [n for n, extracts in self._extracts.items() if h in extracts] for h in (one, other)}
        return any(a == b or b in self._behind[a] or a in self._behind[b] for a in places[one] for b in places[other])


_TOO_SHORT, _VARIABLE = {"PacketTooShort", "StackOutOfBounds"}, {"ParserInvalidArgument", "HeaderTooShort"}
_ERRORS: dict[str, set[str]] = {
    "extract": _TOO_SHORT, "extract_VL": _TOO_SHORT | _VARIABLE, "advance": _TOO_SHORT | _VARIABLE,
    "shift": _TOO_SHORT, "set": _TOO_SHORT,
}  # fmt: skip
_CHANGES = {"add_header", "remove_header", "assign_header", "assign_union", "push", "pop"}
