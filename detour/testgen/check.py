# SPDX-License-Identifier: Apache-2.0
"""Packets that make a program do what it should not (`--check`): failed assertions, divisions by zero, indices out of
bounds, reads of invalid headers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.engine.compiler.model import one_line
from detour.engine.compiler.program import Program
from detour.engine.compiler.tracing import source_of
from detour.testgen.context import Fault
from detour.testgen.effort import Effort
from detour.testgen.generate import Plan, load
from detour.testgen.solving import Question
from detour.testgen.state import fresh_context
from detour.testgen.switch import TestSwitch
from detour.testgen.switching import Execution, SymbolicSwitch
from detour.testgen.testcase import Test


@dataclass(frozen=True)
class Mistake:
    """Something that a program should not do, where, and the STF of a packet with which it does."""

    what: str
    where: str
    stf: str


@dataclass
class Checked:
    """`whole`: all that packets can do was looked at."""

    mistakes: list[Mistake]
    whole: bool


def check(source: Path, plan: Plan, progress: Progress = silent) -> Checked:
    """Look for mistakes of a program in a file of BMv2 JSON. Raises DetourError: see `generate`."""
    fresh_context()
    program = load(source, plan)
    return _Checker(program, plan, progress).run()


class _Checker:
    def __init__(self, program: Program, plan: Plan, progress: Progress) -> None:
        self._program, self._plan, self._progress = program, plan, progress
        self._effort = Effort(plan.seconds)
        self._mistakes: dict[tuple[str, str], Mistake] = {}
        self._whole = True

    def run(self) -> Checked:
        symbolic = SymbolicSwitch(self._program.model, self._plan.fixed, self._effort, rules=self._plan.rules)
        with TestSwitch(self._program) as switch:
            ways = sorted(symbolic.ways_by_headers(), key=lambda each: not each[1])  # new headers come first
            for number, (way, _) in enumerate(ways, 1):
                if self._effort.is_over():
                    self._whole = False
                    break
                self._progress(f"{len(self._mistakes)} mistakes, way {number} through the parser")
                execution = symbolic.execution(way)
                findings = execution.findings
                self._whole &= not findings.not_followed and not any(a.reason for a in findings.assumptions)
                for mistake in self._of(execution, switch):
                    self._mistakes.setdefault((mistake.what, mistake.where), mistake)
        return Checked(list(self._mistakes.values()), self._whole and not symbolic.parser.cut_short)

    def _of(self, execution: Execution, switch: TestSwitch) -> Iterator[Mistake]:
        for fault in execution.findings.faults:
            where = _place(fault)
            if (fault.what, where) in self._mistakes or self._effort.is_over():
                continue
            question = Question(execution, self._effort, self._plan.seed, fault.assumption, near_misses=False)
            found = question.any_of([fault.conditions], [fault.when], expects=False)
            test = found and found.test
            self._whole &= found is None or test is not None
            if test is not None and (fault.assumption < 0 or _confirmed(switch, test)):
                test.covers.append(f"{fault.what}: {where}")
                yield Mistake(fault.what, where, test.stf(expect=False))


def _place(fault: Fault) -> str:
    source = source_of(fault.at)
    if source is None:
        return "a statement without a place in the source"
    return f"{source['file']}:{source['line']} {one_line(source['text'])}"


def _confirmed(switch: TestSwitch, test: Test) -> bool:
    """Whether the engine ends the packet for a fault."""
    before = switch.faults
    try:
        switch.play(test.stf(expect=False))
    except DetourError:
        return False
    return switch.faults > before
