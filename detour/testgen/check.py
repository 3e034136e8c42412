# SPDX-License-Identifier: Apache-2.0
"""Packets that make a program do what it should not (`--check`): failed assertions, divisions by zero, indices out of
bounds, reads of invalid headers, loops of packets that start over, packets lost without mark_to_drop."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.testgen.context import place_of
from detour.testgen.effort import Effort
from detour.testgen.generate import Plan, load
from detour.testgen.solving import Question
from detour.testgen.state import fresh_context
from detour.testgen.switch import TestSwitch
from detour.testgen.switching import SymbolicSwitch
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
    program, effort = load(source, plan), Effort(plan.seconds)
    symbolic = SymbolicSwitch(program.model, plan.fixed, effort, rules=plan.rules(program.model.tables))
    mistakes: dict[tuple[str, str], Mistake] = {}
    whole = True
    with TestSwitch(program) as switch:
        ways = sorted(symbolic.ways_by_headers(), key=lambda each: not each[1])  # new headers come first
        for number, (way, _) in enumerate(ways, 1):
            if effort.is_over():
                break
            progress(f"{len(mistakes)} mistakes, way {number} through the parser")
            execution = symbolic.execution(way)
            findings = execution.findings
            whole &= not findings.not_followed and not any(a.reason for a in findings.assumptions)
            for fault in findings.faults:
                what, where = fault.what, place_of(fault.at) or "a statement without a place in the source"
                if (what, where) in mistakes or effort.is_over():
                    continue
                question = Question(execution, effort, plan.seed, fault.assumption, near_misses=False)
                found = question.any_of([fault.conditions], [fault.when], expects=False)
                if found is None:
                    continue
                if found.test is None:
                    whole = False
                elif fault.assumption < 0 or _confirmed(switch, found.test):
                    found.test.covers.append(f"{what}: {where}")
                    mistakes[what, where] = Mistake(what, where, found.test.stf(expect=False))
    whole &= not symbolic.parser.cut_short and not effort.is_over()
    return Checked(list(mistakes.values()), whole)


def _confirmed(switch: TestSwitch, test: Test) -> bool:
    """Whether the engine ends the packet for a fault, or has to."""
    before = switch.faults
    with suppress(DetourError):
        switch.play(test.stf(expect=False))
    return switch.faults > before
