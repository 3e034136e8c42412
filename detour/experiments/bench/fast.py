# SPDX-License-Identifier: Apache-2.0
"""Fast-forward: jobs whose steady phases are skipped, and in full (docs/fast-forward.md)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.cores import THREADS
from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.base.records import as_json
from detour.experiments import drawing
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.columns import row, shown
from detour.experiments.sim.placed import PLACED_SCHEME
from detour.experiments.sim.plan import plan_of
from detour.experiments.sim.run import SimRun, run_workload
from detour.experiments.sim.settings import SimOptions, events_of
from detour.fabric.backends.virtual.scheme import ROCE_WITH_PFC, SCHEME_REGISTRY
from detour.fabric.traffic.job_times import collective_spans_ps
from detour.fabric.traffic.tasks import TaskResult

ERROR, _MTU = "0.02", "4096"
_LEAF_SPINE, _FAT_TREE, _RNG = "leaf-spine:leaves=4,spines=4,hosts=4", "fat-tree:k=4", "rng:n=24,d=6,hosts=2"
_FEW_SPINES = "leaf-spine:leaves=4,spines=2,hosts=4"
_STEP = "training-step"
_STEP_YAML = """jobs:
- {name: gpt, collective: training-step, hosts: h0-h15, tp: 1, pp: 4, dp: 4, microbatches: 8, layers: 2,
   stage_bytes: 25165824, tensor_bytes: 0, gradient_bytes: 400000000, forward: 2ms, backward: 4ms, head: 100us}
"""
"""four stages of a pipeline, four replicas"""


class Case(NamedTuple):
    """A workload (or `_STEP`), a topology, how connections get their paths (`ecmp`, `placed`) or a scheme, what happens
    to a link and when. `tuned`: the parameters of fast-forward were chosen on it. `again`: it is chaotic, so it is run
    in full once more with another jitter, to tell what the error is to be compared with."""

    job: str
    topology: str
    scheme: str = "ecmp"
    event: tuple[str, str] | None = None
    tuned: bool = False
    again: bool = False

    @property
    def label(self) -> str:
        """The job, and what happens."""
        return f"{self.job}, {self.event[1]} at {self.event[0]}" if self.event else self.job


CASES = (
    Case("ring:bytes=4e8", _LEAF_SPINE, tuned=True),
    Case("ring:bytes=4e8", _LEAF_SPINE, "placed", tuned=True),
    Case("double-tree:bytes=4e8", _LEAF_SPINE, tuned=True),
    Case("all-to-all:bytes=4e8", _LEAF_SPINE, tuned=True),
    Case("all-to-all:bytes=4e8", _FAT_TREE, tuned=True),
    Case("ring:bytes=1.6e9,shuffle=2", _FAT_TREE, "placed"),
    Case("double-tree:bytes=4e8,shuffle=2", _FAT_TREE, again=True),
    Case("ring:bytes=3.2e9", _LEAF_SPINE, "placed"),
    Case("ring:bytes=8e8,ranks=16,shuffle=1", "d1"),
    Case("all-to-all:bytes=8e8,ranks=16,shuffle=1", "d1"),
    Case("ring:bytes=8e8,ranks=16,shuffle=1", _RNG),
    Case("all-to-all:bytes=8e8,ranks=16,shuffle=1", _RNG),
    Case("moe:bytes=4e8,skew=moe:1.2", _LEAF_SPINE),
    Case(_STEP, _LEAF_SPINE, again=True),
    Case("permutation:bytes=4e9", "leaf-spine:leaves=4,spines=4,hosts=1"),
    Case("ring:bytes=8e8", _LEAF_SPINE, event=("9ms", "fail:s0-s4")),
    Case("ring:bytes=8e8", _LEAF_SPINE, event=("9ms", "flap:s0-s4:2ms")),
    Case("ring:bytes=1.6e9", _LEAF_SPINE, "SprayLERP", tuned=True),
    Case("all-to-all:bytes=4e8", _LEAF_SPINE, "PathSet", tuned=True),
    Case("ring:bytes=1.6e9,shuffle=2", _FAT_TREE, "SprayLERP", tuned=True),
    Case("ring:bytes=1.6e9,shuffle=4", _FAT_TREE, "SprayLERP"),
    Case("ring:bytes=8e8,shuffle=2", _FAT_TREE, "PathSet", tuned=True),
    Case("ring:bytes=1.6e9,shuffle=7", _FAT_TREE, "PathSet"),
    Case("ring:bytes=1.6e9,shuffle=3", _LEAF_SPINE, "PathSet"),
    Case("all-to-all:bytes=8e8,shuffle=1", _FAT_TREE, "SprayLERP", tuned=True),
    Case("all-to-all:bytes=8e8,shuffle=4", _FAT_TREE, "SprayLERP"),
    Case("all-to-all:bytes=4e8", _FEW_SPINES, "SprayLERP"),
    Case("moe:bytes=4e8,skew=moe:1.2", _LEAF_SPINE, "SprayLERP", tuned=True),
    Case("ring:bytes=4e8,ranks=16,shuffle=1", "d1", "SprayLERP"),
    Case("ring:bytes=8e8,ranks=16,shuffle=1", "d1", "ShortestPath", tuned=True),
    Case("all-to-all:bytes=8e8", _LEAF_SPINE, ROCE_WITH_PFC.name, tuned=True),
    Case("ring:bytes=1.6e9,shuffle=2", _LEAF_SPINE, ROCE_WITH_PFC.name, tuned=True, again=True),
    Case("ring:bytes=1.6e9,shuffle=3", _FAT_TREE, ROCE_WITH_PFC.name),
    Case("all-to-all:bytes=8e8,shuffle=1", _FAT_TREE, ROCE_WITH_PFC.name),
    Case("all-to-all:bytes=8e8,ranks=16,shuffle=2", "d1", "ShortestPath"),
)
_STEP_ERROR, _LARGEST_ERROR = 0.01, 0.03
_GAIN, _GAIN_SPRAYING, _LARGE_BYTES = 50.0, 10.0, 100_000_000
"""times less processor time, on single paths and spraying, where each message has so many bytes"""
_JITTER = "670ns"
"""another one than the default, 672 ns with frames of 4,096 bytes at 100 Gb/s"""
_SPRAYING = ("SprayLERP", "PathSet")
_SMALLEST = 0.01
"""error that is drawn, %, on an axis that has no 0"""


@row
class FastJob:
    """A job. `step_error`: of its whole time; `largest_error`: of a collective's; fractions. Data packets of the job,
    and those that were skipped. Processor seconds of both runs. None: there was no full run. `again_step`,
    `again_largest`: by how much two full runs differ, the second with a jitter of 670 ns in place of 672; None: there
    was no second one."""

    job: str = shown("job")
    topology: str = shown("topology")
    scheme: str = shown("scheme")
    tuned: bool = shown("tuned", means="whether parameters were chosen on it")
    step_error: float | None = shown("step error", ".2%", means="of the time of the whole job")
    largest_error: float | None = shown("largest error", ".2%", means="of a collective's time")
    packets: int = shown("packets")
    skipped: int = shown("skipped")
    seconds: float = shown("seconds", ".1f", means="of processor time")
    seconds_full: float | None = shown("in full", ".1f")
    again_step: float | None = shown("step, full again", ".2%", default=None, means="of two runs in full")
    again_largest: float | None = shown("largest, full again", ".2%", default=None)


def draw(rows: Sequence[FastJob], file: Path) -> None:
    """The errors of jobs over how many times less processor time they take. Raises `DetourError`: see
    `experiments.drawing`."""
    plt, figure, axes = drawing.row(2)
    for axis, name, goal in zip(axes, ("step_error", "largest_error"), (_STEP_ERROR, _LARGEST_ERROR), strict=True):
        for tuned, colour, label in ((True, drawing.GRAY, "tuned on"), (False, drawing.BLUE, "hold-out")):
            some = [one for one in rows if one.tuned == tuned]
            gains = [one.seconds_full / one.seconds for one in some if one.seconds_full is not None]
            errors = [max(_SMALLEST, 100 * getattr(one, name)) for one in some if getattr(one, name) is not None]
            drawing.curve(axis, gains, errors, (colour, "o", ""), label)
        axis.axhline(100 * goal, color=drawing.GRAY, linestyle=":")
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="processor time in full / with --fast",
            ylabel=f"{name.replace('_', ' ')}, %",
        )
    drawing.legend(figure, axes, columns=2)
    drawing.save(plt, figure, file)


def run(
    no_full: bool = False, plot: Path | None = None, cases: Sequence[Case] = CASES, progress: Progress = silent
) -> BenchReport:
    """Run jobs with phases skipped and, unless `no_full`, in full. Goals count for what nothing was tuned on."""
    if plot is not None and no_full:
        raise DetourError("--plot shows errors, which need the runs in full: leave out --no-full")
    rows: list[FastJob] = []
    gains: dict[bool, list[float]] = {False: [], True: []}
    for case in cases:
        one, least_bytes = _job(case, no_full, progress)
        rows.append(one)
        if one.seconds_full is not None and least_bytes >= _LARGE_BYTES:
            gains[case.scheme in _SPRAYING].append(round(one.seconds_full / one.seconds, 1))
    if plot is not None:
        draw(rows, plot)
    goals = (
        Goal("error of a job's time", _worst(rows, "step_error"), _STEP_ERROR, most=True),
        Goal("error of a collective's time", _worst(rows, "largest_error"), _LARGEST_ERROR, most=True),
        Goal("least gain on single paths, messages of 100 MB", min(gains[False], default=None), _GAIN),
        Goal("least gain where packets are sprayed", min(gains[True], default=None), _GAIN_SPRAYING),
    )
    return report_of_rows("fast", FastJob, rows, {"jobs": [as_json(one) for one in rows]}, goals)


def _job(case: Case, no_full: bool, progress: Progress) -> tuple[FastJob, int]:
    """A job, and the bytes of its shortest message."""
    progress(f"{case.label}, {case.scheme}, fast")
    fast, seconds = _timed(case, ERROR)
    full, seconds_full, again = None, None, None
    if not no_full:
        progress(f"{case.label}, {case.scheme}, in full")
        full, seconds_full = _timed(case, None)
        again = _timed(case, None, _JITTER)[0] if case.again else None
    step, largest = (None, None) if full is None else _errors(fast, full)
    again_step, again_largest = (None, None) if full is None or again is None else _errors(again, full)
    one = FastJob(
        job=case.label, topology=case.topology, scheme=case.scheme, tuned=case.tuned, step_error=step,
        largest_error=largest, packets=int(fast.counts.packets.sum()), skipped=fast.skipped, seconds=seconds,
        seconds_full=seconds_full, again_step=again_step, again_largest=again_largest
    )  # fmt: skip
    return one, int(fast.graph.tasks["bytes"][fast.graph.is_message].min())


def _worst(rows: Sequence[FastJob], name: str) -> float | None:
    """The largest of the errors that are known, of jobs on which nothing was tuned; of all if there are no others."""
    untuned = [one for one in rows if not one.tuned] or rows
    return max((error for one in untuned if (error := getattr(one, name)) is not None), default=None)


def _timed(case: Case, fast: str | None, jitter: str | None = None) -> tuple[SimRun, float]:
    with TemporaryDirectory() as folder:
        workload = case.job
        if workload == _STEP:
            (file := Path(folder) / "step.yaml").write_text(_STEP_YAML)
            workload = str(file)
        known = case.scheme if case.scheme in SCHEME_REGISTRY.names() else PLACED_SCHEME
        options = SimOptions(
            topo=case.topology, workload=workload, scheme=known, mtu=_MTU, fast=fast, reroute_after="1ms", jitter=jitter
        )
        plan = plan_of(options)
    settings = plan.settings
    if case.scheme == ROCE_WITH_PFC.name:
        settings = replace(settings, scheme=ROCE_WITH_PFC.with_mtu(int(_MTU)))
    if case.event:
        settings = replace(settings, failures=tuple(events_of(plan.topology, *case.event)))
    begun = time.process_time()
    with THREADS.set_to(1):  # threads spend processor time on waiting for each other
        done = run_workload(plan.topology, plan.workload, settings, placed=case.scheme == "placed")
    return done, round(time.process_time() - begun, 3)


def _errors(fast: SimRun, full: SimRun) -> tuple[float, float]:
    """(of the whole time, the largest of a collective, or of a message where there are none)."""
    spans, spans_full = (_spans_ps(one.tasks) for one in (fast, full))
    largest = float(np.abs(spans / spans_full - 1).max())
    return round(abs(fast.end_ps / full.end_ps - 1), 6), round(largest, 6)


def _spans_ps(tasks: TaskResult) -> Int64Array:
    return collective_spans_ps(tasks) if tasks.graph.steps else tasks.finish_ps - tasks.start_ps
