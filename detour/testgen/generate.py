# SPDX-License-Identifier: Apache-2.0
"""Tests of a program: for each place that packets have not reached yet, the question whether one can; every answer is
played on the engine before it counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.arrays import BoolArray
from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.engine.compiler.covering import BRANCH, COLLECTOR, STATEMENT, TABLE_OUTCOME, Collector
from detour.engine.compiler.portable import V1MODEL
from detour.engine.compiler.program import Program
from detour.engine.coverage.document import Point, ProgramCoverage
from detour.testgen.anything import operations
from detour.testgen.context import Conditions, Goal, SiteKey
from detour.testgen.mutation import Mutator
from detour.testgen.parsing import Way
from detour.testgen.rules import EntryRules
from detour.testgen.solving import Contradiction, Question, Undecided, replayed
from detour.testgen.state import fresh_context
from detour.testgen.switch import TestSwitch, differences
from detour.testgen.switching import MOST_PASSES, Execution, SymbolicSwitch
from detour.testgen.terms import NotModelled
from detour.testgen.testcase import Packet, Test

COVER = ("statements", "branches", "paths")
_ALL = STATEMENT, BRANCH, TABLE_OUTCOME
_KINDS = {"statements": (STATEMENT,), "branches": _ALL, "paths": _ALL}
EFFORT = 20_000_000
"""of z3 for a query, in its own units: the same on every machine; some seconds"""
_WAYS_AT_FIRST = 4
_MOST_TRIES = 3
"""ways on which something is looked for beside coverage"""
_MOST_UNDECIDED = 3
"""ways on which a place may depend on what no test can set, before it is left alone"""
_MOST_VARIANTS = 20
"""of tests, of one kind"""
_AGAIN = "the packet again, which finds what it has left in registers"
_SEED_BYTES = 64
_SEARCH = 0.75
"""of the time: the rest is for proofs"""
_EARLY_PROOFS = 0.1
"""of the time, before all ways through the parser have been followed"""
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Plan:
    """What is wanted. `fixed`: values of fields of packets, by the header's and the field's names. `only`: the places
    to reach, by their keys; None: all, and what tests should show beside. `p4info`: with what entries must obey.
    `packets`: the most in a test."""

    cover: str = "branches"
    most_tests: int = 10_000
    seconds: float = 60.0
    seed: int = 0
    fixed: Mapping[str, int] = field(default_factory=dict)
    only: Collection[Key] | None = None
    p4info: Path | None = None
    packets: int = 2

    @property
    def rules(self) -> EntryRules | None:
        """Raises DetourError: see `EntryRules`."""
        return EntryRules(self.p4info) if self.p4info is not None else None

    @property
    def shows_more(self) -> bool:
        """Whether tests should show more than that places are reached."""
        return self.cover != "statements" and self.only is None


@dataclass(frozen=True)
class Uncovered:
    """A place that no test reaches, and why."""

    point: Point
    reason: str

    @property
    def where(self) -> str:
        return self.point.title


@dataclass
class Paths:
    """How many paths through the program tests take, no packet can take (proven), and what is left."""

    covered: int = 0
    impossible: int = 0
    unknown: int = 0


@dataclass
class Generated:
    """The result. `unreachable`: proven; `unknown`: neither reached nor proven unreachable. `reaching`: the first test
    that reaches a place. `paths`: if they were to be covered."""

    tests: list[Test]
    coverage: ProgramCoverage
    unreachable: list[Uncovered]
    unknown: list[Uncovered]
    seconds: float
    reaching: dict[Key, Test]
    paths: Paths | None = None

    def as_json(self) -> dict[str, Any]:
        """The document of `detour test --json`."""
        totals = self.coverage.totals()
        covered = {"statements": totals["statements"], "branches": totals["branches"], "outcomes": totals["actions"]}
        paths = {} if self.paths is None else {"paths": asdict(self.paths)}
        shown = [
            [{"where": each.where, "reason": each.reason} for each in some] for some in (self.unreachable, self.unknown)
        ]
        return {
            "tests": [test.as_json() for test in self.tests],
            "coverage": {**covered, **paths, "unreachable": shown[0], "unknown": shown[1]},
            "seconds": round(self.seconds, 3),
        }


def generate(source: Path, plan: Plan, progress: Progress = silent) -> Generated:
    """Generate tests of a program in a file of BMv2 JSON. Raises DetourError: it is no such file, the engine cannot run
    it, or it is not written for v1model."""
    fresh_context()
    return _Generator(load(source, plan), plan, progress).run()


def load(source: Path, plan: Plan) -> Program:
    """The program in a file, with counters of what packets reach. Raises DetourError: see `generate`."""
    with COLLECTOR.set_to(Collector()):
        program = Program.from_json(source)
    if program.model.architecture != V1MODEL:
        raise DetourError(f"{source}: it is written for {program.model.architecture}; tests are for v1model only")
    _check_fixed(program, plan.fixed)
    return program


def _check_fixed(program: Program, fixed: Mapping[str, int]) -> None:
    """Raises DetourError for a field that the program does not have, or a value that is too large for it."""
    fields = {
        f"{header.name}.{spec.name}": spec.bits
        for header in program.model.headers.values()
        if not header.metadata
        for spec in header.type.fields
    }
    for name, value in fixed.items():
        if name not in fields:
            raise DetourError(f"--fix {name}: no header has this field")
        if value >> fields[name]:
            raise DetourError(f"--fix {name}={value}: the field has {fields[name]} bits")


class _Generator:
    def __init__(self, program: Program, plan: Plan, progress: Progress) -> None:
        self._program, self._plan, self._progress = program, plan, progress
        self._start = time.monotonic()
        self._switch = SymbolicSwitch(program.model, plan.fixed, EFFORT, rules=plan.rules)
        self._replay = SymbolicSwitch(program.model, {}, EFFORT)
        self._tests: list[Test] = []
        self._seeds = [] if plan.fixed else [Test((Packet(1, bytes(_SEED_BYTES)),))]
        """tests whose packets have not been changed at random yet"""
        self._points: dict[SiteKey, Point] = {}
        self._sites = [Point.of(site, 0) for site in program.coverage_sites]
        for site, point in zip(program.coverage_sites, self._sites, strict=True):
            if plan.only is None or point.key in plan.only:
                self._points[site.kind, site.name, site.outcome] = point
        self._reaching: dict[Key, Test] = {}
        self._reasons: dict[Key, list[tuple[str, ...]]] = {}
        """contradictions, for each way on which a place was not reached"""
        self._open: dict[Key, str] = {}
        """why nothing is proven about a place"""
        self._not_followed: set[str] = set()
        self._undecided: Counter[Key] = Counter()
        self._later: list[tuple[Question, Goal]] = []
        self._proofs: dict[Key, str] = {}
        self._asked = set[Key]()
        """whether there is a proof"""
        self._writes_registers = "register_write" in operations(program.model)
        tables = [table for pipeline in program.model.pipelines.values() for table in pipeline.tables.values()]
        self._selecting = {table.name for table in tables if table.profile is not None and table.profile.selector}
        self._prover: _Prover | None = None

    def run(self) -> Generated:
        with TestSwitch(self._program) as switch, Mutator(self._program, self._plan.seed) as mutator:
            self._engine, self._mutator = switch, mutator
            self._mutate()
            complete = self._follow_ways(0)
            if self._switch.goes_round and self._is_missing:
                self._not_followed.clear()
                self._reasons.clear()
                complete = self._follow_ways(MOST_PASSES)
            paths = self._follow_paths() if self._plan.cover == "paths" else None
            if self._plan.shows_more:
                self._vary()
            self._reach_goals()
        self._not_followed |= self._switch.parser.cut_short
        return replace(self._result(complete), paths=paths)

    def _follow_ways(self, passes: int) -> bool:
        """Makes tests for the ways through the parser, as long as something is missing. `passes`: see
        `SymbolicSwitch.execution`. False: some were not followed."""
        later: list[tuple[bool, Way]] = []
        at_first = _WAYS_AT_FIRST
        for way, is_new in self._switch.ways_by_headers():
            if self._is_over:
                return False
            if is_new and at_first:
                at_first -= 1
                self._cover(self._switch.execution(way, passes))
            else:
                if any(map(self._is_open, way.findings.reached)):
                    self._cover(self._switch.parsed(way))
                later.append((not is_new, way))
        self._prove(_EARLY_PROOFS)
        for _, way in sorted(later, key=itemgetter(0)):  # headers that no way had before come first
            if self._is_over:
                return False
            if not self._is_missing:
                break
            self._cover(self._switch.execution(way, passes))
        return True

    @property
    def _is_missing(self) -> bool:
        return any(map(self._is_open, self._points))

    def _is_open(self, site: SiteKey) -> bool:
        """Whether it is worth while to ask for packets that reach a place."""
        point = self._points.get(site)
        if point is None or point.kind not in _KINDS[self._plan.cover] or point.key in self._reaching:
            return False
        return point.key not in self._proofs and self._undecided[point.key] < _MOST_UNDECIDED

    @property
    def _is_over(self) -> bool:
        over = time.monotonic() - self._start > self._plan.seconds * _SEARCH
        return over or len(self._tests) >= self._plan.most_tests

    # -- covering

    def _wanted(self) -> dict[Key, Point]:
        kinds = _KINDS[self._plan.cover]
        return {p.key: p for p in self._points.values() if p.kind in kinds and p.key not in self._reaching}

    def _cover(self, execution: Execution) -> None:
        """Makes tests of what can be reached this way."""
        self._not_followed |= {a.reason for a in execution.findings.assumptions if a.reason}
        self._not_followed |= execution.findings.not_followed
        self._progress(f"{len(self._tests)} tests, {' -> '.join(execution.names)}")
        question = Question(execution, EFFORT, self._plan.seed, near_misses=self._plan.only is None)
        for site, ways in execution.findings.reached.items():
            for conditions in ways if self._is_open(site) else ():
                if self._is_over or self._try(question, self._points[site], conditions):
                    break

        self._mutate()
        if self._plan.shows_more and execution.whole:
            self._later += [(question, goal) for goal in execution.findings.goals]

    def _mutate(self) -> None:
        """Looks for more by changing the packets of new tests at random."""
        while self._seeds and not self._is_over and self._is_missing:
            for candidate in self._mutator.like(self._seeds.pop(), self._missing):
                test = self._with_results(candidate)
                if test is not None and self._play(test, None) and self._is_over:
                    break

    def _with_results(self, test: Test) -> Test | None:
        """A test with what must come out; None: nobody knows that."""
        try:
            return replayed(self._replay, test)
        except (Undecided, NotModelled):
            return None

    def _missing(self) -> BoolArray:
        """Which sites are still to be reached."""
        return np.array([self._is_open((s.kind, s.name, s.outcome)) for s in self._program.coverage_sites], bool)

    def _follow_paths(self) -> Paths:
        """Makes a test for each path through parser and controls, as long as there is time."""
        paths = Paths()
        for way in self._switch.ways():
            execution = self._switch.execution(way)
            there = sum(state.paths for state in execution.ends)
            left_out = self._switch.parser.cut_short or execution.findings.not_followed
            whole = not left_out and not any(a.reason for a in execution.findings.assumptions)
            found = covered = 0
            try:
                for test in Question(execution, EFFORT, self._plan.seed).paths():
                    if self._is_over:
                        raise Undecided("the time is over")
                    found += 1
                    covered += test is not None and self._play(test, None)
            except Undecided:
                whole = False
            paths.covered += covered
            paths.impossible += there - found if whole else 0
            paths.unknown += found - covered if whole else there - covered
        return paths

    def _vary(self) -> None:
        """Makes tests of others: what packets leave in registers, and who is chosen of several members."""
        made = Counter[str]()
        for test in list(self._tests):
            for what, variant in self._variants(test):
                if self._is_over:
                    return
                if made[what] >= _MOST_VARIANTS or (variant := self._with_results(variant)) is None:
                    continue
                if what != _AGAIN or len({packet.expected for packet in variant.packets}) > 1:
                    made[what] += self._play(variant, None, what)

    def _variants(self, test: Test) -> Iterator[tuple[str, Test]]:
        if self._writes_registers and len(test.packets) < self._plan.packets:
            more = (test.packets[-1],) * (self._plan.packets - len(test.packets))
            yield _AGAIN, replace(test, packets=(*test.packets, *more), covers=[])
        for at, entry in enumerate(test.entries):
            if entry.table in self._selecting and entry.arguments:
                other = replace(entry, arguments=tuple((name, value ^ 1) for name, value in entry.arguments))
                for group in ((entry, other), (other, entry, entry)):
                    entries = [*test.entries[:at], *group, *test.entries[at + 1 :]]
                    yield f"table {entry.table}: a group of {len(group)}", replace(test, entries=entries, covers=[])

    def _reach_goals(self) -> None:
        """Makes tests of what conditions should show, once there is nothing left to cover."""
        shown: set[Key] = set()
        for if_it_matters in (True, False):
            tried: Counter[Key] = Counter()
            for question, goal in self._later:
                if self._is_over:
                    return
                if goal.key not in shown and tried[goal.key] < _MOST_TRIES:
                    tried[goal.key] += 1
                    if self._reach(question, goal, if_it_matters):
                        shown.add(goal.key)

    def _reach(self, question: Question, goal: Goal, if_it_matters: bool) -> bool:
        """Makes a test of something that tests should show, if there is one. `if_it_matters`: the packet comes out as
        another one without it."""
        terms = [goal.term, *([question.matters(goal.otherwise)] if if_it_matters else [])]
        with suppress(Undecided):
            answer = question.ask(goal.conditions, terms, tight=goal.is_hit and if_it_matters)
            return isinstance(answer, Test) and self._play(answer, (), goal.title)
        return False

    def _try(self, question: Question, point: Point, conditions: Conditions) -> bool:
        """Whether a packet reaches a point that way."""
        key = point.key
        try:
            answer = question.ask(conditions)
        except Undecided as why:
            if question.whole:
                self._undecided[key] += 1
                self._open.setdefault(key, f"{why} depends on time, random numbers or a hash")
            return False
        if isinstance(answer, Contradiction):
            self._reasons.setdefault(key, []).append(answer.texts)
        elif answer is None:
            self._open.setdefault(key, "the solver took too long")
        elif question.whole or (answer := self._with_results(answer)) is not None:
            self._play(answer, key, point.title)
            if key not in self._reaching:
                self._open.setdefault(key, "packets that should come there do not on the engine")
        return key in self._reaching

    def _play(self, test: Test, key: Key | None, title: str = "") -> bool:
        """Plays a test and counts what it reaches. False: the engine does not confirm it, and it is thrown away.
        `title`: what it was made for."""
        test.covers += [title] if title else []
        counts = self._program.coverage
        before = counts.copy()
        try:
            wrong = differences(self._engine.play(test.stf()))
        except DetourError as error:
            wrong = [str(error)]
        if wrong:
            counts[:] = before
            if key is not None:
                self._open[key] = f"the engine does not confirm the test: {wrong[0]}"
            return False
        for point, number in zip(self._sites, counts - before, strict=False):
            if number and point.key not in self._reaching:
                self._reaching[point.key] = test
                test.covers += [] if point.title in test.covers else [point.title]
        self._tests.append(test)
        self._seeds += [] if self._plan.fixed else [test]
        return True

    # -- the result

    def _result(self, complete: bool) -> Generated:
        self._prove()
        unreachable, unknown = [], []
        for key, point in self._wanted().items():
            reason = self._why_unknown(key, complete)
            proof = self._proofs.get(key) or (self._proof(point) if reason is None else None)
            if proof is not None:
                unreachable.append(Uncovered(point, proof))
            else:
                unknown.append(Uncovered(point, reason or "no test was found"))
        points = (
            Point.of(s, int(n)) for s, n in zip(self._program.coverage_sites, self._program.coverage, strict=False)
        )
        name = Path(str(self._program.json.get("program") or "program")).stem
        coverage = ProgramCoverage.of(name, "", points)
        seconds = time.monotonic() - self._start
        return Generated(self._tests, coverage, unreachable, unknown, seconds, self._reaching)

    def _prove(self, share: float = 1.0) -> None:
        """Looks for proofs of what was not reached so far, first of what most ways have not reached. `share`: of the
        time, at most."""
        missed = [key for key in self._wanted() if key not in self._asked]
        if not missed:
            return
        end = min(self._start + self._plan.seconds, time.monotonic() + share * self._plan.seconds)
        self._prover = self._prover or _Prover(self._program, self._plan)
        for key in sorted(missed, key=lambda key: -len(self._reasons.get(key, ()))):
            if time.monotonic() > end:
                break
            self._asked.add(key)
            sites = [site for site, p in self._points.items() if p.key == key]
            if (proof := self._prover.proof(sites)) is not None:
                self._proofs[key] = proof
            elif self._switch.reads_depth and self._prover.proof(sites, empty_queues=True) is not None:
                self._undecided[key] = _MOST_UNDECIDED
                self._open[key] = "packets come there only after others that wait in queues"

    def _why_unknown(self, key: Key, complete: bool) -> str | None:
        if key in self._open:
            return self._open[key]
        if not complete:
            return "the time is over"
        if self._not_followed:
            return f"not followed: {', '.join(sorted(self._not_followed))}"
        return None

    def _proof(self, point: Point) -> str | None:
        """The conditions that contradict each other, of the way on which they are fewest."""
        texts = min(self._reasons.get(point.key, []) or self._dead_ends(point), key=len, default=())
        if texts:
            return "; ".join(texts)
        if point.name.startswith("state "):
            return "no way through the parser comes there"
        if point.name.startswith("deparser "):
            return "no packet comes there"
        return "its condition is false on every way" if "_checksum " in point.name else None

    def _dead_ends(self, point: Point) -> list[tuple[str, ...]]:
        ends = self._switch.parser.dead_ends
        return [
            tuple(c.text for c in conditions if c.text)
            for site, conditions, _ in ends
            if (p := self._points.get(site)) is not None and p.key == point.key
        ]


class _Prover:
    """Shows that no packet whatever reaches places of the controls."""

    def __init__(self, program: Program, plan: Plan) -> None:
        execution = SymbolicSwitch(program.model, plan.fixed, EFFORT, proves=True).any_packet()
        self._findings, self._question = execution.findings, Question(execution, EFFORT, plan.seed)

    def proof(self, sites: list[SiteKey], empty_queues: bool = False) -> str | None:
        """The conditions that contradict each other; None: there is no proof. `empty_queues`: packets do not wait."""
        if self._findings.not_followed or any(site[1].startswith("state ") for site in sites):
            return None
        reached = [self._findings.reached.get(site, []) for site in sites]
        if not all(reached):
            return None
        depths = [term == 0 for name, term in self._findings.variables.items() if name.startswith("depth")]
        reasons = []
        for conditions in (each for ways in reached for each in ways):
            contradiction = self._question.refuted(conditions, depths if empty_queues else ())
            if contradiction is None:
                return None
            reasons.append("; ".join(contradiction.texts))
        return min(filter(None, reasons), key=len, default="its conditions contradict each other")
