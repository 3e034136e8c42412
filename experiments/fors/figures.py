# SPDX-License-Identifier: Apache-2.0
"""The figures of the FORS paper: throughput under failures, phases, and a link that breaks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.experiments import drawing

_FORS = (
    ("fors_gbps", "FORS", "tab:blue"),
    ("default_gbps", "Ftree or Min-Hop", "tab:orange"),
    ("ftree_ar_gbps", "Ftree-AR", "tab:green"),
)


def fors(result: dict[str, Any], file: Path) -> None:
    """FORS: throughput a server in every scenario (Figs. 3 and 6), factors of phases (Fig. 7), and how long phases take
    when a link breaks."""
    rows = result["throughput"]
    if not rows:
        raise DetourError("there is no finished point to draw")
    plt, figure, axes = drawing.row(3, 6.0)
    _fors_throughput(axes[0], rows)
    _fors_break(axes[2], result["breaks"])
    for k, entry in enumerate(result["phases"]):
        most = max(entry["reduction"])
        axes[1].plot(entry["reduction"], entry["factor"], ".-", color=f"C{k}", label=entry["topology"])
        axes[1].plot(entry["reduction"], entry["paper_factor"], "x", color=f"C{k}", markersize=4)
        axes[1].axvline((most + 1) / 2, color=f"C{k}", linewidth=0.6)
    axes[1].plot([], [], "kx", markersize=4, label="paper's formula")
    axes[1].set(xlabel="failed links of a leaf at most", ylabel="phases, relative to no failure", ylim=(0.9, 6))
    axes[1].set_title("phases; lines: half of the links")
    axes[1].grid(alpha=0.3)
    axes[1].legend(fontsize="x-small")
    drawing.save(plt, figure, file)


def _fors_break(axis: Any, runs: Sequence[dict[str, Any]]) -> None:
    for run in runs:
        lengths = run["phase_lengths_us"]
        begins = [sum(lengths[:k]) for k in range(len(lengths))]
        label, colour = {"fors": ("FORS", "tab:blue"), "minhop": ("Min-Hop", "tab:orange")}[run["routing"]]
        axis.step(begins, lengths, where="post", color=colour, label=label)
        story = run["detections"][0]
        marks = (("broke_us", run["broke_us"], ":"), ("in_force_us", story["in_force_us"], "--"))
        for _, when, line in [mark for mark in marks if mark[1] is not None]:
            axis.axvline(when, color=colour, linestyle=line, linewidth=0.8)
    axis.set(xlabel="us", ylabel="length of a phase, us", ylim=(0, None))
    axis.set_title("one link breaks (dotted), the new plan is in force (dashed)", fontsize="small")
    axis.grid(alpha=0.3)
    if runs:
        axis.legend(fontsize="x-small")


def _fors_throughput(axis: Any, rows: Sequence[dict[str, Any]]) -> None:
    width = 0.27
    names = {"fors_gbps": "fors", "ftree_ar_gbps": "ftree-ar"}
    for k, (key, label, colour) in enumerate(_FORS):
        shown = [(x + (k - 1) * width, row) for x, row in enumerate(rows) if row[key] is not None]
        heights = [row[key] for _, row in shown]
        ranges = [row["ranges_gbps"][names.get(key) or row["default"]] for _, row in shown]
        spread = [[max(h - r[0], 0) for h, r in zip(heights, ranges, strict=True)],
                  [max(r[2] - h, 0) for h, r in zip(heights, ranges, strict=True)]]  # fmt: skip
        axis.bar(
            [x for x, _ in shown], heights, width, yerr=spread, color=colour, label=label, error_kw={"linewidth": 0.7}
        )
        paper = [(x, row[key.replace("gbps", "paper")]) for x, row in shown if row.get(key.replace("gbps", "paper"))]
        axis.plot([x for x, _ in paper], [y for _, y in paper], "kD", markersize=4)
    axis.plot([], [], "kD", markersize=4, label="paper (text)")
    axis.set_xticks(range(len(rows)), [row["scenario"] for row in rows], rotation=30, fontsize="x-small", ha="right")
    axis.set(ylabel="throughput a server, Gb/s", ylim=(0, 185), title="throughput; bars: slowest and fastest phase")
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize="x-small", ncols=2)
