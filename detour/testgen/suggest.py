# SPDX-License-Identifier: Apache-2.0
"""Tests for what packets have not reached of a program (`detour coverage --suggest`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.engine.compiler.covering import program_digest
from detour.engine.compiler.program import Program
from detour.engine.coverage.document import CoverageDocument, Point
from detour.testgen.generate import Plan, generate


@dataclass(frozen=True)
class Suggestion:
    """A place, and the lines of STF that lead there; if there are none, why."""

    point: Point
    needs: list[str]
    reason: str


def suggestions(document: CoverageDocument, file: Path, progress: Progress = silent) -> list[Suggestion]:
    """Entries and a packet for each place of the program in a file of BMv2 JSON that is not covered. Raises
    DetourError: it is not such a file, the document has nothing of that program, or see `generate`."""
    digest = program_digest(Program.from_json(file).json)
    covered = next((program for program in document.programs.values() if program.digest == digest), None)
    if covered is None:
        raise DetourError(f"{file}: the coverage is for other programs: {', '.join(sorted(document.programs))}")
    missed = covered.missed()
    p4info = file.with_suffix(".p4info.txtpb")
    plan = Plan(only={point.key for point in missed}, p4info=p4info if p4info.is_file() else None, packets=1)
    generated = generate(file, plan, progress)
    reasons = {each.point.key: f"unknown: {each.reason}" for each in generated.unknown}
    reasons |= {each.point.key: f"unreachable: {each.reason}" for each in generated.unreachable}
    found = []
    for point in missed:
        test = generated.reaching.get(point.key)
        needs = [line for line in test.stf().splitlines() if not line.startswith("#")] if test else []
        found.append(Suggestion(point, needs, "" if test else reasons[point.key]))
    return found
