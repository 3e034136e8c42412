# SPDX-License-Identifier: Apache-2.0
"""Queries to z3 about an execution, and tests out of its answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from detour.engine.compiler.ir import TRUE, Value, const
from detour.testgen.context import Conditions, Hash, Lookup, Replaced
from detour.testgen.effort import Effort
from detour.testgen.entries import Searched, anything_of, chosen_entries, exact_match
from detour.testgen.hashing import PRODUCT, hash_of
from detour.testgen.state import conjunction, z3
from detour.testgen.switching import Execution, Output, SymbolicSwitch
from detour.testgen.terms import Term, term_of, vector_of
from detour.testgen.testcase import Default, Entry, Expected, Packet, Setting, Test

_FEW_PORTS, _ETHERNET_BYTES, _SHORT = 8, 14, 4
_APART = 4
"""outputs that should leave by different ports, as the order of copies is not defined"""


class Undecided(Exception):
    """An outcome that depends on something which a test cannot set: on what, and the term that does."""

    def __init__(self, what: str, term: Term = None) -> None:
        super().__init__(what)
        self.term = term


@dataclass
class Found:
    """A test, or why there is none, and the goals for which that is so: their numbers, each with what nobody knows and
    its conditions depend on, "" if there is no such thing."""

    goals: dict[int, str]
    test: Test | None = None
    reason: str = ""


TOO_LONG = "the solver took too long"
_FEW_UNITS = 4_000_000
"""of z3 for what can be given up"""
_MOST_UNKNOWN = 3
"""answers that z3 does not know, before goals have to wait"""
_MIXTURES = 12
_MOST_REFINED = 6
"""how often hashes are computed and another model is looked for"""


class Question:
    """Asks whether packets of an execution reach goals, each of which is all conditions for coming to a place."""

    def __init__(
        self,
        execution: Execution,
        effort: Effort,
        seed: int,
        left_out: int = -1,
        near_misses: bool = True,
        proves: bool = False,
    ) -> None:
        """`left_out`: the number of an assumption that need not hold. `near_misses`: tests also have entries that the
        packet does not match. `proves`: places are to be proven unreachable, for which bits are better than words."""
        self._near_misses, self.whole, self._effort = near_misses, execution.whole, effort
        self._execution, self.findings = execution, execution.findings
        self._seed, self._words = seed, self.findings.sums and not proves
        self._solver = z3.Solver() if self._words else z3.SolverFor("QF_BV")
        self._solver.set("random_seed", seed)
        self._random = random.Random(seed)
        self._literals: dict[Conditions, Term] = {}
        self._settled: dict[str, Term] = {}
        self._later: list[Term] = []
        self.is_patient = True
        """whether hard queries are worth while"""
        self._granted: dict[str, Term] = {}
        """the wishes that the last model fulfils"""
        needed = (a for n, a in enumerate(self.findings.assumptions) if n != left_out)
        self._solver.add(*(a.term for a in needed if not a.is_replayed))

    def use_words(self) -> None:
        """Let z3 think about words rather than bits from now on: quicker where one thing is asked at a time."""
        if not self._words:
            bits, self._solver, self._words = self._solver, z3.Solver(), True
            self._solver.set("random_seed", self._seed)
            self._solver.add(*bits.assertions())

    @cached_property
    def _wishes(self) -> dict[str, Term]:
        return self._marked("wish", self._preferred())

    def _preferred(self) -> list[Term]:
        """Wishes that make tests short and easy to read."""
        execution = self._execution
        sent = [_all(output.conditions) for output in execution.outputs]
        wishes = [conjunction(self.findings.followed)] if self.findings.followed else []
        wishes += [z3.Or(*sent)] if sent else []
        ports = [term_of(output.port) for output in execution.outputs[:_APART]]
        wishes += [a != b for number, a in enumerate(ports) for b in ports[:number]]
        wishes.append(z3.ULT(term_of(execution.port) - 1, _FEW_PORTS))  # 0 is what much of metadata begins with
        wishes += [
            z3.Implies(there, z3.ULT(term_of(output.port), _FEW_PORTS))
            for there, output in zip(sent, execution.outputs, strict=True)
        ]
        wishes += [z3.Or(lookup.hit, lookup.action == 0) for lookup in self.findings.lookups]
        length, least = term_of(execution.length), max(execution.payload_at, _ETHERNET_BYTES)
        wishes.append(z3.And(z3.UGE(length, _ETHERNET_BYTES), z3.ULE(length, least + _SHORT)))
        registers = [each for each in self.findings.settings if each.of == "register"]
        places = [vector_of(each.at) for each in registers if each.at.const is None]
        if registers:  # one wish for all: each one that is not fulfilled costs a query
            wishes.append(z3.And(*(vector_of(each.value) == 0 for each in registers)))
        if places:  # which a slice that begins a bit too early or too late would change
            wishes.append(z3.And(*(at & at + 1 != 0 for at in places)))
        return wishes

    def _wish_settled(self, term: Term, value: Term) -> bool:
        """Wishes that a term, if it has a value, has that whatever the variables are that no test can set. False: that
        has been wished before."""
        name = f"settled {term.get_id()}"
        if name in self._settled:
            return False
        free = [(self.findings.variables[each], bounds) for each, bounds in self.findings.free.items()]
        free = [(v, bounds) for v, bounds in free if not z3.substitute(term, (v, bounds[0])).eq(term)]
        # The least values, the greatest ones, and some of both, as two that are compared may grow together.
        sides = [0, -1, *(self._random.getrandbits(len(free)) for _ in range(_MIXTURES if len(free) > 1 else 0))]
        others = [z3.substitute(term, *((v, b[side >> at & 1]) for at, (v, b) in enumerate(free))) for side in sides]
        literal = self._settled[name] = z3.Bool(name)
        self._later.append(z3.Implies(z3.And(literal, term == value), z3.And(*(value == other for other in others))))
        return True

    def _marked(self, name: str, terms: Iterable[Term]) -> dict[str, Term]:
        """A literal for each term, which implies it, by its name."""
        marks = {}
        for number, term in enumerate(terms):
            mark = marks[f"{name} {number}"] = z3.Bool(f"{name} {number}")
            self._solver.add(z3.Implies(mark, term))
        return marks

    def _core(self) -> set[str]:
        """The names of the literals that contradict each other."""
        return _names(self._solver.unsat_core())

    def _literal(self, conditions: Conditions) -> Term:
        """A literal that implies all conditions; kept, as goals are looked for again and again."""
        if conditions not in self._literals:
            literal = self._literals[conditions] = z3.Bool(f"goal {len(self._literals)}")
            self._solver.add(z3.Implies(literal, _all(conditions)))
        return self._literals[conditions]

    @contextmanager
    def _apart(self, *terms: Term) -> Iterator[None]:
        """The solver has these terms, and what it gets inside, until the end."""
        with self._solver:
            self._solver.add(*terms)
            yield

    def any_of(
        self, goals: Sequence[Conditions], more: Iterable[Term] = (), expects: bool = True, tight: bool = False
    ) -> Found | None:
        """A test that reaches one of the goals, or why there is none; None: no packet reaches any. `expects`: with
        what comes out. `tight`: entries match nothing but the packet."""
        possible = [number for number, each in enumerate(goals) if not any(c.is_false for c in each)]
        waiting, more, unknown = [possible], list(more), 0
        while waiting:
            some, found = waiting.pop(), None
            wishes = self._wishes
            self._solver.add(*self._later)
            self._later.clear()
            with self._apart(z3.Or(*(self._literal(goals[number]) for number in some)), *more):
                answer, model = self._check(wishes | self._settled | self._widths(tight))
                if model is not None:
                    found = self._found(model, {n: goals[n] for n in some}, expects and self.whole, tight)
            if found is not None and found.goals:
                return found
            unknown += found is None and answer != z3.unsat
            if found is None and answer != z3.unsat and len(some) == 1:
                return Found({some[0]: ""}, reason=TOO_LONG)
            if unknown == _MOST_UNKNOWN and not self.is_patient:
                return Found({}, reason=TOO_LONG)
            waiting += [some] if found is not None else _halves(some) if answer != z3.unsat else []
        return None

    def _widths(self, tight: bool) -> dict[str, Term]:
        """Wishes for whether parts of entries' keys match everything."""
        widths = (wide for lookup in self.findings.lookups for wide in lookup.wide)
        return self._marked("width", [w if not tight and self._random.getrandbits(1) else z3.Not(w) for w in widths])

    def _found(self, model: Any, goals: dict[int, Conditions], expects: bool, tight: bool) -> Found:
        """The result of a model in which one of the goals holds."""
        test, reason, open_term, answer = None, "", None, None
        try:
            answer = self._answer(model, tight)
            test = answer.test(expects)
        except Undecided as why:
            reason, open_term = str(why), why.term
        holding = [n for n, hold in _hold(answer.model if answer else model, goals).items() if hold]
        if answer is None or test is None:
            again = open_term is not None and self._wish_settled(open_term, open_term)
            some = holding[: None if answer else 1] or list(goals)[:1]  # which goal is to blame for a hash nobody knows
            return Found({} if again else dict.fromkeys(some, ""), reason=reason)
        known = _hold(answer.known, {n: goals[n] for n in holding})
        fails = [n for n in holding if not known[n] and not self._wish_settled(_all(goals[n]), z3.BoolVal(True))]
        return Found(
            {n: "" if known[n] else "whether packets come there" for n in holding if known[n] or n in fails}, test
        )

    def possible(self, goals: Sequence[Conditions], more: Sequence[Term] = ()) -> set[int]:
        """The numbers of the goals that packets may reach: of all others it is proven that none does."""
        possible = set[int]()
        waiting = [[number for number, each in enumerate(goals) if not any(c.is_false for c in each)]]
        while waiting:
            some = waiting.pop()
            if self._effort.is_over():
                return set(range(len(goals)))
            with self._apart(z3.Or(*(self._literal(goals[number]) for number in some)), *more):
                answer = self._effort.check(self._solver)
                model = self._solver.model() if answer == z3.sat else None
            if model is not None:
                self._complete(model)
                reached = {n for n, holds in _hold(model, {n: goals[n] for n in some}).items() if holds} or {some[0]}
                possible |= reached
                waiting += [rest] if (rest := [n for n in some if n not in reached]) else []
            elif answer != z3.unsat:
                possible |= set(some) if len(some) == 1 else set()
                waiting += _halves(some)
        return possible

    def refuted(self, conditions: Conditions) -> tuple[str, ...]:
        """Conditions of a goal that no packet reaches, which contradict each other, in words."""
        if wrong := [each.text for each in conditions if each.is_false]:
            return (wrong[0],)
        with self._apart():
            marks = self._marked("condition", (c.term for c in conditions))
            unsat = self._effort.check(self._solver, *marks.values()) == z3.unsat
            core = self._core() if unsat else ()
        return tuple(c.text for name, c in zip(marks, conditions, strict=True) if name in core and c.text)

    def matters(self, otherwise: Replaced) -> Term:
        """The condition that other packets come out if something is replaced in terms: the decision, and what follows
        from it in tables that are searched later, whose entries are for what they are searched for without it."""
        if not otherwise or self._sent is None:
            return z3.BoolVal(False)
        replaced = list(otherwise)
        for lookup in self.findings.lookups:
            if lookup.hit.eq(otherwise[0][0]) or z3.is_false(lookup.hit):
                continue
            before = _all(lookup.conditions), *map(vector_of, lookup.key)
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
            there = _all(output.conditions)
            values = [(there, each) for each in (TRUE, output.port, output.truncate, *output.rest[0])]
            values += [(z3.And(there, term_of(v)), each) for v, fields in output.headers for each in (v, *fields)]
            parts += [z3.If(when, vector_of(value), z3.BitVecVal(0, value.bits)) for when, value in values]
        return z3.Function("sent", *(part.sort() for part in parts), z3.BoolSort())(*parts) if parts else None

    def paths(self) -> Iterator[Test | None]:
        """A test for each path that packets can take; None: its result is not known. Raises Undecided at the end if z3
        took too long to say that there is no other one."""
        wishes = self._wishes
        self._solver.add(*self.findings.followed)
        decisions = [conjunction(c.term for c in conditions) for conditions in self.findings.decisions]
        while True:
            with self._apart():
                answer, model = self._check(wishes)
                if model is None:
                    if answer != z3.unsat:
                        raise Undecided("whether there are other paths")
                    return
                path = [d if z3.is_true(model.eval(d, model_completion=True)) else z3.Not(d) for d in decisions]
                test = None
                with suppress(Undecided):
                    test = self._answer(model).test(True)
            self._solver.add(z3.Not(z3.And(*path)))
            yield test

    def _check(self, wishes: dict[str, Term]) -> tuple[Any, Any]:
        """Whether there is a packet, and a model with as many wishes as can be fulfilled."""
        while True:
            solver, answer = self._solver, self._check_quickly(wishes)
            if answer == z3.unknown and self.is_patient:  # from scratch it takes longer, but more is simplified
                solver = z3.SolverFor("QF_BV")
                solver.add(*self._solver.assertions())
                answer = self._effort.check(solver, *wishes.values())
            if answer == z3.sat:
                self._granted = wishes
                return answer, solver.model()
            if answer == z3.unknown and not self.is_patient:  # fewer goals are quicker than fewer wishes
                return answer, None
            core = _names(solver.unsat_core()) if answer == z3.unsat else set(wishes)
            core = core - self._settled.keys() or core  # other wishes are given up first
            fulfilled = {name: wish for name, wish in wishes.items() if name not in core}
            if len(fulfilled) == len(wishes):
                return answer, None
            wishes = fulfilled

    def _answer(self, model: Any, tight: bool = False) -> Answer:
        """The answer that a model is, once hashes and products have the values that they really have. Raises Undecided:
        no such model was found."""
        for _ in range(_MOST_REFINED):
            self._complete(model)
            wrong = [each for each in self.findings.hashes if not _computed(each, model)]
            if not wrong or all(map(z3.is_true, _evaluated(model, self._solver.assertions()))):
                return Answer(self._execution, model, self._random if self._near_misses else None, tight)
            model = self._refined(model, wrong)
        raise Undecided("a hash")

    def _refined(self, model: Any, wrong: list[Hash]) -> Any:
        """A model for another one with hashes of which some were wrong: their inputs stay, where that is possible; of a
        product's factors the first one, and the product by what each is now becomes a term."""
        for each in wrong:
            inputs, value = _inputs(each, model)
            if each.algorithm == PRODUCT:
                (_, a), (_, b) = each.parts
                for known, by, other in (inputs[1], a, b), (inputs[3], b, a):
                    factor = model.eval(vector_of(by), model_completion=True)
                    self._solver.add(z3.Implies(known, each.result == factor * vector_of(other)))
            else:
                self._solver.add(z3.Implies(z3.And(*inputs), each.result == value))
        stay = (_inputs(each, model)[0][: 2 if each.algorithm == PRODUCT else None] for each in self.findings.hashes)
        literals = self._granted | self._marked("input", (z3.And(*terms) for terms in stay))
        while (answer := self._check_quickly(literals)) == z3.unsat and (core := self._core()):
            for name in core:
                del literals[name]
        if answer != z3.sat:
            raise Undecided("a hash")
        return self._solver.model()

    def _check_quickly(self, literals: dict[str, Term]) -> Any:
        return self._effort.check(self._solver, *literals.values(), units=_FEW_UNITS)

    def _complete(self, model: Any) -> None:
        """Give variables on which nothing depends some value: zeros would hide mistakes."""
        constrained = {declaration.name() for declaration in model.decls()}
        for name, term in self.findings.variables.items():
            if name not in constrained:
                value = z3.BitVecVal(self._random.getrandbits(term.size()), term.size())
                model.update_value(term, value)


def _inputs(each: Hash, model: Any) -> tuple[list[Term], int]:
    """Terms that say that the input of a hash is what it is in a model, and the hash of that."""
    known: list[Term] = []
    values: list[Value] = []
    for there, value in each.parts:
        is_there = z3.is_true(model.eval(term_of(there), model_completion=True))
        known.append(term_of(there) if is_there else z3.Not(term_of(there)))
        if is_there:
            part = model.eval(vector_of(value), model_completion=True)
            known.append(vector_of(value) == part)
            values.append(const(value.bits, part.as_long()))
    return known, hash_of(each.algorithm, values)


def _computed(each: Hash, model: Any) -> bool:
    """Whether a model has the right hash; it gets it."""
    value = z3.BitVecVal(_inputs(each, model)[1], each.result.size())
    if model.eval(each.result, model_completion=True).eq(value):
        return True
    model.update_value(each.result, value)
    return False


def replayed(switch: SymbolicSwitch, test: Test) -> Test:
    """A test with its path, the ways through the parser and the outputs that follow from the rest of it. Raises
    Undecided: they depend on what nobody knows, or NotModelled: something in it is not followed."""
    runs = switch.replay(test)
    packets = tuple(Answer(r, z3.Model(), None).outcome(p) for p, r in zip(test.packets, runs, strict=True))
    return replace(test, packets=packets, path=runs[0].path if len(runs) == 1 else ())


def _names(literals: Iterable[Term]) -> set[str]:
    return {literal.decl().name() for literal in literals}


def _all(conditions: Conditions) -> Term:
    return conjunction((z3.BoolVal(True), *(c.term for c in conditions)))


def _evaluated(model: Any, terms: Iterable[Term]) -> list[Term]:
    """The values of terms, in one evaluation, as they have much in common."""
    terms = list(terms)
    together = z3.Function("together", *(z3.BoolSort() for _ in terms), z3.BoolSort())
    return model.eval(together(*terms)).children() if terms else []


def _hold(model: Any, goals: dict[int, Conditions]) -> dict[int, bool]:
    """Whether each goal is known to hold in a model."""
    conditions = list({c: None for conditions in goals.values() for c in conditions})
    values = _evaluated(model, (c.term for c in conditions))
    hold = {condition for condition, value in zip(conditions, values, strict=True) if z3.is_true(value)}
    return {number: hold.issuperset(each) for number, each in goals.items()}


def _halves(some: list[int]) -> list[list[int]]:
    """The two halves, to look for if all was too much at once."""
    half = len(some) // 2
    return [some[half:], some[:half]] if half else []


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
        self._execution, self._findings = execution, execution.findings
        self.model = model
        self.known = self._known_part()

    def _known_part(self) -> Any:
        """The model without the variables whose value nobody knows. Hashes have been computed."""
        known = z3.Model()
        for name, term in self._findings.variables.items():
            if name not in self._findings.free:
                known.update_value(term, self.model.eval(term, model_completion=True))
        for each in self._findings.hashes:
            parts = [(known.eval(term_of(there)), known.eval(vector_of(value))) for there, value in each.parts]
            if all(z3.is_false(there) or (z3.is_true(there) and z3.is_bv_value(v)) for there, v in parts):
                known.update_value(each.result, self.model.eval(each.result, model_completion=True))
        return known

    def number(self, value: Value) -> int:
        """The value, whatever it depends on."""
        if value.const is not None:
            return value.const
        return self.model.eval(vector_of(value), model_completion=True).as_long()

    def decided(self, value: Value, what: str) -> int:
        """The value. Raises Undecided if it depends on what nobody knows."""
        number, mask = self.bits(value)
        if mask != (1 << value.bits) - 1:
            raise Undecided(what, vector_of(value))
        return number

    def bits(self, value: Value) -> tuple[int, int]:
        """A value and which of its bits are known."""
        full = (1 << value.bits) - 1
        if value.const is not None:
            return value.const, full
        rest = self.known.eval(vector_of(value))
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
        return all(self.decided(Value(1, condition.term), what) for condition in conditions)

    # -- the test

    def test(self, expects: bool) -> Test:
        entries, defaults = self._tables()
        packet = Packet(self.number(self._execution.port), self._frame(), way=self._execution.names)
        if expects and all(self.decided(Value(1, term), "whether it starts over") for term in self._findings.followed):
            packet = self.outcome(packet)
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
            if not any(map(z3.is_false, _evaluated(self.known, (c.term for c in each.conditions)))):
                at, value = self.decided(each.at, f"the number of a {each.of}"), self.number(each.value)
                if value or each.of in ("group", "session"):
                    places = [at] if each.at.bits > 1 else range(self._entries_with(each.name, entries))
                    settings += [Setting(each.of, each.name, place, value) for place in places]
        return list(dict.fromkeys(settings))

    def _entries_with(self, meter: str, entries: list[Entry]) -> int:
        """The number of entries with a direct meter; their handles are counted from zero."""
        table = next(each.table.name for each in self._findings.lookups if each.table.direct_meter == meter)
        return sum(each.table == table for each in entries)

    def _tables(self) -> tuple[list[Entry], list[Default]]:
        searched: list[Searched] = []
        others: list[Entry] = []
        defaults: list[Default] = []
        for lookup in self._findings.lookups:
            number = self.model.eval(lookup.action, model_completion=True).as_long()
            hit = z3.is_true(self.model.eval(lookup.hit, model_completion=True))
            if not _hold(self.model, {0: lookup.conditions})[0]:
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
        defaults = list(dict.fromkeys(defaults))
        return rules.with_targets(entries, defaults) if rules else entries, defaults

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
        wide = [z3.is_true(self.model.eval(each, model_completion=True)) for each in lookup.wide]
        if any(wide):
            key = tuple(anything_of(m) if w else m for m, w in zip(key, wide, strict=True))
        action, arguments = self._call(lookup, True, number)
        return Entry(table.name, key, action, arguments, 1 if table.match_type in ("ternary", "range") else None)
