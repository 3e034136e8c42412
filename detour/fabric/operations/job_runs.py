# SPDX-License-Identifier: Apache-2.0
"""A job file, run once on a running fabric, and the times that it took."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.progress import Progress
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.virtual.scheme import LinkSettings
from detour.fabric.operations.control_plane import Paths
from detour.fabric.operations.results import JobsRan
from detour.fabric.traffic.flows import Flow, Pump
from detour.fabric.traffic.job_times import bus_gbps, collective_spans_ps, step_us, us
from detour.fabric.traffic.live_tasks import Connect, LiveTasks
from detour.fabric.traffic.tasks import TaskResult
from detour.fabric.workloads.ideal import group_ideals_ps, wire_terms
from detour.fabric.workloads.jobs import JobRun, read_job_run
from detour.topo.paths import directed_links


def run_once(
    file: Path,
    fabric: Fabric,
    pump: Pump,
    paths: Paths,
    connect: Connect,
    rng: random.Random,
    progress: Progress,
    cancelled: threading.Event,
) -> JobsRan:
    """Run a job file. Raises DetourError: the file is wrong, the jobs are too large, a connection fails, or `cancelled`
    is set."""
    run = read_job_run(file, fabric.topology)
    tasks = LiveTasks(run.graph, pump, connect, rng.randrange(1 << 62))
    result = tasks.run(cancelled, progress)
    if cancelled.is_set():
        raise DetourError(f"cancelled: {int(result.finished.sum())} of {len(run.graph)} tasks were completed")
    return _ran(run, result, list(tasks.flows.values()), fabric, paths)


def _ran(run: JobRun, result: TaskResult, flows: list[Flow], fabric: Fabric, paths: Paths) -> JobsRan:
    spans, payload, topology = collective_spans_ps(result), fabric.terms.hosts.payload, fabric.topology
    steps = [step_us(result, run, job) or 0.0 for job in range(len(run.jobs))]
    longest = steps.index(max(steps))
    wire = wire_terms(topology, LinkSettings(fabric.terms.rate_bps))
    ideal = group_ideals_ps(run.graph, wire, run.job, len(run.jobs))[longest] / run.iterations[longest]
    links: Counter[tuple[int, int]] = Counter()
    for flow in flows:
        a, b = topology.hosts[flow.source_host], topology.hosts[flow.target_host]
        used = flow.packets_by_path()
        ways = paths.hops((a, b, path) for path in used)
        for hops, packets in zip(ways, used.values(), strict=True):
            links.update(dict.fromkeys(directed_links(topology, hops), packets))
    stats = [flow.stats() for flow in flows]
    lost = sum(each["lost"] - each["spurious"] for each in stats)
    return JobsRan(
        scheme="running", step_us=steps[longest], ideal_us=us(ideal),
        busbw_gbps=bus_gbps(run, spans, lambda one: one.job == longest),
        busiest_link_bytes=max(links.values(), default=0) * payload, lost_bytes=max(lost, 0) * payload,
        retransmitted=sum(each["retransmitted"] for each in stats) * payload, recover_us=None,
    )  # fmt: skip
