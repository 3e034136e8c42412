# SPDX-License-Identifier: Apache-2.0
"""Windows over time: our TCP's and ns-3's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detour.experiments import drawing
from detour.experiments.tcp.curves import Road
from detour.experiments.tcp.ns3 import Ns3Findings, road_of

_PANELS = (
    ("short", "newreno", "NewReno"),
    ("short", "cubic", "CUBIC"),
    ("marking", "dctcp", "DCTCP"),
    ("long", "newreno", "NewReno"),
    ("long", "cubic", "CUBIC"),
)
_SHOWN = {"short": (10.0, 22.0), "marking": (0.0, 12.0), "long": (0.0, 200.0)}
"""seconds"""
_COLOURS = (drawing.ORANGE, drawing.GREEN)


def draw(found: Ns3Findings, file: Path) -> None:
    """A panel for each road and control."""
    plt, figure, axes = drawing.canvas(2, 3, 4.6, 3.2)
    for axis, (name, cc, title) in zip(axes.flat, _PANELS, strict=False):
        road = road_of(name)
        controls = [row.control for row in found.rows if (row.road, row.cc) == (name, cc)]
        for control, colour in zip(controls, _COLOURS, strict=False):
            _curve(axis, found, road, control, label=f"ns-3: {control}", color=colour)
        _curve(axis, found, road, cc, label="ours", color=drawing.BLUE)
        axis.set(title=f"{title}: {_text(road)}", xlabel="time, s", ylabel="window, segments", xlim=_SHOWN[name])
        axis.set_ylim(bottom=0)
        axis.legend(loc="upper right" if name == "marking" else "lower right", fontsize="small")
    axes.flat[-1].set_axis_off()
    drawing.save(plt, figure, file)


def _curve(axis: Any, found: Ns3Findings, road: Road, control: str, **looks: Any) -> None:
    window = found.curves[f"{road.name} {control}"].cwnd
    first, last = _SHOWN[road.name]
    points = [(road.step * (at + 1), value) for at, value in enumerate(window)]
    shown = [point for point in points if first <= point[0] <= last]
    axis.plot(*zip(*shown, strict=True), linewidth=1.2, **looks)


def _text(road: Road) -> str:
    marks = f", marks from {road.marks}" if road.marks else ""
    return f"{road.mbps:g} Mb/s, {road.rtt_ms:g} ms, {road.queue} packets{marks}"
