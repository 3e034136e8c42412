# SPDX-License-Identifier: Apache-2.0
"""A benchmark's report: numbers for JSON, tables for people, and the goals that it was measured against."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple, TypeAlias, TypeVar

from detour.base.files import write_file
from detour.base.tables import Column, Table, left, markdown, right
from detour.experiments.columns import table
from detour.experiments.prose import prose

T = TypeVar("T")

Numbers: TypeAlias = "str | float | Sequence[Numbers] | Mapping[str, Numbers] | None"
"""a number, or several by name or in order"""


@dataclass(frozen=True)
class Goal:
    """A measured value and what it was to be. `value` None: not measured here."""

    text: str
    value: float | None
    target: float
    most: bool = False
    """the value is to be at most the target, else at least"""

    @property
    def met(self) -> bool | None:
        """Return whether it was reached; None: not measured."""
        if self.value is None:
            return None
        return self.value <= self.target if self.most else self.value >= self.target

    @property
    def measured(self) -> str:
        return "not measured" if self.value is None else f"{self.value:,.4g}"

    def __str__(self) -> str:
        return f"{self.text} {'at most' if self.most else 'at least'} {self.target:,g}"


@dataclass(frozen=True)
class BenchReport:
    """Result of one benchmark."""

    name: str
    numbers: Mapping[str, Numbers]
    """what --json prints"""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    goals: tuple[Goal, ...] = ()
    notes: tuple[str, ...] = field(default=())
    tables: tuple[Table[Any], ...] = ()
    """what is shown besides"""

    def table(self) -> Table[tuple[str, ...]]:
        """Return the table of measurements."""
        columns = [Column[tuple[str, ...]](name, itemgetter(at), right=at > 0) for at, name in enumerate(self.columns)]
        return Table(columns, self.rows, f"bench {self.name}")

    def goals_table(self, missed: str = "missed") -> Table[Goal]:
        """Return the table of goals. `missed`: the word for a goal that was not reached."""
        words = {True: "met", False: missed, None: ""}
        columns = (left("goal", str), right("measured", lambda goal: goal.measured), left(" ", lambda g: words[g.met]))
        return Table(columns, self.goals)


class Fact(NamedTuple):
    """A number, said once: its key in the JSON and what it is called in the table, either of them empty where it is not
    there; `form` of the latter."""

    key: str
    what: str
    value: Any
    form: str = ""


def report_of_facts(name: str, heads: tuple[str, str], facts: Sequence[Fact], goals: Sequence[Goal]) -> BenchReport:
    """A line for each."""
    numbers = {fact.key: fact.value for fact in facts if fact.key}
    rows = tuple((fact.what, format(fact.value, fact.form)) for fact in facts if fact.what)
    return BenchReport(name, numbers, heads, rows, tuple(goals))


def report_of_rows(
    name: str, kind: type[T], rows: Sequence[T], numbers: Mapping[str, Numbers], goals: Sequence[Goal],
    notes: Sequence[str] = (),
) -> BenchReport:  # fmt: skip
    """Rows that say themselves how they are shown (`experiments.columns`)."""
    shown = table(kind, rows)
    cells = tuple(map(tuple, shown.cells(True)))
    return BenchReport(name, numbers, tuple(one.name for one in shown.columns), cells, tuple(goals), tuple(notes))


def machine() -> str:
    """Processor, cores, kernel and versions, on one line."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = f"{models[0]}, {len(models)} CPUs" if models else cpu
    tools = ", ".join(f"{name} {version(name)}" for name in ("numba", "llvmlite") if find_spec(name))
    return f"{cpu}; {platform.system()} {platform.release()}; Python {platform.python_version()}, {tools}"


def rate(value: float | None) -> str:
    """Packets a second for a table."""
    return "-" if value is None else f"{value:,.0f}"


def ratio(value: float | None, base: float | None) -> float | None:
    """`value / base`, None if one of them was not measured."""
    return None if value is None or not base else value / base


_TEXTS = prose(__file__)


def write(file: Path, reports: Iterable[BenchReport], seconds: float) -> None:
    """Write every benchmark's own output as one page (Markdown), which names machine and date."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    measured = fill(f"Measured on {today} in {seconds / 60:.0f} minutes on: {machine()}.", 120)
    parts = [_TEXTS["head"], f"{measured}\n"]
    parts += [_section(report) for report in reports]
    write_file(file, "\n".join(parts))


def _section(report: BenchReport) -> str:
    parts = [f"## bench {report.name}"]
    if report.name in _TEXTS:
        parts.append(fill(" ".join(_TEXTS[report.name].split()), 120))
    if not {row[0] for row in report.rows} <= {goal.text for goal in report.goals}:  # which have the same figures
        parts.append(markdown(report.table()))
    if report.goals:
        parts.append(markdown(report.goals_table("**missed**")))
    parts += [fill(note, 120) for note in report.notes]
    return "\n\n".join(parts) + "\n"
