# SPDX-License-Identifier: Apache-2.0
"""Command: runs stages, prints how many programs pass, and why the others do not."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

from tests.differential.p4c_corpus import reference
from tests.differential.p4c_corpus.stages import STAGES, Outcome, generated_one, long_name, programs_one
from tests.ptf import bmv2

_GOALS = {"compile": 98, "errors": 97, "p4info": 99, "warnings": 95, "programs": 98, "random": 100}
"""Per cent of the programs that count. Packet tests: as many as with p4c's JSON."""


_PLAYED = {"tests": generated_one, "programs": programs_one, "random": programs_one}
"""Stages that let packets through, which BMv2 can do as well."""


def _sources(stage: str, options: argparse.Namespace) -> list[Path]:
    if stage == "random":
        from tests.differential.random_programs import write_programs

        return write_programs(reference.CACHE.parent / "p4-random", options.count, options.seed)
    if stage == "programs":
        return _distinct(path for folder in options.programs for path in folder.rglob("*.p4") if _has_main(path))
    folder = options.samples / ("p4_16_errors" if stage == "errors" else "p4_16_samples")
    sources = sorted(folder.glob("*.p4"))
    return [one for one in sources if one.with_suffix(".stf").exists()] if stage == "stf" else sources


def _distinct(paths: Iterable[Path]) -> list[Path]:
    """The first of each program that there are copies of. What a program includes depends on its folder."""
    programs: dict[tuple[bytes, Path | None], Path] = {}
    for path in sorted(paths):
        text = path.read_bytes()
        programs.setdefault((text, path.parent if re.search(rb'#\s*include\s*"', text) else None), path)
    return list(programs.values())


def _has_main(path: Path) -> bool:
    return path.is_file() and re.search(rb"\bmain\s*;", path.read_bytes()) is not None


def _guarded(job: Callable[[Path], Outcome], source: Path) -> Outcome:
    try:
        return job(source)
    except Exception as error:
        return Outcome(long_name(source), False, f"{type(error).__name__}: {error}"[:300])


def _run(stage: str, job: Callable[[Path], Outcome], sources: list[Path], jobs: int) -> list[Outcome]:
    """Outcomes in the order of the sources. A program that ends its process counts as failed."""
    outcomes: list[Outcome] = []
    pending = list(sources)
    while pending:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork")) as pool:
            futures = [pool.submit(_guarded, job, source) for source in pending]
            for at, future in enumerate(futures):
                try:
                    outcomes.append(future.result())
                except BrokenProcessPool:
                    outcomes.append(Outcome(long_name(pending[at]), False, "the process ended"))
                    pending = pending[at + 1 :]
                    break
                if sys.stderr.isatty():
                    print(f"\r{stage} {len(outcomes)} of {len(sources)}", end="\r", file=sys.stderr)
            else:
                pending = []
    return outcomes


def _report(stage: str, outcomes: list[Outcome], seconds: float) -> dict[str, Any]:
    counting = [one for one in outcomes if one.ok is not None]
    passed = sum(1 for one in counting if one.ok)
    return {
        "stage": stage,
        "programs": len(counting),
        "passed": passed,
        "percent": round(100 * passed / len(counting), 2) if counting else None,
        "goal": _GOALS.get(stage),
        "counted": dict(Counter(one.counted for one in counting if one.counted)),
        "skipped": dict(Counter(one.reason for one in outcomes if one.ok is None)),
        "seconds": round(seconds, 1),
        "failed": {one.name: one.reason for one in counting if not one.ok},
        "notes": {one.name: one.reason for one in counting if one.ok and one.reason},
    }


def _category(reason: str) -> str:
    """A reason without what is particular to its program."""
    reason = reason.split(" | ")[0] if reason.startswith("ours") else reason
    return re.sub(r"'[^']*'|\"[^\"]*\"|\([^)]*:\d+\)|\b0x[0-9a-f]+\b|\d+", "_", reason)[:110]


def _show(report: dict[str, Any], examples: int) -> None:
    goal = f", goal {report['goal']} %" if report["goal"] else ""
    counted = "".join(f", {count} {what}" for what, count in report["counted"].items())
    print(
        f"{report['stage']}: {report['passed']} of {report['programs']} ({report['percent']} %{goal}){counted}, "
        f"{report['seconds']} s"
    )
    for reason, count in report["skipped"].items():
        print(f"  {count:4} not counted: {reason}")
    groups: dict[str, list[str]] = {}
    for name, reason in report["failed"].items():
        groups.setdefault(_category(reason), []).append(name)
    for category, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - examples} more" if len(names) > examples else ""
        print(f"  {len(names):4} {category}: {', '.join(names[:examples])}{more}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential.p4c_corpus", description=__doc__)
    parser.add_argument("stages", nargs="*", default=[], help=f"of {', '.join(STAGES)}; default: all that can run")
    parser.add_argument("--samples", type=Path, help="testdata of a checkout of p4lang/p4c")
    parser.add_argument("--programs", type=Path, action="append", default=[], help="folders of other programs")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE", help="macro of other programs")
    parser.add_argument("--every", type=int, default=1, help="take each Nth program, of a seeded order")
    parser.add_argument("--only", help="take programs whose name fits this regular expression")
    parser.add_argument("--count", type=int, default=2000, help="random programs")
    parser.add_argument("--seed", type=int, default=1, help="of random programs")
    parser.add_argument("--bmv2", action="store_true", help=f"play the packets of {', '.join(_PLAYED)} on BMv2 as well")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=8, help="names shown for each reason")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reports = []
    for stage in options.stages or STAGES:
        why = _cannot_run(stage, options)
        if why:
            print(f"{stage}: skipped: {why}", file=sys.stderr)
            continue
        start = time.monotonic()
        sources = _sources(stage, options)
        if options.only:
            sources = [one for one in sources if re.search(options.only, one.stem)]
        random.Random(7).shuffle(sources)
        job = STAGES[stage]
        if stage in _PLAYED:
            job = partial(_PLAYED[stage], bmv2=options.bmv2, defines=tuple(options.define))
        outcomes = _run(stage, job, sources[:: options.every], options.jobs)
        report = _report(stage, sorted(outcomes, key=lambda one: one.name), time.monotonic() - start)
        reports.append(report)
        if not options.json:
            _show(report, options.examples)
            sys.stdout.flush()
    if options.json:
        print(json.dumps(reports, indent=2))
    return 0


def _cannot_run(stage: str, options: argparse.Namespace) -> str | None:
    if stage not in STAGES:
        return f"there is no such stage, only {', '.join(STAGES)}"
    if why := reference.missing():
        return why
    if stage in ("compile", "errors", "p4info", "warnings", "stf", "tests") and not (
        options.samples and options.samples.is_dir()
    ):
        return "--samples names no folder: it needs testdata of a checkout of p4lang/p4c"
    if stage in _PLAYED and options.bmv2 and (why := bmv2.missing(interfaces=False)):
        return why
    if stage == "programs" and not options.programs:
        return "no --programs"
    return None


if __name__ == "__main__":
    sys.exit(main())
