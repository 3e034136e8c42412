# SPDX-License-Identifier: Apache-2.0
"""A run in tables for people: all flows, and flows by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from detour.base.tables import Table, fixed, left, right
from detour.experiments.columns import table
from detour.experiments.sim.results import SimPercentiles, SimResult, SimStep, SizeBin


@dataclass(frozen=True)
class SimRow:
    """A line of `sim_tables`' first table."""

    what: str
    values: SimPercentiles
    digits: int


def _percentile_columns(digits: int, of: str = "values") -> list[Any]:
    names = ("mean", "p50", "p95", "p99", "p999")
    heads = ("mean", "p50", "p95", "p99", "p99.9")
    return [
        right(head, lambda row, name=name: fixed(getattr(getattr(row, of), name), digits))
        for head, name in zip(heads, names, strict=True)
    ]


def size_text(count: int) -> str:
    """`64k`, `1M`."""
    for factor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:g}{unit}"
    return str(count)


def bin_text(one: SizeBin) -> str:
    """`10k to 100k`."""
    if one.up_to_bytes is None:
        return f"above {size_text(one.above_bytes)}"
    return f"{size_text(one.above_bytes)} to {size_text(one.up_to_bytes)}"


def sim_tables(result: SimResult, bins: Sequence[SizeBin], steps: int | None = None) -> list[Table[Any]]:
    """Completion times, slowdowns, slowdowns by size (where sizes differ), the first so many steps."""
    rows = [SimRow("completion time, us", result.fct_us, 1), SimRow("slowdown", result.slowdown, 3)]
    main = Table((left("of flows", lambda row: row.what), *_percentile_columns(2)), rows)
    sizes = (left("bytes", bin_text), right("flows", lambda row: row.flows), *_percentile_columns(2, "slowdown"))
    shown = [main]
    if len(bins) > 1:
        shown.append(Table(sizes, bins, "slowdown by size"))
    if result.steps:
        shown.append(_steps(result.steps[:steps], len(result.steps)))
    return shown


def _steps(steps: Sequence[SimStep], count: int) -> Table[SimStep]:
    return table(SimStep, steps, "steps" if len(steps) == count else f"the first {len(steps)} of {count} steps")
