# SPDX-License-Identifier: Apache-2.0
"""Ingress and egress, executed symbolically: every node once, with all states that come to it joined."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from graphlib import TopologicalSorter
from typing import Any

from detour.engine import phv
from detour.engine.compiler.covering import HIT, MISS, TABLE_OUTCOME
from detour.engine.compiler.expressions import boolean
from detour.engine.compiler.ir import FALSE, TRUE, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.lookup import key_value
from detour.engine.compiler.model import ActionCall, ActionIr, ConstEntry, Json, PipelineIr, TableIr
from detour.engine.compiler.values import store
from detour.testgen.calls import run_calls
from detour.testgen.conditions import note_goals, note_hit, note_reads
from detour.testgen.context import Lookup, Replaced, SymbolicContext, condition_text, either
from detour.testgen.hashing import hashed
from detour.testgen.state import State, merged, z3
from detour.testgen.terms import NotModelled, Term, folded, term_of, value_of
from detour.testgen.testcase import Default, Entry, Test

_ARGUMENTS = "arguments"
_NO_ACTION = "NoAction"


class Pipeline:
    """`run` executes one from the state where execution is, and leaves it at its end."""

    def __init__(self, ctx: SymbolicContext, pipeline: PipelineIr) -> None:
        self.ctx, self.f, self.pipeline = ctx, ctx.f, pipeline
        edges = {
            n: [*t.json["next_tables"].values(), t.json.get("base_default_next")] for n, t in pipeline.tables.items()
        }
        edges |= {n: [c.get("true_next"), c.get("false_next")] for n, c in pipeline.conditionals.items()}
        edges |= {n: [c.get("next_node")] for n, c in pipeline.calls.items()}
        follows = {name: [each for each in to if each] for name, to in edges.items()}
        self._order = list(reversed(list(TopologicalSorter(follows).static_order())))
        self._waiting: dict[str | None, list[State]] = {}

    def run(self) -> None:
        self._waiting = {self.pipeline.init: [self.f.state]}
        for name in self._order:
            if name not in self._waiting:
                continue
            self.f.state = merged(self._waiting.pop(name))
            if name in self.pipeline.tables:
                self._table(self.pipeline.tables[name])
            elif name in self.pipeline.conditionals:
                self._condition(self.pipeline.conditionals[name])
            else:
                self._call(self.pipeline.calls[name])
        self.f.state = merged(self._waiting[None])

    def _goes_to(self, name: str | None) -> None:
        """Execution goes on at a node from here."""
        if self.f.state.dead and self.ctx.one_path:
            return
        memory = self.f.state.memory
        for place in [each for each in memory if each.startswith((_ARGUMENTS, "%v"))]:
            del memory[place]
        self._waiting.setdefault(name, []).append(self.f.state)

    def _condition(self, c: Json) -> None:
        value = TRUE
        if not self.f.state.dead:
            self.ctx.at = c
            with self.ctx.giving_up():
                note_reads(self.ctx, c["expression"])
                value = boolean(self.ctx, c["expression"])
                note_goals(self.ctx, c["name"], c["expression"])
        self.ctx.cover.decided(self.f, value, c["name"], c)
        texts = [condition_text(c["name"], c, outcome) for outcome in ("true", "false")]
        for state, name in zip(self.ctx.fork_on(value, texts), (c.get("true_next"), c.get("false_next")), strict=True):
            self.f.state = state
            self._goes_to(name)

    def _call(self, call: Json) -> None:
        action = next(a for a in self.ctx.model.actions if a.id == call["action_id"])
        self._run(action, [], call.get("next_node"))

    def _run(self, action: ActionIr, arguments: list[Value], to: str | None) -> None:
        """Run an action and go on, to the end if it exits."""
        ctx = self.ctx
        before = ctx.action, ctx.arguments
        ctx.action, ctx.arguments = action, _ARGUMENTS
        for param, argument in zip(action.params, arguments, strict=False):
            self.f.store(argument, self.f.at(_ARGUMENTS, 8 * param.offset))
        run_calls(ctx, action.json["primitives"], action.name)
        ctx.action, ctx.arguments = before
        if any(p["op"] == "exit" for p in action.json["primitives"]) and to is not None:
            exited = self.f.compare("ne", ctx.fixed(phv.EXITED), const(32, 0))
            end, self_state = ctx.fork_on(exited, [f"{action.name} exits", f"{action.name} does not exit"])
            if exited.const != 0:
                self.f.state = end
                self._goes_to(None)
            self.f.state = self_state
        self._goes_to(to)

    # -- tables

    def _table(self, table: TableIr) -> None:
        if table.is_statement:
            assert table.default is not None
            self._run(table.default.action, [], table.next_node(table.default.action, False))
            return
        ctx = self.ctx
        start = self.f.state
        outcomes = Outcomes(ctx, table)
        if not start.dead:
            with ctx.giving_up():
                outcomes.find()
        texts = [f"{table.name}: {each.text}" for each in outcomes.all]
        states = ctx.decided(start.fork(*(each.term for each in outcomes.all), texts), outcomes.labels)
        hits = [e.term for e in outcomes.all if e.hit and e.term is not False]
        hit = TRUE if True in hits else value_of(1, z3.Or(*hits)) if hits else FALSE
        both = start.branches(*either(hit), [f"{table.name}: {HIT}", f"{table.name}: {MISS}"])
        for name, conditions in zip((HIT, MISS), both, strict=True) if table.key else ((MISS, start.conditions),):
            ctx.reach((TABLE_OUTCOME, table.name, name), conditions)
        for state, outcome in zip(states, outcomes.all, strict=True):
            if outcome.name:
                ctx.reach((TABLE_OUTCOME, table.name, outcome.name), state.conditions)
            if state.dead and ctx.one_path:
                continue
            self.f.state = state
            if outcome.hit and table.direct_meter:
                self._colour(table, table.direct_meter)
            to = table.next_node(outcome.action, outcome.hit)
            if outcome.action is None:
                self._goes_to(to)
                continue
            if outcome.hit:
                note_hit(ctx, table, outcome.text, start.conditions, outcome.term, outcomes.key, outcomes.missed)
            self._run(outcome.action, outcome.arguments, to)

    def _colour(self, table: TableIr, meter: str) -> None:
        array = self.ctx.model.meters[meter]
        assert array.target is not None
        ref = self.ctx.header(array.target[0])
        store(self.ctx, ref, find_field(ref.header, array.target[1]), self.ctx.meter(array, TRUE))


class Outcome:
    """One thing that a table may come to. `named`: what coverage calls it if no action runs."""

    def __init__(
        self, term: Term | bool, hit: bool, action: ActionIr | None, arguments: list[Value], named: str = ""
    ) -> None:
        self.term, self.hit, self.action, self.arguments = term, hit, action, arguments
        self.name = action.name if action else named

    @property
    def text(self) -> str:
        action = self.name or "no action"
        return f"{HIT}, {action}" if self.hit else f"{MISS}, {action}"


class Outcomes:
    """The outcomes of a table: by its constant entries, or by what a test writes."""

    def __init__(self, ctx: SymbolicContext, table: TableIr) -> None:
        self.ctx, self.f, self.table = ctx, ctx.f, table
        self.key: list[Value] = [FALSE] * len(table.key)
        self.missed: Replaced = ()
        """what to replace in terms to see what a miss would come to"""
        self.all: list[Outcome] = [
            *(Outcome(False, True, action, []) for action in self._entry_actions()),
            Outcome(True, False, table.default.action if table.default else None, self._declared(), self._unset()),
        ]

    @property
    def labels(self) -> list[tuple[bool, str, int]]:
        """Hit or miss, and which action, in words that mean the same for the entries of a test and for those that z3
        chooses; also the number of a constant entry."""
        constant = self.table.entries is not None
        return [(each.hit, each.name, at if constant and each.hit else 0) for at, each in enumerate(self.all)]

    def _unset(self) -> str:
        table = self.table
        has_it = table.profile is not None and any(a.name == _NO_ACTION for a in table.actions)
        return _NO_ACTION if table.default is None and has_it else ""

    def _entry_actions(self) -> list[ActionIr]:
        table = self.table
        if not table.key:
            return []
        return [e.call.action for e in table.entries] if table.entries is not None else list(table.actions)

    def _declared(self) -> list[Value]:
        return _constants(self.table.default) if self.table.default else []

    def find(self) -> None:
        """Sets `all` by the key that the packet has."""
        table, ctx = self.table, self.ctx
        key = self.key = [key_value(ctx, field) for field in table.key]
        if ctx.given is not None:
            self._find_given(key, ctx.given)
            return
        if table.entries is not None:
            hits, none = self._constant_entries(key, table.entries)
            missed = term_of(none)
            lookup = self._lookup(key, with_entries=False)
        else:
            lookup = self._lookup(key, with_entries=bool(table.key) and table.max_size > 0)
            hits = self._chosen(lookup)
            self.missed = (lookup.hit, z3.BoolVal(False)), (lookup.action, z3.BitVecVal(0, lookup.action.size()))
            missed = z3.Not(lookup.hit)
        self.all = [*hits, *self._misses(lookup, missed)]

    def _find_given(self, key: list[Value], test: Test) -> None:
        """Sets `all` by the entries and the default action of a test."""
        entries, default = self.table.entries, self.table.default
        if entries is None:
            groups: dict[Any, list[Entry]] = {}
            for each in test.entries:
                if each.table == self.table.name:
                    groups.setdefault(each.key, []).append(each)
            chosen = [(group[0], group[self._member(len(group))]) for group in groups.values()]
            entries = [ConstEntry(e.match_key(), self._named(member), e.priority or 0) for e, member in chosen]
        for each in test.defaults:
            if each.table == self.table.name:
                default = self._named(each)
        hits, missed = self._constant_entries([folded(each) for each in key], entries)
        action, arguments = (default.action, _constants(default)) if default else (None, [])
        self.all = [*hits, Outcome(either(missed)[0], False, action, arguments, self._unset())]

    def _member(self, count: int) -> int:
        """The number of the member of a group that simple_switch chooses."""
        profile, f = self.table.profile, self.f
        if count == 1 or profile is None or profile.selector is None:
            return 0
        number = f.resize(hashed(self.ctx, profile.selector.algorithm, profile.selector.inputs, of_selector=True), 32)
        member = folded(f.raw("urem", number, const(32, count))).const
        if member is None:
            raise NotModelled("the member of a group that a packet gets")
        return member

    def _named(self, call: Entry | Default) -> ActionCall:
        action = next(each for each in self.table.actions if each.name == call.action)
        return ActionCall(action, tuple(value for _, value in call.arguments))

    def _constant_entries(self, key: list[Value], entries: Iterable[ConstEntry]) -> tuple[list[Outcome], Value]:
        """The outcomes of entries, and whether none matches. Of those that do, the one with the longest prefix or the
        highest priority wins, of these the first."""
        none, f = TRUE, self.f
        outcomes = []
        for entry in sorted(entries, key=self._rank, reverse=True):
            matches = reduce(partial(f.op, "and"), (self._matches(entry, at, v) for at, v in enumerate(key)), TRUE)
            term = either(f.op("and", matches, none))[0]
            outcomes.append(Outcome(term, True, entry.call.action, _constants(entry.call)))
            none = f.op("and", none, f.negate(matches))
        return outcomes, none

    def _rank(self, entry: ConstEntry) -> int:
        if self.table.match_type == "lpm":
            return next(v[1] for v, f in zip(entry.key, self.table.key, strict=True) if f.match_type == "lpm")
        return entry.priority if self.table.match_type != "exact" else 0

    def _matches(self, entry: ConstEntry, number: int, value: Value) -> Value:
        f, field, match = self.f, self.table.key[number], entry.key[number]
        match field.match_type:
            case "exact":
                return f.compare("eq", value, const(value.bits, match))
            case "range":
                low, high = (const(value.bits, each) for each in match)
                return f.op("and", f.compare("ule", low, value), f.compare("ule", value, high))
        mask = match[1]
        if field.match_type == "lpm":
            mask = ((1 << match[1]) - 1) << (field.bits - match[1])
        return f.compare("eq", f.op("and", value, const(value.bits, mask)), const(value.bits, match[0] & mask))

    # -- what a test chooses

    def _lookup(self, key: list[Value], with_entries: bool) -> Lookup:
        table, ctx = self.table, self.ctx
        hit = term_of(ctx.variable(f"{table.name} hit", 1)) if with_entries else z3.BoolVal(False)
        action = ctx.variable(f"{table.name} action", 16)
        defaults = self._defaults()
        calls = [(True, number, each) for number, each in enumerate(table.actions if with_entries else ())]
        calls += [(False, number, each) for number, each in enumerate(defaults) if number and each is not None]
        arguments = {
            (is_hit, number): [ctx.variable(f"{table.name} {each.name}.{p.name}", p.bits) for p in each.params]
            for is_hit, number, each in calls
        }
        most_hit, most_default = len(table.actions), len(defaults)
        number = term_of(action)
        ctx.always(z3.If(hit, z3.ULT(number, most_hit), z3.ULT(number, most_default)))
        conditions = self.f.state.conditions
        lookup = ctx.rule(Lookup(table, defaults, conditions, key, hit, number, arguments), with_entries)
        for earlier in ctx.findings.lookups:
            if earlier.table is table:
                self._same(earlier, lookup)
        ctx.findings.lookups.append(lookup)
        return lookup

    def _defaults(self) -> list[ActionIr | None]:
        """The declared default action, and those that a test may set."""
        table = self.table
        declared = table.default.action if table.default else None
        if table.default_const or table.profile is not None:
            return [declared]
        others = [declared] if table.default_action_const else list(table.actions)
        return [declared, *(each for each in others if each is not None and (each.params or each is not declared))]

    def _same(self, earlier: Lookup, later: Lookup) -> None:
        """A table that is searched again has the same default, and the same entry for the same key."""
        both = z3.And(*(c.term for c in (*earlier.conditions, *later.conditions)))
        pairs = zip(earlier.key, later.key, strict=True)
        same_key = z3.And(*(term_of(self.f.compare("eq", a, b)) for a, b in pairs))
        same = [earlier.action == later.action]
        for index, arguments in earlier.arguments.items():
            others = later.arguments.get(index, [])
            same += [term_of(self.f.compare("eq", a, b)) for a, b in zip(arguments, others, strict=False)]
        alike = z3.And(*same)
        missed = z3.And(z3.Not(earlier.hit), z3.Not(later.hit))
        self.ctx.always(z3.Implies(both, z3.And(
            z3.Implies(same_key, z3.And(earlier.hit == later.hit, alike)), z3.Implies(missed, alike)
        )))  # fmt: skip

    def _chosen(self, lookup: Lookup) -> list[Outcome]:
        """The outcomes of entries that a test writes."""
        if z3.is_false(lookup.hit):
            return [Outcome(False, True, action, []) for action in self._entry_actions()]
        return [
            Outcome(z3.And(lookup.hit, lookup.action == number), True, action, lookup.arguments[True, number])
            for number, action in enumerate(self.table.actions)
        ]

    def _misses(self, lookup: Lookup, missed: Term) -> list[Outcome]:
        """The outcomes of default actions; the first one is declared."""
        only = len(lookup.defaults) == 1
        return [
            Outcome(
                missed if only else z3.And(missed, lookup.action == number), False, action,
                lookup.arguments[False, number] if number else self._declared(), self._unset(),
            )
            for number, action in enumerate(lookup.defaults)
        ]  # fmt: skip


def _constants(call: ActionCall) -> list[Value]:
    return [
        const(param.bits + param.signed, argument)
        for param, argument in zip(call.action.params, call.args, strict=True)
    ]
