# SPDX-License-Identifier: Apache-2.0
"""Running the loop: the thread that executes it, and how others get something done in between."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from detour.base.errors import DetourError
from detour.base.interrupting import join_thread
from detour.engine.clock import Clock, RealTime
from detour.engine.loop import entry
from detour.engine.loop.layout import MAX_TIME, REACHED
from detour.engine.loop.memory import Memory
from detour.engine.loop.native import timer_slack_off
from detour.engine.sockets import watch
from detour.engine.workers import Workers

T = TypeVar("T")
_BUDGET = 1 << 18
"""Events of one slice in virtual time: some tens of milliseconds, so that Ctrl-C and calls are heard."""


class Runner:
    """Executes slices: in a thread of its own in real time, in the caller's thread in virtual time.

    At any time at most one thread has the turn: whoever executes slices, or whoever runs a `call` while nobody
    does. Only the thread that has the turn may touch the loop's memory.
    """

    def __init__(
        self, memory: Memory, clock: Clock, after_slice: Callable[[], None], workers: Workers | None = None
    ) -> None:
        """`after_slice` is called after each; `workers` execute the loop instead of one thread."""
        self._memory, self._workers = memory, workers
        self._clock = clock
        self._after_slice = after_slice
        self._requests: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        """functions to run in the loop's thread, and who waits for what becomes of them"""
        self._changed = threading.Condition()
        self._owner: int | None = None
        self._stopping = False
        self._latest = 0
        self.look_ps = MAX_TIME
        self.look: Callable[[], int] = lambda: MAX_TIME
        """virtual time: what is called between two slices, and when"""
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        watch(self._epoll.fileno(), self._wake_fd, -1)
        g = memory.g
        g["epoll"] = self._epoll.fileno()
        g["wake_fd"] = self._wake_fd
        g["real_time"] = isinstance(clock, RealTime)
        g["max_lag_ps"] = clock.max_lag_ps if isinstance(clock, RealTime) else MAX_TIME

    @property
    def running(self) -> bool:
        """Return whether the real-time thread runs."""
        return self._thread is not None

    @property
    def epoll(self) -> int:
        """The descriptor that wakes the loop when a socket has something to read."""
        return self._epoll.fileno()

    def now_ps(self) -> int:
        """Loop time. It never runs backwards, also while the loop is behind the wall clock."""
        g = self._memory.g
        now = int(g["now"])
        if self._thread is not None:
            now = max(now, (_monotonic_ns() - int(g["epoch_ns"])) * 1000 - int(g["slip_ps"]) - int(g["lag_ps"]))
        self._latest = max(self._latest, now)
        return self._latest

    # -- turns ------------------------------------------------------------------------------------------

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._owner is None)
            self._owner = threading.get_ident()
        try:
            yield
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        """Serve what was asked for meanwhile; nobody may be left waiting."""
        while True:
            with self._changed:
                if not self._requests:
                    self._owner = None
                    self._changed.notify_all()
                    return
            self._serve()

    def _serve(self) -> None:
        self._memory.g["wake"] = 0
        while self._requests:
            future, function = self._requests.popleft()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` with the turn: in the thread that executes slices, or here if none does."""
        if self._owner == threading.get_ident():
            return function()
        future: Future[T] | None = None
        with self._changed:
            if self._owner is None:
                self._owner = threading.get_ident()
            else:
                future = Future()
                self._requests.append((future, function))
        if future is not None:
            self._wake()
            return future.result()
        try:
            return function()
        finally:
            self._end_turn()

    def _wake(self) -> None:
        self._memory.g["wake"] = 1
        os.eventfd_write(self._wake_fd, 1)

    # -- slices -----------------------------------------------------------------------------------------

    def _slice(self, until: int) -> int:
        if self._workers is None:
            why = entry.run_slice(self._memory.address, until, _BUDGET)
        else:
            why = self._workers.run(until, _BUDGET)
        self._serve()
        self._after_slice()
        return why

    def run_until(self, until: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Virtual time: executes all events up to and including `until`, or until `stop` says so, which is asked after
        every event that something was told about."""
        if self._owner == threading.get_ident():
            raise DetourError("run() was called from within the loop")
        if self._epoll.closed:
            raise DetourError("the network was stopped; make a new one")
        with self._turn():
            while True:
                end = min(until, self.look_ps)
                if self._slice(end) != REACHED:
                    if stop():
                        return
                    continue
                if end == self.look_ps:
                    self.look_ps = self.look()
                if end == until:
                    return

    def start(self) -> None:
        """Real time: starts the thread; loop time goes on from where it was."""
        if self._thread is not None:
            return
        if self._epoll.closed:
            raise DetourError("the network was stopped; make a new one")
        self._stopping = False
        self._failure = None
        g = self._memory.g
        g["epoch_ns"] = _monotonic_ns() - int(g["now"]) // 1000
        g["slip_ps"] = 0
        has_turn = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(has_turn,), name="loop", daemon=True)
        self._thread.start()
        has_turn.wait()

    def _main(self, has_turn: threading.Event) -> None:
        timer_slack_off()
        with self._turn():
            has_turn.set()
            try:
                while not self._stopping:
                    self._slice(MAX_TIME)
            except BaseException as error:
                self._failure = error

    def check(self) -> None:
        """Raise DetourError if an error (a defect) has ended the real-time thread."""
        if self._failure is not None:
            raise DetourError(f"the network's loop has ended: {self._failure!r}") from self._failure

    def stop(self) -> None:
        """End the real-time thread. An error that ended it before is raised here."""
        thread = self._thread
        if thread is None:
            return
        if thread is threading.current_thread():
            raise DetourError("the network cannot be stopped from within its own loop")
        self._stopping = True
        self._wake()
        join_thread(thread)
        self._thread = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def close(self) -> None:
        """Give the descriptors back; the loop cannot run any more."""
        if self._epoll.closed:
            return
        self._epoll.close()
        os.close(self._wake_fd)


def _monotonic_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
