# SPDX-License-Identifier: Apache-2.0
"""`detour test --cover statements` beside P4Testgen: the same programs, the same limit of CPU time, one process each.

    python -m tests.differential.p4testgen FOLDER ... --count 60 --out comparison.json
    python -m tests.differential.p4testgen PROGRAM.p4 ...

draws v1model programs below the folders with a seed, or takes those that are named; what --out has already stays there.
Statements are counted as `detour coverage` does but for those of deparsers and checksums, also where P4Testgen's tests
(STF) come, which are played on the engine. It looks for statements greedily, writes only tests that cover more, and
stops when its own count is complete. Times are CPU seconds of the whole command, compiler included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from detour.base.errors import DetourError
from detour.engine.compiler.covering import STATEMENT
from detour.engine.coverage.document import Point, ProgramCoverage
from detour.p4.build import Build, write
from detour.testgen import effort
from detour.testgen.generate import Plan, generate, load
from detour.testgen.switch import TestSwitch

COMMAND = "p4testgen"
_OPTIONS = [
    "--target", "bmv2", "--arch", "v1model", "--test-backend", "STF", "--seed", "1", "--max-tests", "0",
    "--track-coverage", "STATEMENTS", "--stop-metric", "MAX_NODE_COVERAGE", "--only-covering-tests",
    "--path-selection", "GREEDY_STATEMENT_SEARCH",
]  # fmt: skip
_GRACE = 20
"""seconds of CPU that we may take beyond the limit, before it counts as a failure"""


def drawn(folders: Sequence[Path], count: int, seed: int) -> Iterator[Path]:
    """Programs with a v1model switch, as many from each folder where there are enough."""
    waiting = []
    for folder in folders:
        if folder.is_file():
            yield folder
            continue
        files = [each for each in sorted(folder.rglob("*.p4")) if each.is_file()]
        found = [each for each in files if b"V1Switch(" in each.read_bytes().replace(b" ", b"")]
        random.Random(seed).shuffle(found)
        waiting.append(found)
    while any(waiting) and count > 0:
        for found in waiting:
            if found and count > 0:
                count -= 1
                yield found.pop()


def _counted(points: Iterable[Point]) -> Iterator[Point]:
    """The statements that both count. P4Testgen runs the deparser, and computes checksums, of dropped packets too."""
    for point in points:
        if point.kind == STATEMENT and not point.name.startswith("deparser ") and "_checksum " not in point.name:
            yield point


def _statements(points: Iterable[Point]) -> dict[str, int]:
    counted = list(_counted(points))
    return {"covered": sum(point.hits > 0 for point in counted), "reachable": len(counted)}


def use_cpu_time() -> None:
    """From now on the seconds of generating tests are those of this process on the CPU."""
    effort.time = SimpleNamespace(monotonic=time.process_time)  # type: ignore[assignment]


def ours(source: Path, seconds: float) -> dict[str, Any]:
    """What `detour test` makes of a program, in this process. Time is that of the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        built = Build(Path(folder, "it.json"), Path(folder, "it.p4info.txtpb"))
        write(source, built)
        use_cpu_time()
        plan = Plan("statements", seconds=seconds - time.process_time(), p4info=built.p4info)
        made = generate(built.json, plan)
    total = _statements(made.coverage.points.values())
    proven = len(list(_counted(each.point for each in made.unreachable)))
    unknown = sorted({each.reason for each in made.unknown if list(_counted([each.point]))})
    return {"tests": len(made.tests), **total, "proven": proven, "unknown": unknown}


def run(command: Sequence[str], limit: float, out: Path) -> tuple[int, float]:
    """Runs a command for so many CPU seconds at most. Returns its exit code and what it took."""
    with out.open("w") as file:
        seconds = int(limit)
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1)),
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def reached(program: Path, tests: Sequence[Path]) -> tuple[int, int]:
    """How many statements tests reach, and how many tests the engine refuses to play."""
    loaded, refused = load(program, Plan()), 0
    with TestSwitch(loaded) as switch:
        for test in tests:
            try:
                switch.play(test.read_text())
            except DetourError:
                refused += 1
    points = (Point.of(s, int(n)) for s, n in zip(loaded.coverage_sites, loaded.coverage, strict=False))
    return _statements(ProgramCoverage.of("it", "", points).points.values())["covered"], refused


def compared(source: Path, limit: float, folder: Path) -> dict[str, Any] | None:
    """Both on one program; None: our compiler refuses it."""
    built, log, tests = Build(folder / "it.json", folder / "it.p4info.txtpb"), folder / "log", folder / "tests"
    try:
        write(source, built)
    except DetourError:
        return None
    me = [sys.executable, "-m", __spec__.name, "--one", str(source), "--seconds", str(limit)]
    code, seconds = run(me, limit + _GRACE, log)
    lines = log.read_text().splitlines()
    mine = {"seconds": round(seconds, 2)} | (json.loads(lines[-1]) if code == 0 else {"failed": lines[-1:]})
    code, seconds = run([COMMAND, *_OPTIONS, "--out-dir", str(tests), str(source)], limit, log)
    made = sorted(tests.glob("*.stf"))
    covered, refused = reached(built.json, made)
    lines = log.read_text().splitlines()
    errors = [line for line in lines if "error" in line or "Unimplemented" in line]
    own = [line.split("Nodes covered: ")[1].rstrip(" =") for line in lines if "Nodes covered: " in line]
    partly = [line for line in errors if "Unimplemented" in line]
    failed = {"failed": errors[:1]} if code > 0 and not made else {"not implemented": partly[:1]} if partly else {}
    numbers = {"seconds": round(seconds, 2), "exit": code, "tests": len(made), "covered": covered}
    theirs = numbers | {"not_played": refused} | failed
    theirs["own count"] = own[-1] if own else ""
    return {"program": "/".join(source.parts[-3:]), "detour": mine, "p4testgen": theirs}


def summary(results: Sequence[dict[str, Any]]) -> str:
    """The figures of all programs."""
    ran = [each for each in results if "failed" not in each["detour"]]
    share = [(r["detour"]["covered"] + r["detour"]["proven"]) / max(r["detour"]["reachable"], 1) for r in ran]
    both = [(r["detour"], r["p4testgen"]) for r in ran if "failed" not in r["p4testgen"]]
    refused = [s for r, s in zip(ran, share, strict=True) if "failed" in r["p4testgen"]]
    least = sum(a["covered"] >= b["covered"] for a, b in both)
    ratio = statistics.median(a["seconds"] / b["seconds"] for a, b in both) if both else 0
    return (
        f"{len(results)} programs, {len(results) - len(ran)} of them not in time: {100 * statistics.mean(share):.1f} % "
        f"of statements reached or proven unreachable; at least what P4Testgen reaches in {least} of the {len(both)} "
        f"that it takes, in {ratio:.2f} of its time in the median; 90 % or more in {sum(s >= 0.9 for s in refused)} of "
        f"the {len(refused)} that it refuses"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(ours(options.one, options.seconds)))
        return 0
    if shutil.which(COMMAND) is None:
        print(f"{COMMAND} is not on PATH", file=sys.stderr)
        return 2
    results = json.loads(options.out.read_text()) if options.out is not None and options.out.exists() else []
    for source in drawn(options.folders, options.count, options.seed):
        with tempfile.TemporaryDirectory() as folder:
            result = compared(source, options.seconds, Path(folder))
        if result is None:
            continue
        results.append(result)
        print(json.dumps(result), flush=True)
        if options.out is not None:
            options.out.write_text("[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")
    print(summary(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
