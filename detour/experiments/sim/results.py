# SPDX-License-Identifier: Apache-2.0
"""Results of `detour sim`: completion times, slowdowns, bytes, steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from detour.base.times import US
from detour.experiments.columns import cell, row, shown
from detour.experiments.running import mean_and_percentiles
from detour.experiments.sim.run import EndReason, SimRun

SIZE_BINS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
"""upper ends in bytes; what is larger is in one bin more"""
_DIGITS = 3


@dataclass(frozen=True)
class SimPercentiles:
    """Percentiles over complete flows; None without one."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    p999: float | None


@row
class SimStep:
    """A training step, or another part of a job: how long it took, and in an empty fabric."""

    name: str = shown("step")
    us: float | None = shown("us", ".1f")
    ideal_us: float = shown("ideal us", ".1f", means="in an empty fabric")

    @cell("slowdown")
    def _slowdown(self) -> str | None:
        return f"{self.us / self.ideal_us:.2f}" if self.us and self.ideal_us else None


@dataclass(frozen=True)
class FastRun:
    """`--fast`: the bound on rates, and how many data packets were not simulated."""

    error: float
    skipped_packets: int


@dataclass(frozen=True)
class SimResult:
    """The JSON of `detour sim`. `bytes`: of all flows; `delivered_bytes`: in receivers' memory, each counted once;
    `fct_us`: from when a message is handed to its host until all of it is in the receiver's memory; `slowdown`: that
    over an empty fabric's; `wire_gbps`: whole
    data frames that came to hosts, over `seconds`; `drops`: frames that were lost anywhere; `seconds`: virtual time
    from the beginning to the last completion, or to the end of the run where flows are left; `ended_by`: why it ended
    (`SimRun.ended_by`), with so many `incomplete` flows; `virtual_s`: `seconds`; `fast`:
    what was skipped, with `--fast` only."""

    flows: int
    completed: int
    bytes: int
    delivered_bytes: int
    fct_us: SimPercentiles
    slowdown: SimPercentiles
    steps: Sequence[SimStep]
    wire_gbps: float
    drops: int
    seconds: float
    ended_by: EndReason
    incomplete: int
    virtual_s: float
    fast: FastRun | UnsetType


@dataclass(frozen=True)
class SizeBin:
    """Flows of a range of sizes: above `above_bytes`, up to `up_to_bytes` (None: any)."""

    above_bytes: int
    up_to_bytes: int | None
    flows: int
    completed: int
    fct_us: SimPercentiles
    slowdown: SimPercentiles


def fast_run(run: SimRun) -> FastRun | UnsetType:
    """Record of what a run has skipped; UNSET if it may not skip."""
    return FastRun(run.settings.fast, run.skipped) if run.settings.fast else UNSET


def percentiles(values: NDArray[np.float64]) -> SimPercentiles:
    """Return the percentiles of any number of values."""
    if not len(values):
        return SimPercentiles(None, None, None, None, None)
    return SimPercentiles(*mean_and_percentiles(values, (50, 95, 99, 99.9), _DIGITS))


def flow_times(run: SimRun) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """((complete,) messages that are complete, as tasks; their completion times in us, and slowdowns)."""
    complete = np.flatnonzero(run.graph.is_message & run.tasks.finished)
    taken = run.tasks.flow_completion_ps()[complete]
    return complete, taken / US, taken / run.ideal.task_ps[complete]


def result_of(run: SimRun) -> SimResult:
    """Return the result of a run."""
    complete, times, slowdowns = flow_times(run)
    seconds = run.end_ps / 1e12
    return SimResult(
        flows=int(run.graph.is_message.sum()),
        completed=len(complete),
        bytes=run.graph.message_bytes,
        delivered_bytes=int(run.counts.delivered.sum()),
        fct_us=percentiles(times),
        slowdown=percentiles(slowdowns),
        steps=tuple(_steps(run)),
        wire_gbps=round(run.wire_bytes * 8e-9 / seconds, _DIGITS) if seconds else 0.0,
        drops=run.drops,
        seconds=seconds,
        ended_by=run.ended_by,
        incomplete=len(run.incomplete),
        virtual_s=seconds,
        fast=fast_run(run),
    )


def _steps(run: SimRun) -> Iterator[SimStep]:
    spans = run.tasks.step_spans_ps()
    for name, (begin, end), ideal in zip(run.graph.steps, spans.tolist(), run.ideal.step_ps.tolist(), strict=True):
        taken = None if min(begin, end) < 0 else round((end - begin) / US, _DIGITS)
        yield SimStep(name=name, us=taken, ideal_us=round(ideal / US, _DIGITS))


def by_size(run: SimRun) -> list[SizeBin]:
    """Bins of sizes that have flows."""
    complete, times, slowdowns = flow_times(run)
    sizes = run.graph.tasks["bytes"]
    edges = (0, *SIZE_BINS, None)
    bins = []
    for low, high in pairwise(edges):
        inside = run.graph.is_message & (sizes > (low or 0)) & ((sizes <= high) if high is not None else True)
        if inside.any():
            done = inside[complete]
            bins.append(
                SizeBin(
                    low or 0, high, int(inside.sum()), int(done.sum()),
                    percentiles(times[done]), percentiles(slowdowns[done]),
                )
            )  # fmt: skip
    return bins
