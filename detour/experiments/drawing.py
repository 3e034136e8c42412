# SPDX-License-Identifier: Apache-2.0
"""Helpers for the figures of experiments: a canvas without a display, colours that the colour-blind tell apart, legends
that lie over no data, and files that are the same for the same numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.extras import require
from detour.base.files import naming, new_file

BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW, GRAY, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#C8B400", "#7F7F7F", "#000000",
)  # fmt: skip
"""the palette of Okabe and Ito (2008), its yellow darker, and a gray"""
ENOUGH = 3
"""points that a line may be drawn through; fewer are drawn as what they are"""
_LOOKS: dict[Any, Any] = {
    "font.size": 10, "axes.titlesize": 11, "axes.labelsize": 10, "xtick.labelsize": 10, "ytick.labelsize": 10,
    "legend.fontsize": 10, "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True, "lines.markersize": 6, "svg.hashsalt": "detour",
}  # fmt: skip


def canvas(rows: int, columns: int, width: float = 4.3, height: float = 3.4) -> tuple[Any, Any, Any]:
    """(matplotlib.pyplot, figure, axes as an array of rows) without a display; inches of each axis. Raises
    `DetourError`: matplotlib is not installed."""
    require("matplotlib", "matplotlib", "plot", "a plot")
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from cycler import cycler

    plt.rcParams.update(_LOOKS)
    plt.rcParams["axes.prop_cycle"] = cycler(color=(BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, GRAY))
    size = width * columns, height * rows
    return plt, *plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")


def row(columns: int, width: float = 4.3) -> tuple[Any, Any, Any]:
    """(matplotlib.pyplot, figure, list of axes) of one row. Raises `DetourError`: matplotlib is not installed."""
    plt, figure, axes = canvas(1, columns, width)
    return plt, figure, axes[0]


def legend(figure: Any, axes: Any, columns: int = 4) -> None:
    """One legend for all axes of a figure, below them, each label once, in at most so many columns."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)

    def place(columns: int) -> Any:
        return figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)

    if handles:
        chosen = _in_columns(figure, place, min(columns, len(handles)), figure.get_figwidth())
        figure.set_figheight(figure.get_figheight() + _inches(figure, chosen)[1])


def legend_below(axes: Any, columns: int = 3) -> None:
    """A legend below each axis of one row of a figure that has any labels, under the label of the axis."""
    figure, tallest = axes[0].figure, 0.0
    figure.draw_without_rendering()
    room = figure.get_figwidth() / axes[0].get_gridspec().ncols
    for axis in axes:
        labels = axis.get_legend_handles_labels()[1]
        if labels:
            below = (axis.bbox.y0 - axis.xaxis.get_tightbbox().y0) / figure.dpi
            chosen = _in_columns(figure, partial(_below, axis, below), min(columns, len(labels)), room)
            tallest = max(tallest, _inches(figure, chosen)[1])
    figure.set_figheight(figure.get_figheight() + tallest)


def _below(axis: Any, inches: float, columns: int) -> Any:
    """A legend so far below an axis, however high the axis becomes."""
    from matplotlib.transforms import ScaledTranslation

    under = axis.transAxes + ScaledTranslation(0, -inches, axis.figure.dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": under}
    return axis.legend(ncols=columns, fontsize="small", **place)


def _in_columns(figure: Any, place: Callable[[int], Any], columns: int, room: float) -> Any:
    """A legend in as many columns as fit so many inches; a figure too narrow for one column is widened."""
    while True:
        chosen = place(columns)
        width = _inches(figure, chosen)[0]
        if width <= room:
            return chosen
        if columns == 1:
            figure.set_figwidth(figure.get_figwidth() * width / room)
            return chosen
        chosen.remove()
        columns -= 1


def _break_lines(figure: Any) -> None:
    """Titles and labels of axes that are longer than their place go on in another line."""
    figure.draw_without_rendering()
    size = figure.get_figwidth(), figure.get_figheight()
    for axis in figure.axes:
        grid = axis.get_gridspec().ncols, axis.get_gridspec().nrows
        for text, along in ((axis.title, 0), (axis.xaxis.label, 0), (axis.yaxis.label, 1)):
            middle = (axis.bbox.min + axis.bbox.max)[along] / 2 / figure.dpi
            room = min(size[along] / grid[along], 2 * middle, 2 * (size[along] - middle))
            whole = text.get_text()
            for lines in range(2, len(whole) + 1):
                if _inches(figure, text)[along] <= room:
                    break
                text.set_text(_in_lines(whole, len(whole) / lines))


def _in_lines(text: str, length: float) -> str:
    """A text whose lines end behind a space or a comma, and are about so long at most."""
    lines = [""]
    for part in re.findall("[^ ,]*[ ,]+|[^ ,]+", text):
        if lines[-1] and len(lines[-1] + part.rstrip()) > length:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _inches(figure: Any, artist: Any) -> tuple[float, float]:
    """Width and height of an artist."""
    extent = artist.get_window_extent(figure.canvas.get_renderer())
    return extent.width / figure.dpi, extent.height / figure.dpi


Style = tuple[str, str, str]
"""colour, marker and line of what a figure shows"""


def need(points: Any) -> None:
    """A figure of nothing is refused. Raises `DetourError`: nothing is finished."""
    if not points:
        raise DetourError("there is no finished point to draw")


def curve(axis: Any, x: Any, y: Any, style: Style, label: str, **looks: Any) -> None:
    """Points, with a line if there are enough."""
    colour, marker, line = style
    axis.plot(x, y, color=colour, marker=marker, linestyle=line_of(len(x), line), label=label, **looks)


def line_of(points: int, style: str) -> str:
    """The style of a line through so many points: none through fewer than `ENOUGH`."""
    return style if points >= ENOUGH else "none"


def bars(axis: Any, rows: Any, label: str) -> None:
    """Horizontal bars from the top down, with their values behind them. `rows`: (name, value, least, most, colour)."""
    names, values, least, most, colours = zip(*rows, strict=True)
    below = [value - low for value, low in zip(values, least, strict=True)]
    above = [high - value for value, high in zip(values, most, strict=True)]
    at = range(len(names))
    axis.barh(at, values, 0.65, xerr=[below, above], color=colours, error_kw={"linewidth": 0.8, "capsize": 2})
    room = 0.015 * max(most)
    for place, value, end in zip(at, values, most, strict=True):
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axis.text(end + room, place, f"{value:,.0f}", va="center", bbox=behind)
    axis.set_yticks(at, names)
    axis.set(xlabel=label, xlim=(0, 1.18 * max(most)))
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")


def svg(plt: Any, figure: Any, name: str) -> str:
    """A figure as an SVG element, and closes it: the same for the same numbers and name."""
    plt.rcParams["svg.hashsalt"] = f"detour {name}"
    text = io.StringIO()
    _break_lines(figure)
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def save(plt: Any, figure: Any, file: Path) -> None:
    """Write a figure and close it. Raises `DetourError`: the file cannot be written, or its suffix is none of a
    plot."""
    if file.suffix not in (".png", ".svg", ".pdf"):
        raise DetourError(f"{file}: plots are written as .png, .svg or .pdf")
    try:
        _break_lines(figure)
        with naming(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        # No dates and fixed names inside (`svg.hashsalt`): the same numbers give the same file.
        metadata = {"Date": None} if file.suffix == ".svg" else {}
        with new_file(file) as out:
            figure.savefig(out, format=file.suffix[1:], dpi=110, metadata=metadata)
    finally:
        plt.close(figure)
