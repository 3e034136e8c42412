# SPDX-License-Identifier: Apache-2.0
"""docs/results.md: every number and figure of the non-shortest-path paper, ours beside it, from one command.

What to run is decided here (`selections`); how long a run takes is estimated, and the numbers of pairs are chosen so
that the usual extent fits an hour on two cores. What is left out is said in the document, with the command for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from detour.base.errors import DetourError
from detour.experiments.nonshortest import deadlock, figures, paper, pfc_gain, results_text
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.nonshortest.deadlock import Figure2Point
from detour.experiments.nonshortest.experiment import NonshortestPoint, NonshortestSelection
from detour.experiments.nonshortest.pfc_gain import PfcGainPoint
from detour.experiments.nonshortest.results_text import Evaluation
from detour.experiments.nonshortest.workloads import PATTERNS
from detour.experiments.reproduce import DEADLOCK, NONSHORTEST, PFC_GAIN, Means, reproduce
from detour.experiments.sweep import FailedPoint, SweepProgress

DOCUMENT = "results.md"
FIGURES = "figures"

_CURVES: dict[str, dict[tuple[str, str], tuple[int, ...]]] = {
    "quick": {("D1", "adv1"): (8, 64)},
    "normal": {
        ("D1", "unf"): (8, 72, 288, 1_152),
        ("D1", "adv1"): (2, 4, 8, 16, 32, 64),
        ("D1", "adv2"): (2, 8, 32, 64, 256),
        ("D2", "unf"): (18, 1_368, 5_472),
        ("D2", "adv1"): (4, 18, 48, 144, 324),
        ("D2", "adv2"): (4, 18, 48, 144),
        ("D3", "unf"): (4_224, 16_896),
        ("D3", "adv1"): (8, 32, 256, 1_024),
        ("D3", "adv2"): (8, 32, 256),
    },
    "full": {
        (topology, pattern): tuple(
            sorted(
                {
                    *nonshortest.default_pairs(topology, pattern),
                    *(paper.pairs_of_load(topology, pattern, load) for load in paper.LOADS),
                }
            )
        )
        for topology in paper.TOPOLOGIES
        for pattern in PATTERNS
    },
}
"""numbers of pairs by extent, topology and pattern"""

_CONNECTIONS = {
    "quick": (16, 64),
    "normal": (16, 64, 256, 1_024, 4_096, 16_384, 32_768),
    "full": pfc_gain.CONNECTIONS,
}
_SEEDS = {"quick": 1, "normal": 1, "full": 10}
_LIGHT_SEEDS = {"quick": 1, "normal": 5, "full": 10}
"""with one connection a host much depends on which hosts are drawn, and a run takes seconds"""
_LOSSES = (0.0, 1e-4, 1e-3, 1e-2)
_LOSS_PAIRS = 64
_MESSAGE = 2_000_000


def selections(extent: str) -> list[NonshortestSelection]:
    """What is run of the four schemes: the curves, and for Table III Benchmark with all T where a load falls on it."""
    found = []
    for (topology, pattern), counts in _CURVES[extent].items():
        for count in counts:
            load = paper.load_of(topology, pattern, count)
            seeds = (_LIGHT_SEEDS if load == "light" and pattern != "unf" else _SEEDS)[extent]
            thresholds = nonshortest.THRESHOLDS if load or extent == "full" else (nonshortest.DEFAULT_THRESHOLD,)
            found.append(
                NonshortestSelection(topology, pattern, (count,), seeds=seeds, thresholds=thresholds, times=extent)
            )
    return found


def extras(extent: str) -> list[NonshortestSelection]:
    """Loss injection on D1 (LERP beside go-back-N), and completion times of all schemes."""
    if extent == "quick":
        return []
    pair = ("TelemetryLERP", "TelemetryGBN")
    losses = [
        NonshortestSelection("D1", "adv2", (_LOSS_PAIRS,), pair, times=extent, loss=loss) for loss in _LOSSES if loss
    ]
    return [*losses, NonshortestSelection("D1", "unf", (144,), times=extent, message_bytes=_MESSAGE)]


def points_of(what: Sequence[NonshortestSelection]) -> list[NonshortestPoint]:
    """The points of several selections."""
    return [point for selection in what for point in nonshortest.select(selection)]


@dataclass(frozen=True)
class WrittenResults:
    """A document. `points`: how many it shows."""

    file: str
    points: int
    failures: Sequence[FailedPoint[NonshortestPoint | PfcGainPoint | Figure2Point]]
    left_out: Sequence[NonshortestPoint | PfcGainPoint | Figure2Point]


def write(folder: Path, extent: str, means: Means, report: SweepProgress | None = None) -> WrittenResults:
    """Runs everything of an extent and writes `results.md` and its figures into `folder`.

    Raises:
        DetourError: the folder cannot be written.
    """
    if means.budget_s is not None:
        means = replace(means, budget_s=means.budget_s / 3)
    found = Evaluation(
        reproduce(NONSHORTEST, points_of(selections(extent)), means, report),
        reproduce(NONSHORTEST, points_of(extras(extent)), means, report),
        reproduce(PFC_GAIN, pfc_gain.select(_CONNECTIONS[extent], 1, extent), means, report),
        reproduce(DEADLOCK, deadlock.select(), means, report),
    )
    file = folder / DOCUMENT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        drawn = draw(found, folder / FIGURES)
        file.write_text(results_text.document(found, extent, drawn, left_out(extent)))
    except OSError as error:
        raise DetourError(f"{file}: {error.strerror}") from None
    return WrittenResults(
        str(file),
        sum(len(part.collected.points) for part in found.parts),
        [failure for part in found.parts for failure in part.failures],
        [point for part in found.parts for point in part.left_out],
    )


def draw(found: Evaluation, folder: Path) -> dict[str, str]:
    """All figures; by name the file's place seen from the document."""
    drawn = {}
    points, table_1 = found.curves.collected.points, found.table_1.collected.points
    for number, topology in ((5, "D1"), (6, "D2"), (7, "D3")):
        mine = [run for run in points if run.topology == topology]
        if mine:
            drawn[topology] = f"fig{number}-{topology.lower()}.svg"
            figures.throughput(mine, folder / drawn[topology])
    last = [(topology, pattern, counts[-1]) for (topology, pattern), counts in _CURVES["normal"].items()]
    series = [run for run in points if run.traffic in last and run.topology == "D1"]
    if series:
        drawn["time"] = "over-time.svg"
        figures.over_time(series, folder / drawn["time"])
    if table_1:
        drawn["table1"] = "table1.svg"
        figures.pfc_gain(table_1, folder / drawn["table1"])
    return {name: f"{FIGURES}/{file}" for name, file in drawn.items()}


def left_out(extent: str) -> list[tuple[str, str]]:
    """(what `--full` would run besides, command for it), by topology and pattern."""
    found = []
    for (topology, pattern), counts in _CURVES["full"].items():
        missing = sorted(set(counts) - set(_CURVES[extent].get((topology, pattern), ())))
        if missing and extent != "full":
            numbers = ",".join(map(str, missing))
            command = f"detour reproduce nonshortest --topology {topology} --pattern {pattern} --pairs {numbers}"
            found.append((f"{topology} {pattern.upper()}: {numbers.replace(',', ', ')} pairs", f"{command} --full"))
    missing_connections = sorted(set(pfc_gain.CONNECTIONS) - set(_CONNECTIONS[extent]))
    if missing_connections:
        numbers = ",".join(map(str, missing_connections))
        what = f"Table I: {numbers.replace(',', ', ')} connections"
        found.append((what, f"detour reproduce pfc-gain --connections {numbers} --full"))
    if extent != "full":
        found.append(("more than one draw of pairs (the paper: 10 to 20)", "detour reproduce all --full"))
    return found
