# SPDX-License-Identifier: Apache-2.0
"""Tables of the runs of the path placement paper's section IV: delivered bytes beside the paper's, and the switches'
view of the flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detour.base.tables import Table, left, percent, right
from detour.experiments import drawing
from detour.experiments.columns import columns, row, taken
from detour.experiments.placement.scenario import NAMES, THROTTLE, TOPOLOGY, PathRun

PAPER_GB = {"none": 69.81, "controller": 98.00}


@row
class ComparedRun(PathRun):
    """`delivered_fraction`: of what the uncongested run delivered."""

    delivered_fraction: float | None


@dataclass(frozen=True)
class PaperVolumes:
    """The paper's values, by mode."""

    delivered_gb: Mapping[str, float] = field(default_factory=lambda: dict(PAPER_GB))
    delivered_fraction: Mapping[str, float] = field(
        default_factory=lambda: {mode: round(volume / PAPER_GB["controller"], 4) for mode, volume in PAPER_GB.items()}
    )
    seconds: float = 30.0
    reroute_s: float = 0.2


@dataclass(frozen=True)
class PathFindings:
    """`runs` in the order of `MODES`; `switches`: the paper's names by ours."""

    runs: tuple[ComparedRun, ...] = ()
    topology: str = TOPOLOGY
    switches: Mapping[str, str] = field(default_factory=lambda: dict(NAMES))
    throttled: str = "rt1-gw2"
    throttle: float = THROTTLE
    paper: PaperVolumes = PaperVolumes()


@dataclass(frozen=True)
class NoPathFindings(PathFindings):
    """`skipped`: why nothing was run."""

    skipped: str = ""
    failures: tuple[()] = ()


def collect(runs: Sequence[PathRun]) -> PathFindings:
    """The runs beside each other and beside the paper's."""
    full = next((run.delivered_gb for run in runs if run.mode == "uncongested"), None)
    shares = [run.delivered_gb / full if full else None for run in runs]
    compared = zip(runs, shares, strict=True)
    return PathFindings(tuple(taken(ComparedRun, run, delivered_fraction=share) for run, share in compared))


def tables(findings: PathFindings) -> list[Table[Any]]:
    """Ours beside the paper's, and a second one if switches watched the flow."""
    paper, volumes = findings.paper, findings.paper.delivered_gb
    mode, delivered, *others = columns(PathRun)
    shares = (
        right("share", lambda run: percent(run.delivered_fraction, 2), means="of what the uncongested run delivered"),
        right("paper", lambda run: percent(paper.delivered_fraction.get(run.mode), 2), means="the share in the paper"),
    )
    note = (
        f"in the paper {volumes['none']} Gb without and {volumes['controller']} Gb with rerouting in "
        f"{paper.seconds:g} s, rerouted about {paper.reroute_s * 1e3:g} ms after the onset"
    )
    watched = (
        left("rerouting", lambda row: row[0]),
        left("switch", lambda row: row[1].switch),
        right("packets", lambda row: row[1].packets),
        right("marked", lambda row: row[1].ecn_packets),
        right("mean delay", lambda row: f"{row[1].delay_s * 1e6:.2f} us"),
        right("in the worst window", lambda row: f"{row[1].worst_window_delay_s * 1e6:.2f} us"),
    )
    seen = [(run.mode, switch) for run in findings.runs for switch in run.switches]
    title = f"{findings.throttled} at {findings.throttle:.0%} of its rate"
    return [
        Table((mode, delivered, *shares, *others), findings.runs, title, [note]),
        *([Table(watched, seen, "the flow as the switches saw it")] if seen else []),
    ]


_REROUTING = {
    "uncongested": (drawing.GRAY, ":", "link not throttled"),
    "none": (drawing.BLUE, "-", "congestion control only"),
    "controller": (drawing.ORANGE, "-", "controller reroutes"),
    "nic": (drawing.GREEN, "--", "NIC reroutes"),
}


def draw(findings: PathFindings, file: Path) -> None:
    """Throughput at the receiver over time, as Fig. 3 of the path placement paper; a vertical line where the link was
    throttled."""
    runs = findings.runs
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
