# SPDX-License-Identifier: Apache-2.0
"""The sweep that finds the best setting of every scheme on a topology (`settings`), on equal terms for all of them.

On D1 everything is tried. A run on D3 costs ten times as much; on a larger topology those settings are tried that were
best on the next smaller one (`SHORTLISTS`), of the three schemes that Table III compares, or everything if asked for.

`HELD_OUT` schemes are also run on traffic that nothing was chosen on (`selections`): other patterns, other Dragonflies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detour.base.errors import DetourError
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.nonshortest import paper, settings
from detour.experiments.nonshortest.experiment import (
    NonshortestPoint,
    NonshortestRun,
    NonshortestSelection,
    find_topology,
)
from detour.experiments.nonshortest.paper import LOADS
from detour.experiments.nonshortest.settings import Setting, TopologySettings
from detour.experiments.nonshortest.workloads import HOLD_OUTS, PATTERNS, pairs_of_load
from detour.experiments.steady import DRAWS
from detour.fabric.backends.virtual.scheme import BENCHMARK, BENCHMARK_DCTCP, TELEMETRY_LERP

OTHER_DRAGONFLIES = ("dragonfly:p=4,a=4,h=2", "dragonfly:p=2,a=8,h=4")
"""twice as many hosts as D1 on the same switches of a group, and groups of D3 with half of the hosts"""
HELD_OUT = (TELEMETRY_LERP.name, BENCHMARK.name, BENCHMARK_DCTCP.name)


def selections(extent: str, draws: int = DRAWS) -> list[NonshortestSelection]:
    """Both loads of the four other patterns on D1, and of the paper's three on the two other topologies."""
    cells = [("D1", pattern) for pattern in HOLD_OUTS]
    cells += [(topology, pattern) for topology in OTHER_DRAGONFLIES for pattern in PATTERNS]
    selected = []
    for topology, pattern in cells:
        network = find_topology(topology)[1]
        pairs = tuple(dict.fromkeys(pairs_of_load(network, pattern, load) for load in LOADS))
        selected.append(NonshortestSelection(topology, pattern, pairs, HELD_OUT, seeds=draws, times=extent))
    return selected


EXTENT = "tune"
SHORTLISTS = {"D2": ("D1", 3), "D3": ("D2", 2)}
"""by topology: the smaller one, and how many of its best settings of a scheme go on"""


def candidates(topology: str, whole: bool = False) -> dict[str, tuple[Setting, ...]]:
    """Return the settings to try, by scheme. Raises `DetourError`: the smaller topology was not swept."""
    if whole or topology not in SHORTLISTS:
        return settings.CANDIDATES
    smaller, count = SHORTLISTS[topology]
    swept = settings.stored().topologies.get(smaller)
    if swept is None:
        text = f"{topology} is tried with the best of {smaller}, which was not swept; --full tries everything"
        raise DetourError(text)
    return {scheme: tuple(tried.setting for tried in swept.schemes[scheme].tried[:count]) for scheme in HELD_OUT}


def select(topology: str, whole: bool = False) -> list[NonshortestPoint]:
    """The points: every candidate of every scheme on the six cells of Table III. Raises `DetourError`: it is none of
    the paper's topologies, or the smaller one was not swept."""
    name = topology.upper()
    if name not in paper.TOPOLOGIES:
        raise DetourError(f"--tune works on {', '.join(paper.TOPOLOGIES)}, not on {topology!r}")
    network = find_topology(name)[1]
    pairs = {pattern: tuple(pairs_of_load(network, pattern, load) for load in LOADS) for pattern in PATTERNS}
    terms = {"times": EXTENT, "first_seed": settings.TUNING_SEED}
    selected = [
        NonshortestSelection(name, pattern, pairs[pattern], (scheme,), settings=((scheme, setting),), **terms)
        for scheme, some in candidates(name, whole).items()
        for setting in some
        for pattern in PATTERNS
    ]
    return [point for selection in selected for point in nonshortest.select(selection)]


def select_asked(extent: str = "normal", *, topology: str = "D1", **others: Any) -> list[NonshortestPoint]:
    """Return the points of a topology; other options are for other runs."""
    return select(topology, extent == "full")


def choices(
    _: Sequence[NonshortestRun], points: Sequence[NonshortestPoint], results: Sequence[NonshortestRun | None]
) -> TopologySettings:
    """The best setting of every scheme. One of which a run failed or was left out does not count."""
    cells: dict[tuple[str, Setting], dict[str, float | None]] = {}
    for point, run in zip(points, results, strict=True):
        value = None if run is None else run.wire_gbps / run.ceiling_gbps
        cells.setdefault((point.scheme, point.setting), {})[f"{point.pattern} {point.pairs}"] = value
    whole = {key: {c: v for c, v in values.items() if v is not None} for key, values in cells.items()}
    tried = {
        scheme: [
            settings.tried(setting, values)
            for (name, setting), values in whole.items()
            if name == scheme and len(values) == len(cells[name, setting])
        ]
        for scheme in settings.CANDIDATES
    }
    times = {point.pattern: point.virtual_us for point in points}
    return settings.best(points[0].topology, times, tried.items())
