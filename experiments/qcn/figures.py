# SPDX-License-Identifier: Apache-2.0
"""The QCN-Switch paper's figures: latency and accepted throughput over offered load (3, 7), injection by switch (8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detour.experiments import drawing
from detour.experiments.qcn.experiment import QcnLoad
from detour.experiments.qcn.tables import QcnFindings, QcnInjection

_STYLES = {
    "MIN": (drawing.GRAY, "^", ":"),
    "VAL": (drawing.BLACK, "v", ":"),
    "PB": (drawing.GREEN, "s", "--"),
    "Conditional-OpenFlow": (drawing.YELLOW, "P", "-"),
    "QCN-Switch-base": (drawing.ORANGE, "+", "-"),
    "QCN-Switch-source": (drawing.PURPLE, "o", "-"),
    "QCN-Switch-comparison": (drawing.VERMILION, "x", "-"),
    "QCN-Switch-complete": (drawing.BLUE, "D", "-"),
}
_MOST_US = 40.0
"""where the axis of latency ends: beyond saturation latency grows as long as one measures"""


def draw(found: QcnFindings, file: Path) -> None:
    """A row for every traffic pattern: latency, accepted throughput; then injection by switch.

    Raises:
        DetourError: there is nothing to draw, or the file cannot be written.
    """
    patterns = list(dict.fromkeys(one.pattern for one in found.curves))
    drawing.need(patterns)
    rows = len(patterns) + bool(found.fairness)
    plt, figure, axes = drawing.canvas(rows, 2, 5.2)
    for (left, right), pattern in zip(axes, patterns, strict=False):
        _pattern(left, right, [one for one in found.curves if one.pattern == pattern], pattern)
    if found.fairness:
        _fairness(axes[-1][0], found.fairness)
        axes[-1][1].axis("off")
    drawing.legend(figure, axes.ravel())
    drawing.save(plt, figure, file)


def _pattern(left: Any, right: Any, points: Sequence[QcnLoad], pattern: str) -> None:
    for place, (name, style) in enumerate(_STYLES.items()):
        mine = sorted((one for one in points if one.routing == name), key=lambda one: one.load)
        # Without lines, points that are the same stand beside each other.
        apart = 0.004 * (place - len(_STYLES) / 2) if len(mine) < drawing.ENOUGH else 0.0
        loads = [one.load + apart for one in mine]
        for axis, y in ((left, [one.latency_ns / 1e3 for one in mine]), (right, [one.accepted for one in mine])):
            drawing.curve(axis, loads, y, style, name, markersize=4, linewidth=1)
    left.set(ylabel="mean latency, us", ylim=(0, _MOST_US), title=f"{pattern}: latency")
    right.set(ylabel="accepted, share of the hosts' links", ylim=(0, None), title=f"{pattern}: throughput")
    for axis in (left, right):
        axis.set_xlabel("offered load")


def _fairness(axis: Any, rows: Sequence[QcnInjection]) -> None:
    names = [name for name in _STYLES if any(row.routing == name for row in rows)]
    switches = list(dict.fromkeys(row.switch for row in rows))
    for place, name in enumerate(names):
        values = [row.injected for row in rows if row.routing == name]
        width = 0.85 / len(names)
        at = [number + (place - (len(names) - 1) / 2) * width for number in range(len(values))]
        axis.bar(at, values, width, color=_STYLES[name][0], label=name)
    axis.set_xticks(range(len(switches)), switches)
    axis.set(ylabel="injected, share of the hosts' links", title="ADV at load 0.4: switches of group 0")
    axis.grid(visible=False, axis="x")
