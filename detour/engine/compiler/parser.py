# SPDX-License-Identifier: Apache-2.0
"""The parser: states as blocks over a position in the packet.

An error ends parsing where it is; what was extracted stays. Positions are checked against the packet's length
before every access. States on a cycle are counted, so that one that takes no bytes cannot run for ever.
"""

from __future__ import annotations

import hashlib
import json

from detour.engine import phv
from detour.engine.compiler import intrinsics
from detour.engine.compiler import traced_steps as steps
from detour.engine.compiler.actions import run_primitive, traced_set
from detour.engine.compiler.bits import extract, take
from detour.engine.compiler.calculations import verify_checksums
from detour.engine.compiler.context import PARSE, CompilationUnit, FunctionContext, HeaderRef
from detour.engine.compiler.covering import BRANCH
from detour.engine.compiler.expressions import Number, boolean, constant, exact, low, lvalue, member_of, read
from detour.engine.compiler.ir import FALSE, TRUE, Function, Value, const
from detour.engine.compiler.model import MAX_HEADER_BYTES, Json, Stack, check_width, find, parse_hex, refuse
from detour.engine.compiler.portable import EGRESS_PARSER, V1MODEL
from detour.engine.compiler.primitives import assign, assign_number

_MAX_VISITS = 4096  # states entered on cycles; BMv2 would not return


def write_parser(program: CompilationUnit, name: str = "parser") -> None:
    """Write `parse`, or `egress_parse` for PSA's second parser: (sw, phv, packet, length) -> 0."""
    function = "egress_parse" if name == EGRESS_PARSER else "parse"
    ctx = FunctionContext(program, f"i64 @{program.prefix}{function}{PARSE}")
    ctx.make_frame("parse")
    _clear(ctx, again=TRUE if name == EGRESS_PARSER else ctx.starts_over())
    intrinsics.before_parser(ctx, name)
    parser = _Parser(ctx)
    parsers = program.model.json["parsers"]
    if parsers:
        chosen = next((p for p in parsers if p["name"] == name), parsers[0])
        parser.write(chosen, f"{EGRESS_PARSER} state" if chosen["name"] == EGRESS_PARSER else "state")
    parser.finish()
    ctx.f.ret(const(64, 0))


def _clear(ctx: FunctionContext, again: Value) -> None:
    """Headers invalid and zero; metadata too, unless it was preserved for another pass (`again`)."""
    f, lay = ctx.f, ctx.layout
    # Tells the PHVs of one program from those of others.
    digest = hashlib.sha256(json.dumps(ctx.model.json, sort_keys=True).encode()).digest()
    tag = const(64, int.from_bytes(digest[:8], "little"))

    def clear_all() -> None:
        """A fresh PHV, or one of another program."""
        f.clear(f.at("%phv", lay.touched), lay.flags - lay.touched)
        f.clear(f.at("%phv", lay.headers), lay.size - lay.headers)
        f.store(tag, f.at("%phv", lay.tag), 8)

    ours = f.compare("eq", f.load(64, f.at("%phv", lay.tag), 8), tag)
    ctx.when(ours, lambda: _clear_touched(ctx), clear_all)
    # What is behind `drop_flag` is the packet's own, in all passes through one switch.
    f.clear(f.at("%phv", lay.flags), (lay.drop_flag if again.const else lay.metadata) - lay.flags)
    ctx.when(f.negate(again), lambda: f.clear(f.at("%phv", lay.metadata), lay.headers - lay.metadata))
    length = f.resize(Value(64, "%length"), 32)
    ctx.set_fixed(phv.LENGTH_REGISTER, length)
    ctx.set_fixed(phv.INGRESS_LENGTH, length)


def _clear_touched(ctx: FunctionContext) -> None:
    """Clear the headers of a PHV that the program wrote to when it last used it."""
    f, lay = ctx.f, ctx.layout
    for number, unit in enumerate(lay.units):
        at = f.at("%phv", lay.touched + number)
        start, size = lay.unit_memory(unit)

        def clear(at: str = at, start: int = start, size: int = size) -> None:
            f.clear(f.at("%phv", start), size)
            f.store(const(8, 0), at)

        ctx.when(f.compare("ne", f.load(8, at), const(8, 0)), clear)


class _Parser:
    def __init__(self, ctx: FunctionContext) -> None:
        f = ctx.f
        self.ctx, self.f = ctx, f
        self.length = Value(64, "%length")
        self.position, self.error, self.visits = (f.variable(64) for _ in range(3))
        f.store(const(64, ctx.model.errors["NoError"]), self.error, 8)
        self.end = f.block("end")
        self.labels: dict[str, str] = {}

    # -- position and errors

    def where(self) -> Value:
        """Bytes consumed so far."""
        return self.f.load(64, self.position, 8)

    def here(self) -> str:
        """Address of the next byte."""
        return self.f.at("%pkt", self.where())

    def stop(self, error: str | Value) -> None:
        code = const(64, self.ctx.model.errors[error]) if isinstance(error, str) else error
        self.f.store(code, self.error, 8)
        self.f.jump(self.end)

    def require(self, cond: Value, error: str | Value) -> None:
        """Go on if the condition holds, else stops."""
        f = self.f
        good, bad = f.block("good"), f.block("bad")
        f.branch(cond, good, bad)
        f.enter(bad)
        self.stop(error)
        f.enter(good)

    def take_bytes(self, count: Value) -> None:
        """Consume bytes, if so many are left."""
        self.require_bytes(count)
        self.advance(count)

    def require_bytes(self, count: Value) -> None:
        """PacketTooShort unless so many bytes are left. The position never exceeds the length."""
        left = self.f.op("sub", self.length, self.where())
        self.require(self.f.compare("uge", left, count), "PacketTooShort")

    def advance(self, count: Value) -> None:
        """Consume bytes that are there."""
        self.f.store(self.f.op("add", self.where(), count), self.position, 8)

    # -- states

    def write(self, parser: Json, what: str) -> None:
        """`what`: what coverage calls a state."""
        f = self.f
        states = {s["name"]: s for s in parser["parse_states"]}
        if len(states) < len(parser["parse_states"]):
            raise refuse(f"parser '{parser['name']}' has two states with the same name")
        cyclic = _cyclic(states)
        self.labels = {name: f.block("state") for name in states}
        f.jump(self._label(parser["init_state"]))
        for name, state in states.items():
            self._state(state, f"{what} {name}", name in cyclic)

    def _state(self, state: Json, where: str, cyclic: bool) -> None:
        f = self.f
        f.enter(self.labels[state["name"]])
        if cyclic:
            n = f.op("add", f.load(64, self.visits, 8), const(64, 1))
            f.store(n, self.visits, 8)
            self.require(f.compare("ule", n, const(64, _MAX_VISITS)), "ParserTimeout")
        for i, op in enumerate(state["parser_ops"]):
            if self.ctx.cover:
                self.ctx.cover.statement(f, where, i, op)
            self._operation(op, f"{where} #{i}")
        self._transition(state, where)

    def _label(self, name: str | None) -> str:
        if name is None:
            return self.end
        if name not in self.labels:
            raise refuse(f"there is no parser state '{name}'")
        return self.labels[name]

    def finish(self) -> None:
        """Leaves results in the PHV and verifies checksums."""
        ctx, f = self.ctx, self.f
        f.enter(self.end)
        position = self.where()
        ctx.set_fixed(phv.PAYLOAD_OFFSET, f.resize(position, 32))
        ctx.payload = (self.here(), f.op("sub", self.length, position))
        wrong = verify_checksums(ctx)
        ctx.set_fixed(phv.CHECKSUM_ERROR, f.resize(wrong, 32))
        ctx.set_fixed(phv.PARSER_ERROR, f.resize(f.load(64, self.error, 8), 32))
        if ctx.trace:
            ctx.trace.record(f, "parsed", [*steps.standard(ctx, ("parser_error",)), ("bytes", position)])

    def _operation(self, op: Json, where: str) -> None:
        args = op["parameters"]
        match op["op"]:
            case "extract" | "extract_VL":
                self._extract(args[0], args[1] if len(args) > 1 else None, op)
            case "set":
                traced_set(self.ctx, args[0], op, lambda: self._set(args[0], args[1], op))
            case "verify":
                self._verify(args[0], args[1], op, where)
            case "primitive":
                run_primitive(self.ctx, args[0])
            case "shift":
                if not 0 <= args[0] <= MAX_HEADER_BYTES:
                    raise refuse(f"a shift by {args[0]} bytes", op)
                self.take_bytes(const(64, args[0]))
            case "advance":
                self._advance(args[0], op)
            case other:
                raise refuse(f"parser operation '{other}'", op)

    # -- extraction

    def _extract(self, what: Json, length: Json, op: Json) -> None:
        ctx = self.ctx
        match what["type"]:
            case "regular":
                self._extract_header(ctx.header(what["value"], op), length, op)
            case "stack":
                stack = find(ctx.model.stacks, what["value"], "header stack", op)
                self._extract_next(stack, 0, length, op)
            case "union_stack":
                ustack = find(ctx.model.union_stacks, what["value"][0], "stack of header unions", op)
                self._extract_next(ustack, member_of(ustack, what["value"][1], op), length, op)
            case other:
                raise refuse(f"extraction to '{other}'", op)

    def _extract_next(self, stack: Stack, member: int, length: Json, op: Json) -> None:
        ctx, f = self.ctx, self.f
        free = f.compare("ult", ctx.next_index(stack), const(32, len(stack.elements)))
        self.require(free, "StackOutOfBounds")
        self._extract_header(ctx.element(stack, ctx.next_index(stack))[member], length, op)
        ctx.set_next(stack, f.op("add", ctx.next_index(stack), const(32, 1)))

    def _extract_header(self, ref: HeaderRef, length: Json, op: Json) -> None:
        ctx, f = self.ctx, self.f
        spec = ref.type.variable
        fixed = const(64, ref.type.bits // 8)
        if length is None:
            if spec is not None:
                raise refuse(f"extraction of the variable-length '{ref.header.name}' without a length")
            self.require_bytes(fixed)
            if ctx.trace:
                steps.extracted(ctx, ref, self.here(), fixed, op)
            extract(ctx, ref, self.here(), None)
            self.advance(fixed)
            return
        if spec is None:
            raise refuse(f"extraction of the fixed-length '{ref.header.name}' with a length")
        bits = self._length(length)
        self.require(f.compare("eq", f.op("and", bits, const(64, 7)), const(64, 0)), "ParserInvalidArgument")
        # BMv2 adds the length that the field had before; it is 0 unless the header was extracted already.
        before = ctx.variable_bytes(ref, spec)
        need = f.op("add", f.op("add", fixed, before), f.lshr(bits, 3))
        self.require_bytes(need)
        self.require(f.compare("ule", need, const(64, ref.type.max_bytes)), "HeaderTooShort")
        if ctx.trace:
            steps.extracted(ctx, ref, self.here(), f.op("add", fixed, f.lshr(bits, 3)), op)
        extract(ctx, ref, self.here(), bits)
        self.advance(f.op("add", fixed, f.lshr(bits, 3)))

    def _length(self, e: Json) -> Value:
        """A length in bits as BMv2 reads it: an int, at most 2^31 - 1."""
        f = self.f
        n = exact(self.ctx, e)
        wide = max(n.value.bits + 1, 65)
        v = f.resize(n.value, wide, n.signed)
        top = const(wide, 0x7FFFFFFF)
        return f.resize(f.select(f.compare("ugt", v, top), top, v), 64)

    # -- other operations

    def _set(self, target: Json, source: Json, op: Json) -> None:
        if source["type"] == "lookahead":
            v = self._lookahead(source)
            assign_number(self.ctx, target, Number(v, False))
        else:
            assign(self.ctx, [target, source], op)

    def _lookahead(self, e: Json) -> Value:
        """Bits ahead of the position, which stays."""
        offset, bits = e["value"]
        check_width(bits, "a lookahead", e)
        if not 0 <= offset <= 8 * MAX_HEADER_BYTES:
            raise refuse(f"lookahead at offset {offset}", e)
        self.require_bytes(const(64, (offset + bits + 7) // 8))
        return take(self.f, self.here(), offset, bits)

    def _verify(self, cond: Json, error: Json, op: Json, where: str) -> None:
        f = self.f
        code = error if isinstance(error, int) else constant(error)
        unlisted = self.ctx.model.architecture != V1MODEL  # p4c does not write down the errors of PSA and PNA
        if code is not None and code not in self.ctx.model.errors.values() and not unlisted:
            raise refuse(f"error {code} is not an error of the program", op)
        good, bad = f.block("good"), f.block("bad")
        holds = boolean(self.ctx, cond)
        if self.ctx.cover:
            self.ctx.cover.decided(f, holds, f"{where} verify", op)
        f.branch(holds, good, bad)
        f.enter(bad)
        self.stop(const(64, code) if code is not None else low(self.ctx, error, 64))
        f.enter(good)

    def _advance(self, amount: Json, op: Json) -> None:
        f = self.f
        bits = low(self.ctx, amount, 64)
        self.require(f.compare("eq", f.op("and", bits, const(64, 7)), const(64, 0)), "ParserInvalidArgument")
        count = f.lshr(bits, 3)
        if self.ctx.trace:
            self.ctx.trace.record(f, "extern_call", [("bytes", count)], at=op, extern="advance")
        self.take_bytes(count)

    # -- transitions

    def _transition(self, state: Json, where: str) -> None:
        f = self.f
        default, has_default = None, False
        parts = [self._key(k) for k in state["transition_key"]]
        for t in state["transitions"]:
            if t["type"] == "default":
                default, has_default = t["next_state"], True
                continue
            if not parts:
                continue
            yes, no = self._label(t["next_state"]), f.block("case")
            cond = self._in_set(t, parts) if t["type"] == "parse_vset" else matches(f, t, parts)
            if self.ctx.trace or self.ctx.cover:
                leave = f.block("leave")
                f.branch(cond, leave, no)
                f.enter(leave)
                self._leave(state, where, t, parts, t["next_state"])
            else:
                f.branch(cond, yes, no)
            f.enter(no)
        self._leave(state, where, None, parts, default, has_default)

    def _leave(
        self, state: Json, where: str, chosen: Json, parts: list[Value], to: str | None, in_program: bool = True
    ) -> None:
        """Go on to another state, or to the end of the parser. `in_program`: by a transition of the P4 program."""
        if self.ctx.trace:
            steps.transition(self.ctx, state, to, parts, chosen)
        if self.ctx.cover and in_program:
            outcome = f"{steps.case_of(chosen)} -> {to or 'accept'}"
            self.ctx.cover.reached(self.f, BRANCH, where, outcome, state)
        self.f.jump(self._label(to))

    def _key(self, k: Json) -> Value:
        """A component of the transition key at its own width."""
        if k["type"] == "lookahead":
            return self._lookahead(k)
        if k["type"] not in ("field", "stack_field", "union_stack_field"):
            raise refuse(f"'{k['type']}' in a select expression", k)
        n = read(self.ctx, *lvalue(self.ctx, k))
        return self.f.resize(n.value, n.value.bits - n.signed)

    def _in_set(self, t: Json, parts: list[Value]) -> Value:
        """Compare with the members of a value set one after the other."""
        ctx, f = self.ctx, self.f
        slot = find(ctx.slots.value_sets, t["value"], "value set", t)
        bits = ctx.model.value_sets[t["value"]]["compressed_bitwidth"]
        packed, mask = set_key(f, t, parts, bits)
        wide = f.resize(packed, (bits + 63) // 64 * 64)
        return self._search(ctx.slot(slot), ctx.word(slot + 1), wide, const(wide.bits, mask))

    def _search(self, base: str, count: Value, value: Value, mask: Value) -> Value:
        f = self.f
        value = f.op("and", value, mask)
        index, is_member = f.variable(64), f.variable(8)
        head, look, done = f.block("search"), f.block("look"), f.block("searched")
        f.enter(head)
        i = f.load(64, index, 8)
        more = f.op("and", f.compare("ult", i, count), f.compare("eq", f.load(8, is_member), const(8, 0)))
        f.branch(more, look, done)
        f.enter(look)
        have = f.load(value.bits, f.at(base, f.op("mul", i, const(64, value.bits // 8))), 8)
        f.store(f.resize(f.compare("eq", f.op("and", have, mask), value), 8), is_member)
        f.store(f.op("add", i, const(64, 1)), index, 8)
        f.jump(head)
        f.enter(done)
        return f.compare("ne", f.load(8, is_member), const(8, 0))


def matches(f: Function, transition: Json, parts: list[Value]) -> Value:
    """i1: value and mask are those of the components one after the other, each filled up to bytes."""
    value = parse_hex(transition["value"])
    mask = parse_hex(transition["mask"]) if transition.get("mask") is not None else -1
    cond = TRUE
    for v in reversed(parts):
        size = (v.bits + 7) // 8 * 8
        low_bits = (1 << size) - 1
        expected, m = value & low_bits, mask & low_bits
        full = (1 << v.bits) - 1
        if expected & m & ~full:
            cond = FALSE  # bits that the component does not have
        masked = f.op("and", v, const(v.bits, m)) if m & full != full else v
        cond = f.op("and", cond, f.compare("eq", masked, const(v.bits, expected & m)))
        value >>= size
        mask >>= size
    return cond


def set_key(f: Function, transition: Json, parts: list[Value], bits: int) -> tuple[Value, int]:
    """The components without gaps, which a value set of so many bits is searched for, and the mask for that."""
    name, mask = transition["value"], transition.get("mask")
    if sum(p.bits for p in parts) != bits:
        raise refuse(f"value set '{name}' of {bits} bits in a select of another width", transition)
    packed = const(bits, 0)
    for p in parts:
        packed = f.op("or", f.shl(packed, p.bits), f.resize(p, bits))
    full = (1 << bits) - 1
    if mask is None:
        return packed, full
    if len(parts) > 1 and any(p.bits % 8 for p in parts):  # BMv2 has a mask for whole bytes only
        raise refuse(f"value set '{name}' with a mask over parts that are not whole bytes", transition)
    return packed, full & parse_hex(mask)


def _cyclic(states: dict[str, Json]) -> set[str]:
    """States from which they themselves can be reached."""
    follows = {n: {t["next_state"] for t in s["transitions"]} - {None} for n, s in states.items()}
    cyclic = set()
    for start in states:
        seen: set[str] = set()
        todo = list(follows[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo.extend(follows.get(name, ()))  # one that is not there is refused by name
        if start in seen:
            cyclic.add(start)
    return cyclic
