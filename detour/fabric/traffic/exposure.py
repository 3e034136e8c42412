# SPDX-License-Identifier: Apache-2.0
"""Activity of hosts in a run of jobs: when they compute, when something comes in, and how much of that computing hides.

A host's communication of a step of the graph lasts from the first message to it until the last one is in its memory. At
a time at which the host does not compute it is exposed; if several kinds are, in equal parts. What is left is idle: the
host waits for others that compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.fabric.traffic.tasks import TaskResult
from detour.fabric.workloads.jobs import JobRun

COMPUTING = -1


@dataclass(frozen=True, eq=False)
class Activity:
    """Spans of time by host and begin, (n,) each; `step`: of the graph, `COMPUTING` for computations; `task`: that
    computes, or the first one of a host and step."""

    host: Int64Array
    step: Int64Array
    task: Int64Array
    begin_ps: Int64Array
    end_ps: Int64Array

    def __len__(self) -> int:
        return len(self.host)

    def of_host(self, host: int) -> Activity:
        """Return a host's spans."""
        first, last = np.searchsorted(self.host, [host, host + 1])
        columns = (self.host, self.step, self.task, self.begin_ps, self.end_ps)
        return Activity(*(column[first:last] for column in columns))


def activity(result: TaskResult, some: NDArray[np.bool_] | None = None) -> Activity:
    """Return what was done in a run, or by some of its tasks."""
    tasks, sent = result.graph.tasks, result.graph.is_message
    among = result.finished if some is None else result.finished & some
    computed = among & (tasks["compute_ps"] > 0)
    ends = np.where(sent, result.sent_ps, result.finish_ps)[computed]
    came = among & sent
    keys = tasks["destination"][came].astype(np.int64) << 32 | tasks["step"][came].astype(np.int64) + 1
    names, chosen, which = np.unique(keys, return_index=True, return_inverse=True)
    first, last = np.full(len(names), np.iinfo(np.int64).max), np.zeros(len(names), np.int64)
    np.minimum.at(first, which, result.sent_ps[came])
    np.maximum.at(last, which, result.finish_ps[came])
    host = np.concatenate([tasks["source"][computed].astype(np.int64), names >> 32])
    step = np.concatenate([np.full(len(ends), COMPUTING), (names & 0xFFFFFFFF) - 1])
    begin = np.concatenate([result.start_ps[computed], first])
    order = np.lexsort((begin, host))
    task = np.concatenate([np.flatnonzero(computed), np.flatnonzero(came)[chosen]])
    return Activity(host[order], step[order], task[order], begin[order], np.concatenate([ends, last])[order])


@dataclass(frozen=True)
class Exposure:
    """Parts of an iteration of a job, ps, on average over its hosts; together they are the iteration's time. `exposed`:
    communication by kind."""

    computing: float
    exposed: dict[str, float]
    idle: float


def exposure(result: TaskResult, jobs: JobRun, job: int) -> Exposure | None:
    """Return the parts of a job's time; None: it did not complete."""
    mine = jobs.job == job
    if not result.finished[mine].all():
        return None
    spans = activity(result, mine)
    kinds = list(dict.fromkeys(jobs.operations[step].name for step in np.unique(spans.step).tolist() if step >= 0))
    kind_of = np.array([kinds.index(each.name) if each.name in kinds else -1 for each in jobs.operations] + [-1])
    hosts = np.unique(np.concatenate([spans.host, result.graph.tasks["source"][mine].astype(np.int64)])).tolist()
    parts = np.zeros(1 + len(kinds))
    for host in hosts:
        parts += _parts(spans.of_host(host), kind_of, len(kinds))
    parts /= len(hosts) * jobs.iterations[job]
    whole = (result.finish_ps[mine].max() - result.ready_ps[mine].min()) / jobs.iterations[job]
    exposed = dict(zip(kinds, parts[1:].tolist(), strict=True))
    return Exposure(float(parts[0]), exposed, max(float(whole - parts.sum()), 0.0))


def _parts(spans: Activity, kind_of: Int64Array, kinds: int) -> NDArray[np.float64]:
    """Time in which a host computes, and in which it does not and each kind is under way."""
    times = np.concatenate([spans.begin_ps, spans.end_ps])
    column = np.where(spans.step == COMPUTING, 0, 1 + kind_of[spans.step])
    change = np.zeros((len(times), 1 + kinds), np.int64)
    change[np.arange(len(times)), np.tile(column, 2)] = np.repeat([1, -1], len(spans))
    order = np.argsort(times, kind="stable")
    active = np.cumsum(change[order], axis=0)[:-1] > 0
    passed = np.diff(times[order]).astype(np.float64)
    computing = active[:, 0]
    exposed = active[:, 1:] & ~computing[:, None]
    shares = exposed / np.maximum(exposed.sum(axis=1, keepdims=True), 1)
    return np.concatenate([[passed[computing].sum()], (shares * passed[:, None]).sum(axis=0)])


# -- timelines ----------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """A part of a row, ps; `step`: see `Activity`; `name`: a kind of communication, or a pass."""

    begin: int
    end: int
    step: int
    name: str


@dataclass(frozen=True)
class Row:
    """A row of a timeline: spans that do not overlap, of one kind, at a host. `kind` None: computing."""

    host: int
    kind: str | None
    number: int
    spans: list[Span]

    @property
    def name(self) -> str:
        """Return its name: `computing`, `gradient`, `gradient 2`."""
        return (self.kind or "computing") + (f" {self.number}" if self.number > 1 else "")


def rows(result: TaskResult, jobs: JobRun) -> Iterator[Row]:
    """Yield the rows of all hosts: computing first, then each kind of communication, in as many rows as overlap."""
    spans = activity(result)
    for host in np.unique(spans.host).tolist():
        mine = spans.of_host(host)
        kinds: dict[str | None, list[Row]] = {None: []}
        columns = (mine.begin_ps.tolist(), mine.end_ps.tolist(), mine.step.tolist(), jobs.names_of(mine.task))
        for begin, end, step, name in zip(*columns, strict=True):
            kind = None if step == COMPUTING else jobs.operations[step].name
            same = kinds.setdefault(kind, [])
            row = next((one for one in same if one.spans[-1].end <= begin), None)
            if row is None:
                row = Row(host, kind, len(same) + 1, [])
                same.append(row)
            row.spans.append(Span(begin, end, step, kind or name or "computing"))
        for same in kinds.values():
            yield from same
