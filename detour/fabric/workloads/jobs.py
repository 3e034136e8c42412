# SPDX-License-Identifier: Apache-2.0
"""Training jobs that run: collectives by name, and the job files of `detour place`, as tasks.

    ring:bytes=1e8,ranks=16,reduce=5us,iterations=3,compute=100us
    hierarchical:bytes=1e8,ranks=32,group=8
    docs/jobs/sizes.yaml

By name, `bytes` are what each rank reduces or exchanges, and ranks are the first hosts of the topology, or as many of
all hosts as `ranks` says in a random order (`shuffle`, a seed). In a file `bytes` are what each flow carries, as a
placement counts them: a collective of s steps sends an s-th of them in each. What a placement ignores is for the run:
`compute`, `iterations`, `reduce` and `start`.

An iteration is a computation of every rank, then the collective; a rank goes on when its part is over. Iterations are
the graph's steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError, told_of
from detour.base.quantities import bytes_of, rate_bps_of, time_ps_of, whole_number_of
from detour.control.placement.jobs import POINT_TO_POINT, FlowSet, job_documents, job_hosts, read_jobs
from detour.control.placement.nccl import rules as nccl_rules
from detour.control.placement.nccl.layout import NcclJob
from detour.control.placement.nccl.machines import Cluster, read_machine
from detour.control.placement.training import LAYOUTS, Experts, JobLayout, NcclLayout, Rails, TrainingShape, layout_of
from detour.fabric.workloads import collectives, nccl_operations
from detour.fabric.workloads.collectives import JobStep, Ranks, RankWaits, all_reduce_factor, share_factor
from detour.fabric.workloads.tasks import TaskGraph, TaskList
from detour.fabric.workloads.training import Overlap, StepTimes, TrainingStep
from detour.topo import Topology
from detour.topo.paths import SwitchPath
from detour.topo.spec import check_keys, split_spec, whole_number

MAX_ITERATIONS = 10_000
_MOST_WAITS = 16
NVLINK = "3.6T"
"""of each GPU and direction: 450 GB/s, the fourth generation"""

_Collective = Callable[[TaskList, Ranks, int], RankWaits]
_NAMES: dict[str, tuple[str, ...]] = {
    "ring": (), "tree": ("chunks",), "all-to-all": ("at_once",), "all-gather": (), "reduce-scatter": (),
    "broadcast": ("chunks",), "hierarchical": ("group",), "double-tree": ("chunks",), "rail": ("group", "nvlink"),
    "moe": ("skew", "seed", "expert"), "pipeline": ("microbatches", "forward", "backward"),
    "nccl": ("op", "gpus", "nics", "nvlink", "nvls", "algorithm", "protocol"),
}  # fmt: skip
JOB_NAMES = tuple(_NAMES)
"""collectives that are known by name; each with the parameters of its own"""
_SIMPLE: dict[str, _Collective] = {
    "ring": collectives.ring_all_reduce,
    "all-gather": collectives.all_gather,
    "reduce-scatter": collectives.reduce_scatter,
}


@dataclass(frozen=True)
class _Course:
    """Course of a job in time: `compute_ps` of every rank before each of `iterations` collectives, the first one not
    before `start_ps`; `reduce_ps`: what a rank computes between steps."""

    compute_ps: int = 0
    iterations: int = 1
    reduce_ps: int = 0
    start_ps: int = 0

    @staticmethod
    def of(values: dict[str, Any], where: str) -> _Course:
        """From values of a name or a file. Raises DetourError if one of them is not a time, or there are too many
        iterations."""
        names = ("compute", "reduce", "start")
        times = {f"{name}_ps": _quantity(time_ps_of, values.get(name, 0), f"{where}: {name}") for name in names}
        count = partial(whole_number_of, most=MAX_ITERATIONS)
        return _Course(iterations=_quantity(count, values.get("iterations", 1), f"{where}: iterations"), **times)

    def steps(self, name: str) -> list[str]:
        """Return the names of a job's iterations."""
        return [name] if self.iterations == 1 else [f"{name} #{number + 1}" for number in range(self.iterations)]

    def run(self, tasks: TaskList, ranks: Ranks, once: Callable[[TaskList, Ranks], RankWaits]) -> None:
        """Add all iterations."""
        waits, had = ranks.done(), len(tasks)
        for iteration, step in enumerate(self.steps(ranks.step or "job")):
            now = ranks.then(waits, step)
            if self.compute_ps or (self.start_ps and not iteration):
                start_ps = 0 if iteration else self.start_ps
                computed = [
                    [tasks.compute(host, self.compute_ps, after=after, start_ps=start_ps, step=step)]
                    for host, after in zip(now.hosts, now.after, strict=True)
                ]
                now = now.then(computed, step)
            waits = collectives.joined(tasks, now, once(tasks, now), _MOST_WAITS)
            if not iteration:
                collectives.check_room(tasks, (len(tasks) - had) * (self.iterations - 1))


# -- by name ------------------------------------------------------------------------------------------------


def job_by_name(text: str, topology: Topology) -> TaskGraph:
    """The tasks of a collective that is given by name and parameters. Raises DetourError if there is no such collective
    or parameter, or it does not fit the topology."""
    name, values = split_spec(text)
    if name not in _NAMES:
        raise DetourError(f"{text!r}: there is no collective {name!r}; allowed: {', '.join(JOB_NAMES)}")
    own = _NAMES[name]
    optional = ("ranks", "shuffle", "compute", "reduce", "iterations", "start", *own)
    check_keys(text, values, ("bytes",), optional)
    hosts = _hosts(text, values, topology)
    size = _quantity(bytes_of, values["bytes"], f"{text!r}: bytes")
    course = _Course.of(values, repr(text))
    once = _named(text, name, values, topology, len(hosts))
    tasks = TaskList(len(topology.hosts), serial=True)
    course.run(tasks, Ranks.fresh(hosts, name, course.reduce_ps), lambda tasks, ranks: once(tasks, ranks, size))
    return tasks.graph()


def _named(text: str, name: str, values: dict[str, str], topology: Topology, ranks: int) -> _Collective:
    def number(key: str, default: int, least: int) -> int:
        value = whole_number(text, key, values[key]) if key in values else default
        if value < least:
            raise DetourError(f"{text!r}: {key}={value}; it must be at least {least}")
        return value

    def time(key: str) -> int:
        return _quantity(time_ps_of, values.get(key, 0), f"{text!r}: {key}")

    match name:
        case "tree":
            return partial(collectives.tree_all_reduce, chunks=number("chunks", 1, 1))
        case "double-tree":
            chunks = number("chunks", collectives.TREE_CHUNKS, 1)
            return partial(collectives.double_tree_all_reduce, chunks=chunks)
        case "rail":
            group = number("group", len(topology.hosts_of[topology.hosts[0].switch]), 1)
            rate = _quantity(rate_bps_of, values.get("nvlink", NVLINK), f"{text!r}: nvlink")
            return partial(_rail, group, rate)
        case "nccl":
            return _nccl(text, values, topology, ranks)
        case "moe":
            return partial(_moe, values.get("skew", "uniform"), number("seed", 1, 0), time("expert"))
        case "pipeline":
            return partial(_pipeline, number("microbatches", ranks, 1), time("forward"), time("backward"))
        case "broadcast":
            return partial(collectives.broadcast, chunks=number("chunks", 1, 1))
        case "all-to-all":
            return partial(collectives.all_to_all, at_once=number("at_once", 0, 0))
        case "hierarchical":
            group = number("group", len(topology.hosts_of[topology.hosts[0].switch]), 1)
            if ranks % group:
                raise DetourError(f"{text!r}: {ranks} ranks cannot form whole groups of {group}; give group=")
            return partial(collectives.hierarchical, group=group)
    return _SIMPLE[name]


def _any(what: str) -> Callable[[int, int], int]:
    return collectives.any_connection


def _rail(group: int, nvlink_bps: int, tasks: TaskList, ranks: Ranks, size: int) -> RankWaits:
    machines = len(ranks) // group
    each = max(1, 2 * (machines - 1) * size // max(group * machines, 1))
    return collectives.rails(tasks, ranks, Rails(len(ranks), group, each, tuple(range(group))), nvlink_bps, _any)


def _nccl(text: str, values: dict[str, str], topology: Topology, hosts: int) -> _Collective:
    """An operation as NCCL carries it out: hosts are the NICs of machines."""
    with told_of(repr(text)):
        keys = [f"{key}={values[key]}" for key in ("gpus", "nics", "nvlink", "nvls") if key in values]
        cluster = Cluster.of_hosts(hosts, read_machine(",".join(keys)), topology.rate_bps)
        op, asked = values.get("op", "all_reduce"), (values.get("algorithm"), values.get("protocol"))
        nccl_rules.choose(op, 1, cluster, *asked)

    def once(tasks: TaskList, ranks: Ranks, size: int) -> RankWaits:
        return nccl_operations.run(tasks, ranks, op, size, cluster, nccl_rules.choose(op, size, cluster, *asked))

    return once


def _moe(skew: str, seed: int, expert_ps: int, tasks: TaskList, ranks: Ranks, size: int) -> RankWaits:
    tokens = Experts(len(ranks), max(1, size // len(ranks)), skew, seed).tokens.tolist()
    return collectives.experts(tasks, ranks, tokens, expert_ps)


def _pipeline(
    microbatches: int, forward_ps: int, backward_ps: int, tasks: TaskList, ranks: Ranks, size: int
) -> RankWaits:
    shape = TrainingShape(pp=len(ranks), microbatches=microbatches, stage_bytes=size)
    return TrainingStep(shape, StepTimes(forward_ps=forward_ps, backward_ps=backward_ps), _any).run(tasks, ranks)


def _hosts(text: str, values: dict[str, str], topology: Topology) -> list[int]:
    have = len(topology.hosts)
    ranks = whole_number(text, "ranks", values["ranks"]) if "ranks" in values else have
    if not 2 <= ranks <= have:
        raise DetourError(f"{text!r}: {ranks} ranks; {topology.spec} has {have} hosts, and two are needed")
    if "shuffle" not in values:
        return list(range(ranks))
    seed = whole_number(text, "shuffle", values["shuffle"])
    if seed < 0:
        raise DetourError(f"{text!r}: shuffle={seed}; it must be a whole number of at least 0")
    return np.random.default_rng(seed).permutation(have)[:ranks].tolist()


# -- job files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobRun:
    """A job file that runs: its tasks, the paths that it demands, by source, destination and connection, what jobs are
    called, how many iterations each has, and what the steps of the graph are. `passes`: see `TrainingStep`."""

    graph: TaskGraph
    pinned: dict[tuple[int, int, int], SwitchPath]
    jobs: tuple[str, ...]
    iterations: tuple[int, ...]
    operations: tuple[JobStep, ...]
    passes: tuple[tuple[int, str], ...] = ()

    @property
    def job(self) -> NDArray[np.int64]:
        """(tasks,) number of the job that each belongs to."""
        return np.array([operation.job for operation in self.operations], np.int64)[self.graph.tasks["step"]]

    def alone(self, job: int) -> JobRun:
        """One of the jobs without the others."""
        graph = self.graph.some(np.flatnonzero(self.job == job))
        hosts = {(int(row["source"]), int(row["destination"])) for row in graph.tasks}
        pinned = {name: path for name, path in self.pinned.items() if name[:2] in hosts}
        return replace(self, graph=graph, pinned=pinned, passes=())

    def names_of(self, tasks: NDArray[np.int64]) -> list[str]:
        """Return the pass of a training step that each of some tasks belongs to; empty: none."""
        names = ["", *(name for _, name in self.passes)]
        return [names[k] for k in np.searchsorted([first for first, _ in self.passes], tasks, side="right").tolist()]


def read_job_run(file: Path, topology: Topology) -> JobRun:
    """The tasks of a job file of `detour place`. Raises DetourError if it is malformed, does not fit the topology, or
    does not say how much flows carry."""
    flows = read_jobs(file, topology)
    if flows.bytes is None:
        raise DetourError(f"job file {file}: --run needs `bytes` (per flow) in every job")
    connection = _connections(flows)
    tasks = TaskList(len(topology.hosts), serial=True)
    operations: dict[str, JobStep] = {}
    iterations: list[int] = []
    passes: list[tuple[int, str]] = []
    for number, job in enumerate(job_documents(file)):
        name = flows.names[number]
        course = _Course.of(job, f"job file {file}: job {name}")
        mine = np.flatnonzero(flows.job == number)
        collectives.check_room(tasks, course.iterations * len(mine))
        steps = dict.fromkeys(course.steps(name), JobStep(number, "compute"))
        if job["collective"] in LAYOUTS:
            laid = _LaidOut(
                name, job, job_hosts(job, topology).tolist(), connection[mine], f"job file {file}: job {name}"
            )
            steps |= laid.run(tasks, course)
            passes += [*laid.passes, (len(tasks), "")]
        else:
            one = _FileJob(name, flows, mine, connection, job.get("connections", 1))
            steps |= dict.fromkeys(steps, one.run(tasks, job["collective"], course))
        operations |= {step: replace(which, job=number) for step, which in steps.items()}
        iterations.append(course.iterations)
    graph = tasks.graph()
    names = zip(flows.source.tolist(), flows.target.tolist(), connection.tolist(), strict=True)
    pinned = {name: flows.pinned[flow] for flow, name in enumerate(names) if flow in flows.pinned}
    by_step = tuple(operations[step] for step in graph.steps)
    return JobRun(graph, pinned, flows.names, tuple(iterations), by_step, tuple(passes))


def _connections(flows: FlowSet) -> NDArray[np.int64]:
    """(flows,) which connection of its two hosts each flow is: they are counted in the flows' order."""
    keys = flows.source.astype(np.int64) << 32 | flows.target
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(keys[order]) != 0]))
    number = np.empty(len(keys), np.int64)
    number[order] = np.arange(len(keys)) - np.repeat(starts, np.diff(starts, append=len(keys)))
    return number


def _flow_of_ring(size: int, ranks: int) -> int:
    return max(1, size * ranks // (ranks - 1))


# What each rank must have so that each flow carries `bytes`, the collective, and its factor.
_FILES: dict[str, tuple[Callable[[int, int], int], _Collective, Callable[[int], float]]] = {
    "ring-all-reduce": (
        lambda size, n: max(1, size * n // (2 * (n - 1))), collectives.ring_all_reduce, all_reduce_factor
    ),
    "tree": (lambda size, n: size, collectives.tree_all_reduce, all_reduce_factor),
    "all-to-all": (lambda size, n: size * n, collectives.all_to_all, share_factor),
    "all-gather": (_flow_of_ring, collectives.all_gather, share_factor),
    "reduce-scatter": (_flow_of_ring, collectives.reduce_scatter, share_factor),
}  # fmt: skip


@dataclass(frozen=True)
class _FileJob:
    """The flows of one job, by number: `times` connections in parallel for each pair of hosts, one after the other."""

    name: str
    flows: FlowSet
    mine: NDArray[np.int64]
    connection: NDArray[np.int64]
    times: int

    def run(self, tasks: TaskList, kind: str, course: _Course) -> JobStep:
        """Add the job's tasks. Parallel connections carry shares of their own: they are as many collectives."""
        source, target = self.flows.source[self.mine], self.flows.target[self.mine]
        if kind == POINT_TO_POINT:
            hosts = np.unique(np.concatenate([source, target])).tolist()
            course.run(tasks, Ranks.fresh(hosts, self.name, course.reduce_ps), self._elephants)
            sent = np.bincount(source, self.flows.size[self.mine])
            return JobStep(0, kind, len(hosts), int(sent.max()), 1.0)
        first = slice(None, None, self.times)
        if kind == "tree":
            # The children come first, in order, and the first one's parent is the root.
            hosts = [int(target[0]), *source[first][: len(source[first]) // 2].tolist()]
        else:
            hosts = list(dict.fromkeys(source[first].tolist()))
        pairs = zip(source[first].tolist(), target[first].tolist(), strict=True)
        flow_of = dict(zip(pairs, self.mine[first].tolist(), strict=True))
        size_of, collective, factor = _FILES[kind]
        size = size_of(int(self.flows.size[self.mine[0]]), len(hosts))

        def once(tasks: TaskList, ranks: Ranks) -> RankWaits:
            waits: RankWaits = [[] for _ in hosts]
            for turn in range(self.times):
                turned = replace(ranks, over=lambda a, b, turn=turn: int(self.connection[flow_of[a, b] + turn]))
                for rank, more in enumerate(collective(tasks, turned, size)):
                    waits[rank] += more
            return waits

        course.run(tasks, Ranks.fresh(hosts, self.name, course.reduce_ps), once)
        return JobStep(0, kind, len(hosts), size * self.times, factor(len(hosts)))

    def _elephants(self, tasks: TaskList, ranks: Ranks) -> RankWaits:
        """Messages between pairs; a host is done when it has got what is for it."""
        place = {host: rank for rank, host in enumerate(ranks.hosts)}
        waits: RankWaits = [[] for _ in ranks.hosts]
        for flow in self.mine.tolist():
            a, b = (place[int(end[flow])] for end in (self.flows.source, self.flows.target))
            over = replace(ranks, over=lambda a, b, flow=flow: int(self.connection[flow]))
            sent = over.send(tasks, a, b, int(self.flows.size[flow]), ranks.after[a])
            waits[b].append(sent)
            waits[a].append(sent)
        return ranks.done(waits)


def _quantity(of: Callable[[str], int], value: Any, what: str) -> int:
    """A quantity of a name or a file (`base.quantities`); an error says which."""
    with told_of(what):
        return of(str(value))


class _LaidOut:
    """A job of which flows are unlike (`control.placement.training`). `connection`: (flows,) in the layout's order."""

    def __init__(
        self, name: str, job: dict[str, Any], hosts: list[int], connection: NDArray[np.int64], where: str
    ) -> None:
        self._name, self._job, self._hosts, self._where = name, job, hosts, where
        self._layout: JobLayout = layout_of(job, len(hosts))
        ends = ((flow.what, hosts[flow.source], hosts[flow.target]) for flow in self._layout.flows())
        self._connection = dict(zip(ends, connection.tolist(), strict=True))
        self.passes: list[tuple[int, str]] = []

    def run(self, tasks: TaskList, course: _Course) -> dict[str, JobStep]:
        """Add the job's tasks; steps of the graph that it has beside those of its iterations, or instead."""
        ranks = Ranks.fresh(self._hosts, self._name, course.reduce_ps)
        n, layout = len(ranks), self._layout
        if isinstance(layout, TrainingShape):
            keys = ("forward", "backward", "head", "expert", "attention")
            times = StepTimes(**{f"{key}_ps": self._time(key) for key in keys})
            with told_of(self._where):
                overlap = Overlap.of(self._job)
            training = TrainingStep(layout, times, self._over, overlap)
            course.run(tasks, ranks, training.run)
            self.passes = training.passes
            return training.steps
        if isinstance(layout, Experts):
            tokens, over = layout.tokens.tolist(), replace(ranks, over=self._over("expert"))
            course.run(tasks, over, partial(collectives.experts, tokens=tokens, expert_ps=self._time("expert")))
            step = JobStep(0, "moe", n, 2 * n * layout.mean, share_factor(n))
        elif isinstance(layout, NcclLayout):
            step = self._nccl(layout.job, tasks, replace(ranks, over=self._over("nccl")), course)
        else:
            rate = _quantity(rate_bps_of, self._job.get("nvlink", NVLINK), f"job {self._name}: nvlink")
            course.run(tasks, ranks, partial(collectives.rails, layout=layout, nvlink_bps=rate, over=self._over))
            step = JobStep(0, self._job["collective"], n, layout.bytes, all_reduce_factor(n))
        return dict.fromkeys(course.steps(self._name), step)

    def _nccl(self, job: NcclJob, tasks: TaskList, ranks: Ranks, course: _Course) -> JobStep:
        once = partial(nccl_operations.run, op=job.op, size=job.bytes, cluster=job.cluster, choice=job.choice)
        course.run(tasks, ranks, once)
        gpus = job.cluster.ranks
        return JobStep(0, job.op, gpus, job.bytes, nccl_rules.bus_factor(job.op, gpus))

    def _time(self, key: str) -> int:
        return _quantity(time_ps_of, self._job.get(key, 0), f"job {self._name}: {key}")

    def _over(self, what: str) -> Callable[[int, int], int]:
        return lambda source, target: self._connection[what, source, target]
