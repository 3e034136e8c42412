# SPDX-License-Identifier: Apache-2.0
"""The figures: throughput over the number of connections, Table I as curves, throughput over time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.experiments import drawing
from detour.experiments.nonshortest.experiment import NonshortestRun, SteadyNonshortestRun
from detour.experiments.nonshortest.paper import TABLE_1
from detour.experiments.nonshortest.pfc_gain import PfcGain
from detour.experiments.nonshortest.workloads import HOLD_OUTS, PATTERNS

_STYLES = {
    "TelemetryLERP": ("tab:blue", "x", "-"),
    "TelemetryGBN": ("tab:red", "", "-"),
    "Benchmark": ("tab:green", "s", "--"),
    "ShortestPath": ("tab:gray", "^", ":"),
    "Benchmark-DCTCP": ("tab:olive", "d", "--"),
    "TelemetryGBN-DCTCP": ("tab:orange", "+", "-"),
    "TelemetryLERP-literal": ("tab:purple", "P", "-"),
}
_PATTERNS = (*PATTERNS, *HOLD_OUTS)


def _connections(axis: Any) -> None:
    """A logarithmic axis of connections with plain numbers."""
    from matplotlib.ticker import NullLocator, ScalarFormatter

    axis.set_xscale("log", base=2)
    axis.set_xlabel("connections")
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.tick_params(axis="x", labelsize="x-small", rotation=45)


def throughput(points: Sequence[NonshortestRun], file: Path) -> None:
    """Wire rate over the number of connections, one picture a pattern, as in Figs. 5 to 7. Whiskers: draws; a ring: not
    all of its runs were steady."""
    patterns = [name for name in _PATTERNS if any(p.pattern == name for p in points)]
    if not patterns:
        raise DetourError("there is no finished point to draw")
    plt, figure, axes = drawing.row(len(patterns))
    for axis, pattern in zip(axes, patterns, strict=True):
        mine = [p for p in points if p.pattern == pattern]
        for name, (colour, marker, line) in _STYLES.items():
            runs = _by_pairs([p for p in mine if p.scheme == name], lambda run: run.wire_gbps)
            if runs:
                x, y = list(runs), [statistics.fmean(values) for values in runs.values()]
                spread = [[m - min(v) for m, v in zip(y, runs.values(), strict=True)],
                          [max(v) - m for m, v in zip(y, runs.values(), strict=True)]]  # fmt: skip
                axis.errorbar(x, y, spread, color=colour, marker=marker, linestyle=line, label=name, capsize=2)
        rings = _transients(mine)
        if rings:
            label = "not steady"
            axis.plot(*zip(*rings, strict=True), "o", color="black", fillstyle="none", markersize=9, label=label)
        most = _by_pairs([p for p in mine if p.scheme != "ShortestPath"], lambda run: run.ceiling_gbps)
        if most:
            means = [statistics.fmean(values) for values in most.values()]
            axis.plot(list(most), means, color="black", linewidth=0.7, label="ceiling of these pairs")
        _connections(axis)
        axis.set(title=f"{mine[0].topology}, {pattern.upper()}", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("wire rate, Gb/s")
    axes[-1].legend(fontsize="x-small")
    drawing.save(plt, figure, file)


def _transients(runs: Sequence[NonshortestRun]) -> list[tuple[int, float]]:
    """(connections, mean wire rate) of a scheme's runs of which not all were steady."""
    found: dict[tuple[str, int], list[NonshortestRun]] = {}
    for run in runs:
        if isinstance(run, SteadyNonshortestRun):
            found.setdefault((run.scheme, run.pairs), []).append(run)
    return [
        (pairs, statistics.fmean(run.wire_gbps for run in some))
        for (_, pairs), some in found.items()
        if not all(run.steady for run in some)
    ]


def _by_pairs(runs: Sequence[NonshortestRun], of: Callable[[NonshortestRun], float]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for run in sorted(runs, key=lambda run: run.pairs):
        found.setdefault(run.pairs, []).append(of(run))
    return found


def pfc_gain(points: Sequence[PfcGain], file: Path) -> None:
    """Table I: goodput over the number of connections, ours, the max-min bound and the paper's."""
    if not points:
        raise DetourError("there is no finished point to draw")
    plt, figure, axes = drawing.row(1, 6.0)
    axis, x = axes[0], [p.connections for p in points]
    axis.plot(x, [p.lerp_gbps / 1e3 for p in points], "x-", color="tab:blue", label="LERP, no PFC")
    axis.plot(x, [p.pfc_gbps / 1e3 for p in points], "s--", color="tab:green", label="RoCEv2 with PFC")
    axis.plot(x, [p.bound_gbps / 1e3 for p in points], color="black", linewidth=0.7, label="max-min bound")
    paper = [row for row in TABLE_1 if min(x) <= row.connections <= max(x)]
    x = [row.connections for row in paper]
    axis.plot(x, [r.without_pfc_gbps / 1e3 for r in paper], ".", color="tab:blue", label="paper, without PFC")
    axis.plot(x, [r.with_pfc_gbps / 1e3 for r in paper], ".", color="tab:green", label="paper, with PFC")
    _connections(axis)
    axis.set(ylabel="goodput, Tb/s", ylim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend(fontsize="x-small")
    drawing.save(plt, figure, file)


def over_time(points: Sequence[NonshortestRun], file: Path) -> None:
    """Wire rate over time, one picture for each topology and pattern, a line for each scheme."""
    keys = list(dict.fromkeys(point.traffic for point in points))
    if not keys:
        raise DetourError("there is no finished point to draw")
    plt, figure, axes = drawing.row(len(keys))
    for axis, key in zip(axes, keys, strict=True):
        for run in points:
            if run.traffic == key and isinstance(run, SteadyNonshortestRun):
                times = [run.series.interval_us * (k + 1) / 1e3 for k in range(len(run.series.wire_gbps))]
                colour, _, line = _STYLES[run.scheme]
                axis.plot(times, run.series.wire_gbps, line, color=colour, linewidth=0.8, label=run.scheme)
        axis.set(xlabel="ms", title=f"{key.topology}, {key.pattern.upper()}, {key.pairs} pairs", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("wire rate, Gb/s")
    axes[-1].legend(fontsize="x-small")
    drawing.save(plt, figure, file)
