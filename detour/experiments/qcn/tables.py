# SPDX-License-Identifier: Apache-2.0
"""Tables of the QCN-Switch paper's runs: curves, fairness, landmarks, and the paper's statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from detour.base.tables import Column, Table, fixed, right
from detour.control.graph_files import open_topology
from detour.experiments import drawing
from detour.experiments.columns import columns, row, shown, table, taken
from detour.experiments.qcn import goals
from detour.experiments.qcn.experiment import (
    BY_AGE,
    FAIR_LOAD,
    LOADS,
    ROUTINGS,
    QcnLoad,
    QcnPoint,
    QcnResult,
)
from detour.fabric.traffic.open_loop import OPEN_LOOP_PATTERNS

PAPER = (
    ("UN", "PB", "sends part of the traffic non-minimally: latency above MIN's, maximum throughput below"),
    ("UN", "Conditional-OpenFlow", "collapses at high loads"),
    ("UN", "QCN-Switch-base", "collapses at high loads, worse than Conditional OpenFlow"),
    ("UN", "QCN-Switch-source", "collapses at high loads, worse than Conditional OpenFlow"),
    ("UN", "QCN-Switch-comparison", "good throughput at saturation, a slight drop, competitive with PB"),
    ("ADV", "Conditional-OpenFlow", "excessive latency at low loads"),
    ("ADV", "QCN-Switch-base", "lower latency at low loads, unfair: SW7 injects less"),
    ("ADV", "QCN-Switch-source", "fair; the highest saturation throughput of the three, competitive with VAL"),
    ("ADV", "QCN-Switch-comparison", "lower saturation throughput, worse latency than base, unfair: SW7 injects less"),
)
"""what the text says of Figs. 3, 7 and 8, whose curves carry no numbers (sections II-C, IV-B and IV-C)"""


@dataclass(frozen=True)
class QcnInjection:
    """The injection of a switch of group 0 under ADV at `FAIR_LOAD`."""

    routing: str
    switch: str
    injected: float


@row
class QcnLandmarks:
    """Landmarks of one routing, each None if a point that it needs is missing: `saturation`, the highest accepted
    throughput, by pattern, and whether it is one (`saturated`: at some load less was accepted than offered); `un_drop`,
    by how much of it the one at the highest load is lower; `adv_latency`, the highest ratio to VAL's at loads up to
    0.3; `fairness`, the least injection of a switch of group 0, over the mean."""

    routing: str = shown("routing")
    saturation: dict[str, float | None]
    saturated: dict[str, bool]
    un_drop: float | None = shown("UN drop", ".3f", means="at the highest load, share of the saturation throughput")
    adv_latency: float | None = shown("ADV latency / VAL", ".2f", means="the highest ratio at loads up to 0.3")
    fairness: float | None = shown("least / mean injection", ".3f", means="of group 0's switches, ADV at load 0.4")


@row
class QcnStatement:
    """The paper's statement on a routing under a pattern."""

    pattern: str = shown("pattern")
    routing: str = shown("routing")
    says: str = shown("what the paper says")


@dataclass(frozen=True)
class QcnFindings:
    """`loads_left_out`: by pattern, loads of `full` at which no routing was to be measured."""

    curves: list[QcnLoad]
    fairness: list[QcnInjection]
    landmarks: list[QcnLandmarks]
    paper: list[QcnStatement]
    goals: list[goals.QcnGoal] = field(default_factory=list)
    loads_left_out: dict[str, list[float]] = field(default_factory=dict)


def collect(results: Sequence[QcnResult]) -> QcnFindings:
    """Curves, fairness (switches of group 0 under ADV at load 0.4), landmarks by routing, and the paper's words."""
    return QcnFindings(
        [taken(QcnLoad, run) for run in results],
        [
            QcnInjection(run.routing, f"SW{number}", injected)
            for run in results
            if run.pattern == "ADV" and run.load == FAIR_LOAD
            for number, injected in enumerate(run.injected)
        ],
        [
            landmarks(name + order, results)
            for order in ("", BY_AGE)
            for name in ROUTINGS
            if any(run.routing == name + order for run in results)
        ],
        [QcnStatement(pattern=pattern, routing=routing, says=says) for pattern, routing, says in PAPER],
    )


def annotate(findings: QcnFindings, points: Sequence[QcnPoint], results: Sequence[QcnResult | None]) -> QcnFindings:
    """With the loads of `full` at which no routing was measured, and the goals."""
    measured = {(point.pattern, point.load) for point in points}
    missing = {name: [load for load in loads if (name, load) not in measured] for name, loads in LOADS["full"].items()}
    small = all(open_topology(point.topology).valiant_groups == _SMALL_GROUPS for point in points[:1])
    return replace(
        findings,
        loads_left_out={name: loads for name, loads in missing.items() if loads},
        goals=goals.of_curves([result for result in results if result is not None], small=small),
    )


def landmarks(name: str, results: Sequence[QcnResult]) -> QcnLandmarks:
    """Return the landmarks of one routing, with VAL's to compare with."""
    mine = [run for run in results if run.routing == name]
    saturation, saturated = {}, {}
    for pattern in OPEN_LOOP_PATTERNS:
        points = [(run.accepted, run.load) for run in mine if run.pattern == pattern]
        saturation[pattern] = max((accepted for accepted, _ in points), default=None)
        saturated[pattern] = any(accepted < goals.ACCEPTED * load for accepted, load in points)
    uniform = sorted((run for run in mine if run.pattern == "UN"), key=lambda run: run.load)
    low = {run.load: run.latency_ns for run in mine if run.pattern == "ADV" and run.load <= 0.3}
    valiant = {run.load: run.latency_ns for run in results if (run.routing, run.pattern) == ("VAL", "ADV")}
    ratios = [latency / valiant[load] for load, latency in low.items() if load in valiant]
    fair = next((run.injected for run in mine if (run.pattern, run.load) == ("ADV", FAIR_LOAD)), None)
    return QcnLandmarks(
        routing=name,
        saturation=saturation,
        saturated=saturated,
        un_drop=1 - uniform[-1].accepted / saturation["UN"] if uniform and saturation["UN"] else None,
        adv_latency=max(ratios, default=None),
        fairness=min(fair) * len(fair) / sum(fair) if fair else None,
    )


def tables(findings: QcnFindings) -> list[Table[Any]]:
    """All, in the order in which they are read."""
    rows = sorted(findings.curves, key=lambda row: (row.pattern, row.routing, row.load))
    name, *others = columns(QcnLandmarks)
    heads = (name, *map(_saturation, OPEN_LOOP_PATTERNS), *others)
    notes = [
        f"{pattern}: not measured at loads {', '.join(f'{load:g}' for load in loads)} (--full does)"
        for pattern, loads in findings.loads_left_out.items()
    ]
    return [
        table(QcnLoad, rows, "accepted throughput and latency"),
        Table(heads, findings.landmarks, "saturation throughput and other landmarks"),
        table(QcnStatement, findings.paper, notes=notes),
        *goals.tables(findings.goals),
    ]


def _saturation(pattern: str) -> Column[QcnLandmarks]:
    def text(landmark: QcnLandmarks) -> str | None:
        """Beyond the highest load that was measured there may be more."""
        most = fixed(landmark.saturation[pattern], 3)
        return most if landmark.saturated[pattern] or most is None else f"> {most}"

    return right(pattern, text, wide=pattern not in ("UN", "ADV", "ADVc"))


STYLES = {
    "MIN": (drawing.GRAY, "^", ":"),
    "VAL": (drawing.BLACK, "v", ":"),
    "VAL-group": (drawing.BLACK, "<", ":"),
    "VAL-host": (drawing.BLACK, ">", ":"),
    "PB": (drawing.GREEN, "s", "--"),
    "UGAL-G": (drawing.GREEN, "d", ":"),
    "UGAL-L": (drawing.SKY, "s", "--"),
    "PAR": (drawing.SKY, "o", "-"),
    "Piggyback": (drawing.GREEN, "x", "-"),
    "OLM-like": (drawing.SKY, "^", ":"),
    "Conditional-OpenFlow": (drawing.YELLOW, "P", "-"),
    "QCN-Switch-base": (drawing.ORANGE, "+", "-"),
    "QCN-Switch-source": (drawing.PURPLE, "o", "-"),
    "QCN-Switch-comparison": (drawing.VERMILION, "x", "-"),
    "QCN-Switch-FOGSim": (drawing.VERMILION, "v", ":"),
    "QCN-Switch-complete": (drawing.PURPLE, "D", "--"),
    "QCN-Switch-fast": (drawing.BLUE, "D", "-"),
}
STYLES |= {name + BY_AGE: (color, marker, "-.") for name, (color, marker, _) in STYLES.items()}
_SMALL_GROUPS = 9  # of p = 2
_MOST_US = 40.0
"""where the axis of latency ends: beyond saturation latency grows as long as one measures"""


def draw(findings: QcnFindings, file: Path) -> None:
    """A row for every traffic pattern: latency, accepted throughput; then injection by switch. Raises `DetourError`:
    there is nothing to draw, or the file cannot be written."""
    patterns = list(dict.fromkeys(row.pattern for row in findings.curves))
    drawing.need(patterns)
    rows = len(patterns) + bool(findings.fairness)
    plt, figure, axes = drawing.canvas(rows, 2, 5.2)
    for (latency, accepted), pattern in zip(axes, patterns, strict=False):
        _pattern(latency, accepted, [row for row in findings.curves if row.pattern == pattern], pattern)
    if findings.fairness:
        _fairness(axes[-1][0], findings.fairness)
        axes[-1][1].axis("off")
    drawing.legend(figure, axes.ravel())
    drawing.save(plt, figure, file)


def _pattern(left: Any, right: Any, points: Sequence[QcnLoad], pattern: str) -> None:
    for place, (name, style) in enumerate(STYLES.items()):
        mine = sorted((point for point in points if point.routing == name), key=lambda point: point.load)
        if not mine:
            continue
        # Without lines, points that are the same stand beside each other.
        apart = 0.004 * (place - len(STYLES) / 2) if len(mine) < drawing.ENOUGH else 0.0
        loads = [point.load + apart for point in mine]
        for axis, y in (
            (left, [point.latency_ns / 1e3 for point in mine]),
            (right, [point.accepted for point in mine]),
        ):
            drawing.curve(axis, loads, y, style, name, markersize=4, linewidth=1)
    left.set(ylabel="mean latency, us", ylim=(0, _MOST_US), title=f"{pattern}: latency")
    right.set(ylabel="accepted, share of the hosts' links", ylim=(0, None), title=f"{pattern}: throughput")
    for axis in (left, right):
        axis.set_xlabel("offered load")


def _fairness(axis: Any, rows: Sequence[QcnInjection]) -> None:
    names = [name for name in STYLES if any(row.routing == name for row in rows)]
    switches = list(dict.fromkeys(row.switch for row in rows))
    for place, name in enumerate(names):
        values = [row.injected for row in rows if row.routing == name]
        width = 0.85 / len(names)
        at = [number + (place - (len(names) - 1) / 2) * width for number in range(len(values))]
        axis.bar(at, values, width, color=STYLES[name][0], label=name)
    axis.set_xticks(range(len(switches)), switches)
    axis.set(ylabel="injected, share of the hosts' links", title="ADV at load 0.4: switches of group 0")
    axis.grid(visible=False, axis="x")
