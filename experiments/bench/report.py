# SPDX-License-Identifier: Apache-2.0
"""What a benchmark hands back: numbers for JSON, tables for people, and the goals it was measured against."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table


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
        """Whether it was reached; None: not measured."""
        if self.value is None:
            return None
        return self.value <= self.target if self.most else self.value >= self.target


@dataclass(frozen=True)
class BenchReport:
    """Result of one benchmark."""

    name: str
    numbers: dict[str, Any]
    """what --json prints"""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    goals: tuple[Goal, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def tables(self) -> list[Table]:
        """Tables for a terminal."""
        table = Table(title=f"bench {self.name}", title_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return [table, self._goals()] if self.goals else [table]

    def _goals(self) -> Table:
        table = Table("goal", "measured", "", title_justify="left")
        words = {True: "met", False: "missed", None: "not measured"}
        for goal in self.goals:
            sign = "at most" if goal.most else "at least"
            value = "-" if goal.value is None else f"{goal.value:,.4g}"
            table.add_row(f"{goal.text} {sign} {goal.target:,g}", value, words[goal.met])
        return table


def machine() -> str:
    """Processor, cores, kernel and versions, on one line."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = f"{models[0]}, {len(models)} CPUs" if models else cpu
    tools = ", ".join(f"{name} {version(name)}" for name in ("numba", "llvmlite"))
    return f"{cpu}; {platform.system()} {platform.release()}; Python {platform.python_version()}, {tools}"


def rate(value: float | None) -> str:
    """Packets a second for a table."""
    return "-" if value is None else f"{value:,.0f}"


def ratio(value: float | None, base: float | None) -> float | None:
    """`value / base`, None if one of them was not measured."""
    return None if value is None or not base else value / base
