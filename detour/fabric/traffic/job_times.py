# SPDX-License-Identifier: Apache-2.0
"""Times of a job file that was run: of each job's iterations, of its collectives, and bus bandwidth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.times import US
from detour.fabric.traffic.tasks import TaskResult
from detour.fabric.workloads.collectives import JobStep
from detour.fabric.workloads.jobs import JobRun

_DIGITS = 3


def us(ps: float) -> float:
    """Microseconds as results give them."""
    return round(float(ps) / US, _DIGITS)


def step_us(result: TaskResult, jobs: JobRun, job: int) -> float | None:
    """Time of an iteration of a job: they follow each other, so it is the time of all over their number. None: it did
    not complete."""
    mine = jobs.job == job
    if not result.finished[mine].all():
        return None
    return us((result.finish_ps[mine].max() - result.ready_ps[mine].min()) / jobs.iterations[job])


def collective_spans_ps(result: TaskResult) -> Int64Array:
    """(steps,) from the first message of each step to the end of the last; -1: it has none, or is not over."""
    step, sent = result.graph.tasks["step"], result.graph.is_message
    first = np.full(len(result.graph.steps), np.iinfo(np.int64).max)
    last = np.full(len(first), -1, np.int64)
    began = sent & (result.start_ps >= 0)
    np.minimum.at(first, step[began], result.start_ps[began])
    np.maximum.at(last, step[sent], result.finish_ps[sent])
    last[step[sent & ~result.finished]] = -1
    return np.where(last >= 0, last - first, -1)


def bus_gbps(jobs: JobRun, spans_ps: Int64Array, chosen: Callable[[JobStep], bool]) -> float | None:
    """Bus bandwidth of some collectives, each weighted by its time; None: there is none, or one is not over."""
    steps = zip(jobs.operations, spans_ps.tolist(), strict=True)
    some = [(one, span) for one, span in steps if one.factor and chosen(one)]
    if not some or any(span <= 0 for _, span in some):
        return None
    carried = sum(one.bytes * one.factor for one, _ in some)
    return round(carried * 8_000 / sum(span for _, span in some), 2 * _DIGITS)
