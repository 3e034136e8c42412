# SPDX-License-Identifier: Apache-2.0
"""Figs. 3 to 7 of the FC+ paper in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detour.experiments import drawing
from detour.experiments.fcplus.experiment import FIGURE_3
from detour.experiments.fcplus.packet_level import NETWORKS
from detour.experiments.fcplus.paper import TABLE_8_FCT
from detour.experiments.fcplus.results import FcplusPoint, FlowPoint, LengthPoint, PacketsPoint, flows
from detour.experiments.fcplus.tables import FcplusFindings

_STYLES = {
    "FC+ 2L": (drawing.BLUE, "o", "-"),
    "FC+ 1L": (drawing.SKY, "X", "-"),
    "KSP": (drawing.VERMILION, "s", "--"),
    "FC": (drawing.GREEN, "^", "-"),
    "Clos": (drawing.GRAY, "v", ":"),
}
FigurePoints = Sequence[FcplusPoint]


def draw(found: FcplusFindings, file: Path) -> None:
    """Draws what there are points for. Raises `DetourError`: there are none, or the file cannot be written."""
    points = found.points
    pictures = [
        picture
        for picture in (
            _figure_3,
            *(_throughput_of(18, pattern, 32) for pattern in ("all-to-all", "uniform", "near-worst")),
            _figure_5,
            _throughput_of(22, "near-worst", 40),
            _length_of(18),
            _length_of(22),
            *(_completion_of(pattern) for pattern in TABLE_8_FCT),
        )
        if picture(points, None)
    ]
    drawing.need(pictures)
    rows = -(-len(pictures) // 4)
    plt, figure, axes = drawing.canvas(rows, min(4, len(pictures)), 4.1, 3.3)
    for axis in axes.ravel()[len(pictures) :]:
        axis.set_visible(False)
    for axis, picture in zip(axes.ravel(), pictures, strict=False):
        picture(points, axis)
        if axis.get_xscale() == "linear":
            axis.set_ylim(0, 1.08 * axis.dataLim.y1)
    drawing.legend(figure, axes.ravel(), 6)
    drawing.save(plt, figure, file)


def _flows(points: FigurePoints, **values: int | str | None) -> list[FlowPoint]:
    return sorted(flows(points, **values), key=lambda p: p.n)


def _figure_3(points: FigurePoints, axis: Any) -> bool:
    """Near-worst throughput over N_gl, each s in units of its best."""
    drawn = False
    for s, n in FIGURE_3.items():
        mine = _flows(points, n=n, s=s, network="FC+ 1L", pattern="near-worst", seed=1)
        theta = sorted(((s - 2) // (2 * (p.v - 2)), p.theta) for p in mine if p.v)
        drawn |= bool(theta)
        if axis and theta:
            most = max(value for _, value in theta)
            axis.plot([x for x, _ in theta], [y / most for _, y in theta], "o-", label=f"s = {s}")
    if axis:
        axis.axvline(5, color="black", linewidth=0.7)
        axis.set(title="Fig. 3: layers of a group", xlabel="N_gl", ylabel="throughput / best of this s")
    return drawn


def _throughput_of(s: int, pattern: str, k: int) -> Any:
    """Throughput over the number of servers: Fig. 4 and Fig. 6(a)."""

    def picture(points: FigurePoints, axis: Any) -> bool:
        mine = [p for p in _flows(points, s=s, pattern=pattern, k=k, ties="diverse", seed=1, v=None) if p.n != 120]
        mine = [p for p in mine if s != 22 or p.n != 240]
        if axis:
            for name in NETWORKS:
                line = [p for p in mine if p.network == name]
                x, y = [p.n * (32 - s) for p in line], [p.theta for p in line]
                if x:
                    drawing.curve(axis, x, y, _STYLES[name], name)
            bound = [p for p in mine if p.network == "KSP"]
            x, y = [p.n * (32 - s) for p in bound], [p.upper_bound for p in bound]
            if x:
                drawing.curve(axis, x, y, (drawing.BLACK, "_", "-"), "upper bound")
            figure = "6a" if s == 22 else {"all-to-all": "4a", "uniform": "4b", "near-worst": "4c"}[pattern]
            axis.set(title=f"Fig. {figure}: {pattern}, s = {s}, K = {k}", xlabel="servers", ylabel="throughput")
        return bool(mine)

    return picture


def _figure_5(points: FigurePoints, axis: Any) -> bool:
    """Near-worst throughput with more paths, against the upper bound."""
    drawn = False
    for name, colour in (("FC+ 2L", drawing.BLUE), ("KSP", drawing.VERMILION)):
        for k, dash in ((32, ":"), (64, "--"), (128, "-")):
            line = _flows(points, s=18, network=name, pattern="near-worst", k=k, ties="diverse", v=None, seed=1)
            drawn |= k > 32 and bool(line)
            if axis and line:
                x, y = [p.n * 14 for p in line], [p.theta for p in line]
                axis.plot(x, y, color=colour, linestyle=dash, label=f"{name}-{k}")
                if (name, k) == ("KSP", 128):
                    axis.plot(x, [p.upper_bound for p in line], color="black", linewidth=0.7, label="upper bound")
    if axis:
        axis.set(title="Fig. 5c: near-worst, more paths", xlabel="servers", ylabel="throughput")
    return drawn


def _length_of(s: int) -> Any:
    """Mean length of paths over the number of servers: Fig. 6(b) and (c)."""

    def picture(points: FigurePoints, axis: Any) -> bool:
        mine = sorted((p for p in points if isinstance(p, LengthPoint) and p.s == s), key=lambda p: p.n)
        if axis:
            for name in NETWORKS[:3]:
                line = [p for p in mine if p.network == name]
                x, y = [p.n * (32 - s) for p in line], [p.mean_length for p in line]
                if x:
                    drawing.curve(axis, x, y, _STYLES[name], name)
            axis.set(
                title=f"Fig. 6{'b' if s == 18 else 'c'}: length of paths, s = {s}", xlabel="servers", ylabel="hops"
            )
        return bool(mine)

    return picture


def _completion_of(pattern: str) -> Any:
    """Distribution of slowdowns: Fig. 7."""

    def picture(points: FigurePoints, axis: Any) -> bool:
        mine = [p for p in points if isinstance(p, PacketsPoint) and p.pattern == pattern]
        if axis:
            for point in sorted(mine, key=lambda p: NETWORKS.index(p.network)):
                colour, _, dash = _STYLES[point.network]
                curve = point.slowdown_percentiles
                axis.plot(curve, range(len(curve)), color=colour, linestyle=dash, label=point.network)
            axis.set(title=f"Fig. 7: {pattern}, load 0.7", xlabel="slowdown", ylabel="% of messages", xscale="log")
            axis.set_ylim(0, 100)
        return bool(mine)

    return picture
