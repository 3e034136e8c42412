# SPDX-License-Identifier: Apache-2.0
"""Executes a graph of tasks on a fabric that is up, on any backend: messages are bytes that are checked, computations
are time that passes. Python follows every message, so it is for small graphs; `tasks` is for large ones, in virtual
time. A message is over for both of its hosts when all of its bytes have arrived.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable

import numpy as np

from detour.base.errors import DetourError
from detour.base.progress import Progress
from detour.fabric.traffic.flows import Flow, PatternSource, Pump
from detour.fabric.traffic.tasks import TaskResult
from detour.fabric.workloads.tasks import TaskGraph, successors

_MOST_TASKS, _MOST_CONNECTIONS = 20_000, 512

Connect = Callable[[int, int, PatternSource], Flow]
"""a connection from host to host that sends what the source has"""


class LiveTasks:
    """One run of a graph."""

    def __init__(self, graph: TaskGraph, pump: Pump, connect: Connect, seed: int) -> None:
        """Open all connections. Raises DetourError: there are too many of them, or of tasks."""
        rows = graph.tasks[["source", "destination", "connection"]].tolist()
        names = sorted({(a, b, max(number, 0)) for a, b, number in rows if b >= 0})
        if len(graph) > _MOST_TASKS or len(names) > _MOST_CONNECTIONS:
            text = f"{len(graph)} tasks over {len(names)} connections; a running fabric takes {_MOST_TASKS} and"
            raise DetourError(f"{text} {_MOST_CONNECTIONS} (`place --run` without --apply takes more)")
        self._graph, self._pump = graph, pump
        self._sources = {name: PatternSource(seed + k, 0) for k, name in enumerate(names)}
        self.flows = {name: connect(name[0], name[1], self._sources[name]) for name in names}
        self._queued: dict[tuple[int, int, int], deque[tuple[int, int]]] = {name: deque() for name in names}
        self._given = dict.fromkeys(names, 0)
        self._open = np.bincount(graph.dependencies[:, 1], minlength=len(graph))
        self._first, self._order = successors(len(graph), graph.dependencies)
        self._ready, self._start, self._sent, self._finish = (np.full(len(graph), -1, np.int64) for _ in range(4))
        self._free: dict[tuple[int, int], int] = {}
        self._timers: list[tuple[int, int, bool]] = []
        """time, task, and whether it is over then or begins"""

    def run(self, cancelled: threading.Event, progress: Progress) -> TaskResult:
        """Go on until all tasks were completed, or somebody cancels it. Raises DetourError: a connection failed."""
        clock, graph = self._pump.clock, self._graph
        self._begun_ps = begin = clock.now_ps
        for task in np.flatnonzero(self._open == 0).tolist():
            self._is_ready(task, begin)
        while (self._finish < 0).any() and not cancelled.is_set():
            self._pump.turn(self.flows.values())
            now = clock.now_ps
            while self._timers and self._timers[0][0] <= now:
                when, task, over = heapq.heappop(self._timers)
                self._computed(task, when) if over else self._begins(task, when)
            for name, queue in self._queued.items():
                flow = self.flows[name]
                while queue and flow.bytes_ok >= queue[0][0]:
                    self._over(queue.popleft()[1], now)
                if flow.failure:
                    raise type(flow.failure)(f"{' to '.join(flow.ends)}: {flow.failure}")
            progress(f"{int((self._finish >= 0).sum())} of {len(graph)} tasks")
            clock.wait(min(now + clock.pause_ps, self._timers[0][0] if self._timers else now + clock.pause_ps))
        ready, start, sent, finish = (
            np.where(each >= 0, each - begin, -1) for each in (self._ready, self._start, self._sent, self._finish)
        )
        never, lane = np.zeros(len(graph), np.bool_), np.full(len(graph), -1, np.int64)
        return TaskResult(graph, ready, start, sent, finish, finish, never, lane, clock.now_ps - begin)

    def _is_ready(self, task: int, now: int) -> None:
        row = self._graph.tasks[task]
        self._ready[task] = begin = max(now, self._begun_ps + int(row["start_ps"]))
        unit = (int(row["source"]), int(row["unit"]))
        if unit[1] >= 0 and row["compute_ps"]:
            begin = max(begin, self._free.get(unit, 0))
            self._free[unit] = begin + int(row["compute_ps"])
        heapq.heappush(self._timers, (begin, task, False))

    def _begins(self, task: int, when: int) -> None:
        self._start[task] = when
        self._release(task, when, True)
        heapq.heappush(self._timers, (when + int(self._graph.tasks["compute_ps"][task]), task, True))

    def _computed(self, task: int, when: int) -> None:
        """A message is sent now, anything else is over."""
        source, target, size, number = self._graph.tasks[["source", "destination", "bytes", "connection"]][task].item()
        if target < 0:
            self._over(task, when)
            return
        name = (source, target, max(number, 0))
        self._given[name] += size
        self._sent[task] = when
        self._queued[name].append((self._given[name], task))
        self._sources[name].add(size)
        self.flows[name].exhausted = False

    def _over(self, task: int, when: int) -> None:
        self._finish[task] = when
        self._release(task, when, False)

    def _release(self, task: int, when: int, on_start: bool) -> None:
        for place in self._order[self._first[task] : self._first[task + 1]].tolist():
            if bool(self._graph.starts[place]) == on_start:
                then = int(self._graph.dependencies[place, 1])
                self._open[then] -= 1
                if not self._open[then]:
                    self._is_ready(then, when)
