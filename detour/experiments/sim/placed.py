# SPDX-License-Identifier: Apache-2.0
"""The same workload twice: on the paths that ECMP's hashes pick, and on those of a placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from detour.base.records import extended
from detour.base.times import US
from detour.experiments.columns import cell, row, shown, taken
from detour.experiments.sim.plan import SimPlan
from detour.experiments.sim.results import SimResult, SimStep, result_of
from detour.experiments.sim.run import SimProgress, SimRun, run_workload

PLACED_SCHEME = "LERP-shortest"
"""where none is named: connections stay on the path that they are given"""


@dataclass(frozen=True)
class PlacedResult(SimResult):
    """The result of the placed run, and beside it: `ecmp`, the same of hashing; `speedup`: how many times faster the
    whole is (None if one did not complete)."""

    ecmp: SimResult
    speedup: float | None


@row
class ComparedStep:
    """A step, or all of a run, both ways; None: it did not complete."""

    name: str = shown("step")
    ecmp_us: float | None = shown("ECMP us", ".1f")
    placed_us: float | None = shown("placed us", ".1f")
    ideal_us: float = shown("ideal us", ".1f", means="in an empty fabric")

    @property
    def faster(self) -> float | None:
        """The factor."""
        return self.ecmp_us / self.placed_us if self.ecmp_us and self.placed_us else None

    @cell("faster")
    def _faster(self) -> str | None:
        return None if self.faster is None else f"{self.faster:.2f}x"


def run_both(plan: SimPlan, progress: SimProgress) -> tuple[SimRun, SimRun]:
    """(by ECMP, placed). Raises `DetourError`: see `run_workload`; the scheme picks paths itself."""
    placed = run_workload(plan.topology, plan.workload, plan.settings, progress, placed=True)
    return run_workload(plan.topology, plan.workload, plan.settings, progress), placed


def placed_result(ecmp: SimRun, placed: SimRun) -> PlacedResult:
    """Return the result of both runs."""
    whole = all_of_it(ecmp, placed)
    speedup = None if whole.faster is None else round(whole.faster, 4)
    return extended(PlacedResult, result_of(placed), ecmp=result_of(ecmp), speedup=speedup)


def all_of_it(ecmp: SimRun, placed: SimRun) -> ComparedStep:
    """From the first message to the end of the last task."""
    hashed, chosen = (run.end_ps / US if run.tasks.completed else None for run in (ecmp, placed))
    return ComparedStep(name="all", ecmp_us=hashed, placed_us=chosen, ideal_us=placed.ideal.total_ps / US)


def compared_steps(ecmp: Sequence[SimStep], placed: Sequence[SimStep]) -> list[ComparedStep]:
    """Step by step."""
    pairs = zip(ecmp, placed, strict=True)
    return [taken(ComparedStep, mine, ecmp_us=other.us, placed_us=mine.us) for other, mine in pairs]
