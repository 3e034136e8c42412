# SPDX-License-Identifier: Apache-2.0
"""FORS: how long planning takes and what the plans are worth, against the goals set for it.

Times are CPU times (others may be using the machine) of schedule, routing and, where it is said, verification of all
phases in this process, with native code loaded: what Numba compiles once for a machine is not counted.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

from detour.base.progress import Progress, silent
from detour.control.fors import FatTree, ForsPlan, parse_fabric, random_failures, solve
from detour.control.fors.incremental import Change, reroute
from detour.control.fors.loads import counting_bound
from detour.control.fors.solve import proven_bound
from detour.control.fors.verify import problems
from detour.control.native import FORS_PART
from detour.experiments.bench.report import BenchReport, Goal

DAQ = "ft:m0=20,m1=18"
HARDEST = "0:0,0:1,0:2,5:3,5:4,5:5,11:6,11:7,11:8"
"""3F SW0,5,11"""
COUNTEREXAMPLES = (("ft:m0=3,m1=3", "0:0,1:0,2:1", 18), ("ft:m0=6,m1=6", "1:0,2:0,3:0,4:0,5:0,0:3", 45))
SETS, MOST_FAILED = 200, 180
_REPEATS = 5


@dataclass(frozen=True)
class _Timed:
    """A plan and the seconds it took."""

    plan: ForsPlan
    seconds: float
    verify: float
    right: bool


def run(sets: int = SETS, phases: int = 24, progress: Progress = silent) -> BenchReport:
    """Measure all goals. `sets`: random failure sets; `phases`: of the two exchanges in virtual time (0: none run)."""
    progress("loading native code")
    FORS_PART.load()
    goals = [*_hardest(progress), *_random_sets(sets, progress), *_counterexamples()]
    goals += [*_one_more(sets // 2, progress), *_large(progress), *_throughput(max(phases, 0), progress)]
    lines = [
        {"name": goal.text, "value": goal.value, "goal": goal.target, "at_most": goal.most, "met": goal.met}
        for goal in goals
    ]
    met = sum(goal.met is True for goal in goals)
    rows = (("goals met", f"{met} of {len(goals)}"), ("random failure sets", str(sets)))
    return BenchReport("fors", {"goals": lines, "sets": sets}, ("what", "value"), rows, tuple(goals))


def _timed(fabric: FatTree) -> _Timed:
    begin = time.process_time()
    plan = solve(fabric)
    solved = time.process_time()
    right = problems(plan) == []
    return _Timed(plan, solved - begin, time.process_time() - solved, right)


def _hardest(progress: Progress) -> Iterator[Goal]:
    """3F SW0,5,11, the best of some repetitions. The time to route is by the wall clock."""
    progress("3F SW0,5,11")
    plans = [_timed(parse_fabric(DAQ, HARDEST)) for _ in range(_REPEATS)]
    assert all(timed.right and timed.plan.phases == 400 for timed in plans), "3F SW0,5,11: a plan is wrong"
    whole = round(min(timed.seconds + timed.verify for timed in plans), 4)
    route = round(min(timed.plan.seconds.route for timed in plans), 4)
    yield Goal("3F SW0,5,11: seconds to schedule, route and verify", whole, 1.0, most=True)
    yield Goal("3F SW0,5,11: seconds to route", route, 0.05, most=True)


def _random_sets(sets: int, progress: Progress) -> Iterator[Goal]:
    """Failures of 1 to 180 links; every pair of leaves keeps a common spine."""
    plans = []
    for number in range(sets):
        progress(f"random failures: {100 * number // sets}%")
        failed = 1 + number * (MOST_FAILED - 1) // max(sets - 1, 1)
        plans.append(_timed(random_failures(parse_fabric(DAQ), failed, number)))
    seconds = [timed.seconds for timed in plans]
    fewest = sum(t.plan.phases == t.plan.lower_bound == proven_bound(t.plan.fabric) for t in plans)
    yield Goal("random failures: sets with a right plan", sum(timed.right for timed in plans), sets)
    yield Goal("random failures: sets with phases = lower bound", fewest, sets)
    yield Goal("random failures: median seconds", round(statistics.median(seconds), 4), 0.5, most=True)
    yield Goal("random failures: most seconds", round(max(seconds), 4), 10.0, most=True)


def _counterexamples() -> Iterator[Goal]:
    for topo, fail, phases in COUNTEREXAMPLES:
        plan = solve(parse_fabric(topo, fail))
        assert problems(plan) == [], f"{plan.fabric.name}: a plan is wrong"
        yield Goal(f"{plan.fabric.name}, counterexample: phases", plan.phases, phases, most=True)


def _one_more(draws: int, progress: Progress) -> Iterator[Goal]:
    """One more failed link, at a leaf that has lost fewer than f: neither f nor the phases that are needed change."""
    seconds, shares = [], []
    for number in range(draws):
        progress(f"one more failure: {100 * number // draws}%")
        fabric = random_failures(parse_fabric(DAQ), 1 + number * (MOST_FAILED // 2) // draws, 1000 + number)
        after = one_more(fabric, number)
        if after is None:
            continue
        plan = solve(fabric)
        begin = time.process_time()
        change: Change = reroute(plan, after)
        seconds.append(time.process_time() - begin)
        assert problems(change.plan) == [], f"one more failure, draw {number}: a plan is wrong"
        shares.append(change.moved / plan.flows)
    yield Goal("one more failure: median seconds", round(statistics.median(seconds), 4), 0.05, most=True)
    yield Goal("one more failure: most seconds", round(max(seconds), 4), 0.05, most=True)
    yield Goal("one more failure: largest share of flows that move", round(max(shares), 4), 0.05, most=True)


def one_more(fabric: FatTree, seed: int) -> FatTree | None:
    """The fabric with one more failed link but the same f and the same number of phases, or None."""
    links = [(u, c) for u in range(fabric.leaves) for c in range(fabric.spines) if (u, c) not in fabric.failed]
    random.Random(f"one more {seed}").shuffle(links)
    phases = proven_bound(fabric)
    for link in links:
        after = fabric.with_failed([link])
        if after.reduction == fabric.reduction and not after.unreachable() and proven_bound(after) == phases:
            return after
    return None


def _large(progress: Progress) -> Iterator[Goal]:
    """FT(2;32,32): eight links of every leaf, drawn at random, and of three leaves each eight others."""
    progress("FT(2;32,32)")
    rng = random.Random("fors large")
    everywhere = frozenset((leaf, spine) for leaf in range(32) for spine in rng.sample(range(32), 8))
    three = frozenset((leaf, 8 * k + spine) for k, leaf in enumerate((0, 5, 11)) for spine in range(8))
    worst = 0.0
    for failed in (three, everywhere):
        timed = _timed(FatTree(32, 32, failed))
        assert timed.right, "FT(2;32,32): a plan is wrong"
        assert timed.plan.phases == counting_bound(timed.plan.fabric), "FT(2;32,32): a plan has too many phases"
        worst = max(worst, timed.seconds + timed.verify)
    yield Goal("FT(2;32,32), f = 8: seconds to schedule, route and verify", round(worst, 4), 3.0, most=True)


def _throughput(phases: int, progress: Progress) -> Iterator[Goal]:
    """Virtual time at 200 Gb/s: an exchange with one failed link beside one without."""
    value = None
    if phases:
        from detour.experiments.fors.exchange import ExchangeRun, execute

        gbps = []
        for fail in (None, "0:0"):
            progress(f"exchange with {'one failed link' if fail else 'all links'} in virtual time")
            gbps.append(execute(ExchangeRun(parse_fabric(DAQ, fail), phases=phases)).throughput_gbps)
        value = round(gbps[1] / gbps[0], 4)
    yield Goal("throughput with one failed link, relative to none", value, 0.97)
