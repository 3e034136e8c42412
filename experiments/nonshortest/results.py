# SPDX-License-Identifier: Apache-2.0
"""docs/results.md: every number and figure of the non-shortest-path paper, ours beside it, from one command.

What to run is decided here (`selections`); how long a run takes is estimated, and the numbers of pairs are chosen so
that the usual extent fits an hour on two cores. What is left out is said in the document, with the command for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from detour.base.files import naming, write_file
from detour.experiments.nonshortest import ablation, deadlock, figures, holdout, paper, pfc_gain, results_text
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.nonshortest.experiment import NonshortestPoint, NonshortestSelection
from detour.experiments.nonshortest.results_text import Evaluation
from detour.experiments.nonshortest.workloads import PATTERNS, pairs_of_load
from detour.experiments.reproduce import ADDITIONS_WORTH, DEADLOCK, NONSHORTEST, PFC_GAIN, Experiment, Means, reproduce
from detour.experiments.steady import draws_of
from detour.experiments.store import Store, source_version
from detour.experiments.sweep import FailedPoint, SweepProgress
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK_DCTCP,
    SCHEMES,
    SHORTEST_PATH,
    TELEMETRY_GBN,
    TELEMETRY_GBN_DCTCP,
    TELEMETRY_LERP,
    TELEMETRY_LERP_LITERAL,
)
from detour.topo import parse_topology

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
                    *(pairs_of_load(parse_topology(spec), pattern, load) for load in paper.LOADS),
                }
            )
        )
        for topology, spec in paper.TOPOLOGIES.items()
        for pattern in PATTERNS
    },
}
"""numbers of pairs by extent, topology and pattern"""

_CONNECTIONS = {
    "quick": (16, 64),
    "normal": (16, 64, 256, 1_024, 4_096, 16_384, 65_535),
    "full": pfc_gain.CONNECTIONS,
}
_BESIDE = tuple(one.name for one in (TELEMETRY_GBN, SHORTEST_PATH, TELEMETRY_LERP_LITERAL))
"""schemes that Table III does not compare: one draw on D2 and D3, unless all is asked for"""
_LOSSES = (0.0, 1e-4, 1e-3, 1e-2)
_LOSS_PAIRS = 64
_MESSAGE = 2_000_000
_DELTAS: dict[str, tuple[float, ...]] = {"delta1": (0.6, 0.9), "delta2": (40, 110), "delta3": (50, 200)}
"""beside the paper's 0.8, 75 and 100"""
_SENSITIVE = (("unf", 288), ("adv1", 64), ("adv2", 64))
_ELSEWHERE = (("permutation", 72), ("two-jobs", 288))
"""hold-outs on which additions are left out as well"""


def selections(extent: str) -> list[NonshortestSelection]:
    """What is run of the schemes: the curves, and where a load of Table III falls on them, all variants and draws."""
    found = []
    for (topology, pattern), counts in _CURVES[extent].items():
        for count in counts:
            plain = NonshortestSelection(topology, pattern, (count,), tuple(SCHEMES), times=extent)
            if nonshortest.load_of(topology, pattern, count) is None:
                found.append(plain)
                continue
            often = draws_of(extent)
            few = _BESIDE if topology != "D1" and extent == "normal" else ()
            all_of_them = (*SCHEMES, BENCHMARK_DCTCP.name, TELEMETRY_LERP_LITERAL.name)
            many = tuple(name for name in all_of_them if name not in few)
            found.append(replace(plain, schemes=many, seeds=often))
            if few:
                found.append(replace(plain, schemes=few))
    return found


def extras(extent: str) -> list[NonshortestSelection]:
    """Loss injection on D1 (LERP beside go-back-N), and completion times of all schemes."""
    if extent == "quick":
        return []
    pair = (TELEMETRY_LERP.name, TELEMETRY_GBN_DCTCP.name)
    losses = [NonshortestSelection("D1", "adv2", (_LOSS_PAIRS,), pair, times=extent, loss=loss) for loss in _LOSSES]
    return [*losses, NonshortestSelection("D1", "unf", (144,), times=extent, message_bytes=_MESSAGE)]


def settings(extent: str) -> list[NonshortestPoint]:
    """What additions are worth, on D1: of each scheme where they were chosen (TelemetryGBN's are TelemetryLERP's), and
    of TelemetryLERP on hold-outs."""
    if extent == "quick":
        return []
    schemes = tuple(name for name in ablation.ABLATED_SCHEMES if name != TELEMETRY_GBN.name)
    cells = [(schemes, cell) for cell in _SENSITIVE] + [((TELEMETRY_LERP.name,), cell) for cell in _ELSEWHERE]
    return [
        point
        for chosen, (pattern, pairs) in cells
        for point in ablation.select(
            NonshortestSelection("D1", pattern, (pairs,), chosen, seeds=draws_of(extent), times=extent)
        )
    ]


def sensitivity(extent: str) -> list[NonshortestSelection]:
    """The paper's three constants moved, and its idle wait left out."""
    if extent == "quick":
        return []
    changes = [{name: value} for name, values in _DELTAS.items() for value in values]
    found = []
    for pattern, pairs in _SENSITIVE:
        plain = NonshortestSelection("D1", pattern, (pairs,), (TELEMETRY_LERP.name,), draws_of(extent), times=extent)
        found += [replace(plain, hosts=hosts) for hosts in ({}, *changes)]
        waiting = replace(plain, schemes=(TELEMETRY_GBN.name,))
        found += [waiting, replace(waiting, hosts={"idle_wait": False})]
    return found


def points_of(what: Sequence[NonshortestSelection]) -> list[NonshortestPoint]:
    """The points of several selections."""
    return [point for selection in what for point in nonshortest.select(selection)]


def parts(extent: str) -> list[tuple[Experiment[Any, Any, Any], Sequence[Any]]]:
    """(experiment, its points) of every part of `Evaluation`, in its order."""
    return [
        (NONSHORTEST, points_of(selections(extent))),
        (NONSHORTEST, points_of(holdout.selections(extent)) if extent != "quick" else []),
        (NONSHORTEST, points_of(extras(extent))),
        (ADDITIONS_WORTH, settings(extent)),
        (replace(NONSHORTEST, collect=list), points_of(sensitivity(extent))),
        (PFC_GAIN, pfc_gain.select(extent, _CONNECTIONS[extent])),
        (DEADLOCK, deadlock.select()),
    ]


@dataclass(frozen=True)
class WrittenResults:
    """A document. `points`: how many it shows."""

    file: str
    points: int
    failures: Sequence[FailedPoint[Any]]
    left_out: Sequence[Any]


def write(folder: Path, extent: str, means: Means, report: SweepProgress | None = None) -> WrittenResults:
    """Runs everything of an extent and writes `results.md` and its figures into `folder`.

    Raises:
        DetourError: the folder cannot be written.
    """
    if means.budget_s is not None:
        means = replace(means, budget_s=means.budget_s / 3)
    found = Evaluation(*(reproduce(experiment, points, means, report) for experiment, points in parts(extent)))
    file = folder / DOCUMENT
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    drawn = draw(found, folder / FIGURES)
    write_file(file, results_text.document(found, extent, drawn, left_out(extent)))
    return WrittenResults(
        str(file),
        found.shown,
        [failure for part in found for failure in part.failures],
        [point for part in found for point in part.left_out],
    )


def keep(file: Path, extent: str, means: Means) -> int:
    """Adds the finished runs of an extent to a compressed file (`Means.archive`); returns how many that has then.

    Raises:
        DetourError: the file cannot be written.
    """
    points = [point for _, some in parts(extent) for point in some]
    return Store(means.store, source_version()).archive(file, points)


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
    series = [run for run in points if run.traffic in last and run.topology == "D1" and run.seed == 1]
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
        found.append(("more draws of pairs (the paper: 10 to 20)", "detour reproduce all --full"))
    return found
