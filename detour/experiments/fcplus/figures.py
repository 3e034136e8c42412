# SPDX-License-Identifier: Apache-2.0
"""Figs. 3 to 7 of the FC+ paper in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour.experiments import drawing
from detour.experiments.fcplus.experiment import FIGURE_3
from detour.experiments.fcplus.paper import TABLE_8_FCT
from detour.experiments.fcplus.results import NETWORKS, FcplusPoint, FlowPoint, LengthPoint, PacketsPoint, flows
from detour.experiments.fcplus.tables import FcplusFindings

_STYLES = {
    "FC+ 2L": (drawing.BLUE, "o", "-"),
    "FC+ 1L": (drawing.SKY, "X", "-"),
    "KSP": (drawing.VERMILION, "s", "--"),
    "FC": (drawing.GREEN, "^", "-"),
    "Clos": (drawing.GRAY, "v", ":"),
}
_Curve = tuple[Sequence[float], Sequence[float], dict[str, Any]]
"""x, y, looks"""


@dataclass(frozen=True)
class _Chart:
    """One axis of the picture."""

    title: str
    xlabel: str
    ylabel: str
    curves: list[_Curve]
    line_at: float | None = None
    percentiles: bool = False


def draw(findings: FcplusFindings, file: Path) -> None:
    """Draw what there are points for. Raises `DetourError`: there are none, or the file cannot be written."""
    points = findings.points
    charts = [
        _figure_3(points),
        *(_throughput_of(points, 18, pattern, 32) for pattern in ("all-to-all", "uniform", "near-worst")),
        _figure_5(points),
        _throughput_of(points, 22, "near-worst", 40),
        _length_of(points, 18),
        _length_of(points, 22),
        *(_completion_of(points, pattern) for pattern in TABLE_8_FCT),
    ]
    charts = [chart for chart in charts if chart.curves]
    drawing.need(charts)
    plt, figure, axes = drawing.canvas(-(-len(charts) // 4), min(4, len(charts)), 4.1, 3.3)
    for axis in axes.ravel()[len(charts) :]:
        axis.set_visible(False)
    for axis, chart in zip(axes.ravel(), charts, strict=False):
        for x, y, looks in chart.curves:
            axis.plot(x, y, **looks)
        if chart.line_at is not None:
            axis.axvline(chart.line_at, color="black", linewidth=0.7)
        scale = "log" if chart.percentiles else "linear"
        axis.set(title=chart.title, xlabel=chart.xlabel, ylabel=chart.ylabel, xscale=scale)
        axis.set_ylim(0, 100 if chart.percentiles else 1.08 * axis.dataLim.y1)
    drawing.legend(figure, axes.ravel(), 6)
    drawing.save(plt, figure, file)


def _flows(points: Sequence[FcplusPoint], **values: int | str | None) -> list[FlowPoint]:
    return sorted(flows(points, **values), key=lambda p: p.n)


def _over_servers(
    points: Sequence[FlowPoint] | Sequence[LengthPoint], value: str, style: drawing.Style, label: str
) -> list[_Curve]:
    """A curve over the number of servers, if there are points."""
    colour, marker, line = style
    looks = {"color": colour, "marker": marker, "linestyle": drawing.line_of(len(points), line), "label": label}
    return [([p.n * (32 - p.s) for p in points], [getattr(p, value) for p in points], looks)] if points else []


def _figure_3(points: Sequence[FcplusPoint]) -> _Chart:
    """Near-worst throughput over N_gl, each s in units of its best."""
    curves: list[_Curve] = []
    for s, n in FIGURE_3.items():
        mine = _flows(points, n=n, s=s, network="FC+ 1L", pattern="near-worst", seed=1)
        if theta := sorted(((s - 2) // (2 * (p.v - 2)), p.theta) for p in mine if p.v):
            most = max(value for _, value in theta)
            looks = {"marker": "o", "linestyle": "-", "label": f"s = {s}"}
            curves.append(([x for x, _ in theta], [y / most for _, y in theta], looks))
    return _Chart("Fig. 3: layers of a group", "N_gl", "throughput / best of this s", curves, line_at=5)


def _throughput_of(points: Sequence[FcplusPoint], s: int, pattern: str, k: int) -> _Chart:
    """Throughput over the number of servers: Fig. 4 and Fig. 6(a)."""
    skipped = (120, 240) if s == 22 else (120,)
    mine = _flows(points, s=s, pattern=pattern, k=k, ties="diverse", seed=1, v=None)
    of = {name: [p for p in mine if p.network == name and p.n not in skipped] for name in NETWORKS}
    curves = [curve for name in NETWORKS for curve in _over_servers(of[name], "theta", _STYLES[name], name)]
    curves += _over_servers(of["KSP"], "upper_bound", (drawing.BLACK, "_", "-"), "upper bound")
    figure = "6a" if s == 22 else {"all-to-all": "4a", "uniform": "4b", "near-worst": "4c"}[pattern]
    return _Chart(f"Fig. {figure}: {pattern}, s = {s}, K = {k}", "servers", "throughput", curves)


def _figure_5(points: Sequence[FcplusPoint]) -> _Chart:
    """Near-worst throughput with more paths, against the upper bound."""
    curves: list[_Curve] = []
    more = False
    for name, colour in (("FC+ 2L", drawing.BLUE), ("KSP", drawing.VERMILION)):
        for k, dash in ((32, ":"), (64, "--"), (128, "-")):
            line = _flows(points, s=18, network=name, pattern="near-worst", k=k, ties="diverse", v=None, seed=1)
            if not line:
                continue
            more |= k > 32
            x, looks = [p.n * 14 for p in line], {"color": colour, "linestyle": dash, "label": f"{name}-{k}"}
            curves.append((x, [p.theta for p in line], looks))
            if (name, k) == ("KSP", 128):
                looks = {"color": "black", "linewidth": 0.7, "label": "upper bound"}
                curves.append((x, [p.upper_bound for p in line], looks))
    return _Chart("Fig. 5c: near-worst, more paths", "servers", "throughput", curves if more else [])


def _length_of(points: Sequence[FcplusPoint], s: int) -> _Chart:
    """Mean length of paths over the number of servers: Fig. 6(b) and (c)."""
    mine = sorted((p for p in points if isinstance(p, LengthPoint) and p.s == s), key=lambda p: p.n)
    lines = {name: [p for p in mine if p.network == name] for name in NETWORKS[:3]}
    curves = [curve for name in lines for curve in _over_servers(lines[name], "mean_length", _STYLES[name], name)]
    return _Chart(f"Fig. 6{'b' if s == 18 else 'c'}: length of paths, s = {s}", "servers", "hops", curves)


def _completion_of(points: Sequence[FcplusPoint], pattern: str) -> _Chart:
    """Distribution of slowdowns: Fig. 7."""
    curves: list[_Curve] = []
    mine = [p for p in points if isinstance(p, PacketsPoint) and p.pattern == pattern]
    for point in sorted(mine, key=lambda p: NETWORKS.index(p.network)):
        colour, _, dash = _STYLES[point.network]
        curve = point.slowdown_percentiles
        curves.append((curve, range(len(curve)), {"color": colour, "linestyle": dash, "label": point.network}))
    return _Chart(f"Fig. 7: {pattern}, load 0.7", "slowdown", "% of messages", curves, percentiles=True)
