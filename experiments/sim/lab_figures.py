# SPDX-License-Identifier: Apache-2.0
"""A picture of a lab's run: queues, ports and flows over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from detour.base.times import MS
from detour.experiments import drawing
from detour.fabric.labs.results import LabSeries

_SHOWN = 6
_INTERVALS = 100
"""of rates: an interval must be long enough for several packets"""


def draw_lab(file: Path, series: LabSeries) -> None:
    """Queue, rate and delivery of the busiest ports and flows. Raises `DetourError`: matplotlib is not installed, or
    the file cannot be written."""
    plt, figure, (axes,) = drawing.canvas(1, 3, 4.8)
    for i in _busiest(series.queue_packets.max(axis=0, initial=0)):
        drops = int(series.queue_drops[-1, i])
        label = series.ports[i] + (f", {drops} dropped" if drops else "")
        axes[0].plot(series.times_ps / MS, series.queue_packets[:, i], linewidth=1.2, label=label)
    axes[0].set(title="Queues", ylabel="packets that wait")
    for i in _busiest(series.tx_bytes[-1]):
        middle, rate = _rate(series.times_ps, series.tx_bytes[:, i])
        axes[1].plot(middle, rate, linewidth=1.4, label=series.ports[i])
    axes[1].set(title="Ports", ylabel="Mb/s on the wire")
    for i in _busiest(series.delivered[-1]):
        middle, rate = _rate(series.times_ps, series.delivered[:, i])
        marked = int(series.marked[-1, i])
        label = series.flows[i] + (f", {marked} marked" if marked else "")
        axes[2].plot(middle, rate, linewidth=1.4, label=label)
    axes[2].set(title="Receivers", ylabel="Mb/s of payload")
    for axis, nothing in zip(axes, ("nothing waited", "nothing was sent", "no streams or connections"), strict=True):
        axis.set(xlabel="time, ms", ylim=(0, None))
        if not axis.get_legend_handles_labels()[0]:
            axis.text(0.5, 0.5, nothing, ha="center", va="center", transform=axis.transAxes)
    axes[0].yaxis.get_major_locator().set_params(integer=True)
    drawing.legend_below(axes, 2)
    drawing.save(plt, figure, file)


def _busiest(totals: np.ndarray) -> list[int]:
    """Columns with the largest totals, those with none left out; in their own order."""
    return sorted(int(i) for i in np.argsort(-totals, kind="stable")[:_SHOWN] if totals[i] > 0)


def _rate(times_ps: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(middles of intervals in ms, Mb/s in them) of bytes that are counted from the start."""
    chosen = np.unique(np.linspace(0, len(times_ps) - 1, _INTERVALS + 1).astype(int))
    times, bytes_then = times_ps[chosen], count[chosen]
    seconds = np.diff(times) / 1e12
    return (times[1:] + times[:-1]) / 2 / MS, np.diff(bytes_then) * 8e-6 / np.where(seconds > 0, seconds, 1)
