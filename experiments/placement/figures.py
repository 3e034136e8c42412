# SPDX-License-Identifier: Apache-2.0
"""The figure of the path placement paper: throughput over time."""

from __future__ import annotations

from pathlib import Path

from detour.experiments import drawing
from detour.experiments.placement.tables import PathFindings

_REROUTING = {
    "uncongested": (drawing.GRAY, ":", "link not throttled"),
    "none": (drawing.BLUE, "-", "congestion control only"),
    "controller": (drawing.ORANGE, "-", "controller reroutes"),
    "nic": (drawing.GREEN, "--", "NIC reroutes"),
}


def draw(found: PathFindings, file: Path) -> None:
    """Throughput at the receiver over time, as Fig. 3 of the path placement paper; a vertical line where the link was
    throttled."""
    runs = found.runs
    drawing.need(runs)
    plt, figure, axes = drawing.row(1, 6.5)
    axis = axes[0]
    longest = max(run.series.seconds[-1] for run in runs)
    scale, unit = (1e3, "ms") if longest < 1 else (1, "s")
    large = max(max(run.series.mbps) for run in runs) >= 1000
    for run in runs:
        colour, line, label = _REROUTING[run.mode]
        times = [scale * when for when in run.series.seconds]
        rates = [rate / 1e3 if large else rate for rate in run.series.mbps]
        axis.plot(times, rates, line, color=colour, linewidth=1.5, label=label)
    onset = next((run.onset_s for run in runs if run.onset_s is not None), None)
    if onset is not None:
        axis.axvline(scale * onset, color=drawing.BLACK, linewidth=1, linestyle="--", label="throttled from here on")
    axis.set(xlabel=unit, ylabel=f"payload that arrives, {'Gb/s' if large else 'Mb/s'}", ylim=(0, None))
    drawing.legend(figure, axes, 3)
    drawing.save(plt, figure, file)
