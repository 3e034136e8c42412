# SPDX-License-Identifier: Apache-2.0
"""docs/results.md and docs/results-settings.md: every number and figure of the non-shortest-path paper, ours beside it,
from one command.

What to run is decided here (`selections`); how long a run takes is estimated, and the numbers of pairs are chosen so
that the usual extent fits an hour on two cores. What is left out is said in the document, with the command for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from detour.base.files import naming, write_file
from detour.base.tables import Table, markdown
from detour.experiments.columns import grouped, table
from detour.experiments.nonshortest import ablation, deadlock, figures, paper, pfc_gain, settings, tables, tuning
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.nonshortest.ablation import SettingFindings
from detour.experiments.nonshortest.claims import Claim, claims
from detour.experiments.nonshortest.deadlock import Figure2Findings, Figure2Point
from detour.experiments.nonshortest.experiment import (
    CompletionNonshortestRun,
    Gain,
    NonshortestFindings,
    NonshortestPoint,
    NonshortestRun,
    NonshortestSelection,
)
from detour.experiments.nonshortest.pfc_gain import PfcGainFindings, PfcGainPoint
from detour.experiments.nonshortest.workloads import PATTERNS, pairs_of_load
from detour.experiments.prose import prose
from detour.experiments.reproduce import (
    ADDITIONS_WORTH,
    DEADLOCK,
    NONSHORTEST,
    PFC_GAIN,
    Experiment,
    Means,
    Reproduction,
    describe,
    reproduce,
)
from detour.experiments.steady import draws_of
from detour.experiments.store import Store, source_version
from detour.experiments.sweep import FailedPoint, SweepProgress
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK,
    BENCHMARK_DCTCP,
    SCHEMES,
    SHORTEST_PATH,
    TELEMETRY_GBN,
    TELEMETRY_GBN_DCTCP,
    TELEMETRY_LERP,
    TELEMETRY_LERP_LITERAL,
)

DOCUMENT = "results.md"
SETTINGS_DOCUMENT = "results-settings.md"
"""what the runs behind the first one are set to, and what each part of that is worth"""
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
}
"""numbers of pairs by extent, topology and pattern"""

_CONNECTIONS = {"quick": (16, 64), "normal": (16, 64, 256, 1_024, 4_096, 16_384, 65_535), "full": pfc_gain.CONNECTIONS}
_BESIDE = (TELEMETRY_GBN.name, SHORTEST_PATH.name, TELEMETRY_LERP_LITERAL.name)
"""schemes that Table III does not compare: one draw on D2 and D3, unless all is asked for"""
_LOSSES = (0.0, 1e-4, 1e-3, 1e-2)
_LOSS_PAIRS = 64
_MESSAGE = 2_000_000
_DELTAS: dict[str, tuple[float, ...]] = {"delta1": (0.6, 0.9), "delta2": (40, 110), "delta3": (50, 200)}
"""beside the paper's 0.8, 75 and 100"""
_SENSITIVE = (("unf", 288), ("adv1", 64), ("adv2", 64))
_ELSEWHERE = (("permutation", 72), ("two-jobs", 288))
"""hold-outs on which additions are left out as well"""


@cache
def _counts(extent: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """Numbers of pairs by topology and pattern."""
    if extent != "full":
        return _CURVES[extent]
    of_loads = {
        (topology, pattern): {pairs_of_load(settings.papers_topology(topology), pattern, load) for load in paper.LOADS}
        for topology in paper.TOPOLOGIES
        for pattern in PATTERNS
    }
    return {cell: tuple(sorted({*nonshortest.default_pairs(*cell), *counts})) for cell, counts in of_loads.items()}


def selections(extent: str) -> list[NonshortestSelection]:
    """Return the selections of the schemes' runs: the curves, and where a load of Table III falls on them, all variants
    and draws."""
    chosen = []
    for (topology, pattern), counts in _counts(extent).items():
        for count in counts:
            plain = NonshortestSelection(topology, pattern, (count,), tuple(SCHEMES), times=extent)
            if nonshortest.load_of(topology, pattern, count) is None:
                chosen.append(plain)
                continue
            few = _BESIDE if topology != "D1" and extent == "normal" else ()
            every = (*SCHEMES, BENCHMARK_DCTCP.name, TELEMETRY_LERP_LITERAL.name)
            often = tuple(name for name in every if name not in few)
            chosen.append(replace(plain, schemes=often, seeds=draws_of(extent)))
            chosen += [replace(plain, schemes=few)] if few else []
    return chosen


def extras(extent: str) -> list[NonshortestSelection]:
    """Loss injection on D1 (LERP beside go-back-N), and completion times of all schemes."""
    if extent == "quick":
        return []
    pair = (TELEMETRY_LERP.name, TELEMETRY_GBN_DCTCP.name)
    losses = [NonshortestSelection("D1", "adv2", (_LOSS_PAIRS,), pair, times=extent, loss=loss) for loss in _LOSSES]
    return [*losses, NonshortestSelection("D1", "unf", (144,), times=extent, message_bytes=_MESSAGE)]


def ablations(extent: str) -> list[NonshortestPoint]:
    """Return the points that measure the additions, on D1: of each scheme where they were chosen (TelemetryGBN's are
    TelemetryLERP's), and of TelemetryLERP on hold-outs."""
    if extent == "quick":
        return []
    schemes = tuple(name for name in ablation.ABLATED_SCHEMES if name != TELEMETRY_GBN.name)
    cells = [(schemes, cell) for cell in _SENSITIVE] + [((TELEMETRY_LERP.name,), cell) for cell in _ELSEWHERE]
    selected = [
        NonshortestSelection("D1", pattern, (pairs,), chosen, seeds=draws_of(extent), times=extent)
        for chosen, (pattern, pairs) in cells
    ]
    return [point for selection in selected for point in ablation.select(selection)]


def sensitivity(extent: str) -> list[NonshortestSelection]:
    """The paper's three constants moved, and its idle wait left out."""
    if extent == "quick":
        return []
    changes = [{name: value} for name, values in _DELTAS.items() for value in values]
    chosen = []
    for pattern, pairs in _SENSITIVE:
        plain = NonshortestSelection("D1", pattern, (pairs,), (TELEMETRY_LERP.name,), draws_of(extent), times=extent)
        chosen += [replace(plain, hosts=hosts) for hosts in ({}, *changes)]
        waiting = replace(plain, schemes=(TELEMETRY_GBN.name,))
        chosen += [waiting, replace(waiting, hosts={"idle_wait": False})]
    return chosen


def points_of(what: Sequence[NonshortestSelection]) -> list[NonshortestPoint]:
    """The points of several selections."""
    return [point for selection in what for point in nonshortest.select(selection)]


def parts(extent: str) -> list[tuple[Experiment[Any, Any, Any], Sequence[Any]]]:
    """(experiment, its points) of every part of `Evaluation`, in its order."""
    return [
        (NONSHORTEST, points_of(selections(extent))),
        (NONSHORTEST, points_of(tuning.selections(extent)) if extent != "quick" else []),
        (NONSHORTEST, points_of(extras(extent))),
        (ADDITIONS_WORTH, ablations(extent)),
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
    """Run everything of an extent and write both documents and their figures into `folder`. Raises `DetourError`: the
    folder cannot be written."""
    if means.budget_s is not None:
        means = replace(means, budget_s=means.budget_s / 3)
    outcome = Evaluation(*(reproduce(experiment, points, means, report) for experiment, points in parts(extent)))
    file = folder / DOCUMENT
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
    drawn = draw(outcome, folder / FIGURES)
    for name, text in documents(outcome, extent, drawn, left_out(extent)).items():
        write_file(folder / name, text)
    failures = [failure for part in outcome for failure in part.failures]
    return WrittenResults(str(file), outcome.shown, failures, [point for part in outcome for point in part.left_out])


def keep(file: Path, extent: str, means: Means) -> int:
    """Add the finished runs of an extent to a compressed file (`Means.archive`); return how many that has then.
    Raises `DetourError`: the file cannot be written."""
    points = [point for _, some in parts(extent) for point in some]
    return Store(means.store, source_version()).archive(file, points)


def draw(outcome: Evaluation, folder: Path) -> dict[str, str]:
    """All figures; by name the file's place seen from the document."""
    drawn = {}
    points, table_1 = outcome.curves.collected.points, outcome.table_1.collected.points
    for number, topology in ((5, "D1"), (6, "D2"), (7, "D3")):
        mine = [run for run in points if run.topology == topology]
        if mine:
            drawn[topology] = f"fig{number}-{topology.lower()}.svg"
            figures.throughput(mine, folder / drawn[topology])
    last = [(topology, pattern, counts[-1]) for (topology, pattern), counts in _counts("normal").items()]
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
    if extent == "full":
        return []
    lines = []
    for (topology, pattern), counts in _counts("full").items():
        if missing := sorted(set(counts) - set(_counts(extent).get((topology, pattern), ()))):
            numbers = ",".join(map(str, missing))
            command = f"detour reproduce nonshortest --topology {topology} --pattern {pattern} --pairs {numbers}"
            lines.append((f"{topology} {pattern.upper()}", f"{command} --full"))
    if missing := sorted(set(pfc_gain.CONNECTIONS) - set(_CONNECTIONS[extent])):
        numbers = ",".join(map(str, missing))
        lines.append(("Table I", f"detour reproduce pfc-gain --connections {numbers} --full"))
    return [*lines, ("more draws of pairs (the paper: 10 to 20)", "detour reproduce all --full")]


# -- the document -------------------------------------------------------------------------------------------

_TEXTS = prose(__file__)


def _text(name: str, **values: Any) -> str:
    return _TEXTS[name].format(**values)


class Evaluation(NamedTuple):
    """All that the document shows. `extras`: losses and completion times; `settings`: what additions are worth;
    `sensitivity`: runs with other constants."""

    curves: Reproduction[NonshortestPoint, NonshortestFindings]
    hold_outs: Reproduction[NonshortestPoint, NonshortestFindings]
    extras: Reproduction[NonshortestPoint, NonshortestFindings]
    settings: Reproduction[NonshortestPoint, SettingFindings]
    sensitivity: Reproduction[NonshortestPoint, Sequence[NonshortestRun]]
    table_1: Reproduction[PfcGainPoint, PfcGainFindings]
    figure_2: Reproduction[Figure2Point, Figure2Findings]

    @property
    def shown(self) -> int:
        """Run that it shows."""
        several = (self.curves, self.hold_outs, self.extras, self.settings, self.table_1, self.figure_2)
        return sum(len(part.collected.points) for part in several) + len(self.sensitivity.collected)


def documents(
    outcome: Evaluation, extent: str, drawn: dict[str, str], left_out: list[tuple[str, str]]
) -> dict[str, str]:
    """The texts by their files' names. `drawn`: files of figures by name; `left_out`: (what the extent has not, command
    for it)."""
    curves, hold_outs, extras = outcome.curves.collected, outcome.hold_outs.collected, outcome.extras.collected
    additions, changed = outcome.settings.collected, outcome.sensitivity.collected
    table_1, figure_2 = outcome.table_1.collected, outcome.figure_2.collected
    verdicts = claims(curves.points, changed, table_1.points, figure_2.points)
    stored = settings.stored().topologies
    results = [
        _TEXTS["head"],
        _section("claims", table(Claim, verdicts)),
        _table_3(curves),
        _hold_outs(hold_outs),
        _curves(drawn),
        _table_1(table_1, drawn),
        _deadlock(figure_2),
    ]
    details = [
        _TEXTS["settings_head"],
        _section("set_to", tables.choices(list(stored.values())), seed=settings.TUNING_SEED),
        _section("settings", tables.worth(additions)),
        _section("sensitivity", tables.sensitivity(changed)),
        _section("reasons", tables.differences(curves.gains, curves.points)),
        _section("table_2", tables.table_2()),
        _loss(extras.points),
        _completion(extras.points),
        _missing(outcome, extent, left_out),
    ]
    whole = {DOCUMENT: results, SETTINGS_DOCUMENT: details}
    return {name: "\n".join(section for section in sections if section) for name, sections in whole.items()}


def _section(name: str, shown: Table[Any], **values: Any) -> str:
    """A text with its table; nothing, if that has no rows."""
    return _text(name, table=markdown(shown), **values) if shown.rows else ""


def _table_3(curves: NonshortestFindings) -> str:
    parts = [_TEXTS["table_3"]]
    for rival, what in ((BENCHMARK, "with DCQCN, as in the paper"), (BENCHMARK_DCTCP, "with DCTCP in its place")):
        mine = [gain for gain in curves.gains if gain.load and gain.rival == rival.name]
        if mine:
            gains = markdown(tables.table_3(mine, rival.name))
            parts.append(f"Against Benchmark {what}:\n\n{gains}\n\n{_count(mine)}")
    return "\n".join(parts)


def _count(gains: Sequence[Gain]) -> str:
    """Count who is ahead how often, by more than the standard deviation over draws."""
    ahead = sum(gain.gain > (gain.spread or 0.0) for gain in gains)
    behind = sum(-gain.gain > (gain.spread or 0.0) for gain in gains)
    steady = sum(gain.steady for gain in gains)
    neither = len(gains) - ahead - behind
    return _text("count", ahead=ahead, cells=len(gains), behind=behind, neither=neither, steady=steady)


def _hold_outs(hold_outs: NonshortestFindings) -> str:
    by_rival = grouped(hold_outs.gains, lambda gain: gain.rival)
    counts = "\n".join(f"Against {rival}: {_count(gains)}" for rival, gains in by_rival.items())
    return _section("hold_outs", tables.hold_outs(hold_outs.gains, hold_outs.points), counts=counts)


def _curves(drawn: dict[str, str]) -> str:
    parts = ["## Figs. 5 to 7: throughput over connections\n", _TEXTS["rates"]]
    for number, topology in ((5, "D1"), (6, "D2"), (7, "D3")):
        if topology in drawn:
            picture = f"![throughput of the four schemes on {topology}]({drawn[topology]})"
            parts.append(f"### Fig. {number}: {topology}\n\n{picture}\n")
    if "time" in drawn:
        parts.append(f"### Over time\n\n![wire rate over time]({drawn['time']})\n")
    return "\n".join(parts)


def _loss(extras: Sequence[NonshortestRun]) -> str:
    runs = [run for run in extras if not isinstance(run, CompletionNonshortestRun)]
    if not runs:
        return ""
    topology, pattern, pairs = runs[0].traffic
    losses = markdown(tables.loss(runs))
    return _text("loss", topology=topology, pattern=pattern.upper(), pairs=pairs, table=losses)


def _completion(extras: Sequence[NonshortestRun]) -> str:
    parts = "\n".join(f"{shown.title}; us.\n\n{markdown(shown)}\n" for shown in tables.completion(extras))
    return f"## Completion times\n\n{parts}" if parts else ""


def _table_1(table_1: PfcGainFindings, drawn: dict[str, str]) -> str:
    picture = f"\n![Table I as curves]({drawn['table1']})\n" if "table1" in drawn else ""
    return _text("table_1", topology=table_1.topology, table=markdown(pfc_gain.tables(table_1)[0]), picture=picture)


def _deadlock(figure_2: Figure2Findings) -> str:
    return _text("deadlock", topology=figure_2.topology, table=markdown(deadlock.tables(figure_2)[0]))


def _missing(outcome: Evaluation, extent: str, left_out: list[tuple[str, str]]) -> str:
    lines = [f"- {what}: `{command}`" for what, command in left_out]
    beyond = sum(len(part.left_out) for part in outcome)
    if beyond:
        lines.append(f"- {beyond} points of this extent for which there was no time: `make results`")
    failures = [f"- failed: {describe(fail.point)}: {fail.reason}" for part in outcome for fail in part.failures]
    text = "Everything was run." if not lines else "Left out, with the command that runs it:\n\n" + "\n".join(lines)
    return f"## What was left out (extent: {extent})\n\n{text}\n" + ("\n" + "\n".join(failures) if failures else "")
