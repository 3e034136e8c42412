# SPDX-License-Identifier: Apache-2.0
"""Compiles the corpus and records what BMv2 does with it: `python -m tests.differential.record [--all] [NAME ...]`.

Needs p4c-bm2-ss for programs whose source has changed and simple_switch_grpc for those without a valid recording.
Every recording is made twice; a program whose outputs differ between the two is no program for golden files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

from tests.differential import case, fabric, programs, reference

FRAMES = 300
FABRIC_FRAMES = 4000


def _is_valid(program: programs.Program) -> bool:
    try:
        case.load(program.golden, *program.load())
    except (OSError, AssertionError):
        return False
    return True


def _record(program: programs.Program) -> str:
    run = program.case(FRAMES)
    updates = len(run.updates)
    first, second = reference.run(run), reference.run(run)
    problems = case.differences(run, first, second)
    if problems:
        raise RuntimeError(f"{program.name} does not repeat itself:\n" + "\n".join(problems[:5]))
    case.save(program.golden, run, first)
    leaving = sum(1 for o in first.outputs if o)
    changed = sum(1 for f, o in zip(run.frames, first.outputs, strict=True) if o and o != [f])
    notes = f", {refused} updates refused" if (refused := updates - len(run.updates)) else ""
    return f"{program.name}: {FRAMES} frames in, {leaving} leave, {changed} changed{notes}"


def _record_ours(program: str) -> str:
    run = fabric.case(FABRIC_FRAMES, 0, program)
    result, again = (fabric.strip(run, reference.run(run)) for _ in range(2))
    problems = case.differences(run, result, again)
    if problems:
        raise RuntimeError(f"{program}.p4 does not repeat itself:\n" + "\n".join(problems[:5]))
    case.save(fabric.golden(program), run, result)
    return f"{program}: {FABRIC_FRAMES} frames in, {sum(1 for o in result.outputs if o)} leave"


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="programs of the corpus, `fabric` or `adaptive` (default: those that need it)"
    )
    parser.add_argument("--all", action="store_true", help="record even what is valid")
    options = parser.parse_args()
    chosen = [p for p in programs.programs() if not options.names or p.name in options.names]
    problem = programs.compiler_missing() if _stale(chosen) else None
    problem = problem or reference.missing()
    if problem:
        print(f"cannot record: {problem}", file=sys.stderr)
        return 2
    for name in programs.compile_all(chosen):
        print(f"compiled {name}")
    due = [p for p in chosen if options.all or not _is_valid(p)]
    jobs: list[Callable[[], str]] = [partial(_record, p) for p in due]
    jobs += [partial(_record_ours, name) for name in fabric.MAKERS if not options.names or name in options.names]
    return max(map(_report, jobs), default=0)


def _report(job: Callable[[], str]) -> int:
    try:
        print(job(), flush=True)
        return 0
    except RuntimeError as error:
        print(error, file=sys.stderr, flush=True)
        return 1


def _stale(chosen: list[programs.Program]) -> bool:
    recorded = programs.digests()
    return any(recorded.get(p.name) != programs.source_digest(p) for p in chosen)


if __name__ == "__main__":
    sys.exit(main())
