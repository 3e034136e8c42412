# SPDX-License-Identifier: Apache-2.0
"""`detour bench ai-fabric`: KPIs of an IETF draft on AI training fabrics, for several schemes side by side.

All schemes get the same draws of ranks, pairs and times. A scheme is one of `place --run` or of `sim`, at the best
setting that was found for it, where one was sought. A value is the mean over draws; it is marked as not steady if a run
was not completed, or if the standard deviation over draws is above 5 % of the mean, the draft's bound for a valid test.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.experiments.bench.ai_fabric_draft import DRAFT, TESTS, coverage
from detour.experiments.bench.ai_fabric_page import FabricBench, FabricTest, heads, notes, rows, write
from detour.experiments.bench.ai_fabric_procedures import PROCEDURES, Measure, Trial
from detour.experiments.bench.report import BenchReport
from detour.experiments.columns import grouped
from detour.experiments.nonshortest import settings as chosen_settings
from detour.experiments.sim.job_runs import scheme_named
from detour.experiments.sim.settings import SimOptions, settings_of
from detour.experiments.steady import spread
from detour.fabric.backends.virtual.scheme import ROCE_WITH_PFC, SHORTEST_PATH, Scheme
from detour.topo import Topology, parse_topology

BENCH_SCHEMES = ("ecmp", "placed", "spray", "REPS", "MRC-like-32", ROCE_WITH_PFC.name)
"""the last one: go-back-N, DCQCN and PFC on the paths that hashes pick, marked as was best for ShortestPath"""
SIZES = (64_000, 256_000, 1_000_000)
BENCH_DRAWS = 3
_VALID = 0.05


def run(
    topo: str = "leaf-spine:leaves=4,spines=4,hosts=4",
    scheme: str = ",".join(BENCH_SCHEMES),
    sizes: Sequence[int] = SIZES,
    draws: int = BENCH_DRAWS,
    procedures: Sequence[str] = tuple(PROCEDURES),
    out: Path | None = None,
    progress: Progress = silent,
) -> BenchReport:
    """Run the procedures and write the report to a folder. Raises `DetourError`: there is no such scheme or
    procedure, or it does not fit the topology."""
    topology, named = parse_topology(topo), [name.strip() for name in scheme.split(",")]
    if unknown := [name for name in procedures if name not in PROCEDURES]:
        raise DetourError(f"there is no procedure {unknown[0]!r}; allowed: {', '.join(PROCEDURES)}")
    if len(topology.hosts) < 3:
        raise DetourError(f"{topology.spec} has {len(topology.hosts)} hosts; the benchmark needs at least three")
    resolved = {name: _at_its_best(topology, name) for name in named}
    measured: dict[str, list[Measure]] = {name: [] for name in named}
    for draw in range(1, draws + 1):
        for name, (chosen, placed) in resolved.items():
            trial = Trial(topology, chosen, placed, draw, tuple(sorted(sizes)))
            for what in procedures:
                progress(f"{what}, {name}, draw {draw} of {draws}")
                measured[name] += PROCEDURES[what](trial)
    tests = [test for name, some in measured.items() for test in _tests(name, some)]
    order = list(dict.fromkeys(test.test for test in tests))
    tests.sort(key=lambda test: ([int(part) for part in test.section.split(".")], order.index(test.test)))
    schemes = {name: chosen for name, (chosen, _) in resolved.items()}
    bench = FabricBench(
        topology, settings_of(topology, SimOptions()), schemes, tuple(sorted(sizes)), draws, tuple(tests)
    )
    if out is not None:
        write(out, bench)
    return _report(bench)


def _at_its_best(topology: Topology, name: str) -> tuple[Scheme, bool]:
    """A scheme by its name, and whether connections are placed."""
    if name.lower() == ROCE_WITH_PFC.name.lower():
        return chosen_settings.chosen(topology, SHORTEST_PATH).of(ROCE_WITH_PFC), False
    chosen, placed = scheme_named(name)
    if chosen.name in chosen_settings.CANDIDATES:
        chosen = chosen_settings.chosen(topology, chosen).of(chosen)
    return chosen, placed


def _tests(scheme: str, measures: Sequence[Measure]) -> list[FabricTest]:
    """Means over draws, in the order in which they were measured."""
    tests = []
    for (section, test, label), some in grouped(measures, lambda one: (one.section, one.test, one.label)).items():
        values = [one.value for one in some if one.value is not None]
        ideals = [one.ideal for one in some if one.ideal is not None]
        mean = statistics.fmean(values) if values else None
        deviation = spread(values)
        varies = None if deviation is None else deviation / mean if mean else 0.0
        tests.append(FabricTest(
            name=f"{test}, {label}" if label else test, section=section, scheme=scheme, value=_rounded(mean),
            unit=some[0].unit, ideal=_rounded(statistics.fmean(ideals)) if ideals else None, test=test, at=some[0].at,
            cv=None if varies is None else round(varies, 4),
            steady=all(one.settled for one in some) and (varies is None or varies <= _VALID),
        ))  # fmt: skip
    return tests


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _report(bench: FabricBench) -> BenchReport:
    numbers = {
        "draft": DRAFT, "topology": bench.topology.spec, "schemes": list(bench.schemes), "draws": bench.draws,
        "sizes": list(bench.sizes), "tests": [asdict(test) for test in bench.tests],
        "coverage": [asdict(test) for test in TESTS],
    }  # fmt: skip
    return BenchReport("ai-fabric", numbers, heads(bench), tuple(rows(bench)), (), tuple(notes(bench)), (coverage(),))
