# SPDX-License-Identifier: Apache-2.0
"""Streams of a job's ranks, as GPUs have them: one that computes, and one for each kind of collective that runs beside.

A rank's computations follow each other. Collectives stand between them, or are started and waited for later; those of
one kind follow each other, as NCCL runs the operations of a communicator. While one that was started runs at a rank, it
may take a share of what the rank computes (`TASK_FIELDS`, `slows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from detour.fabric.workloads import collectives
from detour.fabric.workloads.collectives import JobStep, Ranks, RankWaits
from detour.fabric.workloads.tasks import TaskList

Waits = dict[int, list[int]]
"""what some ranks wait for"""
COMMUNICATION = 1
"""the unit of a host that adds up what comes in while it computes"""


@dataclass(frozen=True)
class Operation:
    """A collective of `size` bytes over the connections of `what`, called `name` in reports. `factor`: from the number
    of ranks, see `JobStep`."""

    name: str
    what: str
    size: int
    run: Callable[[TaskList, Ranks, int], RankWaits]
    factor: Callable[[int], float] = collectives.share_factor


@dataclass
class Streams:
    """`ranks`: of the job as they begin. `over`: by what a flow is part of, see `Ranks`. `steps`: of the graph, by
    name; operations add theirs. `slows`: see `TASK_FIELDS`."""

    tasks: TaskList
    ranks: Ranks
    over: Callable[[str], Callable[[int, int], int]]
    steps: dict[str, JobStep]
    slows: int = 0

    def __post_init__(self) -> None:
        self._waits: RankWaits = [list(after) for after in self.ranks.after]
        self._tails: dict[str, Waits] = {}

    # -- computing --------------------------------------------------------------------------------------

    def now(self, members: Iterable[int]) -> Waits:
        """Return a copy of what each member waits for by now."""
        return {rank: list(self._waits[rank]) for rank in members}

    def wait(self, waits: Waits) -> None:
        """Let ranks wait for more before they go on."""
        for rank, more in waits.items():
            self._waits[rank] += more

    def compute(self, members: Sequence[int], time_ps: int) -> None:
        """Add a computation of the same time at each member."""
        self.compute_each(members, [time_ps] * len(members))

    def compute_each(self, members: Sequence[int], times_ps: Sequence[int]) -> None:
        """Add a computation at each member, of its own time."""
        if any(times_ps):
            some = self._some(members, self.ranks.step)
            self._then(members, collectives.computed(self.tasks, some, times_ps))

    # -- communication ----------------------------------------------------------------------------------

    def collective(self, groups: Iterable[Sequence[int]], operation: Operation) -> None:
        """Add the operation to each group; its ranks go on when it is over."""
        for group in groups if operation.size else ():
            if len(group) > 1:
                some = self._some(group, self._step(operation, len(group)))
                done = operation.run(self.tasks, replace(some, over=self.over(operation.what)), operation.size)
                self._then(group, done)

    def start(self, groups: Iterable[Sequence[int]], operation: Operation, after: Waits | None = None) -> Waits:
        """Add the operation beside computing, once ranks have computed all so far or after `after`; return what to wait
        for."""
        started: Waits = {}
        for group in groups if operation.size else ():
            if len(group) > 1:
                started |= self._beside(group, operation, self.now(group) if after is None else after)
        return started

    def _beside(self, group: Sequence[int], operation: Operation, after: Waits) -> Waits:
        """Add the operation of a group after those of its name that it has started before."""
        tail = self._tails.setdefault(operation.name, {})
        begun = [list(dict.fromkeys((*after[rank], *tail.get(rank, ())))) for rank in group]
        some = self._some(group, self._step(operation, len(group)))
        some = replace(some, over=self.over(operation.what), unit=COMMUNICATION)
        done = operation.run(self.tasks, some.then(self._kernels(some, begun, self.slows)), operation.size)
        points = replace(some, step=self.ranks.step)
        done = collectives.joined(self.tasks, points, self._kernels(some, done, -self.slows))
        waits = dict(zip(group, done, strict=True))
        tail |= waits
        return waits

    def pair(self, way: str, source: int, target: int, size: int) -> list[int]:
        """Add a message from rank to rank; return what its arrival is."""
        some = self._some([source, target], self.step(way, 2, size, 1.0))
        return [replace(some, over=self.over(way)).send(self.tasks, 0, 1, size, self._waits[source])]

    def join(self) -> None:
        """Let ranks wait for all that was started."""
        for waits in self._tails.values():
            self.wait(waits)

    def done(self) -> RankWaits:
        """Return what ranks wait for in the end."""
        self.join()
        return self.ranks.done(self._waits)

    def step(self, name: str, ranks: int, size: int, factor: float) -> str:
        """Add a step of the graph; return its name."""
        step = f"{self.ranks.step} {name} {len(self.steps)}"
        self.steps[step] = JobStep(0, name, ranks, size, factor)
        return step

    # -- parts ------------------------------------------------------------------------------------------

    def _step(self, operation: Operation, ranks: int) -> str:
        return self.step(operation.name, ranks, operation.size, operation.factor(ranks))

    def _some(self, members: Sequence[int], step: str | None) -> Ranks:
        """Ranks that wait for what they have to by now."""
        hosts, after = (self.ranks.hosts[rank] for rank in members), (tuple(self._waits[rank]) for rank in members)
        return replace(self.ranks, hosts=tuple(hosts), after=tuple(after), step=step or self.ranks.step)

    def _then(self, members: Sequence[int], waits: RankWaits) -> None:
        points = collectives.joined(self.tasks, self._some(members, self.ranks.step), waits)
        for rank, each in zip(members, points, strict=True):
            self._waits[rank] = list(each)

    def _kernels(self, some: Ranks, after: RankWaits, slows: int) -> RankWaits:
        """Add the begin or the end of a kernel at each rank (`slows` below 0)."""
        if not slows:
            return after
        ends = zip(some.hosts, after, strict=True)
        return [[self.tasks.compute(host, 0, after=each, step=self.ranks.step, slows=slows)] for host, each in ends]
