# SPDX-License-Identifier: Apache-2.0
"""Executes a graph of tasks (`fabric.workloads.tasks`) on a fabric in virtual time, wholly in native code.

    graph = flow_graph(16, sources, destinations, sizes, starts)
    with VirtualFabric(topology, scheme, settings, queue_pairs=connections_of(graph)) as fabric:
        result = run_tasks(fabric, graph, until_ps=10 * MS)
        print(result.flow_completion_ps())

Every task begins at the very moment at which the last thing that it waits for happens; nothing polls. Hosts keep their
connections: a message takes an idle one of its two hosts, or waits behind others (`hosts.tasks`), and what a connection
has learnt of its path (window, round trip, the path itself) is there when the next message begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.heap import HeapEntry
from detour.base.times import US
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.workloads.tasks import TaskGraph, successors
from detour.hosts.records import Successor, Task, TaskLane, Unit
from detour.hosts.state import MAX_TIME, NIL, ON_ACKED, ON_BEGIN, ON_DONE, TASK_FAILED, TASK_OPEN, TASK_READY

MOST_AT_ONCE = 400_000
"""connections with queue pairs: each has some 20 kB of state"""
_MOST_KEPT = 1 << 16
"""where each connection carries one message, it needs no queue pair before and after"""
LANES = 4
"""connections of two hosts at most, if tasks do not say which one they take"""
_FIRST_SLICE_PS, _SLICES = 10 * US, 32


def connections_of(graph: TaskGraph, lanes: int = LANES) -> int:
    """Connections that a graph needs at once, 1 at least: what a fabric's `queue_pairs` should be."""
    return max(min(int(_pairs_of(graph, lanes).lanes.sum()), MOST_AT_ONCE), 1)


def room_of(graph: TaskGraph, lanes: int = LANES) -> tuple[int, int]:
    """Return what a fabric's `queue_pairs` should be: `connections_of`, and its `host_ends`."""
    pairs = _pairs_of(graph, lanes)
    ends = sum(np.bincount(hosts, pairs.lanes, graph.hosts) for hosts in (pairs.source, pairs.destination))
    return connections_of(graph, lanes), int(np.max(ends))


@dataclass(frozen=True, eq=False)
class _TaskPairs:
    """Pairs of hosts that exchange messages: (pairs,) each, and the pair of every task (-1: none), (tasks,)."""

    source: Int64Array
    destination: Int64Array
    lanes: Int64Array
    of_task: Int64Array


def _pairs_of(graph: TaskGraph, lanes: int) -> _TaskPairs:
    """Connections are as many as the messages of two hosts, at most `lanes`, and as those that tasks name."""
    if lanes < 1:
        raise DetourError(f"{lanes} connections for two hosts; expected at least 1")
    sent, tasks = graph.is_message, graph.tasks
    keys = tasks["source"][sent].astype(np.int64) * graph.hosts + tasks["destination"][sent]
    pairs, inverse, count = np.unique(keys, return_inverse=True, return_counts=True)
    allowed = np.minimum(count, lanes)
    named = np.zeros(len(pairs), np.int64)
    np.maximum.at(named, inverse, tasks["connection"][sent].astype(np.int64) + 1)
    of_task = np.full(len(graph), -1, np.int64)
    of_task[sent] = inverse
    # Where tasks name connections, those are all that there are.
    return _TaskPairs(pairs // graph.hosts, pairs % graph.hosts, np.where(named > 0, named, allowed), of_task)


@dataclass(frozen=True, eq=False)
class TaskResult:
    """Times of tasks, (n,) int64 of ps, -1: did not happen. `ready_ps`: it waited for nothing more. `start_ps`: it
    began to compute or, without computing, was sent. `sent_ps`: its message was handed to the host. `finish_ps`: all
    bytes are in the receiver's memory, or the computation is over. `acked_ps`: the sender knows it. `failed`: (n,),
    the connection gave up. `end_ps`: when the fabric stopped. `lane`: (n,) connection that took the message, an index
    of the fabric's `flows`."""

    graph: TaskGraph
    ready_ps: Int64Array
    start_ps: Int64Array
    sent_ps: Int64Array
    finish_ps: Int64Array
    acked_ps: Int64Array
    failed: NDArray[np.bool_]
    lane: Int64Array
    end_ps: int

    @property
    def finished(self) -> NDArray[np.bool_]:
        """(n,) tasks that are over."""
        return self.finish_ps >= 0

    @property
    def completed(self) -> bool:
        """Return whether all are completed."""
        return bool(self.finished.all())

    def flow_completion_ps(self) -> Int64Array:
        """(n,) from the moment at which a message was handed to its host to its last byte in the receiver's memory; -1:
        no message, or not finished."""
        over = self.graph.is_message & self.finished
        return np.where(over, self.finish_ps - self.sent_ps, -1)

    def step_spans_ps(self) -> Int64Array:
        """(steps, 2): when the first task of every step became ready and when the last one was over; -1 where it was
        not, or where a step has no task."""
        step = self.graph.tasks["step"]
        spans = np.full((len(self.graph.steps), 2), -1, np.int64)
        first = np.full(len(spans), MAX_TIME, np.int64)
        among, ready = step >= 0, self.ready_ps >= 0
        np.minimum.at(first, step[among & ready], self.ready_ps[among & ready])
        spans[first < MAX_TIME, 0] = first[first < MAX_TIME]
        np.maximum.at(spans[:, 1], step[among], self.finish_ps[among])
        spans[step[among & ~self.finished], 1] = -1
        return spans


def run_tasks(fabric: VirtualFabric, graph: TaskGraph, until_ps: int, *, lanes: int = LANES) -> TaskResult:
    """Execute tasks until all are over, at most until `until_ps`.

    `lanes`: connections of two hosts at most. A fabric takes one graph, and no other connections. If there are more
    than it has room for, or very many with one message each, they have queue pairs only while they carry something
    (`hosts.leases`). Raises DetourError if the fabric has other hosts than the graph, or connections already, or too
    many carry something at once.
    """
    run = TaskRun(fabric, graph, lanes=lanes)
    while not run.over and fabric.now_ps < until_ps:
        # Steps in proportion to the time so far, so that what is short is not run far beyond its end.
        fabric.run(min(until_ps, fabric.now_ps + max(_FIRST_SLICE_PS, fabric.now_ps // _SLICES)))
    return run.result()


class TaskRun:
    """A graph on a fabric, ready to go: `fabric.run` executes it as far as one likes."""

    def __init__(self, fabric: VirtualFabric, graph: TaskGraph, *, lanes: int = LANES, keep: bool = False) -> None:
        """See `run_tasks`. `keep`: all connections have queue pairs all the time if there is room."""
        hosts = len(fabric.topology.hosts)
        if graph.hosts > hosts:
            raise DetourError(f"the workload has {graph.hosts} hosts, but {fabric.topology.spec} has {hosts}")
        self.fabric, self.graph = fabric, graph
        self._pairs = _pairs_of(graph, lanes)
        self._first_lane = np.concatenate([[0], np.cumsum(self._pairs.lanes)]).astype(np.int64)
        self._left = NIL
        self._connect(keep)
        self._hs = fabric.hs
        fabric.network.call(self._install)
        for host in np.unique(graph.tasks["source"]).tolist():
            fabric.network.kick_host(host)

    @property
    def connections(self) -> Int64Array:
        """(connections, 2) their hosts, in the order of the fabric's `flows`."""
        pairs = self._pairs
        ends = np.stack([pairs.source, pairs.destination], axis=1)
        return np.repeat(ends, pairs.lanes, axis=0)

    def index(self, source: int, destination: int, number: int) -> int:
        """The index in `connections` of that of two hosts with this number. Raises DetourError if there is none."""
        pair = np.flatnonzero((self._pairs.source == source) & (self._pairs.destination == destination))
        if not len(pair) or not 0 <= number < self._pairs.lanes[pair[0]]:
            a, b = (self.fabric.topology.hosts[host].name for host in (source, destination))
            raise DetourError(f"the workload has no connection {number} from {a} to {b}")
        return int(self._first_lane[pair[0]]) + number

    def connection_bytes(self) -> Int64Array:
        """(connections,) what each is to carry; messages that may take any of several count in equal parts."""
        given, pair, sent = self.graph.tasks, self._pairs.of_task, self.graph.is_message
        total = np.zeros(len(self._first_lane) - 1, np.int64)
        named = sent & (given["connection"] >= 0)
        free = sent & ~named
        np.add.at(total, pair[free], given["bytes"][free])
        carried = np.repeat(-(-total // np.maximum(self._pairs.lanes, 1)), self._pairs.lanes)
        np.add.at(carried, self._first_lane[pair[named]] + given["connection"][named], given["bytes"][named])
        return np.maximum(carried, 1)

    @property
    def over(self) -> bool:
        """Return whether all tasks were completed, or have failed."""
        # One of those that were left shows it for all.
        if self._left < 0 or self._task["done"][self._left] >= 0 or self._task["state"][self._left] == TASK_FAILED:
            left = np.flatnonzero((self._task["done"] < 0) & (self._task["state"] != TASK_FAILED))
            self._left = int(left[-1]) if len(left) else NIL
        return self._left < 0

    @property
    def to_begin(self) -> bool:
        """Return whether a computation is under way, or a task waits for its time only."""
        return bool((self._hs.host["events_when"] < MAX_TIME).any())

    @property
    def share(self) -> float:
        """Return the share of finished tasks."""
        return 1 - int(self._hs.host["tasks_left"].sum()) / len(self.graph)

    def result(self) -> TaskResult:
        """Return the results so far."""
        rows = self._task
        ready, began, sent, done, acked = (rows[name].copy() for name in ("ready", "began", "sent", "done", "acked"))
        lane = np.where(sent >= 0, rows["on"], -1)
        failed = rows["state"] == TASK_FAILED
        return TaskResult(self.graph, ready, began, sent, done, acked, failed, lane, self.fabric.now_ps)

    @property
    def _task(self) -> NDArray[np.void]:
        return self._hs.task

    def _connect(self, keep: bool) -> None:
        ends, room = self.connections, len(self.fabric.hs.qp) // 2
        once = len(ends) == int(self.graph.is_message.sum())
        if len(ends) > (min(room, _MOST_KEPT) if once and not keep else room):
            self.fabric.lease(ends)
        elif len(ends):  # else all tasks only compute
            self.fabric.connect(ends)

    def _install(self) -> None:
        """Write the tables of tasks, and every host's event queue: what waits for its time only."""
        graph, hs, count = self.graph, self._hs, int(self._first_lane[-1])
        if count and not hs.cfg[0]["leased"]:
            flows, lane = self.fabric.flows, np.zeros(count, TaskLane.dtype)
            lane["head"] = lane["tail"] = NIL
            lane["qp"], lane["rkey"] = flows.sender, flows.rkey
            hs.qp["tasks_of"][flows.receiver] = np.arange(1, count + 1)
            hs.replace("lane", lane)
        task = self._tasks()
        at_end = (graph.tasks["source"][graph.dependencies[:, 1]]) == graph.tasks["source"][graph.dependencies[:, 0]]
        sent = graph.is_message[graph.dependencies[:, 0]]
        on = np.where(graph.starts, ON_BEGIN, np.where(at_end & sent, ON_ACKED, ON_DONE))
        first, order = successors(len(graph), graph.dependencies)
        task["first"], task["last"] = first[:-1], first[1:]
        successor = np.zeros(max(len(order), 1), Successor.dtype)
        successor["task"][: len(order)], successor["on"][: len(order)] = graph.dependencies[order, 1], on[order]
        hs.replace("task", task)
        hs.replace("successor", successor)
        unit = np.zeros(int(task["unit"].max()) + 2, Unit.dtype)
        unit["busy_until"] = unit["work"] = unit["at"] = self.fabric.now_ps
        hs.replace("unit", unit)
        hs.replace("events", self._agenda(task))

    def _tasks(self) -> NDArray[np.void]:
        graph, given = self.graph, self.graph.tasks
        task = np.zeros(len(graph), Task.dtype)
        names = {"host": "source", "bytes": "bytes", "start": "start_ps", "compute": "compute_ps", "slows": "slows"}
        for name, field in names.items():
            task[name] = given[field]
        pair, sent = self._pairs.of_task, graph.is_message
        named = sent & (given["connection"] >= 0)
        task["lane"][sent] = self._first_lane[pair[sent]]
        task["lanes"][sent] = self._pairs.lanes[pair[sent]]
        task["lane"][named] += given["connection"][named]
        task["lanes"][named] = 1
        task["open"] = np.bincount(graph.dependencies[:, 1], minlength=len(graph))
        task["state"] = np.where(task["open"] == 0, TASK_READY, TASK_OPEN)
        task["next"] = NIL
        serial = given["unit"] >= 0
        task["unit"] = NIL
        units = given["source"].astype(np.int64) << 16 | given["unit"]
        task["unit"][serial] = np.unique(units[serial], return_inverse=True)[1]
        for name in ("ready", "began", "sent", "done", "acked"):
            task[name] = -1
        return task

    def _agenda(self, task: NDArray[np.void]) -> NDArray[np.void]:
        """Tasks that wait for no other one by host and time: what is in order is a heap."""
        hosts, now = self._hs.host, self.fabric.now_ps
        ready = np.flatnonzero(task["open"] == 0)
        task["ready"][ready] = np.maximum(task["start"][ready], now)
        order = ready[np.lexsort((ready, task["ready"][ready], task["host"][ready]))]
        owned = np.bincount(task["host"], minlength=len(hosts))
        begin = np.concatenate([[0], np.cumsum(owned)[:-1]])
        count = np.bincount(task["host"][order], minlength=len(hosts))
        place = begin[task["host"][order]] + np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
        events = np.zeros(len(task), HeapEntry.dtype)
        events["time"][place], events["who"][place] = task["ready"][order], order
        hosts["events_at"], hosts["events_size"], hosts["tasks_left"] = begin, count, owned
        hosts["events_when"] = np.where(count > 0, events["time"][np.minimum(begin, len(task) - 1)], MAX_TIME)
        return events
