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
from collections.abc import Iterable, Sequence
from typing import Any

from detour.base.errors import DetourError
from detour.control.fors import FatTree2, opensm
from detour.experiments.store import Point

WORKER = "detour.experiments.fors.experiment:run"
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


def fabric_of(scenario: str, seed: int) -> FatTree2:
    """FT(2;20,18) with a scenario's failures.

    Raises:
        DetourError: there is no such scenario.
    """
    if scenario not in SCENARIOS:
        raise DetourError(f"there is no scenario {scenario!r}; allowed: {'; '.join(SCENARIOS)}")
    return FatTree2(SPINES, LEAVES, failed_links(scenario, seed))


def select(extent: str = "normal", seed: int = 1, message: int = MESSAGE) -> list[Point]:
    """The points: every scenario under FORS, OpenSM's own choice and, unless `quick`, Ftree-AR (with `full` under both
    of OpenSM's routings), times of computing for every scenario, phases for every topology of Fig. 7."""
    points: list[Point] = []
    for scenario in SCENARIOS:
        fabric = fabric_of(scenario, seed)
        chosen = opensm.by_default(fabric)
        tables = ("ftree", "minhop") if extent == "full" else (chosen,)
        points += [
            {
                "experiment": "fors",
                "kind": "exchange",
                "scenario": scenario,
                "routing": routing,
                "default": routing == chosen,
                "phases": PHASES[extent],
                "message": message,
                "seed": seed,
            }
            for routing in ("fors", *tables, *(() if extent == "quick" else ("ftree-ar",)))
        ]
        points.append({"experiment": "fors", "kind": "times", "scenario": scenario, "seed": seed})
    points += [
        {
            "experiment": "fors",
            "kind": "break",
            "routing": routing,
            "phases": BREAK_PHASES[extent],
            "message": message,
            "seed": seed,
        }
        for routing in ("fors", "minhop")
    ]
    for spines, leaves in TOPOLOGIES:
        points.append({"experiment": "fors", "kind": "phases", "spines": spines, "leaves": leaves})
    return points


def seconds(point: Point) -> float:
    """Roughly what a point costs on one core."""
    if point["kind"] in ("exchange", "break"):
        return 2.5 + (point["phases"] or 380) * 0.35
    return 0.7


def run(point: Point) -> dict[str, Any]:
    """Computes a point."""
    return {"exchange": _exchange, "break": _break, "times": _times, "phases": _phases}[point["kind"]](point)


def _exchange(point: Point) -> dict[str, Any]:
    from detour.experiments.fors.exchange import ExchangeRun, execute
    from detour.fabric.traffic.phased import Pace
    from detour.fabric.traffic.pinned import Tuning

    fabric = fabric_of(point["scenario"], point["seed"])
    pace, tuning = Pace(message=point["message"]), Tuning(seed=point["seed"])
    found = execute(ExchangeRun(fabric, point["routing"], phases=point["phases"], pace=pace, tuning=tuning))
    del found["planning_seconds"]
    return {"kind": "exchange", "scenario": point["scenario"], "default": point["default"]} | found


def _break(point: Point) -> dict[str, Any]:
    """One link breaks in the midst of an exchange that began without failures."""
    from detour.experiments.fors.exchange import ExchangeRun, execute
    from detour.fabric.footings.virtual.scheme import US
    from detour.fabric.traffic.outage import Break, Delays
    from detour.fabric.traffic.phased import Pace
    from detour.fabric.traffic.pinned import Tuning

    # Min-Hop begins as what OpenSM chooses without failures; on a linear shift the two are the same then.
    run = ExchangeRun(
        FatTree2(SPINES, LEAVES),
        point["routing"],
        (Break(BREAK_US * US, frozenset({BREAK_LINK})),),
        point["phases"],
        Pace(message=point["message"]),
        Tuning(seed=point["seed"]),
        Delays(plan_ps=PLAN_US * US),
    )
    found = execute(run)
    del found["planning_seconds"]
    return {"kind": "break", "broke_us": BREAK_US} | found


def _times(point: Point) -> dict[str, Any]:
    """Scheduling, routing and verifying; the second time, so that native code is there."""
    import time

    from detour.control.fors import solve
    from detour.control.fors.verify import problems

    fabric = fabric_of(point["scenario"], point["seed"])
    solve(fabric)
    plan = solve(fabric)
    begin = time.perf_counter()
    wrong = problems(plan)
    spent = {**plan.seconds, "verify": time.perf_counter() - begin}
    return {
        "kind": "times",
        "scenario": point["scenario"],
        "phases": plan.phases,
        "lower_bound": plan.lower_bound,
        "optimal": plan.optimal,
        "method": plan.method,
        "verified": not wrong,
        "seconds": {name: round(value, 4) for name, value in spent.items()},
    }


def _phases(point: Point) -> dict[str, Any]:
    """Phases of our schedules for every f, and what the paper's formula says."""
    from detour.control.fors.schedule import schedule

    m0, m1 = point["spines"], point["leaves"]
    servers = m0 * m1
    ours = [schedule(m0, m1, f).phases for f in range(m0)]
    formula = [-(-m0 * (servers - m0) // (m0 - f)) for f in range(m0)]
    return {
        "kind": "phases",
        "topology": FatTree2(m0, m1).name,
        "reduction": list(range(m0)),
        "phases": ours,
        "factor": [round(phases / ours[0], 4) for phases in ours],
        "paper_phases": formula,
        "paper_factor": [round(phases / formula[0], 4) for phases in formula],
    }


def collect(results: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
    """`throughput`: Fig. 3 and 6, a row for each scenario; `times` and `phases` as computed; `runs` behind them."""
    found = [result for result in results if result is not None]
    runs = [result for result in found if result["kind"] == "exchange"]
    rows = [_row(scenario, runs) for scenario in SCENARIOS if any(r["scenario"] == scenario for r in runs)]
    base = next((row["fors_gbps"] for row in rows if row["scenario"] == "0F"), None)
    for row in rows:
        ours = row["fors_gbps"]
        row["fors_relative"] = round(ours / base, 4) if base and ours else None
        row["default_relative"] = round(row["default_gbps"] / base, 4) if base and row["default_gbps"] else None
    return {
        "topology": f"FT(2;{SPINES},{LEAVES})",
        "throughput": rows,
        "times": [result for result in found if result["kind"] == "times"],
        "phases": [result for result in found if result["kind"] == "phases"],
        "paper_seconds": PAPER_SECONDS,
        "breaks": [result for result in found if result["kind"] == "break"],
        "runs": runs,
    }


def _row(scenario: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    mine = [r for r in runs if r["scenario"] == scenario]
    by = {r["routing"]: r for r in mine}
    default = next((r for r in mine if r["default"]), None)
    return {
        "scenario": scenario,
        "reduction": mine[0]["reduction"],
        "failed_links": mine[0]["failed_links"],
        "phases": by["fors"]["phases"] if "fors" in by else None,
        "fors_gbps": _gbps(by.get("fors")),
        "fors_paper": PAPER.get((scenario, "fors")),
        "default": default["routing"] if default else None,
        "default_gbps": _gbps(default),
        "default_paper": PAPER.get((scenario, "default")),
        "ftree_ar_gbps": _gbps(by.get("ftree-ar")),
        "others_gbps": {name: _gbps(by[name]) for name in ("ftree", "minhop") if name in by},
        "ranges_gbps": {name: _range(result) for name, result in by.items()},
    }


def _gbps(result: dict[str, Any] | None) -> float | None:
    return result["throughput_gbps"] if result else None


def _range(result: dict[str, Any]) -> list[float]:
    """Least, median and most throughput, were every phase as long as the longest, the median and the shortest."""
    mean = statistics.fmean(result["phase_lengths_us"])
    lengths = result["phase_us"]
    return [round(result["throughput_gbps"] * mean / lengths[name], 3) for name in ("max", "median", "min")]
