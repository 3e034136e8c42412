# SPDX-License-Identifier: Apache-2.0
"""Queries to z3 about an execution, and tests out of its answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from detour.engine.compiler.ir import TRUE, Value, const
from detour.testgen.context import Conditions, Hash, Lookup, Replaced, register_contents
from detour.testgen.entries import Searched, anything_of, chosen_entries, exact_match
from detour.testgen.hashing import hash_of
from detour.testgen.state import conjunction, z3
from detour.testgen.switching import Execution, Output, SymbolicSwitch
from detour.testgen.terms import Term, term_of, vector_of
from detour.testgen.testcase import Default, Entry, Expected, Packet, Setting, Test

_FEW_PORTS, _ETHERNET_BYTES, _SHORT = 8, 14, 4
_APART = 4
"""outputs that should leave by different ports, as the order of copies is not defined"""


class Undecided(Exception):
    """What becomes of a packet depends on something that a test cannot set; on what."""


@dataclass(frozen=True)
class Contradiction:
    """Conditions that cannot hold at once, in words."""

    texts: tuple[str, ...]


class Question:
    """Asks whether packets of an execution fulfil conditions."""

    def __init__(
        self, execution: Execution, effort: int, seed: int, left_out: int = -1, near_misses: bool = True
    ) -> None:
        """`left_out`: the number of an assumption that need not hold. `near_misses`: tests also have entries that the
        packet does not match."""
        self._near_misses, self.whole = near_misses, execution.whole
        self._execution, self._findings = execution, execution.findings
        self._solver = z3.Solver()
        self._solver.set("rlimit", effort)
        self._solver.set("random_seed", seed)
        self._random = random.Random(seed)
        self._solver.add(*(a.term for n, a in enumerate(self._findings.assumptions) if n != left_out))

    @cached_property
    def _wishes(self) -> dict[str, Term]:
        return self._marked("wish", self._preferred())

    def _preferred(self) -> list[Term]:
        """What makes tests short and easy to read."""
        execution = self._execution
        sent = [conjunction([z3.BoolVal(True), *(c.term for c in output.conditions)]) for output in execution.outputs]
        wishes = [z3.Or(*sent)] if sent else []
        ports = [term_of(output.port) for output in execution.outputs[:_APART]]
        wishes += [a != b for number, a in enumerate(ports) for b in ports[:number]]
        wishes.append(z3.ULT(term_of(execution.port) - 1, _FEW_PORTS))  # 0 is what much of metadata begins with
        wishes += [
            z3.Implies(there, z3.ULT(term_of(output.port), _FEW_PORTS))
            for there, output in zip(sent, execution.outputs, strict=True)
        ]
        wishes += [z3.Or(lookup.hit, lookup.action == 0) for lookup in self._findings.lookups]
        length, least = term_of(execution.length), max(execution.payload_at, _ETHERNET_BYTES)
        wishes.append(z3.And(z3.UGE(length, _ETHERNET_BYTES), z3.ULE(length, least + _SHORT)))
        return wishes

    def _marked(self, name: str, terms: Iterable[Term]) -> dict[str, Term]:
        """A literal for each term, which implies it, by its name."""
        marks = {}
        for number, term in enumerate(terms):
            mark = marks[f"{name} {number}"] = z3.Bool(f"{name} {number}")
            self._solver.add(z3.Implies(mark, term))
        return marks

    def _core(self) -> set[str]:
        """The names of the literals that contradict each other."""
        return {literal.decl().name() for literal in self._solver.unsat_core()}

    def ask(
        self, conditions: Conditions, more: Iterable[Term] = (), expects: bool = True, tight: bool = False
    ) -> Test | Contradiction | None:
        """A test in which the conditions hold, or those that contradict each other; None: z3 took too long. `expects`:
        with what comes out. `tight`: entries match nothing but the packet. Raises Undecided: there is none whose
        result is known."""
        if wrong := [c for c in conditions if c.is_false]:
            return Contradiction((wrong[0].text,))
        wishes = self._wishes
        self._solver.push()
        try:
            marks = self._marked("condition", (c.term for c in conditions))
            self._solver.add(*more)
            widths = (wide for lookup in self._findings.lookups for wide in lookup.wide)
            chosen = [w if not tight and self._random.getrandbits(1) else z3.Not(w) for w in widths]
            answer, model = self._check(marks, wishes | self._marked("width", chosen))
            if model is not None:
                return self._test(model, conditions, expects and self.whole, tight)
            return self._contradiction(marks, conditions) if answer == z3.unsat else None
        finally:
            self._solver.pop()

    def _contradiction(self, marks: dict[str, Term], conditions: Conditions) -> Contradiction:
        core = self._core()
        texts = (c.text for name, c in zip(marks, conditions, strict=True) if name in core and c.text)
        return Contradiction(tuple(texts))

    def refuted(self, conditions: Conditions, more: Iterable[Term] = ()) -> Contradiction | None:
        """The conditions that contradict each other, if they do."""
        self._solver.push()
        self._solver.add(*more)
        marks = self._marked("condition", (c.term for c in conditions))
        unsat = self._solver.check(*marks.values()) == z3.unsat
        contradiction = self._contradiction(marks, conditions) if unsat else None
        self._solver.pop()
        return contradiction

    def matters(self, otherwise: Replaced) -> Term:
        """That other packets come out if something is replaced in terms: the decision, and what follows from it in
        tables that are searched later, whose entries are for what they are searched for without it."""
        if not otherwise or self._sent is None:
            return z3.BoolVal(False)
        replaced = list(otherwise)
        for lookup in self._findings.lookups:
            if lookup.hit.eq(otherwise[0][0]) or z3.is_false(lookup.hit):
                continue
            before = z3.And(z3.BoolVal(True), *(c.term for c in lookup.conditions)), *map(vector_of, lookup.key)
            after = [z3.substitute(each, *replaced) for each in before]
            if not all(a.eq(b) for a, b in zip(before, after, strict=True)):
                hit = z3.And(lookup.hit, *(a == b for a, b in zip(before[1:], after[1:], strict=True)))
                stays = z3.Or(hit, z3.And(before[0], z3.Not(lookup.hit)))
                declared = z3.BitVecVal(0, lookup.action.size())
                replaced += (lookup.hit, hit), (lookup.action, z3.If(stays, lookup.action, declared))
        others = z3.substitute(self._sent, *replaced)
        pairs = zip(self._sent.children(), others.children(), strict=True)
        return z3.Or(*(a != b for a, b in pairs if not a.eq(b)))

    @cached_property
    def _sent(self) -> Term | None:
        """All that comes out, in one term; None: nothing can."""
        parts: list[Term] = []
        for output in self._execution.outputs:
            there = conjunction([z3.BoolVal(True), *(c.term for c in output.conditions)])
            values = [(there, each) for each in (TRUE, output.port, output.truncate, *output.rest[0])]
            values += [(z3.And(there, term_of(v)), each) for v, fields in output.headers for each in (v, *fields)]
            parts += [z3.If(when, vector_of(value), z3.BitVecVal(0, value.bits)) for when, value in values]
        return z3.Function("sent", *(part.sort() for part in parts), z3.BoolSort())(*parts) if parts else None

    def paths(self) -> Iterator[Test | None]:
        """A test for each path that packets can take; None: its result is not known. Raises Undecided at the end if z3
        took too long to say that there is no other one."""
        wishes = self._wishes
        decisions = [conjunction(c.term for c in conditions) for conditions in self._findings.decisions]
        while True:
            self._solver.push()
            answer, model = self._check({}, wishes)
            if model is None:
                self._solver.pop()
                if answer != z3.unsat:
                    raise Undecided("whether there are other paths")
                return
            path = [d if z3.is_true(model.eval(d, model_completion=True)) else z3.Not(d) for d in decisions]
            self._solver.add(*path)
            test = None
            with suppress(Undecided):
                test = self._test(model, (), True)
            self._solver.pop()
            self._solver.add(z3.Not(z3.And(*path)))
            yield test

    def _check(self, marks: dict[str, Term], wishes: dict[str, Term]) -> tuple[Any, Any]:
        """Whether the conditions can hold, and a model in which they do, with as many wishes as go with them."""
        while True:
            literals = *marks.values(), *wishes.values()
            answer = self._solver.check(*literals)
            if answer == z3.sat:
                model = self._solver.model()
                self._solver.add(*literals)
                return answer, model
            core = self._core() if answer == z3.unsat else wishes
            fulfilled = {name: wish for name, wish in wishes.items() if name not in core}
            if len(fulfilled) == len(wishes):
                return answer, None
            wishes = fulfilled

    def _test(self, model: Any, conditions: Conditions, expects: bool, tight: bool = False) -> Test:
        """The test of the model that was found, once hashes have the values that they really have. They are computed
        one after the other, as the input of one may be the result of another."""
        for each in self._findings.hashes:
            known = _known(each, model)
            self._solver.add(*known)
            if not all(z3.is_true(model.eval(term, model_completion=True)) for term in known):
                if self._solver.check() != z3.sat:
                    raise Undecided("a hash")
                model = self._solver.model()
        self._complete(model)
        answer = Answer(self._execution, model, self._random if self._near_misses else None, tight)
        answer.holds(conditions, "whether packets come there")
        return answer.test(expects)

    def _complete(self, model: Any) -> None:
        """Gives variables on which nothing depends some value: zeros would hide mistakes."""
        constrained = {declaration.name() for declaration in model.decls()}
        for name, term in self._findings.variables.items():
            if name not in constrained:
                value = z3.BitVecVal(self._random.getrandbits(term.size()), term.size())
                model.update_value(term, value)


def _known(each: Hash, model: Any) -> list[Term]:
    """That the input of a hash stays as it is, and its result is what follows."""
    known: list[Term] = []
    values: list[Value] = []
    for there, value in each.parts:
        is_there = z3.is_true(model.eval(term_of(there), model_completion=True))
        known.append(term_of(there) if is_there else z3.Not(term_of(there)))
        if is_there:
            part = model.eval(vector_of(value), model_completion=True)
            known.append(vector_of(value) == part)
            values.append(const(value.bits, part.as_long()))
    return [*known, each.result == hash_of(each.algorithm, values)]


def replayed(switch: SymbolicSwitch, test: Test) -> Test:
    """A test with the ways through the parser and the outputs that follow from the rest of it. Raises Undecided: they
    depend on what nobody knows, or NotModelled: something in it is not followed."""
    packets = zip(test.packets, switch.replay(test), strict=True)
    return replace(test, packets=tuple(Answer(run, z3.Model(), None).outcome(packet) for packet, run in packets))


def _bytes(parts: Iterable[tuple[int, int, int]]) -> tuple[bytes, bytes]:
    """Parts, each bits, value and mask, one behind the other, filled up to bytes: the values, and the masks."""
    numbers, bits = [0, 0], 0
    for size, *both in parts:
        numbers, bits = [number << size | more for number, more in zip(numbers, both, strict=True)], bits + size
    value, mask = ((number << -bits % 8).to_bytes((bits + 7) // 8, "big") for number in numbers)
    return value, mask


class Answer:
    """A model of an execution, read as a test."""

    def __init__(self, execution: Execution, model: Any, choose: random.Random | None, tight: bool = False) -> None:
        """`choose`: for what entries may match beside the packet; None: there are no others, and they match no more.
        `tight`: see `chosen_entries`."""
        self._choose, self._tight = choose, tight
        self._execution, self._findings, self._model = execution, execution.findings, model
        self._known = self._known_part()

    def _known_part(self) -> Any:
        """The model without the variables whose value nobody knows. Hashes have been computed."""
        free = self._findings.free - {str(h.result) for h in self._findings.hashes}
        known = z3.Model()
        for name, term in self._findings.variables.items():
            if name not in free:
                known.update_value(term, self._model.eval(term, model_completion=True))
        for setting in self._findings.settings:
            if setting.of == "register":
                array = register_contents(setting.name, setting.value.bits)
                known.update_value(array, self._model.eval(array, model_completion=True))
        return known

    def number(self, value: Value) -> int:
        """The value, whatever it depends on."""
        if value.const is not None:
            return value.const
        return self._model.eval(vector_of(value), model_completion=True).as_long()

    def decided(self, value: Value, what: str) -> int:
        """The value. Raises Undecided if it depends on what nobody knows."""
        number, mask = self.bits(value)
        if mask != (1 << value.bits) - 1:
            raise Undecided(what)
        return number

    def bits(self, value: Value) -> tuple[int, int]:
        """A value and which of its bits are known."""
        full = (1 << value.bits) - 1
        if value.const is not None:
            return value.const, full
        rest = self._known.eval(vector_of(value))
        if z3.is_bv_value(rest):
            return rest.as_long(), full
        number = mask = 0
        for bit in range(value.bits):
            one = z3.simplify(z3.Extract(bit, bit, rest))
            if z3.is_bv_value(one):
                number |= one.as_long() << bit
                mask |= 1 << bit
        return number, mask

    def holds(self, conditions: Conditions, what: str) -> bool:
        """Whether all conditions hold. Raises Undecided if that depends on what nobody knows."""
        return all(self.is_true(condition.term, what) for condition in conditions)

    def is_true(self, term: Term, what: str) -> bool:
        return bool(self.decided(Value(1, term), what))

    # -- the test

    def test(self, expects: bool) -> Test:
        entries, defaults = self._tables()
        packet = Packet(self.number(self._execution.port), self._frame(), way=self._execution.names)
        packet = self.outcome(packet) if expects else packet
        return Test((packet,), entries, defaults, self._settings(entries))

    def outcome(self, packet: Packet) -> Packet:
        """The packet with what must come out. Raises Undecided: that depends on what nobody knows."""
        sent = [each for each in self._execution.outputs if self.holds(each.conditions, "whether it is sent")]
        expected = tuple(each for output in sent if (each := self._expected(output, packet.frame)) is not None)
        if len({each.port for each in expected}) < len(set(expected)):
            raise Undecided("the order in which copies leave")
        return replace(packet, expected=expected, way=self._execution.names)

    def _frame(self) -> bytes:
        """The packet: what was read of it, and zeros."""
        data, _ = _bytes((part.bits, self.number(part), 0) for part in self._execution.packet.parts)
        length = self.number(self._execution.length)
        return data[:length] + bytes(length - len(data[:length]))

    def _expected(self, output: Output, frame: bytes) -> Expected | None:
        values, start = output.rest
        there = [v for valid, fields in output.headers if self.decided(valid, "a header's validity") for v in fields]
        data, mask = _bytes((value.bits, *self.bits(value)) for value in (*there, *values))
        data, mask = data + frame[start:], mask + b"\xff" * len(frame[start:])
        cut = self.decided(output.truncate, "the length to which it is cut") or len(data)
        if not data[:cut]:
            return None
        return Expected(self.decided(output.port, "its port"), data[:cut], mask[:cut])

    def _settings(self, entries: list[Entry]) -> list[Setting]:
        settings: list[Setting] = []
        for each in self._findings.settings:
            if self.holds(each.conditions, f"whether a {each.of} counts"):
                at, value = self.decided(each.at, f"the number of a {each.of}"), self.number(each.value)
                if value or each.of in ("group", "session"):
                    places = [at] if each.at.bits > 1 else range(self._entries_with(each.name, entries))
                    settings += [Setting(each.of, each.name, place, value) for place in places]
        return list(dict.fromkeys(settings))

    def _entries_with(self, meter: str, entries: list[Entry]) -> int:
        """How many entries have a direct meter; their handles are counted from zero."""
        table = next(each.table.name for each in self._findings.lookups if each.table.direct_meter == meter)
        return sum(each.table == table for each in entries)

    def _tables(self) -> tuple[list[Entry], list[Default]]:
        searched: list[Searched] = []
        others: list[Entry] = []
        defaults: list[Default] = []
        for lookup in self._findings.lookups:
            number = self._model.eval(lookup.action, model_completion=True).as_long()
            hit = z3.is_true(self._model.eval(lookup.hit, model_completion=True))
            if not self.holds(lookup.conditions, f"whether {lookup.table.name} is searched"):
                with suppress(Undecided):
                    others += [self._entry(lookup, number)] if hit else []
                continue
            if (True, 0) in lookup.arguments:
                searched.append(Searched(lookup.table, self._entry(lookup, number if hit else 0), hit))
            if not hit and (False, number) in lookup.arguments:
                action, arguments = self._call(lookup, False, number)
                defaults.append(Default(lookup.table.name, action, arguments))
        rules = self._execution.rules
        allow = rules.allow if rules else lambda entry: True
        entries = chosen_entries(searched, others, self._choose, allow, self._tight)
        tables = {lookup.table.name: lookup.table for lookup in self._findings.lookups}
        return rules.with_targets(entries, tables) if rules else entries, list(dict.fromkeys(defaults))

    def _call(self, lookup: Lookup, hit: bool, number: int) -> tuple[str, tuple[tuple[str, int], ...]]:
        actions = lookup.table.actions if hit else lookup.defaults
        action = actions[number]
        assert action is not None
        arguments = [self.number(value) for value in lookup.arguments[hit, number]]
        return action.name, tuple(zip((p.name for p in action.params), arguments, strict=True))

    def _entry(self, lookup: Lookup, number: int) -> Entry:
        table = lookup.table
        key = tuple(
            exact_match(table, at, self.decided(value, f"a key of {table.name}")) for at, value in enumerate(lookup.key)
        )
        wide = [z3.is_true(self._model.eval(each, model_completion=True)) for each in lookup.wide]
        if any(wide):
            key = tuple(anything_of(m) if w else m for m, w in zip(key, wide, strict=True))
        action, arguments = self._call(lookup, True, number)
        return Entry(table.name, key, action, arguments, 1 if table.match_type in ("ternary", "range") else None)
