# SPDX-License-Identifier: Apache-2.0
"""The effect of each scheme's additions (`additions`): the same traffic with each of them and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET

from detour.base.errors import DetourError
from detour.experiments.columns import grouped, row, shown, taken
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.nonshortest.additions import Addition, additions_of
from detour.experiments.nonshortest.experiment import (
    NonshortestPoint,
    NonshortestRun,
    NonshortestSelection,
    find_topology,
    gain_over,
)
from detour.experiments.nonshortest.paper import LOADS
from detour.experiments.nonshortest.settings import chosen
from detour.experiments.nonshortest.workloads import pair_count, pairs_of_load
from detour.fabric.backends.virtual.scheme import BENCHMARK, SHORTEST_PATH, TELEMETRY_GBN, TELEMETRY_LERP, scheme

ABLATED_SCHEMES = (TELEMETRY_LERP.name, TELEMETRY_GBN.name, BENCHMARK.name, SHORTEST_PATH.name)
ABLATED: tuple[tuple[str, int], ...] = (("unf", 288), ("adv1", 8), ("adv1", 64), ("adv2", 64))
"""of D1: pattern and pairs, where none are asked for"""


def cells(topology: str, pattern: str | None, pairs: tuple[int, ...]) -> list[tuple[str, int]]:
    """Traffic to measure additions on: what is asked for, of each pattern both loads unless pairs are named; if
    nothing is, `ABLATED`, as far as the topology has so many pairs. Raises `DetourError`: there is no such topology
    or pattern."""
    network = find_topology(topology)[1]
    if pattern is None and not pairs:
        traffic = [(name, min(count, pair_count(network, name))) for name, count in ABLATED]
    else:
        name = pattern or "adv1"
        traffic = [(name, count) for count in pairs or (pairs_of_load(network, name, load) for load in LOADS)]
    return list(dict.fromkeys(traffic))


@dataclass(frozen=True)
class Worth:
    """By how many percent the wire rate of a scheme is higher with an addition than without. `spread`: the sample
    standard deviation over `draws` of pairs; `steady`: all of these runs were."""

    topology: str
    pattern: str
    pairs: int
    gain: float
    draws: int
    spread: float | None
    steady: bool


@row
class SettingRow:
    """An addition of a scheme: what the paper says, what is there instead, what it was found on and what it is
    worth."""

    scheme: str
    name: str = shown("addition")
    paper: str = shown("the paper says")
    ours: str = shown("here")
    chosen_on: str = shown("chosen on", wide=True)
    worth: list[Worth]


@dataclass(frozen=True)
class SettingFindings:
    """`schemes`: what each is set to; `settings`: its additions; `points`: the runs."""

    schemes: dict[str, str]
    settings: list[SettingRow]
    points: Sequence[NonshortestRun]


def select(what: NonshortestSelection) -> list[NonshortestPoint]:
    """Return, for every scheme of a selection, the points as it is, and those without each of its additions. Raises
    `DetourError`: the rule that a parameter breaks."""
    points = []
    for name in what.schemes:
        left_out = [UNSET, *(addition.name for addition in _additions(what.topology, name))]
        points += [
            point
            for without in left_out
            for point in nonshortest.select(replace(what, schemes=(name,), without=without))
        ]
    return points


def select_asked(
    extent: str = "normal",
    *,
    topology: str = "D1",
    pattern: str | None = None,
    pairs: Sequence[int] = (),
    scheme: str = "all",
    **more: Any,
) -> list[NonshortestPoint]:
    """The points of what is asked for in words (`nonshortest.selection`)."""
    if "without" in more:
        raise DetourError("--settings already leaves out each addition; it does not go with --without")
    points = []
    for name, count in cells(topology, pattern, tuple(pairs)):
        chosen = nonshortest.selection(extent, topology=topology, pattern=name, pairs=(count,), scheme=scheme, **more)
        points += select(replace(chosen, schemes=ABLATED_SCHEMES) if scheme == "all" else chosen)
    return points


def _additions(topology: str, name: str) -> list[Addition]:
    """Return the additions that make a difference to the scheme as it is set on a topology."""
    plain = scheme(name)
    return additions_of(chosen(find_topology(topology)[1], plain).of(plain))


def collect(runs: Sequence[NonshortestRun]) -> SettingFindings:
    """Compute the effect of every addition of every scheme that was run, on the draws of which both were run."""
    cells = grouped(runs, lambda run: (run.scheme, run.traffic, run.without or ""))
    rows = []
    for name in ABLATED_SCHEMES:
        cases = dict.fromkeys(run.traffic for run in runs if run.scheme == name)
        additions = {addition.name: addition for case in cases for addition in _additions(case.topology, name)}
        for addition in additions.values():
            pairs = {c: (cells.get((name, c, ""), ()), cells.get((name, c, addition.name), ())) for c in cases}
            gains = {case: gain_over(case, *pair) for case, pair in pairs.items()}
            worth = [Worth(*case, g.gain, g.draws, g.spread, g.steady) for case, g in gains.items() if g]
            rows.append(taken(SettingRow, addition, scheme=name, worth=worth))
    return SettingFindings({run.scheme: run.setting for run in runs if not run.without}, rows, runs)
