# SPDX-License-Identifier: Apache-2.0
"""The figures of the FORS paper: throughput under failures, phases, and a link that breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from detour.experiments import drawing
from detour.experiments.fors.results import ForsBreak, ForsFindings, ForsRow

_BARS: tuple[tuple[str, str, Callable[[ForsRow], tuple[str | None, float | None, float | None]]], ...] = (
    ("FORS", drawing.BLUE, lambda row: ("fors", row.fors_gbps, row.fors_paper)),
    ("Ftree or Min-Hop", drawing.ORANGE, lambda row: (row.default, row.default_gbps, row.default_paper)),
    ("Ftree-AR", drawing.GREEN, lambda row: ("ftree-ar", row.ftree_ar_gbps, None)),
)
"""label, colour, (routing, its Gb/s, the paper's) of a scenario"""


def draw(found: ForsFindings, file: Path) -> None:
    """FORS: throughput a server in every scenario (Figs. 3 and 6), factors of phases (Fig. 7), and how long phases take
    when a link breaks."""
    rows = found.throughput
    drawing.need(rows)
    plt, figure, axes = drawing.row(3 if found.breaks else 2, 6.0)
    _fors_throughput(axes[0], rows)
    if found.breaks:
        _fors_break(axes[2], found.breaks)
    for k, entry in enumerate(found.phases):
        most = max(entry.reduction)
        axes[1].plot(entry.reduction, entry.factor, ".-", color=f"C{k}", label=entry.topology)
        axes[1].plot(entry.reduction, entry.paper_factor, "x", color=f"C{k}", markersize=4)
        axes[1].axvline((most + 1) / 2, color=f"C{k}", linewidth=0.6)
    axes[1].plot([], [], "kx", markersize=4, label="paper's formula")
    axes[1].set(xlabel="failed links of a leaf at most", ylabel="phases, relative to no failure", ylim=(0.9, 6))
    axes[1].set_title("phases; lines: half of the links")
    axes[1].legend()
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
    axis.set_ylim(0, 1.3 * max(max(run.phase_lengths_us) for run in runs))
    axis.legend(loc="upper left", ncols=2)


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
    axis.set_ylim(0, 1.4 * max(max(most for _, _, most in row.ranges_gbps.values()) for row in rows))
    axis.legend(ncols=2, loc="upper center")
