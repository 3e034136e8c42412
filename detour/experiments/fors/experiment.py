# SPDX-License-Identifier: Apache-2.0
"""The FORS paper's evaluation: Fig. 3 and Fig. 6 (throughput under failures), Fig. 7 (phases), computation times; and
what it leaves open, a link that breaks in the midst of an exchange.

Its network is FT(2;20,18) at 200 Gb/s. With the message that `MESSAGE` names an exchange without failures yields about
the 141 Gb/s a server that the paper measured; what fills the rest of the 200 there it does not say ("various
overheads"), here it is latency and the barrier. Only some of the phases are executed, drawn from all parts of
the schedule.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from msgspec import UNSET

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.base.times import US
from detour.control.fors import FatTree, baselines, solve
from detour.control.fors.paper import phases_needed
from detour.control.fors.plan import PlanSeconds
from detour.control.fors.verify import problems
from detour.experiments.columns import taken
from detour.experiments.fors.exchange import ExchangeRun, execute
from detour.experiments.fors.results import (
    ForsBreak,
    ForsBreakPoint,
    ForsExchange,
    ForsExchangePoint,
    ForsFindings,
    ForsPhases,
    ForsPhasesPoint,
    ForsPoint,
    ForsResult,
    ForsRow,
    ForsTimes,
    ForsTimesPoint,
)
from detour.fabric.traffic.outage import Break, Delays
from detour.fabric.traffic.phased import Pace
from detour.fabric.traffic.pinned import Tuning

SPINES, LEAVES = 20, 18
MESSAGE = 600_000
TOPOLOGIES = ((8, 16), (16, 16), (20, 18), (16, 32), (32, 32))
"""Fig. 7's, (m0, m1)"""
PHASES = {"quick": 5, "normal": 24, "full": 0}
"""phases of every exchange that are executed, 0: all"""
BREAK_PHASES = {"quick": 14, "normal": 32, "full": 0}
BREAK_LINK = (0, 0)
BREAK_US, PLAN_US = 203, 100
"""when a link breaks in the midst of an exchange, and what planning is taken to last"""
SCENARIOS = (
    *("0F", "1F SW0", "2F SW0", "3F SW0", "1F SW0,5,11", "2F SW0,5,11", "3F SW0,5,11"),
    *("SW18,19", "SW18,19,22,23"),
)
PAPER = {
    ("0F", "default"): 141.0,
    ("0F", "fors"): 140.0,
    ("1F SW0", "default"): 87.0,
    ("1F SW0", "fors"): 137.0,
    ("1F SW0,5,11", "fors"): 137.0,
    ("SW18,19", "fors"): 132.0,
}
"""Gb/s a server, where the text names them (sections 3.2, 6.1 and 8); the figures' bars carry no numbers"""
PAPER_SECONDS = {"mean": 29.72, "min": 27.399, "max": 37.554}
"""the paper's time for a routing by Gurobi with 8 threads (section 6.3)"""


def failed_links(scenario: str, seed: int) -> frozenset[tuple[int, int]]:
    """The links that a scenario of section 3.1 takes away; the paper's random spines are drawn by seed."""
    if scenario == "0F":
        return frozenset()
    if scenario.startswith("SW"):
        spines = [int(number) - LEAVES for number in scenario.removeprefix("SW").split(",")]
        return frozenset((leaf, spine) for leaf in range(LEAVES) for spine in spines)
    count, where = int(scenario[0]), scenario.split("SW")[1]
    leaves = [int(number) for number in where.split(",")]
    if len(leaves) == 1:
        drawn = random.Random(f"fors SW0 {seed}").sample(range(SPINES), 3)[:count]
        return frozenset((leaves[0], spine) for spine in drawn)
    return frozenset((leaf, place * count + k) for place, leaf in enumerate(leaves) for k in range(count))


def fabric_of(scenario: str, seed: int) -> FatTree:
    """FT(2;20,18) with a scenario's failures. Raises `DetourError`: there is no such scenario."""
    if scenario not in SCENARIOS:
        raise DetourError(f"there is no scenario {scenario!r}; allowed: {'; '.join(SCENARIOS)}")
    return FatTree(SPINES, LEAVES, failed_links(scenario, seed))


def select(extent: str = "normal", seed: int = 1, message: int = MESSAGE) -> list[ForsPoint]:
    """The points: every scenario under FORS, OpenSM's own choice and, unless `quick`, Ftree-AR (with `full` under both
    of OpenSM's routings), times of computing for every scenario, phases for every topology of Fig. 7."""
    points: list[ForsPoint] = []
    for scenario in SCENARIOS:
        chosen = baselines.by_default(fabric_of(scenario, seed))
        tables = ("ftree", "minhop") if extent == "full" else (chosen,)
        terms = {"scenario": scenario, "phases": PHASES[extent], "message": message, "seed": seed}
        points += [
            ForsExchangePoint(routing=routing, default=routing == chosen, **terms)
            for routing in ("fors", *tables, *(() if extent == "quick" else ("ftree-ar",)))
        ]
        points.append(ForsTimesPoint(scenario=scenario, seed=seed))
    points += [
        ForsBreakPoint(routing=routing, phases=BREAK_PHASES[extent], message=message, seed=seed)
        for routing in ("fors", "minhop")
    ]
    return points + [ForsPhasesPoint(spines=spines, leaves=leaves) for spines, leaves in TOPOLOGIES]


def seconds(point: ForsPoint) -> float:
    if isinstance(point, ForsExchangePoint | ForsBreakPoint):
        return 2.5 + (point.phases or 380) * 0.35
    return 0.7


def run(point: ForsPoint) -> ForsResult:
    match point:
        case ForsExchangePoint():
            fabric = fabric_of(point.scenario, point.seed)
            pace, tuning = Pace(message=point.message), Tuning(seed=point.seed)
            result = execute(ExchangeRun(fabric, point.routing, phases=point.phases, pace=pace, tuning=tuning))
            kept = replace(result, planning_seconds=UNSET, plan_time=UNSET)
            return extended(ForsExchange, kept, scenario=point.scenario, default=point.default)
        case ForsBreakPoint():
            return _break(point)
        case ForsTimesPoint():
            return _times(point)
        case ForsPhasesPoint():
            return _phases(point)


def _break(point: ForsBreakPoint) -> ForsBreak:
    """One link breaks in the midst of an exchange that began without failures."""
    # Min-Hop begins as what OpenSM chooses without failures; on a linear shift the two are the same then.
    breaks = (Break(BREAK_US * US, frozenset({BREAK_LINK})),)
    terms = Pace(message=point.message), Tuning(seed=point.seed), Delays(plan_ps=PLAN_US * US)
    run = ExchangeRun(FatTree(SPINES, LEAVES), point.routing, breaks, point.phases, *terms)
    return extended(ForsBreak, replace(execute(run), planning_seconds=UNSET, plan_time=UNSET), broke_us=BREAK_US)


def _times(point: ForsTimesPoint) -> ForsTimes:
    """Scheduling, routing and verifying; the second time, so that native code is there."""
    fabric = fabric_of(point.scenario, point.seed)
    solve(fabric)
    plan = solve(fabric)
    begin = time.perf_counter()
    wrong = problems(plan)
    verified = time.perf_counter() - begin
    times = PlanSeconds(*(round(spent, 4) for spent in (plan.seconds.schedule, plan.seconds.route, verified)))
    return taken(ForsTimes, point, plan, verified=not wrong, seconds=times)


def _phases(point: ForsPhasesPoint) -> ForsPhases:
    """Phases of our schedules for every f, and what the paper's formula says."""
    m0, m1 = point.spines, point.leaves
    servers = m0 * m1
    ours = [phases_needed(m0, m1, f) for f in range(m0)]
    formula = [-(-m0 * (servers - m0) // (m0 - f)) for f in range(m0)]
    return ForsPhases(
        topology=FatTree(m0, m1).name,
        reduction=list(range(m0)),
        phases=ours,
        factor=[round(phases / ours[0], 4) for phases in ours],
        paper_phases=formula,
        paper_factor=[round(phases / formula[0], 4) for phases in formula],
    )


def collect(results: Sequence[ForsResult]) -> ForsFindings:
    """A row for each scenario, and what is behind them."""
    runs = [result for result in results if isinstance(result, ForsExchange)]
    base = next((run.throughput_gbps for run in runs if (run.scenario, run.routing) == ("0F", "fors")), None)
    return ForsFindings(
        topology=f"FT(2;{SPINES},{LEAVES})",
        throughput=[_row(name, runs, base) for name in SCENARIOS if any(run.scenario == name for run in runs)],
        times=[result for result in results if isinstance(result, ForsTimes)],
        phases=[result for result in results if isinstance(result, ForsPhases)],
        paper_seconds=PAPER_SECONDS,
        breaks=[result for result in results if isinstance(result, ForsBreak)],
        runs=runs,
    )


def _row(scenario: str, runs: Sequence[ForsExchange], base: float | None) -> ForsRow:
    """`base`: throughput of FORS without failures."""
    by = {run.routing: run for run in runs if run.scenario == scenario}
    mine = list(by.values())
    default = next((run for run in mine if run.default), None)
    ours = by.get("fors")
    return ForsRow(
        scenario=scenario,
        reduction=mine[0].reduction,
        failed_links=mine[0].failed_links,
        phases=ours.phases if ours else None,
        fors_gbps=_gbps(ours),
        fors_paper=PAPER.get((scenario, "fors")),
        fors_relative=_relative(ours, base),
        default=default.routing if default else None,
        default_gbps=_gbps(default),
        default_paper=PAPER.get((scenario, "default")),
        default_relative=_relative(default, base),
        ftree_ar_gbps=_gbps(by.get("ftree-ar")),
        others_gbps={name: by[name].throughput_gbps for name in ("ftree", "minhop") if name in by},
        ranges_gbps={name: _range(run) for name, run in by.items()},
    )


def _gbps(run: ForsExchange | None) -> float | None:
    return run.throughput_gbps if run else None


def _relative(run: ForsExchange | None, base: float | None) -> float | None:
    return round(run.throughput_gbps / base, 4) if run and run.throughput_gbps and base else None


def _range(run: ForsExchange) -> list[float]:
    mean, lengths = statistics.fmean(run.phase_lengths_us), run.phase_us
    return [round(run.throughput_gbps * mean / length, 3) for length in (lengths.max, lengths.median, lengths.min)]
