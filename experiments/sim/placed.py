# SPDX-License-Identifier: Apache-2.0
"""The same workload twice: on the paths that ECMP's hashes pick, and on those of a placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from detour.base.records import extended
from detour.base.times import US
from detour.experiments.sim.plan import SimPlan
from detour.experiments.sim.results import SimResult, SimStep, result_of
from detour.experiments.sim.run import SimProgress, SimRun, run_workload

PLACED_SCHEME = "LERP-shortest"
"""where none is named: connections stay on the path that they are given"""


@dataclass(frozen=True)
class PlacedResult(SimResult):
    """What is said of the placed run, and beside it: `ecmp`, the same of hashing; `speedup`: how many times faster the
    whole is (None if one did not complete)."""

    ecmp: SimResult
    speedup: float | None


@dataclass(frozen=True)
class ComparedStep:
    """A step, or all of a run, both ways; None: it did not complete."""

    name: str
    ecmp_us: float | None
    placed_us: float | None
    ideal_us: float

    @property
    def faster(self) -> float | None:
        """How many times."""
        return self.ecmp_us / self.placed_us if self.ecmp_us and self.placed_us else None


def run_both(plan: SimPlan, progress: SimProgress) -> tuple[SimRun, SimRun]:
    """(by ECMP, placed).

    Raises:
        DetourError: see `run_workload`; the scheme picks paths itself.
    """
    placed = run_workload(plan.topology, plan.workload, plan.settings, progress, placed=True)
    return run_workload(plan.topology, plan.workload, plan.settings, progress), placed


def placed_result(ecmp: SimRun, placed: SimRun) -> PlacedResult:
    """What is said of both."""
    whole = all_of_it(ecmp, placed)
    speedup = None if whole.faster is None else round(whole.faster, 4)
    return extended(PlacedResult, result_of(placed), ecmp=result_of(ecmp), speedup=speedup)


def all_of_it(ecmp: SimRun, placed: SimRun) -> ComparedStep:
    """From the first message to the end of the last task."""
    hashed, chosen = (run.end_ps / US if run.tasks.completed else None for run in (ecmp, placed))
    return ComparedStep("all", hashed, chosen, placed.ideal.total_ps / US)


def compared_steps(ecmp: Sequence[SimStep], placed: Sequence[SimStep]) -> list[ComparedStep]:
    """Step by step."""
    return [ComparedStep(mine.name, other.us, mine.us, mine.ideal_us) for other, mine in zip(ecmp, placed, strict=True)]
