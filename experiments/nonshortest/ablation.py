# SPDX-License-Identifier: Apache-2.0
"""What each scheme owes to each of its additions (`additions`): the same traffic with it and without."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET

from detour.base.errors import DetourError
from detour.experiments.columns import row, shown, taken
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.nonshortest.additions import Addition, additions_of
from detour.experiments.nonshortest.experiment import (
    NonshortestPoint,
    NonshortestRun,
    NonshortestSelection,
    TrafficCase,
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
        found = [(name, min(count, pair_count(network, name))) for name, count in ABLATED]
    else:
        name = pattern or "adv1"
        found = [(name, count) for count in pairs or (pairs_of_load(network, name, load) for load in LOADS)]
    return list(dict.fromkeys(found))


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
    """Of every scheme of a selection the points as it is, and those without each of its additions. Raises
    `DetourError`: the rule that a parameter breaks."""
    points = []
    for name in what.schemes:
        left_out = [UNSET, *(one.name for one in _additions(what.topology, name))]
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
        raise DetourError("--settings leaves out every addition in turn; --without is for one")
    points = []
    for name, count in cells(topology, pattern, tuple(pairs)):
        chosen = nonshortest.selection(extent, topology=topology, pattern=name, pairs=(count,), scheme=scheme, **more)
        points += select(replace(chosen, schemes=ABLATED_SCHEMES) if scheme == "all" else chosen)
    return points


def _additions(topology: str, name: str) -> list[Addition]:
    """Those that make a difference to the scheme as it is set on a topology."""
    one = scheme(name)
    return additions_of(chosen(find_topology(topology)[1], one).of(one))


def collect(results: Iterable[NonshortestRun | None]) -> SettingFindings:
    """What is known of every addition of every scheme that was run."""
    runs = [run for run in results if run is not None]
    cells: defaultdict[tuple[str, TrafficCase, str], list[NonshortestRun]] = defaultdict(list)
    for run in runs:
        cells[run.scheme, run.traffic, run.without or ""].append(run)
    traffics = {name: dict.fromkeys(run.traffic for run in runs if run.scheme == name) for name in ABLATED_SCHEMES}
    rows = []
    for name, cases in traffics.items():
        found = {one.name: one for case in cases for one in _additions(case.topology, name)}
        for one in found.values():
            worth = [_worth(case, cells[name, case, ""], cells[name, case, one.name]) for case in cases]
            known = [each for each in worth if each is not None]
            rows.append(taken(SettingRow, one, scheme=name, worth=known))
    set_to = {run.scheme: run.setting for run in runs if not run.without}
    return SettingFindings(set_to, rows, runs)


def _worth(traffic: TrafficCase, whole: Sequence[NonshortestRun], without: Sequence[NonshortestRun]) -> Worth | None:
    """On the draws of which both were run."""
    gain = gain_over(traffic, whole, without)
    return Worth(*traffic, gain.gain, gain.draws, gain.spread, gain.steady) if gain else None
