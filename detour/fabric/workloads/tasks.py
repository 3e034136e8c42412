# SPDX-License-Identifier: Apache-2.0
"""Workloads as graphs of tasks: messages between hosts and computations at hosts, and who waits for whom.

    tasks = TaskList(hosts=16)
    first = tasks.message(0, 1, 1_000_000, step="ring 0")
    tasks.message(1, 2, 1_000_000, after=[first], compute_ps=5 * US, step="ring 1")
    graph = tasks.graph()

A list of flows is a graph without dependencies (`flow_graph`). What a host waits for is something that it did itself or
something that came to it: a message is over for its source when it is acknowledged, for its destination when all of its
bytes are in memory. So every dependency is met where it is waited for, and no host knows what happens elsewhere.

`fabric.traffic.tasks` executes graphs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detour.base.arrays import Int64Array, Int64s1
from detour.base.errors import DetourError
from detour.base.native import Part
from detour.base.times import MAX_TIME
from detour.hosts.state import FULL_RATE

TASK_FIELDS = np.dtype([
    ("source", np.int32), ("destination", np.int32), ("bytes", np.int64), ("start_ps", np.int64),
    ("compute_ps", np.int64), ("step", np.int32), ("connection", np.int32), ("unit", np.int32), ("slows", np.int32),
], align=True)  # fmt: skip
"""A task: `destination` -1: it only computes; `bytes` of the message (0 without one); `start_ps`: not before; what
passes at `source` from when nothing is waited for any more until the message is sent, or, without a message, until the
task is over; `step` of the graph's `steps`, -1: none; `connection`: which of those of the two hosts takes the message,
-1: any that is idle; `unit`: which unit of the source computes, one thing at a time in the order in which things became
ready, -1: one of its own; `slows`: a communication kernel begins with this task and takes that many 65,536ths of what
its unit computes, until a task of as many below 0 begins; several at once take no more than one."""

MAX_MESSAGE = 1 << 40
"""bytes"""
MAX_NUMBER = 1 << 16
"""connections of two hosts, and units of a host"""
_CYCLE_SHOWN = 12
_FIELDS = len(TASK_FIELDS.names or ())
TASK_GRAPHS = Part("graphs", __name__)


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """`tasks`: (n,) of `TASK_FIELDS`. `dependencies`: (m, 2), the second task waits for the first one. `on_start`: (m,)
    bool, it waits only for the first one's beginning (None: nobody does). `steps`: what steps are called. `labels`:
    what tasks are called in errors (None: by number). Raises DetourError for unknown hosts or steps, messages of no
    bytes or to oneself, negative times, dependencies on what the host that waits does not learn, or a cycle of
    dependencies; none of it is ever executed."""

    hosts: int
    tasks: NDArray[Any]
    dependencies: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    on_start: NDArray[np.bool_] | None = None
    steps: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.tasks.dtype != TASK_FIELDS or self.tasks.ndim != 1:
            raise DetourError(f"tasks are a {self.tasks.ndim}-dimensional array of another type than TASK_FIELDS")
        if not len(self.tasks):
            raise DetourError("there is no task")
        self._check_ends()
        self._check_sizes()
        self._check_dependencies()
        self._check_cycles()

    def __repr__(self) -> str:
        messages = int(self.is_message.sum())
        return f"<TaskGraph: {messages} messages, {len(self) - messages} computations, {self.hosts} hosts>"

    def __len__(self) -> int:
        return len(self.tasks)

    def label(self, task: int) -> str:
        """Return a task's name for errors."""
        return f"task {task}" if self.labels is None else self.labels[task]

    @cached_property
    def is_message(self) -> NDArray[np.bool_]:
        """(n,) which tasks send something."""
        return self.tasks["destination"] >= 0

    @cached_property
    def starts(self) -> NDArray[np.bool_]:
        """(m,) which dependencies are met when the first task begins."""
        return np.zeros(len(self.dependencies), np.bool_) if self.on_start is None else self.on_start

    @property
    def message_bytes(self) -> int:
        """Return the bytes of all messages together."""
        return int(self.tasks["bytes"].sum())

    def some(self, which: Int64Array) -> TaskGraph:
        """These tasks, in order, and who of them waits for whom."""
        place = np.full(len(self), -1, np.int32)
        place[which] = np.arange(len(which))
        pairs = place[self.dependencies]
        kept = (pairs >= 0).all(axis=1)
        labels = None if self.labels is None else tuple(self.labels[task] for task in which.tolist())
        return replace(
            self, tasks=self.tasks[which], dependencies=pairs[kept], on_start=self.starts[kept], labels=labels
        )

    # -- checks -----------------------------------------------------------------------------------------

    def _first(self, wrong: NDArray[np.bool_]) -> int | None:
        return int(wrong.argmax()) if wrong.any() else None

    def _check_ends(self) -> None:
        source, destination = self.tasks["source"], self.tasks["destination"]
        for ends, least in ((source, 0), (destination, -1)):
            if (k := self._first((ends < least) | (ends >= self.hosts))) is not None:
                raise DetourError(f"{self.label(k)}: there is no host h{ends[k]}; there are h0 to h{self.hosts - 1}")
        if (k := self._first(source == destination)) is not None:
            raise DetourError(f"{self.label(k)}: h{source[k]} would send to itself")

    def _check_sizes(self) -> None:
        tasks = self.tasks
        sent = self.is_message
        if (k := self._first(sent & (tasks["bytes"] <= 0))) is not None:
            raise DetourError(f"{self.label(k)}: a message of {tasks['bytes'][k]} bytes; it must have at least one")
        if (k := self._first(tasks["bytes"] > MAX_MESSAGE)) is not None:
            raise DetourError(f"{self.label(k)}: a message of {tasks['bytes'][k]} bytes; expected at most 2**40")
        if (k := self._first(~sent & (tasks["bytes"] != 0))) is not None:
            raise DetourError(f"{self.label(k)}: {tasks['bytes'][k]} bytes, but no destination")
        for name in ("start_ps", "compute_ps"):
            if (k := self._first((tasks[name] < 0) | (tasks[name] >= MAX_TIME))) is not None:
                raise DetourError(f"{self.label(k)}: {name} is {tasks[name][k]}; it must be a time, 0 or more")
        if (k := self._first((tasks["step"] < -1) | (tasks["step"] >= len(self.steps)))) is not None:
            raise DetourError(f"{self.label(k)}: there is no step {tasks['step'][k]}; there are {len(self.steps)}")
        for name in ("connection", "unit"):
            if (k := self._first((tasks[name] < -1) | (tasks[name] >= MAX_NUMBER))) is not None:
                raise DetourError(f"{self.label(k)}: there is no {name} {tasks[name][k]}")
        slows = tasks["slows"]
        lost = (slows != 0) & ((tasks["unit"] < 0) | (tasks["compute_ps"] > 0) | (np.abs(slows) >= FULL_RATE))
        if (k := self._first(lost)) is not None:
            raise DetourError(f"{self.label(k)}: it slows a unit by {slows[k]} of {FULL_RATE}: by all, none, or itself")

    def _check_dependencies(self) -> None:
        pairs, n = self.dependencies, len(self.tasks)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or self.starts.shape != (len(pairs),):
            raise DetourError(f"dependencies have shape {pairs.shape}; expected pairs, and a flag for each")
        if (k := self._first((pairs.min(axis=1) < 0) | (pairs.max(axis=1) >= n))) is not None:
            raise DetourError(f"task {pairs[k, 1]} would wait for task {pairs[k, 0]}; there are tasks 0 to {n - 1}")
        first, then = self.tasks[pairs[:, 0]], self.tasks[pairs[:, 1]]
        learnt = then["source"] == first["source"]
        learnt |= ~self.starts & (then["source"] == first["destination"])
        if (k := self._first(~learnt)) is not None:
            a, b = (int(task) for task in pairs[k])
            raise DetourError(
                f"{self.label(b)} at h{then['source'][k]} waits for {self.label(a)}, an "
                "event at another host: a task can wait only for events at its own host"
            )

    def _check_cycles(self) -> None:
        left = np.ones(len(self.tasks), np.bool_)
        left[topological(len(self.tasks), self.dependencies)] = False
        if not left.any():
            return
        cycle = [self.label(task) for task in _cycle(self.dependencies, np.flatnonzero(left))]
        shown = cycle if len(cycle) <= _CYCLE_SHOWN else [*cycle[: _CYCLE_SHOWN - 1], "...", cycle[-1]]
        raise DetourError(f"tasks wait for each other in a cycle: {' -> '.join(shown)}")


def successors(n: int, dependencies: NDArray[np.integer]) -> tuple[Int64Array, Int64Array]:
    """Dependencies by their first task: (n + 1,) where those of a task begin, and (m,) their indices in order."""
    order = np.argsort(dependencies[:, 0], kind="stable")
    first = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(dependencies[:, 0], minlength=n), out=first[1:])
    return first, order.astype(np.int64)


def topological(n: int, dependencies: NDArray[np.integer]) -> Int64Array:
    """Tasks in an order in which everyone comes after those that it waits for; those in cycles and behind them are
    left out (Kahn, 1962)."""
    if not len(dependencies):
        return np.arange(n)
    first, order = successors(n, dependencies)
    open_ = np.bincount(dependencies[:, 1], minlength=n)
    ordered = np.empty(n, np.int64)
    ready = np.flatnonzero(open_ == 0)
    ordered[: len(ready)] = ready
    return ordered[: _order(first, dependencies[order, 1].astype(np.int64), open_, ordered, len(ready))]


@TASK_GRAPHS.entry
def _order(first: Int64s1, then: Int64s1, open_: Int64s1, ordered: Int64s1, count: int) -> int:
    """Go on with an order of which the first `count` tasks are known; return the length of all of it."""
    at = 0
    while at < count:
        for k in range(first[ordered[at]], first[ordered[at] + 1]):
            open_[then[k]] -= 1
            if open_[then[k]] == 0:
                ordered[count] = then[k]
                count += 1
        at += 1
    return count


def latest(n: int, dependencies: NDArray[np.integer], lag: Int64Array, begin: Int64Array) -> None:
    """Postpone `begin` (n,) until every task is `lag` (m,) later than those that it waits for."""
    first, order = successors(n, dependencies)
    then = dependencies[order, 1].astype(np.int64)
    _postpone(topological(n, dependencies), first, then, lag[order], begin)


@TASK_GRAPHS.entry
def _postpone(ordered: Int64s1, first: Int64s1, then: Int64s1, lag: Int64s1, begin: Int64s1) -> None:
    for task in ordered:
        for k in range(first[task], first[task + 1]):
            begin[then[k]] = max(begin[then[k]], begin[task] + lag[k])


def _cycle(dependencies: NDArray[np.int32], left: Int64Array) -> list[int]:
    """Tasks of one cycle, each waited for by the next one; the first is named again at the end."""
    among = set(left.tolist())
    before = {b: a for a, b in dependencies.tolist() if a in among and b in among}
    # Every task that is left waits for one that is left: going back leads into a cycle.
    at, seen = int(left[0]), dict[int, None]()
    while at not in seen:
        seen[at] = None
        at = before[at]
    trail = list(seen)
    return [at, *reversed(trail[trail.index(at) :])]


# -- making them --------------------------------------------------------------------------------------------


_Row = tuple[int, int, int, int, int, int, int, int, int]


class TaskList:
    """Collects tasks one by one. Numbers of tasks are what `message` and `compute` return. `serial`: hosts compute one
    thing at a time, unless a task says by which unit."""

    def __init__(self, hosts: int, *, serial: bool = False) -> None:
        self._hosts, self._unit = hosts, 0 if serial else -1
        # Millions of them: numbers, not objects.
        self._rows = array("q")
        self._waits = array("i")
        self._on_start = bytearray()
        self._steps: dict[str, int] = {}
        self._labels: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._rows) // _FIELDS

    def message(
        self,
        source: int,
        destination: int,
        size: int,
        *,
        after: Iterable[int] = (),
        compute_ps: int = 0,
        start_ps: int = 0,
        step: str | None = None,
        connection: int = -1,
        unit: int | None = None,
        label: str | None = None,
    ) -> int:
        """A message of `size` bytes, `compute_ps` after all of `after` are over."""
        unit = self._unit if unit is None else unit
        row = (source, destination, size, start_ps, compute_ps, self._step(step), connection, unit, 0)
        return self._add(row, after, label)

    def compute(
        self,
        source: int,
        duration_ps: int,
        *,
        after: Iterable[int] = (),
        start_ps: int = 0,
        step: str | None = None,
        unit: int | None = None,
        slows: int = 0,
        label: str | None = None,
    ) -> int:
        """A computation; of no time it is a point that others wait for."""
        unit = self._unit if unit is None else unit
        return self._add((source, -1, 0, start_ps, duration_ps, self._step(step), -1, unit, slows), after, label)

    def wait(self, task: int, for_: int, *, on_start: bool = False) -> None:
        """`task` waits for `for_`, or only for its beginning."""
        self._waits.extend((for_, task))
        self._on_start.append(on_start)

    def graph(self) -> TaskGraph:
        """Build the graph. Raises DetourError as `TaskGraph` does."""
        labels = tuple(self._labels.get(k, f"task {k}") for k in range(len(self))) if self._labels else None
        tasks, rows = np.zeros(len(self), TASK_FIELDS), np.asarray(self._rows).reshape(-1, _FIELDS)
        for name, column in zip(TASK_FIELDS.names or (), rows.T, strict=True):
            tasks[name] = column
            if (tasks[name] != column).any():
                raise DetourError(f"a task has a number beyond 32 bits: {name}")
        pairs, on_start = np.array(self._waits).reshape(-1, 2), np.array(self._on_start).astype(np.bool_)
        return TaskGraph(self._hosts, tasks, pairs, on_start, tuple(self._steps), labels)

    def _step(self, name: str | None) -> int:
        return -1 if name is None else self._steps.setdefault(name, len(self._steps))

    def _add(self, row: _Row, after: Iterable[int], label: str | None) -> int:
        number = len(self)
        try:
            self._rows.extend(row)
        except OverflowError:
            raise DetourError("a task has a number beyond 64 bits") from None
        for earlier in after:
            self.wait(number, earlier)
        if label is not None:
            self._labels[number] = label
        return number


def flow_graph(
    hosts: int, source: ArrayLike, destination: ArrayLike, size: ArrayLike, start_ps: ArrayLike = 0
) -> TaskGraph:
    """Messages that wait for nothing but their time; (n,) each, or one number for all. Raises DetourError as
    `TaskGraph` does."""
    columns = np.broadcast_arrays(*(np.atleast_1d(value) for value in (source, destination, size, start_ps)))
    tasks = np.zeros(len(columns[0]), TASK_FIELDS)
    for name, values in zip(("source", "destination", "bytes", "start_ps"), columns, strict=True):
        # What does not fit must not become another host's number.
        limits = np.iinfo(TASK_FIELDS[name])
        tasks[name] = np.clip(values, limits.min, limits.max)
    for name in ("step", "connection", "unit"):
        tasks[name] = -1
    return TaskGraph(hosts, tasks)
