# SPDX-License-Identifier: Apache-2.0
"""Parameter sweeps: many independent points, on a pool of local processes or on a Ray cluster.

Points and results are records (`detour/base/records.py`); a worker is a function `point -> result` named as
"module:function", so that any process can find it. Results do not depend on how many processes there are: a point
carries its own seed. A point that raises, or whose process dies (native code can crash), is reported as failed; the
others go on.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from detour.base.children import end_with_parent
from detour.base.cores import PROCESSES, THREADS
from detour.base.errors import DetourError
from detour.base.extras import require
from detour.experiments.store import Store

P = TypeVar("P")
R = TypeVar("R")

SweepProgress = Callable[[int, int, int], None]
"""called with (points finished, points failed, points in all)"""


@dataclass(frozen=True)
class FailedPoint(Generic[P]):
    """A point that did not finish, and why: the error's last line."""

    point: P
    reason: str


@dataclass
class SweepResult(Generic[P, R]):
    """Results in the order of the points asked for (`None` where a point failed)."""

    results: list[R | None]
    failures: list[FailedPoint[P]] = field(default_factory=list)
    computed: int = 0
    """points that were run now, the rest came from the store"""


def name_of(function: Callable[..., Any]) -> str:
    """A function of a module as "module:function"."""
    return f"{function.__module__}:{function.__qualname__}"


def resolve(worker: str) -> Callable[..., Any]:
    """The function behind "module:function"."""
    module, _, name = worker.partition(":")
    return getattr(importlib.import_module(module), name)


def run(
    points: Iterable[P],
    worker: str,
    store: Store[R],
    *,
    processes: int = 1,
    ray: str | None = None,
    report: SweepProgress | None = None,
) -> SweepResult[P, R]:
    """Run every point that the store does not have yet and return all results.

    Args:
        points: what to run; equal points are run once.
        worker: "module:function".
        store: where finished points are kept.
        processes: local processes (1 or more).
        ray: address of a Ray cluster ("auto" for the running one) instead of local processes.
        report: told of every change.
    """
    if processes < 1:
        raise DetourError(f"a sweep needs at least 1 process, not {processes}")
    asked = list(points)
    missing = list({store.key(point): point for point in asked if point not in store}.values())
    failures: list[FailedPoint[P]] = []
    source = _on_ray(missing, worker, ray) if ray else _on_processes(missing, worker, processes)
    if report:
        report(len(asked) - len(missing), 0, len(asked))
    for done, (point, result, failure, seconds) in enumerate(source, 1):
        if failure:
            failures.append(failure)
        else:
            store.add(point, result, seconds)
        if report:
            report(len(asked) - len(missing) + done - len(failures), len(failures), len(asked))
    results = [store.get(point) for point in asked]
    return SweepResult(results, failures, len(missing) - len(failures))


_RAY_TIMEOUT_S = 5.0

Finished = tuple[P, Any, FailedPoint[P] | None, float]


def _serve(connection: Connection, worker: str, processes: int, parent: int) -> None:
    """A worker process: points in, results out, until the other end closes or the parent dies. `processes`: how many
    there are."""
    end_with_parent(parent)
    PROCESSES.value = processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    function = resolve(worker)
    while True:
        try:
            point = connection.recv()
        except EOFError:
            return
        began = time.monotonic()
        try:
            answer = (function(point), "")
        except Exception as error:
            answer = (None, f"{type(error).__name__}: {error}")
        connection.send((*answer, time.monotonic() - began))


def called(call: tuple[str, tuple[Any, ...]]) -> Any:
    """A worker that calls a function, named like one, with arguments."""
    name, arguments = call
    return resolve(name)(*arguments)


def apart(function: Callable[..., R], *arguments: Any) -> R:
    """Call a module's function in a process of its own. Raises `DetourError`: it fails."""
    ((_, result, failure, _),) = _on_processes([(name_of(function), arguments)], name_of(called), 1)
    if failure is not None:
        raise DetourError(f"the measured process has ended: {failure.reason}")
    return result


class _Worker(Generic[P]):
    """One process and the point that it works on."""

    def __init__(self, worker: str, processes: int) -> None:
        context = multiprocessing.get_context("spawn")  # threads of the parent must not be forked
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, worker, processes, os.getpid()), daemon=True)
        self.process.start()
        theirs.close()
        self.point: P | None = None

    def give(self, point: P) -> None:
        self.point = point
        self.connection.send(point)

    def take(self) -> Finished[P]:
        """Return the outcome of the point; the process may have died over it."""
        point, self.point = self.point, None
        assert point is not None
        try:
            result, reason, seconds = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return point, None, FailedPoint(point, f"the process died (exit code {self.process.exitcode})"), 0.0
        return point, result, FailedPoint(point, reason) if reason else None, seconds

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def _on_processes(points: list[P], worker: str, processes: int) -> Iterator[Finished[P]]:
    waiting, most = deque(points), min(processes, len(points))
    workers: list[_Worker[P]] = []
    try:
        while waiting or any(one.point is not None for one in workers):
            workers = [one for one in workers if one.process.is_alive() or one.point is not None]
            while waiting and len(workers) < most:
                workers.append(_Worker(worker, most))
            for one in workers:
                if one.point is None and waiting:
                    try:
                        one.give(waiting[0])
                    except (BrokenPipeError, ConnectionResetError):
                        continue  # it died idle; the loop replaces it
                    waiting.popleft()
            busy = {one.connection: one for one in workers if one.point is not None}
            for connection in wait(list(busy)):
                yield busy[connection].take()  # type: ignore[index]
    finally:
        for one in workers:
            one.end()


def check_ray_address(address: str) -> None:
    """Ray itself would try an address where nobody listens for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "://" in address:
        return  # `auto` or another form, which Ray judges at once
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_RAY_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise DetourError(f"--ray {address}: no Ray cluster there ({error})") from None


def _on_ray(points: list[P], worker: str, address: str) -> Iterator[Finished[P]]:
    require("ray", "Ray", "ray", "--ray")
    import ray  # type: ignore[import-not-found]

    check_ray_address(address)
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, ValueError) as error:
        raise DetourError(f"--ray {address}: {str(error).strip().splitlines()[0]}") from None

    @ray.remote(max_retries=0)
    def task(point: P) -> tuple[Any, float]:
        THREADS.value = 1  # Ray counts one processor for it
        began = time.monotonic()
        return resolve(worker)(point), time.monotonic() - began

    pending = {task.remote(point): point for point in points}
    while pending:
        ready, _ = ray.wait(list(pending))
        point = pending.pop(ready[0])
        try:
            result, seconds = ray.get(ready[0])
            yield point, result, None, seconds
        except Exception as error:
            yield point, None, FailedPoint(point, str(error).strip().splitlines()[-1]), 0.0
