# SPDX-License-Identifier: Apache-2.0
"""Tests of a program: for each place that packets have not reached yet, the question whether one can; every answer is
played on the engine before it counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from detour.base.arrays import BoolArray
from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.progress import Progress, silent
from detour.engine.compiler.covering import BRANCH, COLLECTOR, STATEMENT, TABLE_OUTCOME, Collector
from detour.engine.compiler.portable import V1MODEL
from detour.engine.compiler.program import Program
from detour.engine.coverage.document import Point, ProgramCoverage
from detour.testgen.anything import operations
from detour.testgen.context import Conditions, Goal, SiteKey
from detour.testgen.effort import Effort
from detour.testgen.mutation import Mutator
from detour.testgen.parsing import Way
from detour.testgen.solving import TOO_LONG, Found, Question, Undecided, replayed
from detour.testgen.state import fresh_context
from detour.testgen.switch import TestSwitch, differences
from detour.testgen.switching import MOST_PASSES, WAITS, Execution, SymbolicSwitch
from detour.testgen.terms import NotModelled, Term
from detour.testgen.testcase import Packet, Test

if TYPE_CHECKING:
    from detour.engine.compiler.model import TableIr
    from detour.testgen.rules import EntryRules

_ALL = STATEMENT, BRANCH, TABLE_OUTCOME
_KINDS = {"statements": (STATEMENT,), "branches": _ALL, "paths": _ALL}
_PASSES = 1, MOST_PASSES
"""how often packets may start over, and be copied, if places are missing of those that do not, or once"""
_MOST_TRIES, _MOST_REFUTED = 3, 30
"""ways on which something is looked for beside coverage: where packets show it, and where none can"""
_MOST_UNDECIDED = 3
"""ways on which a place may depend on what no test can set, before it is left alone"""
_PATIENCE, _ENDLESS = 2, 1 << 30
"""how many tests in vain are made on a way before the next one gets its turn"""
_MOST_VARIANTS = 20
"""of tests, of one kind"""
_AGAIN = "the packet again, which finds what it has left in registers"
_UNDEFINED = "what becomes of packets there"
_SEED_BYTES = 64
_PRINTED = re.compile(
    r"(?:#.*\n|\n|(?:pkg_info|tables|actions|action_profiles|(?:direct_)?(?:counters|meters)|value_sets|registers|"
    r"controller_packet_metadata|digests|externs|type_info) \{\n|  +(?:\w+ \{|\w+: .*|\})\n|\}\n)++"
)
"""lines of P4Info as compilers print it"""
_DEMANDS = "_restriction", "refers_to", "OPTIONAL", "_ONLY"
"""words without one of which P4Info demands nothing of entries"""
_NEW, _WAYS, _PROOFS, _SEARCH, _AGAIN_WAYS = 0.7, 0.5, 0.75, 0.85, 0.92
"""of the time, until when ways with other headers are followed with little patience, all ways with much, first proofs
looked for, tests show more, and ways are followed once more: the rest is for proofs"""
_ALL_PROVEN = 0.98
"""of the time, until when tests show more where nothing is missing"""
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Plan:
    """The tests that are wanted. `fixed`: values of fields of packets, by the header's and the field's names. `only`:
    the places to reach, by their keys; None: all, and what tests should show beside. `p4info`: with what entries must
    obey. `packets`: the most in a test."""

    cover: str = "branches"
    most_tests: int = 10_000
    seconds: float = 60.0
    seed: int = 0
    fixed: Mapping[str, int] = field(default_factory=dict)
    only: Collection[Key] | None = None
    p4info: Path | None = None
    packets: int = 2

    def rules(self, tables: Mapping[str, TableIr]) -> EntryRules | None:
        """The demands of P4Info on entries of the program's tables; None: there are none. Raises DetourError: see
        `EntryRules`."""
        if self.p4info is None:
            return None
        text = read_text(self.p4info)
        printed = text.endswith("\n}\n") and _PRINTED.fullmatch(text) is not None
        if printed and not any(word in text for word in _DEMANDS):
            return None
        from detour.testgen.rules import EntryRules  # parses it, for which it needs a tenth of a second

        return EntryRules(self.p4info, tables)

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
    """The numbers of paths through the program that tests take, that no packet can take (proven), and that are left."""

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
    """Raise DetourError for a field that the program does not have, or a value that is too large for it."""
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
        self._effort = Effort(plan.seconds)
        self._switch = SymbolicSwitch(program.model, plan.fixed, self._effort, rules=plan.rules(program.model.tables))
        self._replay = SymbolicSwitch(program.model, {}, self._effort)
        self._tests: list[Test] = []
        self._seeds = [] if plan.fixed else [Test((Packet(1, bytes(_SEED_BYTES)),))]
        """tests whose packets have not been changed at random yet"""
        self._crossroads: list[tuple[Any, ...]] = []
        """paths of tests that have not been left for other places yet"""
        self._ways: dict[Key, Way] = {}
        self._paths = set[Key]()
        """those that tests were seen to take"""
        self._rounds: list[dict[Key, Question]] = [{}]
        """what packets reach, by their ways; in each round they start over more often"""
        self._points: dict[SiteKey, Point] = {}
        self._sites = [Point.of(site, 0) for site in program.coverage_sites]
        for site, point in zip(program.coverage_sites, self._sites, strict=True):
            if plan.only is None or point.key in plan.only:
                self._points[site.kind, site.name, site.outcome] = point
        self._reaching: dict[Key, Test] = {}
        self._refuted: dict[Key, tuple[Question, Conditions]] = {}
        """a way on which it is proven that a place is not reached"""
        self._open: dict[Key, str] = {}
        """why nothing is proven about a place"""
        self._not_followed: set[str] = set()
        self._undecided: Counter[Key] = Counter()
        self._vain: Counter[Key] = Counter()
        """tests that were made for places and do not reach them"""
        self._proofs: dict[Key, str] = {}
        self._asked = set[Key]()
        """whether there is a proof"""
        self._writes_registers = "register_write" in operations(program.model)
        tables = program.model.tables.values()
        self._selecting = {table.name for table in tables if table.profile is not None and table.profile.selector}
        self._prover: Question | None = None
        """about any packet whatever"""

    def run(self) -> Generated:
        with TestSwitch(self._program) as switch, Mutator(self._program, self._plan.seed) as mutator:
            self._engine, self._mutator = switch, mutator
            with self._effort.share.set_to(_NEW):
                self._mutate()
                complete = self._follow_ways()
            with self._effort.share.set_to(_SEARCH if self._is_missing else _ALL_PROVEN):
                paths = self._follow_paths() if self._plan.cover == "paths" else None
                if self._plan.shows_more:
                    self._vary()
                self._reach_goals()
            with self._effort.share.set_to(_AGAIN_WAYS):
                if not complete:  # what is still missing then is unknown
                    self._follow(list(self._ways.values()), 0)
        self._not_followed |= self._switch.parser.cut_short
        return replace(self._result(complete), paths=paths)

    def _follow_ways(self) -> bool:
        """Make tests for the ways through the parser, as long as something is missing. False: some were not
        followed."""
        ways: list[tuple[bool, Way]] = []
        for way, is_new in self._switch.ways_by_headers():
            if self._is_over:
                return False
            self._ways[way.key] = way
            if any(map(self._is_open, way.findings.reached)):
                self._cover(self._about(self._switch.beginning(_again(way), ingress=False)))
            ways.append((is_new, way))
        self._explore()
        complete = True
        for some in _by_novelty([way for is_new, way in ways if is_new]):
            for way in some:
                if self._is_missing and not self._is_over:
                    self._cover(self._about(self._switch.beginning(_again(way), ingress=True)), _PATIENCE)
            complete = complete and self._follow(some, 0, _PATIENCE)
        with self._effort.share.set_to(_PROOFS):
            self._prove()
        with self._effort.share.set_to(_WAYS):
            return complete and self._follow_patiently([way for _, way in ways])

    def _follow_patiently(self, ways: list[Way]) -> bool:
        """Make tests for ways with all that there is, and then for packets that start over more often."""
        complete = self._follow(ways, 0)
        for passes in _PASSES:
            if not self._switch.is_cut_short or not self._is_missing:
                break
            self._switch.is_cut_short = False
            self._not_followed.clear()
            self._refuted.clear()
            self._rounds.append({})
            complete = complete and self._follow(ways, passes)
        return complete

    def _follow(self, ways: list[Way], passes: int, patience: int = _ENDLESS) -> bool:
        """Make tests for some ways. `passes`: see `SymbolicSwitch.execution`; `patience`: see `_search`, then ways also
        count for what tests should show. False: some were not followed."""
        shows_more, questions = patience < _ENDLESS and self._plan.shows_more, self._rounds[-1]
        for way in ways:
            if self._is_over:
                return False
            if not self._is_missing and not shows_more:
                break
            if way.key not in questions:
                questions[way.key] = self._about(self._switch.execution(_again(way), passes))
            self._cover(questions[way.key], patience)
        return True

    @property
    def _is_missing(self) -> bool:
        return any(map(self._is_open, self._points))

    def _is_open(self, site: SiteKey, most_vain: int = _ENDLESS) -> bool:
        """Whether it is worth while to ask for packets that reach a place. `most_vain`: tests that did not, before it
        has to wait."""
        point = self._points.get(site)
        if point is None or point.kind not in _KINDS[self._plan.cover] or point.key in self._reaching:
            return False
        if point.key in self._proofs or self._vain[point.key] >= most_vain:
            return False
        return self._undecided[point.key] < _MOST_UNDECIDED

    @property
    def _is_over(self) -> bool:
        return self._effort.is_over() or len(self._tests) >= self._plan.most_tests

    # -- covering

    def _wanted(self) -> dict[Key, Point]:
        kinds = _KINDS[self._plan.cover]
        return {p.key: p for p in self._points.values() if p.kind in kinds and p.key not in self._reaching}

    def _about(self, execution: Execution) -> Question:
        """The question what packets reach in an execution."""
        self._not_followed |= {a.reason for a in execution.findings.assumptions if a.reason}
        self._not_followed |= execution.findings.not_followed
        self._progress(f"{len(self._tests)} tests, {' -> '.join(execution.names)}")
        return self._question(execution)

    def _cover(self, question: Question, patience: int = _ENDLESS) -> None:
        """Make tests of what can be reached this way. `patience`: see `_search`."""
        for site, conditions in self._search(question, patience):
            self._refuted.setdefault(self._points[site].key, (question, conditions))
        self._mutate()
        self._explore()

    def _question(self, execution: Execution) -> Question:
        return Question(execution, self._effort, self._plan.seed, near_misses=self._plan.only is None)

    def _search(self, question: Question, patience: int = _ENDLESS) -> list[tuple[SiteKey, Conditions]]:
        """Make tests of the places of an execution, at most so many in vain. Return those that no packet reaches this
        way."""
        goals = [(site, each) for site, ways in question.findings.reached.items() for each in ways]
        question.is_patient = patience == _ENDLESS
        most_vain = _ENDLESS if question.is_patient else _MOST_UNDECIDED
        while (goals := [g for g in goals if self._is_open(g[0], most_vain)]) and not self._is_over and patience:
            found = question.any_of([conditions for _, conditions in goals])
            if found is None:
                return goals
            before = len(self._reaching)
            self._try(question, found, [self._points[goals[number][0]] for number in found.goals])
            if len(self._reaching) == before:
                patience -= 1
                self._vain.update(self._points[goals[number][0]].key for number in found.goals)
            goals = [goal for number, goal in enumerate(goals) if number not in found.goals]
        return []

    def _explore(self) -> None:
        """Make tests that leave the paths of others for places that are missing: along one path terms are small, and
        z3 is quick."""
        while self._crossroads and not self._is_over and self._is_missing:
            path = self._crossroads.pop()
            way = self._ways.get(path[0])
            if way is not None and path not in self._paths:
                self._paths.add(path)
                self._search(self._question(self._switch.along(_again(way), path[1:])))
                self._mutate()

    def _mutate(self) -> None:
        """Look for more by changing the packets of new tests at random."""
        while self._seeds and not self._is_over and self._is_missing:
            for candidate in self._mutator.like(self._seeds.pop(), self._missing):
                self._confirm(candidate)
                if self._is_over:
                    break

    def _with_results(self, test: Test) -> Test | None:
        """A test with what must come out; None: nobody knows that. All tests get it here, along their own path: only
        there fields of invalid headers may have any value."""
        try:
            return replayed(self._replay, test)
        except (Undecided, NotModelled):
            return None

    def _confirm(self, test: Test, title: str = "") -> str:
        """Play a test with what must come out. Return why it is thrown away, if so."""
        whole = self._with_results(test)
        return _UNDEFINED if whole is None else self._play(whole, title)

    def _missing(self) -> BoolArray:
        """The sites that are still to be reached."""
        return np.array([self._is_open((s.kind, s.name, s.outcome)) for s in self._program.coverage_sites], bool)

    def _follow_paths(self) -> Paths:
        """Make a test for each path through parser and controls, as long as there is time."""
        paths = Paths()
        for way in self._switch.ways():
            execution = self._switch.execution(way)
            there = sum(state.paths for state in execution.ends)
            left_out = self._switch.parser.cut_short or execution.findings.not_followed
            whole = not left_out and not any(a.reason for a in execution.findings.assumptions)
            found = covered = 0
            try:
                for test in Question(execution, self._effort, self._plan.seed).paths():
                    if self._is_over:
                        raise Undecided("the time is over")
                    found += 1
                    covered += test is not None and self._confirm(test) == ""
            except Undecided:
                whole = False
            paths.covered += covered
            paths.impossible += there - found if whole else 0
            paths.unknown += found - covered if whole else there - covered
        return paths

    def _vary(self) -> None:
        """Make tests of others: what packets leave in registers, and who is chosen of several members."""
        made = Counter[str]()
        for test in list(self._tests):
            for what, variant in self._variants(test):
                if self._is_over:
                    return
                if made[what] >= _MOST_VARIANTS or (variant := self._with_results(variant)) is None:
                    continue
                if what != _AGAIN or len({packet.expected for packet in variant.packets}) > 1:
                    made[what] += self._play(variant, what) == ""

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
        """Make tests of what conditions should show, once there is nothing left to cover."""
        shown: set[Key] = set()
        for questions, if_it_matters in product(self._rounds, (True, False)):
            tried, refuted = Counter[Key](), Counter[Key]()
            for question, goal in self._goals(questions):
                if self._is_over:
                    return
                key = goal.key
                if key in shown or tried[key] == _MOST_TRIES or refuted[key] == _MOST_REFUTED:
                    continue
                found = self._showing(question, goal, if_it_matters)
                if found is None:
                    refuted[key] += 1
                elif found.test and not self._confirm(found.test, goal.title):
                    shown.add(key)
                else:
                    tried[key] += 1

    def _goals(self, questions: Mapping[Key, Question]) -> Iterator[tuple[Question, Goal]]:
        """All that tests should show, first on ways of packets that are long enough, as others show little."""
        for key, _ in sorted(self._ways.items(), key=lambda item: item[1].error != ""):
            for goal in questions[key].findings.goals if key in questions else ():
                yield questions[key], goal

    def _showing(self, question: Question, goal: Goal, if_it_matters: bool) -> Found | None:
        """A test of something that tests should show, or why there is none; None: no packet does. `if_it_matters`: the
        packet comes out as another one without it."""
        question.use_words()
        terms = [goal.term, *([question.matters(goal.otherwise)] if if_it_matters else [])]
        return question.any_of([goal.conditions], terms, tight=goal.is_hit and if_it_matters)

    def _try(self, question: Question, found: Found, points: list[Point]) -> None:
        """Play a test that was found for points, or note why there is none."""
        test = found.test
        wrong = self._confirm(test, points[0].title) if test is not None else found.reason
        for point, depends in zip(points, found.goals.values(), strict=True):
            why = wrong or depends or "packets that should come there do not on the engine"
            unknown = why in (found.reason, depends, _UNDEFINED) and why != TOO_LONG
            if point.key in self._reaching or (why in (found.reason, _UNDEFINED) and unknown and not question.whole):
                continue
            if unknown:
                self._undecided[point.key] += 1
                why = f"{why} depends on time, random numbers, a hash or invalid headers"
            self._open.setdefault(point.key, why)

    def _play(self, test: Test, title: str = "") -> str:
        """Play a test and count what it reaches. Return why the engine does not confirm it, if so: it is thrown
        away. `title`: what it was made for."""
        test.covers += [title] if title else []
        counts = self._program.coverage
        before = counts.copy()
        try:
            wrong = differences(self._engine.play(test.stf()))
        except DetourError as error:
            wrong = [str(error)]
        if wrong:
            counts[:] = before
            return f"the engine does not confirm the test: {wrong[0]}"
        for point, number in zip(self._sites, counts - before, strict=False):
            if number and point.key not in self._reaching:
                self._reaching[point.key] = test
                test.covers += [] if point.title in test.covers else [point.title]
        self._tests.append(test)
        self._seeds += [] if self._plan.fixed else [test]
        self._crossroads += [test.path] if test.path else []
        return ""

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
        return Generated(self._tests, coverage, unreachable, unknown, self._effort.taken, self._reaching)

    def _prove(self) -> None:
        """Look for proofs of what was not reached so far."""
        missed = [key for key in self._wanted() if key not in self._asked]
        if not missed:
            return
        self._prover = self._prover or Question(self._any_packet(), self._effort, self._plan.seed, proves=True)
        sites = {key: [site for site, p in self._points.items() if p.key == key] for key in missed}
        waiting, proofs = _proofs(self._prover, sites)
        self._asked.update(() if self._effort.is_over() else missed)
        self._proofs |= proofs
        for key in waiting:
            self._undecided[key] = _MOST_UNDECIDED
            self._open[key] = "packets come there only after others that wait in queues"

    def _any_packet(self) -> Execution:
        return SymbolicSwitch(self._program.model, self._plan.fixed, self._effort, proves=True).any_packet()

    def _why_unknown(self, key: Key, complete: bool) -> str | None:
        if key in self._open:
            return self._open[key]
        if not complete:
            return "the time is over"
        if self._not_followed:
            return f"not followed: {', '.join(sorted(self._not_followed))}"
        return None

    def _proof(self, point: Point) -> str | None:
        """The conditions that contradict each other, of a way."""
        question, conditions = self._refuted.get(point.key, (None, ()))
        texts = question.refuted(conditions) if question else min(self._dead_ends(point), key=len, default=())
        if texts:
            return "; ".join(texts)
        if point.name.startswith("state "):
            return "no way through the parser comes there"
        if point.name.startswith("deparser "):
            return "no packet comes there"
        return "its condition is false on every way" if "_checksum " in point.name else None

    def _dead_ends(self, point: Point) -> list[tuple[str, ...]]:
        return [
            tuple(c.text for c in conditions if c.text)
            for site, conditions in self._switch.parser.dead_ends
            if (p := self._points.get(site)) is not None and p.key == point.key
        ]


def _again(way: Way) -> Way:
    """The way, to go on from its end once more."""
    return way.branch(way.state.copy())


def _by_novelty(ways: list[Way]) -> tuple[list[Way], list[Way]]:
    """Ways with headers that none before has, first those that have the most; and all others."""
    novel, others, seen = list[Way](), list(ways), set[str]()
    while others and (best := max(others, key=lambda way: len(way.headers - seen))).headers - seen:
        others.remove(best)
        novel.append(best)
        seen |= best.headers
    return novel, others


def _proofs(question: Question, places: dict[Key, list[SiteKey]]) -> tuple[set[Key], dict[Key, str]]:
    """Places of the controls that no packet reaches but after others that wait in queues; and those that none reaches,
    each with the conditions that contradict each other. `question`: about any packet; `places`: with their sites."""
    findings = question.findings
    goals: list[tuple[Key, Conditions]] = []
    for key, sites in places.items():
        ways = [findings.reached.get(site, []) for site in sites]
        if all(ways) and not findings.not_followed and not any(s[1].startswith("state ") for s in sites):
            goals += [(key, conditions) for some in ways for conditions in some]

    def possible(goals: list[tuple[Key, Conditions]], more: list[Term]) -> set[Key]:
        return {goals[n][0] for n in question.possible([conditions for _, conditions in goals], more)}

    may_be = possible(goals, [])
    depths = [term == 0 for name, term in findings.variables.items() if name.startswith(WAITS)]
    waiting = may_be - possible([g for g in goals if g[0] in may_be], depths) if depths else set[Key]()
    proofs: dict[Key, str] = {}
    for key, conditions in goals:
        if key not in may_be and key not in proofs:
            proofs[key] = "; ".join(question.refuted(conditions)) or "its conditions contradict each other"
    return waiting, proofs
