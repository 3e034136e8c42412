# SPDX-License-Identifier: Apache-2.0
"""The state of a symbolic execution: headers as values, variables, places that were reached, and assumptions.

`SymbolicContext` is the compiler's `FunctionContext` with fields in the memory of a `State`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy as shallow
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from detour.base.errors import DetourError
from detour.engine import phv
from detour.engine.compiler.context import CompilationUnit, FunctionContext, HeaderRef, UnionRef
from detour.engine.compiler.covering import SiteWriter
from detour.engine.compiler.ir import FALSE, TRUE, Function, Value, const
from detour.engine.compiler.layout import Layout
from detour.engine.compiler.model import ActionIr, Array, FieldSpec, Header, Json, Model, Stack, TableIr, one_line
from detour.engine.compiler.slots import Slots
from detour.engine.compiler.tracing import source_of
from detour.testgen.state import UNKNOWN_WIDTH, Condition, State, Write, conjunction, merged, z3
from detour.testgen.terms import NotModelled, SymbolicFunction, SymbolicModule, Term, folded, from_vector, term_of
from detour.testgen.testcase import Test

if TYPE_CHECKING:
    from detour.testgen.rules import EntryRules

SiteKey = tuple[str, str, str]
"""kind, name and outcome, as in `CoverageSite`"""
_PADDING = "_padding"
_SENT_TO_DROP_PORT = "%sent to drop port"
_FAULTS = {
    phv.ERROR_ASSERT: "assert", phv.ERROR_DIVISION: "division by zero", phv.ERROR_INDEX: "index out of bounds",
}  # fmt: skip


class OffTrack(Exception):
    """Execution along a path comes to a fork from which it does not know the way on."""


class Assumption(NamedTuple):
    """A term that has to hold; `reason`: what symbolic execution does not follow, "" if there is no such thing.
    `is_replayed`: a test need not obey it, as its packets are followed further once they are known."""

    term: Term
    reason: str
    is_replayed: bool = False


Conditions = tuple[Condition, ...]
Replaced = tuple[tuple[Term, Term], ...]
"""terms, and those to put in their place"""


class Fault(NamedTuple):
    """A fault of an execution, its place in the source, and its conditions. `assumption`: the number of the assumption
    that it does not, as it would end; -1: it goes on."""

    what: str
    at: Json
    conditions: Conditions
    when: Term
    assumption: int


class Goal(NamedTuple):
    """Something that a test should show where these conditions hold. `key` tells it from others. `otherwise`: what to
    replace by what in terms for a decision that goes the other way; `is_hit`: it is that an entry is hit."""

    key: tuple[str, int]
    title: str
    conditions: Conditions
    term: Term
    otherwise: Replaced = ()
    is_hit: bool = False


class Hash(NamedTuple):
    """A call of a hash: its result is a variable until the inputs are known. `parts`: (is there, value)."""

    result: Term
    algorithm: str
    parts: list[tuple[Value, Value]]


class Lookup(NamedTuple):
    """A table that was searched: its key, and what a test chooses. `action`: a number, of `table.actions` if there is
    an entry (`hit`), else of `defaults`. `arguments`: by whether it hits, and that number. `wide`: whether each part of
    the entry's key matches everything, where a program restricts that."""

    table: TableIr
    defaults: list[ActionIr | None]
    conditions: Conditions
    key: list[Value]
    hit: Term
    action: Term
    arguments: dict[tuple[bool, int], list[Value]]
    wide: tuple[Term, ...] = ()


class Setting(NamedTuple):
    """A value that a test sets beforehand where these conditions hold. `of`: "register", "meter", "member" of a value
    set, or what the switch copies for: "group", "session". `at`: an index, a number, or the member; `value`: of a
    register, a meter's colour, whether it is a member, or copy and port."""

    of: str
    name: str
    conditions: Conditions
    at: Value
    value: Value


@dataclass
class Findings:
    """The findings of an execution: the conditions for reaching places, variables, hashes, faults."""

    reached: dict[SiteKey, list[Conditions]] = field(default_factory=dict)
    assumptions: list[Assumption] = field(default_factory=list)
    variables: dict[str, Term] = field(default_factory=dict)
    free: dict[str, tuple[Term, Term]] = field(default_factory=dict)
    """the least and the greatest value of each variable that no test can set: time, random numbers, hashes"""
    hashes: list[Hash] = field(default_factory=list)
    sums: bool = False
    """whether there are checksums, which z3 finds hard in bits"""
    faults: list[Fault] = field(default_factory=list)
    not_followed: set[str] = field(default_factory=set)
    """what tests could do and these do not: without it nothing is proven"""
    settings: list[Setting] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    decisions: list[Conditions] = field(default_factory=list)
    """of branches of conditions and tables"""

    @property
    def followed(self) -> list[Term]:
        """The conditions that all that becomes of packets was followed here."""
        return [each.term for each in self.assumptions if each.is_replayed]

    def copy(self) -> Findings:
        """For another way on; what is found there is not found here."""
        copy = Findings(**{each.name: shallow(getattr(self, each.name)) for each in fields(self)})
        copy.reached = {key: list(states) for key, states in self.reached.items()}
        return copy


class Sites(SiteWriter):
    """In place of the compiler's counters: notes that a place was reached."""

    def __init__(self, context: SymbolicContext) -> None:
        super().__init__(0)
        self._context = context

    def reached(self, f: Function, kind: str, name: str, outcome: str = "", at: Json = None) -> None:
        self._context.reach((kind, name, outcome), self._context.f.state.conditions)

    def _either(self, f: Function, value: Value, kind: str, name: str, outcomes: tuple[str, str], at: Json) -> None:
        texts = [condition_text(name, at, outcome) for outcome in outcomes]
        for outcome, conditions in zip(outcomes, self._context.f.state.branches(*either(value), texts), strict=True):
            self._context.reach((kind, name, outcome), conditions)


def either(value: Value) -> tuple[Term | bool, Term | bool]:
    """A condition and its opposite, for `State.fork`."""
    if value.const is not None:
        return bool(value.const), not value.const
    return term_of(value), z3.Not(term_of(value))


def condition_text(name: str, at: Json, outcome: str) -> str:
    """A condition in the words of the source."""
    return f"{place_of(at) or name} is {outcome}"


def place_of(at: Json) -> str:
    """File, line and text of the source that something is compiled from, "" if nobody knows."""
    source = source_of(at)
    return "" if source is None else f"{source['file']}:{source['line']} {one_line(source['text'])}"


def _reads_chosen(read: Callable[..., Value]) -> Callable[..., Value]:
    """Read the element of a stack that a value chooses, of all elements."""

    def of_any(self: SymbolicContext, ref: HeaderRef, *args: Any) -> Value:
        if ref.index is None:
            return read(self, ref, *args)
        *others, (_, last) = self.elements(ref)
        value = read(self, last, *args)
        for chosen, each in others:
            value = self.f.select(chosen, read(self, each, *args), value)
        return value

    return of_any


def _writes_chosen(write: Callable[..., None]) -> Callable[..., None]:
    """Write the element of a stack that a value chooses, whichever it is."""

    def to_any(self: SymbolicContext, ref: HeaderRef, *args: Any) -> None:
        if ref.index is None:
            write(self, ref, *args)
            return
        for chosen, each in self.elements(ref):
            self.when(chosen, partial(write, self, each, *args))

    return to_any


class SymbolicContext(FunctionContext):
    """See the module. `findings` may be replaced when execution goes on elsewhere."""

    f: SymbolicFunction

    def __init__(
        self, model: Model, layout: Layout, slots: Slots, fixed: Mapping[str, int], proves: bool = False
    ) -> None:
        """`fixed`: values that the user gave to fields of packets. `proves`: what is not followed may have any result,
        so that all that cannot be reached is unreachable."""
        module = SymbolicModule()
        super().__init__(CompilationUnit(model, layout, slots, module), "symbolic")
        self.cover = Sites(self)
        self.findings = Findings()
        self.fixed_values = dict(fixed)
        self.proves = proves
        self.notes = not proves
        """whether goals and faults are noted"""
        self.given: Test | None = None
        """the test whose values all that it sets has"""
        self.taken: list[Any] = []
        """the branch that this test takes at each fork; None: nobody knows"""
        self.guide: Iterator[Any] | None = None
        """the branches of the path that execution follows; None: it follows all"""
        self.sent = b""
        """of that test the packet whose way is followed"""
        self.payload_values: Callable[[], list[Value]] = list
        self.rules: EntryRules | None = None
        self.at: Json = None
        """what is executed, for places in the source"""
        self._to_drop_port: list[Json] = []
        """the statements that assign the drop port's number to egress_spec"""
        self._marks = False
        """whether the next assignment is mark_to_drop's"""

    def reach(self, site: SiteKey, conditions: Conditions) -> None:
        """Note that a place is reached under these conditions."""
        self.findings.reached.setdefault(site, []).append(conditions)

    # -- variables

    def variable(self, name: str, bits: int, free: bool = False) -> Value:
        """A variable; `free`: its value cannot be set by a test. z3 begins with zeros, which would hide mistakes; so of
        those that are to be set, it has the difference from a random number."""
        unique, number = name, 2
        while unique in self.findings.variables:
            unique, number = f"{name}#{number}", number + 1
        term = z3.BitVec(unique, bits)
        self.findings.variables[unique] = term
        if free:
            self.findings.free[unique] = z3.BitVecVal(0, bits), z3.BitVecVal(-1, bits)
        elif not self.proves:
            term = term ^ z3.BitVecVal(random.Random(unique).getrandbits(bits), bits)
        return from_vector(bits, term)

    def setting(self, of: str, name: str, at: Value, bits: int) -> Value:
        """A value that a test sets: the same each time that it is used."""
        if self.given is not None:
            return self._given_setting(self.given, of, name, folded(at), bits)
        earlier = [each for each in self.findings.settings if (each.of, each.name) == (of, name)]
        value = next((each.value for each in earlier if term_of(each.at).eq(term_of(at))), None)
        if value is None:
            value = self.variable(f"{of} {name}", bits)
            for other in earlier:
                same = self.f.compare("eq", other.at, at)
                if same.const != 0:
                    self.always(z3.Implies(term_of(same), term_of(self.f.compare("eq", other.value, value))))
        self.findings.settings.append(Setting(of, name, self.f.state.conditions, at, value))
        return value

    def _given_setting(self, test: Test, of: str, name: str, at: Value, bits: int) -> Value:
        """The value that a test has set; only of a register this may be at a place that nobody knows."""
        if at.const is not None:
            return const(bits, test.value_of(of, name, None if at.bits == 1 else at.const) or 0)
        if of != "register":
            raise NotModelled(f"the number of a {of}")
        value = const(bits, 0)
        for each in test.of(of):
            if each.name == name:
                here = self.f.compare("eq", at, const(at.bits, each.at))
                value = self.f.select(here, const(bits, each.value), value)
        return value

    def assume(self, term: Term, reason: str = "", is_replayed: bool = False) -> None:
        """Assume that something holds where execution is. `is_replayed`: see `Assumption`."""
        if self.given is not None and z3.is_false(z3.simplify(term)):
            raise NotModelled(reason or "an execution that ends for a fault")
        conditions = self.f.state.conditions
        whole = z3.Implies(conjunction(c.term for c in conditions), term) if conditions else term
        self.findings.assumptions.append(Assumption(whole, reason, is_replayed))

    def always(self, term: Term) -> None:
        """Assume that something holds wherever execution is."""
        self.findings.assumptions.append(Assumption(term, ""))

    def rule(self, lookup: Lookup, with_entries: bool) -> Lookup:
        """The entry that is hit, or the default action, obeys what the program demands; see `Lookup.wide`."""
        if self.rules is None:
            return lookup
        table, hit = lookup.table, lookup.hit
        for (is_hit, number), arguments in lookup.arguments.items():
            action = (table.actions if is_hit else lookup.defaults)[number]
            if action is not None:
                runs = z3.And(hit if is_hit else z3.Not(hit), lookup.action == number)
                self.always(z3.Implies(runs, self.rules.of_call(table.name, is_hit, action.name, arguments)))
        if not with_entries or not self.rules.may_be_wide(table.name):
            return lookup
        wide = tuple(term_of(self.variable(f"{table.name} {field.name} is wide", 1)) for field in table.key)
        self.always(z3.Implies(hit, self.rules.of_key(table.name, lookup.key, wide)))
        return lookup._replace(wide=wide)

    def fork_on(self, condition: Value, texts: list[str]) -> list[State]:
        """The states in which a condition holds and does not."""
        if self.given is not None:
            condition = folded(condition)
        return self.decided(self.f.state.fork(*either(condition), texts))

    @property
    def one_path(self) -> bool:
        """Whether execution follows one path: a given test's, or that to which it is guided."""
        return self.given is not None or self.guide is not None

    def decided(self, states: list[State], labels: Sequence[Any] = (0, 1)) -> list[State]:
        """Notes that paths part here. `labels`: what a guide calls the branches."""
        if self.notes:
            self.findings.decisions += [state.conditions for state in states if state.paths and not state.dead]
        return self.followed(states, labels)

    def followed(self, states: list[State], labels: Sequence[Any] = (0, 1)) -> list[State]:
        """The branches of a fork, all but one of which are dead where execution is guided. Raises OffTrack."""
        live = [(label, state) for label, state in zip(labels, states, strict=True) if not state.dead]
        if live and self.given is not None:
            self.taken.append(live[0][0] if len(live) == 1 else None)
        elif live and self.guide is not None:
            label = next(self.guide, None)
            way = next((state for each, state in live if each == label), None)
            if way is None:
                raise OffTrack
            for state in states:
                state.dead = state is not way
        return states

    def give_up(self, reason: str, is_replayed: bool = False) -> None:
        """Tests do not come here (`is_replayed`: see `Assumption`), and nothing is known of what follows. Raises
        NotModelled if one does."""
        if self.proves:
            self.findings.not_followed.add(reason)
        elif not self.f.state.dead:
            self.assume(z3.BoolVal(False), reason, is_replayed)

    @contextmanager
    def giving_up(self) -> Iterator[None]:
        """Give up where something inside is not modelled."""
        try:
            yield
        except (NotModelled, DetourError) as error:
            self.give_up(str(error))

    def fail(self, error: int, when: Value = TRUE) -> None:
        if when.const == 0 or self.f.state.dead:
            return
        self.note_fault(_FAULTS.get(error, "endless loop"), when, stops=True)
        self.assume(z3.Not(term_of(when)))

    def note_fault(self, what: str, when: Value, stops: bool = False) -> None:
        """Here, under a condition, the program does what it should not. `stops`: that is the end of the packet, and
        `assume` is called next."""
        if when.const == 0 or self.f.state.dead:
            return
        number = len(self.findings.assumptions) if stops else -1
        self.findings.faults.append(Fault(what, self.at, self.f.state.conditions, term_of(when), number))

    # -- fields

    def drop_port(self) -> Value:
        self._marks = True
        return const(32, phv.DROP_PORT)

    def note_lost(self, dropped: Value) -> None:
        """Packets that are dropped here are lost by mistake if the program has sent them to the drop port itself."""
        sent = self.f.load(16, _SENT_TO_DROP_PORT)
        for number, statement in enumerate(self._to_drop_port, 1):
            self.at = statement
            here = self.f.compare("eq", sent, const(16, number))
            self.note_fault("packet lost without mark_to_drop", self.f.op("and", dropped, here))

    def _note_port(self, port: Value) -> None:
        """Remember which statement sends the packet to the drop port; what entries and packets say is theirs."""
        sent, self._marks = port.const == phv.DROP_PORT and not self._marks, False
        if sent and self.at not in self._to_drop_port:
            self._to_drop_port.append(self.at)
        number = self._to_drop_port.index(self.at) + 1 if sent else 0
        self.f.store(const(16, number), _SENT_TO_DROP_PORT)

    def touch(self, header: Header) -> None:
        pass

    @_reads_chosen
    def stored_field(self, ref: HeaderRef, spec: FieldSpec) -> Value:
        """A field as memory has it, which of an invalid header means nothing."""
        if spec.variable:
            raise NotModelled(f"{ref.header.name}.{spec.name} has a variable length")
        if standard := _standard(ref, spec):
            return self.f.resize(self.fixed(*standard), spec.bits)
        return self.f.load(spec.bits + spec.signed, f"{ref.header.name}.{spec.name}")

    @_reads_chosen
    def load_field(self, ref: HeaderRef, spec: FieldSpec) -> Value:
        """A field as the program reads it. Where a test is followed, that of an invalid header may have any value, each
        time another one; elsewhere it has that of memory, as z3 is slow otherwise."""
        value = self.stored_field(ref, spec)
        there = TRUE if self.given is None else folded(self.is_valid(ref))
        return value if there.const else self.f.select(there, value, self.variable("undefined", value.bits, free=True))

    @_writes_chosen
    def store_field(self, ref: HeaderRef, spec: FieldSpec, value: Value) -> None:
        if standard := _standard(ref, spec):
            offset, bits = standard
            if offset == phv.EGRESS_SPEC and self.notes:
                self._note_port(value)
            self.set_fixed(offset, self.f.resize(self.f.resize(value, spec.bits), bits))
        elif not spec.name.startswith(_PADDING):
            bits = spec.bits + spec.signed
            self.f.store(self.f.resize(value, bits, spec.signed), f"{ref.header.name}.{spec.name}")

    def variable_field(self, ref: HeaderRef, spec: FieldSpec) -> Value | None:
        """A field of variable length as it is; None: it is empty."""
        if ref.index is not None:
            raise NotModelled(f"the length of an element of {ref.header.name}'s stack that is chosen by a value")
        value = self.f.state.memory.get(f"{ref.header.name}.{spec.name}")
        if value is not None and value.bits < 0:
            raise NotModelled(f"the length of {ref.header.name}.{spec.name} depends on conditions")
        return value

    def variable_bits(self, ref: HeaderRef, spec: FieldSpec) -> Value:
        value = self.f.state.memory.get(f"{ref.header.name}.{spec.name}")
        if self.proves and ref.index is None and value is not None and value.bits == UNKNOWN_WIDTH:
            return self.variable("length", 32)
        value = self.variable_field(ref, spec)
        return const(32, value.bits if value is not None else 0)

    def copy_variable(self, dst: HeaderRef, to: FieldSpec, src: HeaderRef, of: FieldSpec) -> None:
        self._put(f"{dst.header.name}.{to.name}", self.f.state.memory.get(f"{src.header.name}.{of.name}"))

    def equal_variable(self, a: HeaderRef, of_a: FieldSpec, b: HeaderRef, of_b: FieldSpec) -> Value:
        values = [self.variable_field(*each) or FALSE for each in ((a, of_a), (b, of_b))]
        return self.f.compare("eq", *(self.f.resize(v, max(each.bits for each in values)) for v in values))

    # -- the fields of a header together

    def on_the_wire(self, ref: HeaderRef, specs: Iterable[FieldSpec]) -> list[Value]:
        """Fields as they are in packets."""
        values: list[Value] = []
        for spec in specs:
            if spec.variable:
                value = self.variable_field(ref, spec)
                values += [value] if value is not None else []
            else:
                values.append(self.f.resize(self.stored_field(ref, spec), spec.bits))
        return values

    @_writes_chosen
    def clear_header(self, ref: HeaderRef) -> None:
        for spec in ref.type.fields:
            bits = self.variable_bits(ref, spec).const if spec.variable else spec.bits + spec.signed
            if bits:
                self.f.store(const(bits, 0), f"{ref.header.name}.{spec.name}")

    @_writes_chosen
    def copy_header(self, to: HeaderRef, of: HeaderRef) -> None:
        for spec in to.type.fields:
            if spec.variable:
                self.variable_bits(of, spec)
                self.copy_variable(to, spec, of, spec)
            else:
                self.store_field(to, spec, self.stored_field(of, spec))

    def swap_headers(self, a: Header, b: Header) -> None:
        for spec in a.type.fields:
            self._swap(a, b, spec.name)

    def swap_validity(self, a: Header, b: Header) -> None:
        self._swap(a, b, "$valid$")

    def _swap(self, a: Header, b: Header, field: str) -> None:
        places = f"{a.name}.{field}", f"{b.name}.{field}"
        for place, value in zip(places, [self.f.state.memory.get(each) for each in reversed(places)], strict=True):
            self._put(place, value)

    def _put(self, place: str, value: Value | None) -> None:
        """Set a place in memory; None: to what it is before anything is written."""
        if value is None:
            self.f.state.memory.pop(place, None)
        else:
            self.f.state.memory[place] = value

    # -- counters, meters, registers, random numbers

    def in_bounds(self, index: Value, array: Array) -> Value:
        inside = super().in_bounds(index, array)
        self.note_fault("index out of bounds", self.f.negate(inside))
        return inside

    def count(self, array: Array, index: Value) -> None:
        pass

    def meter(self, array: Array, index: Value) -> Value:
        """The colour, which a test chooses by rates that packets exceed. `index`: for a direct meter, of one bit."""
        colour = self.setting("meter", array.name, index, 2)
        self.always(z3.ULE(term_of(colour), 2))
        return self.f.resize(colour, 32)

    def load_register(self, array: Array, index: Value) -> Value:
        f, value = self.f, self.setting("register", array.name, index, array.bits)
        for write in f.state.writes.get(array.name, ()):
            here = f.op("and", write.when, f.compare("eq", write.index, index))
            value = f.select(here, write.value, value)
        return folded(value) if self.given is not None else value

    def store_register(self, array: Array, index: Value, value: Value) -> None:
        writes = self.f.state.writes
        writes[array.name] = *writes.get(array.name, ()), Write(TRUE, index, value)

    def random(self, low: Value, high: Value, call: Json) -> Value:
        f, bits = self.f, 64 if high.const is None else max(high.const.bit_length(), 2)
        drawn = self.variable("random", bits, free=True)  # no wider than it can be: a shift may leave nothing of it
        value = f.resize(drawn, 64)
        self.findings.free[str(drawn.ref)] = term_of(f.resize(low, bits)), term_of(f.resize(high, bits))
        self.assume(term_of(f.op("and", f.compare("ule", low, value), f.compare("ule", value, high))))
        return value

    # -- validity and stacks

    @_reads_chosen
    def is_valid(self, ref: HeaderRef) -> Value:
        return TRUE if ref.header.metadata else self.f.load(1, f"{ref.header.name}.$valid$")

    @_writes_chosen
    def set_valid(self, ref: HeaderRef, valid: bool) -> None:
        if ref.header.metadata:
            return
        for sibling in ref.siblings if valid else ():
            self.f.store(const(1, 0), f"{sibling.header.name}.$valid$")
        self.f.store(const(1, valid), f"{ref.header.name}.$valid$")

    def element(self, stack: Stack, index: Value) -> UnionRef:
        if index.const is not None and index.const >= len(stack.elements):
            self.fail(phv.ERROR_INDEX)
            return tuple(map(self.ref, stack.elements[0]))
        return super().element(stack, index)

    def elements(self, ref: HeaderRef) -> list[tuple[Value, HeaderRef]]:
        """All elements of a stack of which a value chooses one, and whether it chooses them."""
        assert ref.index is not None
        name = ref.header.name
        stacks = (*self.model.stacks.values(), *self.model.union_stacks.values())
        same = next(each for s in stacks for each in zip(*s.elements, strict=True) if each[0].name == name)
        bits = ref.index.bits
        return [(self.f.compare("eq", ref.index, const(bits, at)), self.ref(h)) for at, h in enumerate(same)]

    # -- control

    def when(self, cond: Value, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        if cond.const is not None:
            super().when(cond, then, otherwise)
            return
        paths = self.f.state.paths
        yes, no = self.f.state.fork(*either(cond), ["", ""])
        self.f.state = yes
        then()
        yes, self.f.state = self.f.state, no
        if otherwise:
            otherwise()
        self.f.state = merged([yes, self.f.state])
        self.f.state.paths = paths


def _standard(ref: HeaderRef, spec: FieldSpec) -> tuple[int, int] | None:
    """The offset of a standard metadata field in the fixed part of the PHV, and its bits there; None: it is another."""
    if ref.header.name != "standard_metadata" or spec.name not in phv.STANDARD_FIELDS:
        return None
    offset, size = phv.STANDARD_FIELDS[spec.name]
    return offset, 8 * size
