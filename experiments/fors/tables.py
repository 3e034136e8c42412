# SPDX-License-Identifier: Apache-2.0
"""The FORS paper's figures, and the same as tables: throughput by scenario, a link that breaks, times of
computing, phases."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour.base.tables import Column, Table, fixed, left, right
from detour.experiments import drawing
from detour.experiments.columns import columns, table
from detour.experiments.fors.results import ForsBreak, ForsFindings, ForsPhases, ForsRow, ForsTimes


def tables(findings: ForsFindings) -> list[Table[Any]]:
    """All, in the order in which they are read."""
    phases = [_ForPhases(of, f) for of in findings.phases for f in (1, len(of.phases) // 4, len(of.phases) // 2)]
    mean = findings.paper_seconds["mean"]
    return [
        table(ForsRow, findings.throughput, f"{findings.topology}: throughput a server, Gb/s"),
        Table(_BREAKS, findings.breaks, "a link breaks in the midst of an exchange, us"),
        Table(
            (*columns(ForsTimes), *map(_took, ("schedule", "route", "verify"))),
            findings.times,
            f"computing, ms (paper: {mean} s on average where its ILP is needed)",
        ),
        Table(_PHASES, phases, "phases with f failed links at a leaf (Fig. 7)"),
    ]


def _took(what: str) -> Column[ForsTimes]:
    return right(what, lambda row: f"{getattr(row.seconds, what) * 1e3:.1f}")


def _before(run: ForsBreak) -> str | None:
    """Mean length of the phases before the one in which the link breaks."""
    lengths, whole, end = run.phase_lengths_us, 0, 0.0
    while whole < len(lengths) and end + lengths[whole] <= run.broke_us:
        end += lengths[whole]
        whole += 1
    return _mean(lengths[:whole])


def _after(run: ForsBreak) -> str | None:
    """Mean length of the phases behind the first one of the new plan, which hands it out."""
    first = run.detections[0].in_force_from_phase
    return None if first is None else _mean(run.phase_lengths_us[first + 1 :])


def _mean(lengths: list[float]) -> str | None:
    return fixed(statistics.fmean(lengths), 1) if lengths else None


_BREAKS: tuple[Column[ForsBreak], ...] = (
    left("routing", lambda run: run.routing),
    right("broke", lambda run: fixed(run.broke_us, 0)),
    right("noticed", lambda run: fixed(run.detections[0].detected_us, 0)),
    right("told", lambda run: fixed(run.detections[0].hosts_told_us, 0), wide=True),
    right("in force", lambda run: fixed(run.detections[0].in_force_us, 0), means="the new plan"),
    right("phase before", _before),
    right("after", _after),
    right("delivered", lambda run: f"{run.exchange.delivered} of {run.exchange.messages}", means="whole and once"),
    right("twice", lambda run: run.exchange.repeated, wide=True),
)


@dataclass(frozen=True)
class _ForPhases:
    """Phases of a fabric with `f` failed links at a leaf."""

    of: ForsPhases
    f: int


_PHASES: tuple[Column[_ForPhases], ...] = (
    left("fabric", lambda row: row.of.topology),
    right("f", lambda row: row.f),
    right("phases", lambda row: row.of.phases[row.f]),
    right("paper's formula", lambda row: row.of.paper_phases[row.f]),
    right("factor", lambda row: fixed(row.of.factor[row.f], 3), means="of the phases without failures"),
    right("paper's", lambda row: fixed(row.of.paper_factor[row.f], 3)),
)


_BARS: tuple[tuple[str, str, Callable[[ForsRow], tuple[str | None, float | None, float | None]]], ...] = (
    ("FORS", drawing.BLUE, lambda row: ("fors", row.fors_gbps, row.fors_paper)),
    ("Ftree or Min-Hop", drawing.ORANGE, lambda row: (row.default, row.default_gbps, row.default_paper)),
    ("Ftree-AR", drawing.GREEN, lambda row: ("ftree-ar", row.ftree_ar_gbps, None)),
)
"""label, colour, (routing, its Gb/s, the paper's) of a scenario"""


def draw(findings: ForsFindings, file: Path) -> None:
    """FORS: throughput a server in every scenario (Figs. 3 and 6), factors of phases (Fig. 7), and how long phases take
    when a link breaks."""
    rows = findings.throughput
    drawing.need(rows)
    plt, figure, axes = drawing.row(3 if findings.breaks else 2, 6.0)
    _fors_throughput(axes[0], rows)
    if findings.breaks:
        _fors_break(axes[2], findings.breaks)
    for k, entry in enumerate(findings.phases):
        most = max(entry.reduction)
        axes[1].plot(entry.reduction, entry.factor, ".-", color=f"C{k}", label=entry.topology)
        axes[1].plot(entry.reduction, entry.paper_factor, "x", color=f"C{k}", markersize=4)
        axes[1].axvline((most + 1) / 2, color=f"C{k}", linewidth=0.6)
    axes[1].plot([], [], "kx", markersize=4, label="paper's formula")
    axes[1].set(xlabel="failed links of a leaf at most", ylabel="phases, relative to no failure", ylim=(0.9, 6))
    axes[1].set_title("phases; lines: half of the links")
    drawing.legend_below(axes)
    drawing.save(plt, figure, file)


def _fors_break(axis: Any, runs: Sequence[ForsBreak]) -> None:
    for run in runs:
        lengths = run.phase_lengths_us
        begins = [sum(lengths[:k]) for k in range(len(lengths))]
        label, colour = {"fors": ("FORS", drawing.BLUE), "minhop": ("Min-Hop", drawing.ORANGE)}[run.routing]
        axis.step(begins, lengths, where="post", color=colour, label=label)
        for when, dashes in ((run.broke_us, ":"), (run.detections[0].in_force_us, "--")):
            if when is not None:
                axis.axvline(when, color=colour, linestyle=dashes, linewidth=0.8)
    axis.set(xlabel="us", ylabel="length of a phase, us", ylim=(0, None))
    axis.set_title("a link breaks (dotted); a new plan (dashed)")
    axis.set_ylim(0, 1.05 * max(max(run.phase_lengths_us) for run in runs))


def _fors_throughput(axis: Any, rows: Sequence[ForsRow]) -> None:
    width = 0.27
    for k, (label, colour, bar) in enumerate(_BARS):
        at, heights, below, above = [], [], [], []
        for x, row in enumerate(rows):
            routing, gbps, paper = bar(row)
            if routing is None or gbps is None:
                continue
            least, _, most = row.ranges_gbps[routing]
            at.append(x + (k - 1) * width)
            heights.append(gbps)
            below.append(max(gbps - least, 0))
            above.append(max(most - gbps, 0))
            if paper:
                axis.plot(at[-1], paper, "kD", markersize=4)
        if not at:
            continue
        axis.bar(at, heights, width, yerr=[below, above], color=colour, label=label, error_kw={"linewidth": 0.7})
    axis.plot([], [], "kD", markersize=4, label="paper (text)")
    axis.set_xticks(range(len(rows)), [row.scenario for row in rows], rotation=30, ha="right")
    axis.set(ylabel="throughput a server, Gb/s", title="throughput; whiskers: slowest and fastest phase")
    axis.grid(visible=False, axis="x")
    axis.set_ylim(0, 1.05 * max(max(most for _, _, most in row.ranges_gbps.values()) for row in rows))
