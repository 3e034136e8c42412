# SPDX-License-Identifier: Apache-2.0
"""Fast-forward: jobs whose steady phases are skipped, and in full (docs/fast-forward.md)."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from detour.base.progress import Progress, silent
from detour.base.records import as_json
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.columns import row, shown
from detour.experiments.sim.placed import PLACED_SCHEME
from detour.experiments.sim.plan import plan_of
from detour.experiments.sim.run import SimRun, run_workload
from detour.experiments.sim.settings import SimOptions
from detour.fabric.traffic.job_times import collective_spans_ps

ERROR, _MTU = "0.02", "4096"
_LEAF_SPINE, _FAT_TREE = "leaf-spine:leaves=4,spines=4,hosts=4", "fat-tree:k=4"
JOBS = (
    ("ring:bytes=4e8", _LEAF_SPINE, "ecmp"),
    ("ring:bytes=4e8", _LEAF_SPINE, "placed"),
    ("double-tree:bytes=4e8", _LEAF_SPINE, "ecmp"),
    ("all-to-all:bytes=4e8", _LEAF_SPINE, "ecmp"),
    ("all-to-all:bytes=4e8", _FAT_TREE, "ecmp"),
)
"""workloads, topologies, and how connections get their paths"""
_STEP_ERROR, _LARGEST_ERROR = 0.01, 0.03


@row
class FastJob:
    """A job. `step_error`: of its whole time; `largest_error`: of a collective's; fractions. Data packets of the job,
    and those that were skipped. Processor seconds of both runs. None: there was no full run."""

    job: str = shown("job")
    topology: str = shown("topology")
    scheme: str = shown("scheme")
    step_error: float | None = shown("step error", ".2%", means="of the time of the whole job")
    largest_error: float | None = shown("largest error", ".2%", means="of a collective's time")
    packets: int = shown("packets")
    skipped: int = shown("skipped")
    seconds: float = shown("seconds", ".1f", means="of processor time")
    seconds_full: float | None = shown("in full", ".1f")


def run(no_full: bool = False, jobs: Sequence[tuple[str, str, str]] = JOBS, progress: Progress = silent) -> BenchReport:
    """Runs jobs with phases skipped and, unless `no_full`, in full."""
    rows = []
    for job, topology, scheme in jobs:
        progress(f"{job}, {scheme}, fast")
        fast, seconds = _timed(job, topology, scheme, ERROR)
        full, seconds_full = None, None
        if not no_full:
            progress(f"{job}, {scheme}, in full")
            full, seconds_full = _timed(job, topology, scheme, None)
        step, largest = (None, None) if full is None else _errors(fast, full)
        packets = int(fast.counts.packets.sum())
        rows.append(
            FastJob(job=job, topology=topology, scheme=scheme, step_error=step, largest_error=largest, packets=packets,
                    skipped=fast.skipped, seconds=seconds, seconds_full=seconds_full)
        )  # fmt: skip
    found = [(one.step_error, one.largest_error) for one in rows if one.step_error is not None]
    worst = [max((pair[k] or 0.0 for pair in found), default=None) for k in range(2)]
    goals = (
        Goal("error of a job's time", worst[0], _STEP_ERROR, most=True),
        Goal("error of a collective's time", worst[1], _LARGEST_ERROR, most=True),
    )
    return report_of_rows("fast", FastJob, rows, {"jobs": [as_json(one) for one in rows]}, goals)


def _timed(job: str, topology: str, scheme: str, fast: str | None) -> tuple[SimRun, float]:
    plan = plan_of(SimOptions(topo=topology, workload=job, scheme=PLACED_SCHEME, mtu=_MTU, fast=fast))
    begun = time.process_time()
    done = run_workload(plan.topology, plan.workload, plan.settings, placed=scheme == "placed")
    return done, round(time.process_time() - begun, 3)


def _errors(fast: SimRun, full: SimRun) -> tuple[float, float]:
    """(of the whole time, the largest of a collective)."""
    spans, spans_full = (collective_spans_ps(one.tasks) for one in (fast, full))
    largest = float(np.abs(spans / spans_full - 1).max())
    return round(abs(fast.end_ps / full.end_ps - 1), 6), round(largest, 6)
