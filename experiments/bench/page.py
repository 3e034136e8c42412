# SPDX-License-Identifier: Apache-2.0
"""`detour bench all --write FILE`: every benchmark's own output as one page, with the machine and the date named."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from detour.base.files import write_file
from detour.base.tables import markdown
from detour.experiments.bench.report import BenchReport, machine
from detour.experiments.prose import prose

_TEXTS = prose(__file__)


def page(reports: Iterable[BenchReport], seconds: float) -> str:
    """The page in Markdown."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parts = [_TEXTS["head"], f"Measured on {today} in {seconds / 60:.0f} minutes on: {machine()}.\n"]
    parts += [_section(report) for report in reports]
    return "\n".join(parts)


def _section(report: BenchReport) -> str:
    lines = [f"## bench {report.name}", "", " ".join(_TEXTS.get(report.name, "").split()), ""]
    lines.append(markdown(report.table()))
    if report.goals:
        lines += ["", markdown(report.goals_table("**missed**"))]
    for note in report.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Writes the page."""
    write_file(path, text)
