# SPDX-License-Identifier: Apache-2.0
"""What is made of the runs of the path placement paper's section IV: what they delivered beside the paper's, and what
the switches saw of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from detour.base.tables import Table, left, percent, right
from detour.experiments.columns import columns, row, taken
from detour.experiments.placement.experiment import PathRun
from detour.experiments.placement.scenario import NAMES, THROTTLE, TOPOLOGY

PAPER_GB = {"none": 69.81, "controller": 98.00}


@row
class ComparedRun(PathRun):
    """`delivered_fraction`: of what the uncongested run delivered."""

    delivered_fraction: float | None


@dataclass(frozen=True)
class PaperVolumes:
    """What the paper says, by mode."""

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


def collect(results: Iterable[PathRun | None]) -> PathFindings:
    """The runs beside each other and beside the paper's."""
    found = [result for result in results if result is not None]
    full = next((run.delivered_gb for run in found if run.mode == "uncongested"), None)
    return PathFindings(
        tuple(taken(ComparedRun, run, delivered_fraction=run.delivered_gb / full if full else None) for run in found)
    )


def tables(found: PathFindings) -> list[Table[Any]]:
    """Ours beside the paper's, and a second one if switches watched the flow."""
    paper, volumes = found.paper, found.paper.delivered_gb
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
    seen = [(run.mode, switch) for run in found.runs for switch in run.switches]
    title = f"{found.throttled} at {found.throttle:.0%} of its rate"
    return [
        Table((mode, delivered, *shares, *others), found.runs, title, [note]),
        *([Table(watched, seen, "the flow as the switches saw it")] if seen else []),
    ]
