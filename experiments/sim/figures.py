# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run: completion times, slowdown by size, use of links over time, queues, delays, reordering.

Each panel is a function of (axis, run); `draw` puts them into one picture, `panels_svg` gives each as text.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.times import US
from detour.experiments import drawing
from detour.experiments.sim.results import by_size, flow_times
from detour.experiments.sim.run import SimRun
from detour.experiments.sim.tables import bin_text, size_text

_BLUE, _ORANGE, _GREEN, _RED = drawing.BLUE, drawing.ORANGE, drawing.GREEN, drawing.VERMILION
_INTERVALS = 100
"""of use over time"""
_SHORTEST = 7
"""the bin of queues of 64 bytes and more"""
_NONE = "no flow is complete"


def _say(axis: Any, text: str) -> None:
    axis.text(0.5, 0.5, text, ha="center", va="center", transform=axis.transAxes, color="dimgray")


def _distribution(axis: Any, values: NDArray[np.float64], count: int, **style: Any) -> None:
    """An empirical distribution function; values that are missing of `count` are at infinity."""
    ordered = np.sort(values)
    axis.step(np.append(ordered[0], ordered), np.arange(len(ordered) + 1) / count, where="post", **style)


def _completion(axis: Any, run: SimRun) -> None:
    """Empirical distribution of completion times; what is missing at the top never completed."""
    _, times, _ = flow_times(run)
    axis.set(xlabel="completion time, us", ylabel="fraction of flows", ylim=(0, 1.02), title="Completion times")
    if not len(times):
        return _say(axis, _NONE)
    ideal = run.ideal.task_ps[run.graph.is_message] / US
    _distribution(axis, times, len(ideal), color=_BLUE, linewidth=1.8, label="measured")
    _distribution(axis, ideal, len(ideal), color=_ORANGE, linewidth=1.5, linestyle="--", label="empty fabric")
    if times.max() > 20 * ideal.min():
        axis.set_xscale("log")


def _slowdown(axis: Any, run: SimRun) -> None:
    """Slowdown by size of flows; of flows of one bin their distribution."""
    _, _, slowdowns = flow_times(run)
    bins = [one for one in by_size(run) if one.completed]
    axis.set(title="Slowdown")
    if not len(slowdowns):
        return _say(axis, _NONE)
    if len(bins) < 2:
        _distribution(axis, slowdowns, len(slowdowns), color=_BLUE, linewidth=1.8)
        axis.set(xlabel="slowdown", ylabel="fraction of complete flows", ylim=(0, 1.02))
        return None
    places = np.arange(len(bins))
    for name, label, colour, marker in (
        ("p50", "median", _BLUE, "o"), ("p95", "p95", _GREEN, "s"), ("p99", "p99", _RED, "^"),
    ):  # fmt: skip
        axis.plot(places, [getattr(b.slowdown, name) for b in bins], marker=marker, color=colour, label=label)
    axis.set_xticks(places, [bin_text(one).replace(" to ", "\nto ") for one in bins])
    axis.set(xlabel="bytes of a flow", ylabel="slowdown", ylim=(0, None))
    return None


def _use(axis: Any, run: SimRun) -> None:
    """Mean use of links of hosts and between switches, and the busiest direction, over time."""
    series = run.links.coarser(_INTERVALS)
    middle = (series.times_ps[1:] + series.times_ps[:-1]) / 2 / US
    use = series.use()
    fabric = use[:, ~series.hosts]
    axis.plot(middle, use[:, series.hosts].mean(axis=1), color=_BLUE, linestyle="--", label="hosts, mean")
    if fabric.size:
        axis.plot(middle, fabric.max(axis=1), color=_ORANGE, linewidth=1, label="switches, busiest")
        axis.plot(middle, fabric.mean(axis=1), color=_GREEN, label="switches, mean")
    axis.set(xlabel="time, us", ylabel="use of links", title="Links", ylim=(0, 1.05))


def _queues(axis: Any, run: SimRun) -> None:
    """For what share of the time queues were how long; all below 64 bytes, the shortest frame, are empty."""
    share = run.queues[_SHORTEST:] / max(run.queues.sum(), 1)
    share = np.append(run.queues[:_SHORTEST].sum() / max(run.queues.sum(), 1), share)
    last = max(int(np.flatnonzero(share).max(initial=0)), 4)
    names = ["0", *(size_text(_rounded(1 << (i - 1))) for i in range(_SHORTEST, len(run.queues)))][: last + 1]
    axis.bar(np.arange(last + 1), share[: last + 1], color=_BLUE, width=0.9)
    axis.set_xticks(np.arange(last + 1)[::2], names[::2])
    axis.set_yscale("log")
    axis.set(xlabel="bytes in the queue, from", ylabel="share of queues and time", title="Queues", ylim=(None, 1.5))


def _rounded(count: int) -> int:
    """2048 as 2000, for names."""
    return count if count < 1000 else round(count / 1024) * 1000


def _delays(axis: Any, run: SimRun) -> None:
    """Packets by the mean queuing delay of their connection."""
    delays = run.counts.delay_ps / US
    axis.set(xlabel="mean queuing delay of a connection, us", ylabel="share of packets", title="Queuing delay")
    if not run.counts.received.sum():
        return _say(axis, "no packet has arrived")
    axis.hist(delays, bins=30, weights=run.counts.received / run.counts.received.sum(), color=_GREEN)
    return None


def _reordering(axis: Any, run: SimRun) -> None:
    """Connections by the most packets that their receiver held."""
    held = run.counts.held_peak
    axis.set(xlabel="most packets held at a time", ylabel="connections", title="Reordering")
    if not held.any():
        return _say(axis, "every packet came in order")
    axis.hist(held, bins=min(30, int(held.max()) + 1), color=_ORANGE)
    return None


PANELS: dict[str, Callable[[Any, SimRun], None]] = {
    "completion": _completion, "slowdown": _slowdown, "links": _use,
    "queues": _queues, "delays": _delays, "reordering": _reordering,
}  # fmt: skip


def draw(file: Path, run: SimRun) -> None:
    """All panels in one picture. Raises `DetourError`: matplotlib is not installed, or the file cannot be written."""
    plt, figure, axes = drawing.canvas(2, 3, 4.6, 3.2)
    for axis, panel in zip(axes.flat, PANELS.values(), strict=True):
        panel(axis, run)
    for line in axes:
        drawing.legend_below(line)
    drawing.save(plt, figure, file)


def panels_svg(run: SimRun) -> dict[str, str]:
    """Each panel as an SVG element, the same for the same run."""
    panels = {}
    for name, panel in PANELS.items():
        plt, figure, axes = drawing.canvas(1, 1, 5.2, 3.2)
        panel(axes[0][0], run)
        drawing.legend_below(axes[0])
        panels[name] = drawing.svg(plt, figure, name)
    return panels
