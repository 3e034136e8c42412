# SPDX-License-Identifier: Apache-2.0
"""`detour place --run`: a job file in virtual time, by several schemes, each job's steps beside their ideal.

A scheme is `ecmp` (LERP on one path a connection, which hashes pick), `placed` (the same on the paths of a placement),
`spray` (SprayLERP), or any other of the simulator. Where several jobs share the fabric each also runs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UnsetType

from detour.experiments.columns import cell, row, shown
from detour.experiments.sim.placed import PLACED_SCHEME
from detour.experiments.sim.recovery import RecoveryWatch
from detour.experiments.sim.results import FastRun, fast_run
from detour.experiments.sim.run import EndReason, SimProgress, SimRun, run_workload
from detour.experiments.sim.settings import DEFAULT_SCHEME, SimOptions, SimSettings, TimedFailure, settings_of
from detour.experiments.sim.timeline import TimedRun
from detour.experiments.sim.workloads import SimWorkload
from detour.fabric.backends.virtual import scheme as schemes
from detour.fabric.traffic.exposure import Exposure, exposure
from detour.fabric.traffic.job_times import bus_gbps, collective_spans_ps, step_us, us
from detour.fabric.workloads.ideal import group_computing_ps, group_ideals_ps, wire_terms
from detour.fabric.workloads.jobs import JobRun, read_job_run
from detour.fabric.workloads.tasks import TaskGraph
from detour.topo import Topology
from detour.topo.failures import NONE, Failures

_NAMED = {"ecmp": (PLACED_SCHEME, False), "placed": (PLACED_SCHEME, True), "spray": (DEFAULT_SCHEME, False)}
"""schemes by the names that are theirs here: the simulator's, and whether connections are placed"""
DEFAULT_SCHEMES = tuple(_NAMED)


def scheme_named(name: str) -> tuple[schemes.Scheme, bool]:
    """A scheme by its name here or in the simulator, and whether connections are placed. Raises `DetourError`: there is
    no such scheme."""
    known, placed = _NAMED.get(name.lower(), (name, False))
    return schemes.scheme(known), placed


SchemeProgress = Callable[[str, TaskGraph], SimProgress]
"""of what is run next, in words"""


@row
class RunJob:
    """A job in a run: the time of one of its iterations, that of an empty fabric, bus bandwidth over all of its
    collectives, and its time without the other jobs. Parts of an iteration on average over hosts (`exposure`):
    computing, exposed communication by kind, idle; `saved_us`: what it takes longer than if messages took no time.
    None: it was not completed, or there is nothing to say."""

    scheme: str = shown("scheme")
    job: str = shown("job")
    step_us: float | None = shown("step us", ".1f", means="from the first task of an iteration to the end of the last")
    ideal_us: float = shown("ideal us", ".1f", means="in an empty fabric")
    busbw_gbps: float | None = shown("busbw Gb/s", ".1f", means="bus bandwidth as nccl-tests define it")
    alone_us: float | None = shown("alone us", ".1f", means="without the other jobs")
    compute_us: float | None
    exposed_us: dict[str, float]
    idle_us: float | None
    saved_us: float | None

    @cell("slowdown")
    def _slowdown(self) -> str | None:
        return f"{self.step_us / self.ideal_us:.2f}" if self.step_us and self.ideal_us else None


@row
class RunPart:
    """A part of an iteration of a job, on average over its hosts."""

    scheme: str = shown("scheme")
    job: str = shown("job")
    part: str = shown("part of a step")
    us: float = shown("us", ".1f", means="on average over hosts")
    share: float = shown("share", ".1%", means="of a step")


def parts_of(run: JobsRun) -> Iterator[RunPart]:
    """Yield the parts of all jobs that were completed."""
    for job in run.jobs:
        if job.step_us and job.compute_us is not None and job.idle_us is not None and job.saved_us is not None:
            exposed = {f"exposed: {kind}": time for kind, time in job.exposed_us.items()}
            times = {"computing": job.compute_us, **exposed, "idle": job.idle_us}
            for part, time in (times | {"saved by an ideal network": job.saved_us}).items():
                yield RunPart(scheme=run.scheme, job=job.job, part=part, us=time, share=time / job.step_us)


@row
class RunCollective:
    """The collectives of one kind of a job: how many, of how many ranks and bytes, and on average their time, from the
    first message to the end of the last, that of an empty fabric, and their bus bandwidth."""

    scheme: str = shown("scheme")
    job: str = shown("job")
    name: str = shown("collective")
    count: int = shown("number")
    ranks: int = shown("ranks")
    bytes: int = shown("bytes")
    us: float | None = shown("us", ".1f")
    ideal_us: float = shown("ideal us", ".1f", means="in an empty fabric")
    busbw_gbps: float | None = shown("busbw Gb/s", ".1f")


@row
class RunLink:
    """A direction of a link between switches: all bytes on it, and how much of the time it was busy."""

    scheme: str = shown("scheme")
    link: str = shown("link")
    bytes: int = shown("bytes")
    use: float = shown("use", ".1%", means="of its rate, over the whole run")


@row
class JobsRun:
    """A run by one scheme. Step, its parts, ideal and bus bandwidth are those of the longest step; `lost_bytes` and
    `retransmitted` are payload; `recover_us`: see `recovery`, None without an event or if a connection was still silent
    in the end; `ended_by`: `SimRun.ended_by`; `completed`: share of tasks; `fast`: what was skipped, with
    `--fast` only."""

    scheme: str = shown("scheme")
    step_us: float | None = shown("step us", ".1f")
    ideal_us: float = shown("ideal us", ".1f", means="in an empty fabric")
    busbw_gbps: float | None = shown("busbw Gb/s", ".1f", means="bus bandwidth as nccl-tests define it")
    busiest_link_bytes: int = shown("busiest link", means="bytes on the busiest link between switches")
    lost_bytes: int = shown("lost bytes")
    retransmitted: int = shown("sent again", means="bytes that were sent again")
    recover_us: float | None = shown("recover us", ".1f", means="until what --at interrupted went on")
    ended_by: EndReason
    completed: float
    virtual_us: float
    fast: FastRun | UnsetType
    compute_us: float | None
    exposed_us: dict[str, float]
    idle_us: float | None
    saved_us: float | None
    jobs: Sequence[RunJob]
    collectives: Sequence[RunCollective]
    links: Sequence[RunLink]


@dataclass(frozen=True)
class JobsPlan:
    """A plan of runs: `events` in the middle of it, `down` from the beginning, `rate`: of links, `mtu`: of
    hosts, `fast`: see `SimSettings`, all as text; `reroute_after_ps`: the controller's time after an event (None: it
    does nothing)."""

    topology: Topology
    file: Path
    schemes: Sequence[str]
    events: Sequence[TimedFailure] = ()
    down: Failures = NONE
    rate: str | None = None
    mtu: str | None = None
    reroute_after_ps: int | None = None
    timed: list[TimedRun] | None = None
    """where runs are kept for a timeline"""
    fast: str | None = None
    settings: dict[str, SimSettings] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Raise `DetourError`: there is no such scheme."""
        for name in self.schemes:
            known, _ = _NAMED.get(name.lower(), (name, False))
            chosen = settings_of(self.topology, SimOptions(scheme=known, rate=self.rate, mtu=self.mtu, fast=self.fast))
            self.settings[name] = replace(
                chosen, failures=tuple(sorted(self.events)), down=self.down, reroute_after_ps=self.reroute_after_ps
            )


def run_jobs(plan: JobsPlan, progress: SchemeProgress, stop: Callable[[], bool] = lambda: False) -> Iterator[JobsRun]:
    """Run the jobs by every scheme, one after the other, until `stop` says so. Raises `DetourError`: see
    `read_job_run` and `run_workload`."""
    jobs = read_job_run(plan.file, plan.topology)
    for scheme, settings in plan.settings.items():
        if stop():
            return
        run, recovery = _run(plan, jobs, scheme, settings, progress(scheme, jobs.graph), stop)
        alone: dict[int, float | None] = {}
        if len(jobs.jobs) > 1:
            for job, name in enumerate(jobs.jobs):
                one = jobs.alone(job)
                if stop() or not one.graph.is_message.any():
                    break
                meter = progress(f"{scheme}, {name} alone", one.graph)
                only, _ = _run(plan, one, scheme, settings, meter, stop)
                alone[job] = step_us(only.tasks, one, job)
        if plan.timed is not None:
            plan.timed.append(TimedRun(scheme, plan.topology, jobs, run.tasks))
        yield _result(scheme, run, jobs, alone, recovery)


def _run(
    plan: JobsPlan, jobs: JobRun, scheme: str, settings: SimSettings, progress: SimProgress, stop: Callable[[], bool]
) -> tuple[SimRun, RecoveryWatch]:
    workload = SimWorkload(str(plan.file), jobs.graph, False, jobs.pinned)
    placed, recovery = _NAMED.get(scheme.lower(), ("", False))[1], RecoveryWatch(settings)
    run = run_workload(plan.topology, workload, settings, progress, placed=placed, watcher=recovery, stop=stop)
    return run, recovery


def _result(scheme: str, run: SimRun, jobs: JobRun, alone: dict[int, float | None], recovery: RecoveryWatch) -> JobsRun:
    wire = wire_terms(run.topology, run.settings.links, run.settings.scheme.mtu)
    ideal = group_ideals_ps(run.graph, wire, jobs.job, len(jobs.jobs)) / np.array(jobs.iterations)
    spans = collective_spans_ps(run.tasks)
    computing = group_computing_ps(run.graph, jobs.job, len(jobs.jobs)) / np.array(jobs.iterations)
    rows = [
        RunJob(scheme=scheme, job=name, step_us=step_us(run.tasks, jobs, k), ideal_us=us(ideal[k]),
               busbw_gbps=bus_gbps(jobs, spans, lambda operation, k=k: operation.job == k), alone_us=alone.get(k),
               **_shares(exposure(run.tasks, jobs, k), step_us(run.tasks, jobs, k), computing[k]))
        for k, name in enumerate(jobs.jobs)
    ]  # fmt: skip
    longest = max(rows, key=lambda one: (one.step_us is None, one.step_us or 0))
    links, counts = _links(scheme, run), run.counts
    lost = min(int((counts.packets - counts.received - counts.duplicates).sum()), run.drops)
    recover_ps = recovery.recover_ps if run.settings.failures and run.ended_by != "stuck" else None
    return JobsRun(
        scheme=scheme, step_us=longest.step_us, ideal_us=longest.ideal_us, busbw_gbps=longest.busbw_gbps,
        busiest_link_bytes=max((one.bytes for one in links), default=0), lost_bytes=max(lost, 0) * run.packet_bytes,
        retransmitted=int(counts.retransmitted.sum()) * run.packet_bytes,
        recover_us=None if recover_ps is None else us(recover_ps), ended_by=run.ended_by,
        completed=round(float(run.tasks.finished.mean()), 6), virtual_us=us(run.end_ps), fast=fast_run(run),
        compute_us=longest.compute_us, exposed_us=longest.exposed_us, idle_us=longest.idle_us,
        saved_us=longest.saved_us, jobs=rows, collectives=list(_collectives(scheme, run, jobs, spans)), links=links,
    )  # fmt: skip


def _shares(parts: Exposure | None, step: float | None, computing_ps: float) -> dict[str, Any]:
    """Fields of a job about the parts of its time."""
    if parts is None or step is None:
        return {"compute_us": None, "exposed_us": {}, "idle_us": None, "saved_us": None}
    exposed = {kind: us(time) for kind, time in parts.exposed.items()}
    saved = max(round(step - us(computing_ps), 3), 0.0)
    return {"compute_us": us(parts.computing), "exposed_us": exposed, "idle_us": us(parts.idle), "saved_us": saved}


def _collectives(scheme: str, run: SimRun, jobs: JobRun, spans: np.ndarray) -> Iterator[RunCollective]:
    wire = wire_terms(run.topology, run.settings.links, run.settings.scheme.mtu)
    messages = np.where(run.graph.is_message, run.graph.tasks["step"], -1)
    ideal = group_ideals_ps(run.graph, wire, messages, len(jobs.operations))
    for kind in dict.fromkeys(one for one in jobs.operations if one.factor):
        which = [k for k, one in enumerate(jobs.operations) if one == kind and spans[k]]
        taken = spans[which]
        if which:
            yield RunCollective(
                scheme=scheme, job=jobs.jobs[kind.job], name=kind.name, count=len(which), ranks=kind.ranks,
                bytes=kind.bytes, us=us(taken.mean()) if (taken > 0).all() else None,
                ideal_us=us(ideal[which].mean()),
                busbw_gbps=bus_gbps(jobs, spans, lambda one, kind=kind: one == kind),
            )  # fmt: skip


def _links(scheme: str, run: SimRun) -> list[RunLink]:
    """Directions of links between switches that carried something, the busiest first."""
    series = run.links
    seconds = max(int(series.times_ps[-1]), 1) / 1e12
    rows = [
        RunLink(scheme=scheme, link=name, bytes=int(sent), use=round(float(sent * 8 / (rate * seconds)), 6))
        for name, sent, rate, host in zip(series.names, series.sent[-1], series.rates_bps, series.hosts, strict=True)
        if sent and not host
    ]
    return sorted(rows, key=lambda one: -one.bytes)
