# SPDX-License-Identifier: Apache-2.0
"""The ways through a parser, one at a time: on each, headers are at fixed places of the packet.

What is read of a packet becomes variables (`Packet`); its length is one more. Lengths of fields and
advances that are computed are followed for each value that they can have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from detour.engine import phv
from detour.engine.compiler.context import HeaderRef
from detour.engine.compiler.covering import BRANCH
from detour.engine.compiler.expressions import Number, boolean, exact, low, lvalue, member_of, read
from detour.engine.compiler.ir import FALSE, Value, const
from detour.engine.compiler.model import Json, find
from detour.engine.compiler.parser import matches, set_key
from detour.engine.compiler.primitives import assign, assign_number
from detour.engine.compiler.traced_steps import case_of, key_name
from detour.testgen.calls import run_call
from detour.testgen.conditions import note_goals
from detour.testgen.context import Conditions, Findings, SiteKey, SymbolicContext, condition_text, either
from detour.testgen.effort import Effort
from detour.testgen.passes import Packet
from detour.testgen.state import State, z3
from detour.testgen.terms import NotModelled, constants, folded, term_of, value_of, vector_of

MOST_BYTES = 1500
"""of a packet"""
_INVALID = "ParserInvalidArgument"
_MOST_VALUES = 16
"""of a length that is computed"""
_MOST_VISITS = 40
_LATER = {"units": 200_000}
"""of z3 for whether packets take a way when they start over, which is followed if it does not know"""


@dataclass
class Way:
    """A way through the parser, or as far as it has come. `at`: bytes that were consumed, of `least` that must be
    there; `most`: the longest packet that comes this way. `port`: by which the packet came in, whatever the program
    writes to its metadata. `passes`: how often the packet had been copied or parsed before; then its ways share what is
    found. `taken`: the branches at its forks, values that decided, and, negative, how many bytes would be enough."""

    state: State
    findings: Findings
    packet: Packet
    port: Value
    names: tuple[str, ...] = ()
    operation: int = 0
    at: int = 0
    least: int = 1
    most: int = MOST_BYTES
    error: str = ""
    passes: int = 0
    taken: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that tells this way from others of packets that come in."""
        return self.names, self.error, self.at, self.taken

    @property
    def headers(self) -> frozenset[str]:
        """The headers that are there at its end."""
        memory = self.state.memory.items()
        return frozenset(name for name, value in memory if name.endswith("$valid$") and value.const != 0)

    def ends(self, error: str) -> Way:
        return replace(self, error=error)

    def branch(self, state: State, taken: int | None = None) -> Way:
        """The way on in another state, which goes on apart from this one."""
        findings = self.findings if self.passes else self.findings.copy()
        on = replace(self, state=state, findings=findings, packet=self.packet.copy())
        return on if taken is None else on.takes(taken)

    def takes(self, branch: int) -> Way:
        return replace(self, taken=(*self.taken, branch))


class Parser:
    """`ways` are all ways through the parser."""

    def __init__(self, ctx: SymbolicContext, effort: Effort) -> None:
        self.ctx, self.f = ctx, ctx.f
        parsers = ctx.model.json["parsers"]
        self._states = {s["name"]: s for s in parsers[0]["parse_states"]} if parsers else {}
        self._first = parsers[0]["init_state"] if parsers else None
        self._solver = z3.Solver()
        self._effort = effort
        self.cut_short: set[str] = set()
        """why there are more ways than those that were followed"""
        self.dead_ends: list[tuple[SiteKey, Conditions]] = []
        """transitions that no packet takes on some way, with the conditions that contradict each other"""

    def first(self) -> Way:
        """A packet that comes in."""
        findings = self.ctx.findings = Findings()
        port = self.f.resize(self.ctx.variable("port", 9), 32)
        start = Way(State(), findings, Packet(), port)
        self.arrive(start, self.ctx.variable("packet.length", 32))
        self.ctx.always(z3.ULT(term_of(port), phv.DROP_PORT))
        return start

    def arrive(self, way: Way, length: Value) -> None:
        """Begin with a packet of so many bytes that comes in."""
        self.enter(way)
        self.ctx.set_fixed(phv.INGRESS_PORT, way.port)
        self.set_length(length)
        self.ctx.set_fixed(phv.INGRESS_GLOBAL_TIMESTAMP, self.ctx.variable("time", 64, free=True))

    def set_length(self, length: Value) -> None:
        """Set a packet's length: in the metadata, which the program may write to, and where it cannot."""
        self.ctx.set_fixed(phv.PACKET_LENGTH, length)
        self.ctx.set_fixed(phv.INGRESS_LENGTH, length)

    def ways(self, start: Way, most: int) -> Iterator[Way]:
        """The ways on from the parser's start, at most so many. Each is to be finished (`finish`) before the next."""
        waiting: list[tuple[Way, str | None]] = [(start, self._first)]
        entered: Counter[str | None] = Counter()
        given, seen = 0, set[SiteKey]()
        while waiting:
            # First a way with a transition that none has had, then a state that few have entered.
            order = [(way.findings.reached.keys() <= seen, entered[name]) for way, name in waiting]
            way, name = waiting.pop(order.index(min(order)))
            if self._effort.is_over():
                self.cut_short.add("the time is over")
                return
            if way.error or name is None:
                if given >= most:
                    self.cut_short.add(f"the parser has more than {most} ways")
                    return
                given += 1
                seen.update(way.findings.reached)
                yield way
            else:
                entered[name] += 1
                waiting.extend(self._run_state(way, name))

    def enter(self, way: Way) -> None:
        self.f.state, self.ctx.findings = way.state, way.findings

    def finish(self, way: Way) -> Way:
        """Leave what a control sees of the parser's result; execution is at the end of this way, which is returned as
        it is there."""
        self.enter(way)
        errors = self.ctx.model.errors
        length = self.ctx.fixed(phv.INGRESS_LENGTH)
        terms = [z3.UGE(term_of(length), way.least), z3.ULE(term_of(length), way.most)]
        if way.passes:
            self.f.state = self.ctx.fork_on(value_of(1, z3.And(*terms)), ["a length that comes this way", ""])[0]
        else:
            for term in [*(c.term for c in way.state.conditions), *terms]:
                self.ctx.always(term)
        self.ctx.set_fixed(phv.LENGTH_REGISTER, length)
        self.ctx.payload_values = partial(self._payload, way)
        self.ctx.set_fixed(phv.PARSER_ERROR, const(32, errors[way.error or "NoError"]))
        return replace(way, state=self.f.state.copy())

    def _payload(self, way: Way) -> list[Value]:
        """The payload behind what a packet's parser has consumed; nothing in place of zeros."""
        if self.ctx.given is None:
            if way.passes:
                raise NotModelled("the payload of a packet that starts over")
            return []
        values, byte = way.packet.rest(8 * way.at)
        return [*values, *constants(self.ctx.sent[byte:])]

    # -- states

    def _run_state(self, way: Way, name: str) -> list[tuple[Way, str | None]]:
        """Run a state on a way: ways with the next state, or that end."""
        if name not in self._states or way.names.count(name) > _MOST_VISITS:
            self.cut_short.add(f"state {name} comes back more than {_MOST_VISITS} times")
            return []
        state = self._states[name]
        done: list[tuple[Way, str | None]] = []
        going = [replace(way, names=(*way.names, name), operation=0)]
        while going:
            one = going.pop()
            if one.error:
                done.append((one, None))
            elif one.operation == len(state["parser_ops"]):
                done += self._transition(one, state)
            else:
                going += self._next(one, state)
        return done

    def _next(self, way: Way, state: Json) -> list[Way]:
        """Execute one operation of a state."""
        self.enter(way)
        op, where = state["parser_ops"][way.operation], f"state {state['name']}"
        self.ctx.cover.statement(self.f, where, way.operation, op)
        on = replace(way, operation=way.operation + 1)
        try:
            return self._operation(on, op, f"{where} #{way.operation}")
        except NotModelled as error:
            self.cut_short.add(str(error))
            return []

    def _operation(self, way: Way, op: Json, where: str) -> list[Way]:
        args = op["parameters"]
        match op["op"]:
            case "extract" | "extract_VL":
                return self._extract(way, args[0], args[1] if len(args) > 1 else None, op)
            case "set":
                return self._set(way, args[0], args[1], op)
            case "verify":
                return self._verify(way, args[0], args[1], op, where)
            case "primitive":
                run_call(self.ctx, args[0])
                return [way]
            case "shift":
                return self._take(way, args[0])
            case "advance":
                return self._advance(way, args[0])
        raise NotModelled(f"the parser operation {op['op']}")

    def _fork(
        self, way: Way, conditions: list[Any], texts: list[str], labels: Sequence[int] | None = None
    ) -> list[Way | None]:
        """The way, once for each condition that a packet can fulfil. `labels`: what `Way.taken` calls the branches."""
        ways: list[Way | None] = []
        labels = range(len(conditions)) if labels is None else labels
        for state, label in zip(way.state.fork(*conditions, texts), labels, strict=True):
            dead = state.dead or not self.possible(state, way.findings, **(_LATER if way.passes else {}))
            ways.append(None if dead else way.branch(state, label))
        return ways

    def possible(self, state: State, findings: Findings, **limits: int) -> bool:
        """Whether packets may come to a state. `limits`: of `Effort.check`, after which they may."""
        with self._solver:
            self._add(state, findings)
            return self._effort.check(self._solver, **limits) != z3.unsat

    def _add(self, state: State, findings: Findings) -> None:
        """Give the solver the conditions of a state."""
        needed = (each.term for each in findings.assumptions if not each.is_replayed)
        self._solver.add(*(c.term for c in state.conditions), *needed)

    # -- taking bytes

    def _require(self, way: Way, count: int) -> tuple[Way | None, list[Way]]:
        """The way on which `count` more bytes are there, and those that end because they are not."""
        needed = way.at + count
        short = []
        if way.least < needed:
            less = way.branch(way.state.copy(), -needed)
            short = [replace(less, most=min(way.most, needed - 1)).ends("PacketTooShort")]
        if needed > way.most:
            return None, short
        return replace(way, least=max(way.least, needed)), short

    def _take(self, way: Way, count: int) -> list[Way]:
        on, short = self._require(way, count)
        return [*short, *([replace(on, at=on.at + count)] if on else [])]

    def _extract(self, way: Way, what: Json, length: Json, op: Json) -> list[Way]:
        refs = self._target(way, what, op)
        if refs is None:
            return [way.ends("StackOutOfBounds")]
        ref, stack = refs
        ways: list[Way] = []
        for one, bits, error in self._lengths(way, ref, length):
            if error:
                ways.append(one.ends(error))
                continue
            on, short = self._require(one, (ref.type.bits + bits) // 8)
            ways += short
            if on is None:
                continue
            ways.append(self._fill(on, ref, bits))
            if stack is not None:
                self.ctx.set_next(stack, self.f.op("add", self.ctx.next_index(stack), const(32, 1)))
        return ways

    def _target(self, way: Way, what: Json, op: Json) -> tuple[HeaderRef, Any] | None:
        """The header to extract, and its stack; None: the stack is full."""
        ctx = self.ctx
        if what["type"] == "regular":
            return ctx.header(what["value"], op), None
        member, name = 0, what["value"]
        if what["type"] == "union_stack":
            name = what["value"][0]
            member = member_of(find(ctx.model.union_stacks, name, "stack of header unions", op), what["value"][1], op)
        stack = ctx.stack(name, op)
        index = folded(ctx.next_index(stack))
        if index.const is None:
            raise NotModelled(f"the next element of {stack.name} depends on conditions")
        if index.const >= len(stack.elements):
            return None
        return ctx.element(stack, index)[member], stack

    def _lengths(self, way: Way, ref: HeaderRef, length: Json) -> list[tuple[Way, int, str]]:
        """The way for each length in bits that the field of variable length can have, with the error that it is."""
        if length is None:
            return [(way, 0, "")]
        spec, f, what = ref.type.variable, self.f, f"the length of {ref.header.name}"
        assert spec is not None
        if self.ctx.variable_field(ref, spec) is not None:
            raise NotModelled(f"{ref.header.name} is extracted twice")
        number = exact(self.ctx, length)
        wide = max(number.value.bits + 1, 65)
        value = f.resize(number.value, wide, number.signed)
        whole = f.compare("eq", f.resize(value, 3), const(3, 0))
        fits = f.compare("ule", value, const(wide, 8 * ref.type.max_bytes - ref.type.bits))
        packet = f.shl(f.resize(self.ctx.fixed(phv.INGRESS_LENGTH), wide), 3)
        there = f.compare("uge", packet, f.op("add", value, const(wide, 8 * way.at + ref.type.bits)))
        too_long = f.op("and", whole, f.negate(fits))
        cases = [
            ("is not of whole bytes", _INVALID, f.negate(whole)),
            ("is too great", "HeaderTooShort", f.op("and", too_long, there)),
            ("is more than there is", "PacketTooShort", f.op("and", too_long, f.negate(there))),
            ("fits", "", f.op("and", whole, fits)),
        ]
        terms = [either(folded(condition))[0] for _, _, condition in cases]
        ways: list[tuple[Way, int, str]] = []
        branches = self._fork(way, terms, [f"{what} {text}" for text, _, _ in cases])
        for one, (_, error, _) in zip(branches, cases, strict=True):
            if one is not None and error:
                ways.append((one, 0, error))
            elif one is not None:
                ways += [(each, bits, "") for each, bits in self.values(one, value, what, _MOST_VALUES)]
        return ways

    def values(self, way: Way, value: Value, what: str, most: int) -> list[tuple[Way, int]]:
        """The way for each value that something can have there, at most `most`."""
        value = folded(value)
        if value.const is not None:
            return [(way.takes(value.const), value.const)]
        numbers: list[int] = []
        with self._solver:
            self._add(way.state, way.findings)
            while (answer := self._effort.check(self._solver, **(_LATER if way.passes else {}))) == z3.sat:
                if len(numbers) == most:
                    self.cut_short.add(f"{what} has more than {most} values")
                    break
                number = self._solver.model().eval(term_of(value), model_completion=True).as_long()
                numbers.append(number)
                self._solver.add(term_of(value) != number)
            if answer == z3.unknown:
                self.cut_short.add(f"the solver took too long for {what}")
        numbers.sort()
        terms = [term_of(value) == number for number in numbers]
        ways = self._fork(way, terms, [f"{what} is {number}" for number in numbers], numbers)
        return [(one, number) for one, number in zip(ways, numbers, strict=True) if one is not None]

    def _fill(self, way: Way, ref: HeaderRef, variable_bits: int) -> Way:
        """Fill a header's fields from the packet."""
        self.enter(way)
        bit = 8 * way.at
        for spec in ref.type.fields:
            name, bits = f"{ref.header.name}.{spec.name}", variable_bits if spec.variable else spec.bits
            if not bits:
                continue
            value = way.packet.read(self.ctx, bit, bits, name)
            bit += bits
            if name in self.ctx.fixed_values and not way.passes:
                self.ctx.always(vector_of(value) == self.ctx.fixed_values[name])
            if spec.variable:
                self.f.store(value, name)
            else:
                self.ctx.store_field(ref, spec, self.f.resize(value, spec.bits + spec.signed, True))
        self.ctx.set_valid(ref, True)
        return replace(way, at=bit // 8)

    # -- other operations

    def _set(self, way: Way, target: Json, source: Json, op: Json) -> list[Way]:
        if source["type"] != "lookahead":
            with self.ctx.giving_up():
                assign(self.ctx, [target, source], op)
            return [way]
        on, value, short = self._lookahead(way, source)
        if on is None:
            return short
        assign_number(self.ctx, target, Number(value, False))
        return [*short, on]

    def _lookahead(self, way: Way, e: Json) -> tuple[Way | None, Value, list[Way]]:
        offset, bits = e["value"]
        on, short = self._require(way, (offset + bits + 7) // 8)
        if on is None:
            return None, FALSE, short
        self.enter(on)
        return on, on.packet.read(self.ctx, 8 * on.at + offset, bits, "packet"), short

    def _verify(self, way: Way, condition: Json, error: Json, op: Json, where: str) -> list[Way]:
        holds = folded(boolean(self.ctx, condition))
        note_goals(self.ctx, f"{where} verify", condition)
        self.ctx.cover.decided(self.f, holds, f"{where} verify", op)
        code = error if isinstance(error, int) else folded(low(self.ctx, error, 64)).const
        names = {number: name for name, number in self.ctx.model.errors.items()}
        texts = [condition_text(f"{where} verify", op, outcome) for outcome in ("true", "false")]
        good, bad = self._fork(way, list(either(holds)), texts)
        if bad is not None and code not in names:
            raise NotModelled("verify with an error that is computed")
        return [*([good] if good else []), *([bad.ends(names[code])] if bad and code is not None else [])]

    def _advance(self, way: Way, amount: Json) -> list[Way]:
        value = low(self.ctx, amount, 64)
        whole = folded(self.f.compare("eq", self.f.resize(value, 3), const(3, 0)))
        texts = ["an advance of whole bytes", "an advance that is not of whole bytes"]
        inside, broken = self._fork(way, list(either(whole)), texts)
        ways = [broken.ends(_INVALID)] if broken is not None else []
        for one, bits in self.values(inside, value, "an advance", _MOST_VALUES) if inside is not None else ():
            ways += self._take(one, bits // 8)
        return ways

    # -- transitions

    def _transition(self, way: Way, state: Json) -> list[tuple[Way, str | None]]:
        self.enter(way)
        done: list[tuple[Way, str | None]] = []
        parts: list[Value] = []
        try:
            for key in state["transition_key"]:
                if key["type"] == "lookahead":
                    on, value, short = self._lookahead(way, key)
                    done += [(each, None) for each in short]
                    if on is None:
                        return done
                    way = on
                else:
                    number = read(self.ctx, *lvalue(self.ctx, key))
                    value = self.f.resize(number.value, number.value.bits - number.signed)
                parts.append(folded(value))
            return [*done, *self._leave(way, state, parts)]
        except NotModelled as error:
            self.cut_short.add(str(error))
            return done

    def _leave(self, way: Way, state: Json, parts: list[Value]) -> list[tuple[Way, str | None]]:
        chosen, default, conditions = [], None, []
        before = FALSE
        for transition in state["transitions"]:
            if transition["type"] == "default":
                default = transition
            elif parts:
                in_set = transition["type"] == "parse_vset"
                match = self._in_set(transition, parts) if in_set else folded(matches(self.f, transition, parts))
                chosen.append(transition)
                conditions.append(self.f.op("and", match, self.f.negate(before)))
                before = self.f.op("or", before, match)
        key = ", ".join(key_name(each) for each in state["transition_key"])
        chosen.append(default)
        conditions.append(self.f.negate(before))
        terms = [bool(c.const) if c.const is not None else term_of(c) for c in conditions]
        texts = [f"state {state['name']}: {key} is {case_of(each)}" if key else "" for each in chosen]
        after: list[tuple[Way, str | None]] = []
        branches = zip(chosen, self._fork(way, terms, texts), way.state.branches(*terms, texts), strict=True)
        for transition, one, reached in branches:
            to = transition["next_state"] if transition else None
            if transition is not None:
                site = BRANCH, f"state {state['name']}", f"{case_of(transition)} -> {to or 'accept'}"
                if one is not None:
                    one.findings.reached.setdefault(site, []).append(reached)
                else:
                    self.dead_ends.append((site, reached))
            if one is not None:
                after.append((one, to))
        return after

    def _in_set(self, transition: Json, parts: list[Value]) -> Value:
        """A test chooses what is in a value set; of members only the bits of the mask count."""
        bits = self.ctx.model.value_sets[transition["value"]]["compressed_bitwidth"]
        key, mask = set_key(self.f, transition, parts, bits)
        key = folded(self.f.op("and", key, const(bits, mask)))
        return self.ctx.setting("member", transition["value"], key, 1)
