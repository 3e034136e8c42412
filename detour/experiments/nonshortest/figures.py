# SPDX-License-Identifier: Apache-2.0
"""The figures: throughput over the number of connections, Table I as curves, throughput over time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from detour.experiments import drawing
from detour.experiments.columns import grouped
from detour.experiments.nonshortest.experiment import NonshortestRun, SteadyNonshortestRun
from detour.experiments.nonshortest.paper import TABLE_1
from detour.experiments.nonshortest.pfc_gain import PfcGain
from detour.experiments.nonshortest.workloads import HOLD_OUTS, PATTERNS

_STYLES = {
    "TelemetryLERP": (drawing.BLUE, "X", "-"),
    "TelemetryGBN": (drawing.VERMILION, "o", "-"),
    "Benchmark": (drawing.GREEN, "s", "--"),
    "ShortestPath": (drawing.GRAY, "^", ":"),
    "Benchmark-DCTCP": (drawing.YELLOW, "d", "--"),
    "TelemetryGBN-DCTCP": (drawing.ORANGE, "v", "-"),
    "TelemetryLERP-literal": (drawing.PURPLE, "P", "-"),
}
_PATTERNS = (*PATTERNS, *HOLD_OUTS)
_APART = 0.06
"""of a factor of two, between neighbouring schemes at one number of connections"""


def _connections(axis: Any, counts: Sequence[int]) -> None:
    """A logarithmic axis of connections, with a number at each count that there is, as far as there is room."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_xscale("log", base=2)
    axis.set_xlabel("connections")
    shown: list[int] = []
    for count in sorted(set(counts)):
        if not shown or count >= 1.9 * shown[-1]:
            shown.append(count)
    axis.xaxis.set_major_locator(FixedLocator(shown))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.xaxis.set_minor_locator(NullLocator())
    if len(shown) > 5:
        axis.tick_params(axis="x", rotation=40)


def throughput(points: Sequence[NonshortestRun], file: Path) -> None:
    """Wire rate over the number of connections, one picture a pattern, as in Figs. 5 to 7; where there is one number
    only, a bar a scheme. Whiskers: draws; a ring or a star: not all of its runs were steady."""
    patterns = [name for name in _PATTERNS if any(p.pattern == name for p in points)]
    drawing.need(patterns)
    plt, figure, axes = drawing.row(len(patterns), 4.6)
    for axis, pattern in zip(axes, patterns, strict=True):
        mine = [p for p in points if p.pattern == pattern]
        counts = {p.pairs for p in mine}
        title = f"{mine[0].topology}, {pattern.upper()}"
        if len(counts) == 1:
            _bars(axis, mine)
            title += f", {counts.pop()} pairs"
        else:
            _curves(axis, mine)
        axis.set_title(title)
    drawing.legend(figure, axes)
    drawing.save(plt, figure, file)


def _curves(axis: Any, runs: Sequence[NonshortestRun]) -> None:
    names = [name for name in _STYLES if any(run.scheme == name for run in runs)]
    # Schemes that carry the same stand beside each other, not behind.
    shift = {name: 2 ** (_APART * (place - (len(names) - 1) / 2)) for place, name in enumerate(names)}
    for name, (colour, marker, line) in _STYLES.items():
        by_pairs = _by_pairs([p for p in runs if p.scheme == name], lambda run: run.wire_gbps)
        if by_pairs:
            x, y = (
                [pairs * shift[name] for pairs in by_pairs],
                [statistics.fmean(values) for values in by_pairs.values()],
            )
            spread = [[m - min(v) for m, v in zip(y, by_pairs.values(), strict=True)],
                      [max(v) - m for m, v in zip(y, by_pairs.values(), strict=True)]]  # fmt: skip
            style = drawing.line_of(len(x), line)
            axis.errorbar(x, y, spread, color=colour, marker=marker, linestyle=style, label=name, capsize=2)
    rings = [(pairs * shift[name], mean) for name, pairs, mean in _transients(runs)]
    if rings:
        label = "not steady"
        axis.plot(*zip(*rings, strict=True), "o", color=drawing.BLACK, fillstyle="none", markersize=11, label=label)
    most = _ceilings(runs)
    if most:
        axis.plot(list(most), list(most.values()), color=drawing.BLACK, linewidth=1, label="ceiling of these pairs")
    _connections(axis, [run.pairs for run in runs])
    axis.set(ylabel="wire rate, Gb/s", ylim=(0, None))


def _bars(axis: Any, runs: Sequence[NonshortestRun]) -> None:
    rows = []
    restless = {name for name, _, _ in _transients(runs)}
    for name, (colour, _, _) in _STYLES.items():
        for values in _by_pairs([p for p in runs if p.scheme == name], lambda run: run.wire_gbps).values():
            mean, star = statistics.fmean(values), " *" if name in restless else ""
            rows.append((name + star, mean, min(values), max(values), colour))
    drawing.bars(axis, rows, "wire rate, Gb/s (* not steady)" if restless else "wire rate, Gb/s")
    for most in _ceilings(runs).values():
        axis.axvline(most, color=drawing.BLACK, linewidth=1, label="ceiling of these pairs")


def _ceilings(runs: Sequence[NonshortestRun]) -> dict[int, float]:
    """Pairs -> mean over draws of what they can get."""
    by_pairs = _by_pairs([p for p in runs if p.scheme != "ShortestPath"], lambda run: run.ceiling_gbps)
    return {pairs: statistics.fmean(values) for pairs, values in by_pairs.items()}


def _transients(runs: Sequence[NonshortestRun]) -> list[tuple[str, int, float]]:
    """(scheme, connections, mean wire rate) of a scheme's runs of which not all were steady."""
    endless = [run for run in runs if isinstance(run, SteadyNonshortestRun)]
    by_scheme = grouped(endless, lambda run: (run.scheme, run.pairs))
    return [
        (name, pairs, statistics.fmean(run.wire_gbps for run in some))
        for (name, pairs), some in by_scheme.items()
        if not all(run.steady for run in some)
    ]


def _by_pairs(runs: Sequence[NonshortestRun], of: Callable[[NonshortestRun], float]) -> dict[int, list[float]]:
    by_pairs = grouped(sorted(runs, key=lambda run: run.pairs), lambda run: run.pairs)
    return {pairs: list(map(of, some)) for pairs, some in by_pairs.items()}


def pfc_gain(points: Sequence[PfcGain], file: Path) -> None:
    """Table I: goodput over the number of connections, ours, the max-min bound and the paper's."""
    drawing.need(points)
    plt, figure, axes = drawing.row(1, 6.5)
    axis, x = axes[0], [p.connections for p in points]
    ours = {"LERP, no PFC": ([p.lerp_gbps for p in points], "X", drawing.BLUE),
            "RoCEv2 with PFC": ([p.pfc_gbps for p in points], "s", drawing.GREEN)}  # fmt: skip
    for name, (gbps, marker, colour) in ours.items():
        line = drawing.line_of(len(x), "-")
        axis.plot(x, [one / 1e3 for one in gbps], marker, linestyle=line, color=colour, label=name)
    axis.plot(x, [p.bound_gbps / 1e3 for p in points], "_", color=drawing.BLACK, label="max-min bound")
    paper = [row for row in TABLE_1 if min(x) <= row.connections <= max(x)]
    x = [row.connections for row in paper]
    hollow = {"fillstyle": "none", "linestyle": "none"}
    axis.plot(x, [r.without_pfc_gbps / 1e3 for r in paper], "D", color=drawing.BLUE, label="paper, no PFC", **hollow)
    axis.plot(x, [r.with_pfc_gbps / 1e3 for r in paper], "o", color=drawing.GREEN, label="paper, with PFC", **hollow)
    _connections(axis, [p.connections for p in points])
    axis.set(ylabel="goodput, Tb/s", ylim=(0, None))
    drawing.legend(figure, axes, 3)
    drawing.save(plt, figure, file)


def over_time(points: Sequence[NonshortestRun], file: Path) -> None:
    """Wire rate over time, one picture for each topology and pattern, a line for each scheme."""
    keys = list(dict.fromkeys(point.traffic for point in points))
    drawing.need(keys)
    plt, figure, axes = drawing.row(len(keys), 4.6)
    for axis, key in zip(axes, keys, strict=True):
        for run in points:
            if run.traffic == key and isinstance(run, SteadyNonshortestRun):
                times = [run.series.interval_us * (k + 1) / 1e3 for k in range(len(run.series.wire_gbps))]
                colour, _, line = _STYLES[run.scheme]
                axis.plot(times, run.series.wire_gbps, line, color=colour, linewidth=1, label=run.scheme)
        axis.set(xlabel="ms", title=f"{key.topology}, {key.pattern.upper()}, {key.pairs} pairs", ylim=(0, None))
    axes[0].set_ylabel("wire rate, Gb/s")
    drawing.legend(figure, axes)
    drawing.save(plt, figure, file)
