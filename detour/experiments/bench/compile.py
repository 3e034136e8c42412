# SPDX-License-Identifier: Apache-2.0
"""`detour bench compile`: time from the start of a process to BMv2 JSON and P4Info, beside p4c's."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.places import P4SRC
from detour.base.progress import Progress, silent
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.bench.start import cost_of
from detour.experiments.columns import row, shown
from detour.p4.build import p4c_of
from detour.p4.messages import Messages
from detour.p4.preprocess import Preprocessor

PROGRAMS = ("ipv4", "queues", "sai", "fabric", "adaptive")
_GOALS = {"fabric": 1.5, "ipv4": 0.6}
"""seconds on an idle machine"""
_MIB = 150


@row
class CompileCost:
    """The cost of compiling a program: lines with all that it includes, s, s of p4c (None where it is not on PATH), and
    the largest resident memory, MiB."""

    name: str = shown("program")
    lines: int = shown("lines", "d")
    seconds: float = shown("s", ".2f")
    p4c_seconds: float | None = shown("p4c, s", ".2f")
    mib: float = shown("MiB", ".0f")


def run(programs: Sequence[str] = (), times: int = 3, progress: Progress = silent) -> BenchReport:
    """Each program as often as said, of which the one with the median time counts. `programs`: files, instead of
    `PROGRAMS`."""
    sources = [Path(each) for each in programs] or [P4SRC / f"{name}.p4" for name in PROGRAMS]
    rows = []
    for source in sources:
        if not source.is_file():
            raise DetourError(f"{source}: there is no such file")
        progress(source.name)
        rows.append(_cost(source, times))
    goals = [Goal(f"{one.name}: s", one.seconds, _GOALS[one.name], most=True) for one in rows if one.name in _GOALS]
    goals.append(Goal("MiB", max(one.mib for one in rows), _MIB, most=True))
    return report_of_rows("compile", CompileCost, rows, {"programs": [asdict(one) for one in rows]}, goals)


def _cost(source: Path, times: int) -> CompileCost:
    with tempfile.TemporaryDirectory() as folder:
        json, p4info = f"{folder}/a.json", f"{folder}/a.p4info.txtpb"
        command = (sys.executable, "-m", "detour", "compile", str(source), "-o", json, "--p4info", p4info)
        ours = [cost_of(*command) for _ in range(times)]
        p4c = p4c_of(source)
        theirs = (
            [cost_of(p4c, "-o", json, "--p4runtime-files", p4info, str(source))[0] for _ in range(times)]
            if shutil.which(p4c)
            else None
        )
    seconds, _, mib = sorted(ours)[times // 2]
    return CompileCost(
        name=source.stem,
        lines=_lines(source),
        seconds=round(seconds, 3),
        p4c_seconds=None if theirs is None else round(sorted(theirs)[times // 2], 3),
        mib=round(mib, 1),
    )


def _lines(source: Path) -> int:
    """Count the lines of the program and of all that it includes."""
    reader = Preprocessor(Messages())
    reader.run(source)
    return sum(content.count(b"\n") for content in reader.files.values())
