# SPDX-License-Identifier: Apache-2.0
"""The clock of a fabric: whoever waits for a fabric waits by it, and need not know whether time is the wall clock's.

On the wall clock to wait is to sleep. In virtual time nothing happens unless somebody waits: to wait is to execute the
fabric's events until then.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from detour.base.times import MAX_TIME, MS, US

PS = 1_000_000_000_000
"""picoseconds of a second"""


def ps(seconds: float) -> int:
    """Seconds in picoseconds."""
    return round(seconds * PS)


TimedWork = Callable[[], object]
Period = Callable[[], float | None]
"""seconds until the work is to be done again; None: not before `Ticker.restart`"""


class Ticker(ABC):
    """TimedWork that is done once a period. Its first period begins when it is made."""

    @abstractmethod
    def restart(self) -> None:
        """A whole period passes from now on before the work is done again."""

    @abstractmethod
    def stop(self) -> None:
        """The work is not done any more, nor under way in another thread. May be called twice."""


class FabricClock(ABC):
    """See the module. `pause_ps`: for how long who polls waits between two looks. Safe for several threads."""

    pause_ps: int

    def __init__(self, now: Callable[[], int]) -> None:
        """`now`: the time of hosts and links; it may raise `DetourError` once the fabric is down."""
        self._now = now
        self._alarms: list[tuple[int, int, TimedWork]] = []
        self._numbers = itertools.count()
        self._setting = threading.Lock()

    @property
    def now_ps(self) -> int:
        """The time that hosts and links go by."""
        return self._now()

    @abstractmethod
    def wait(self, until_ps: int, cancelled: threading.Event | None = None) -> None:
        """Return when it is that time, or soon after `cancelled` is set. Raises DetourError: the fabric goes down."""

    @abstractmethod
    def every(self, period_s: Period, work: TimedWork, name: str) -> Ticker:
        """Do some work once a period: in a thread of that name, or, in virtual time, in the one that waits."""

    def wait_seconds(self, seconds: float, cancelled: threading.Event | None = None) -> None:
        """`wait` for so long from now on."""
        self.wait(self.now_ps + ps(seconds), cancelled)

    def at(self, when_ps: int, work: TimedWork) -> None:
        """Do some work at that time, in the thread that waits then, which gets its errors. In virtual time that is
        the very moment; on the wall clock it is later if nobody waits then."""
        with self._setting:
            heapq.heappush(self._alarms, (when_ps, next(self._numbers), work))

    def _next_alarm(self) -> int:
        with self._setting:
            return self._alarms[0][0] if self._alarms else MAX_TIME

    def _go_off(self) -> None:
        now = self.now_ps
        while True:
            with self._setting:
                if not self._alarms or self._alarms[0][0] > now:
                    return
                _, _, work = heapq.heappop(self._alarms)
            work()


class WallClock(FabricClock):
    """Real time. That of the fabric may fall behind the wall clock when the machine is too slow."""

    pause_ps = 2 * MS
    """verbs have no channel that wakes a poller; messages take longer than this"""
    _SHORTEST_S, _LONGEST_S = 1e-4, 0.1

    def wait(self, until_ps: int, cancelled: threading.Event | None = None) -> None:
        cancelled = cancelled or threading.Event()
        while not cancelled.is_set():
            self._go_off()
            now = self.now_ps
            if now >= until_ps:
                return
            left = (min(until_ps, self._next_alarm()) - now) / PS
            cancelled.wait(min(max(left, self._SHORTEST_S), self._LONGEST_S))

    def every(self, period_s: Period, work: TimedWork, name: str) -> Ticker:
        return _WallTicker(period_s, work, name)


class VirtualClock(FabricClock):
    """Virtual time, which passes while somebody waits. Several threads that wait take turns."""

    pause_ps = 20 * US
    _SLICE_PS = MS
    """after so much at the latest who wants no more is heard"""

    def __init__(self, now: Callable[[], int], run: Callable[[int], object]) -> None:
        """`run(until_ps)`: executes everything until then."""
        super().__init__(now)
        self._run = run
        self.turn = threading.RLock()
        """held while time passes, and while alarms go off"""

    def wait(self, until_ps: int, cancelled: threading.Event | None = None) -> None:
        while cancelled is None or not cancelled.is_set():
            with self.turn:
                now = self.now_ps
                if now >= until_ps:
                    return
                self._run(min(until_ps, now + self._SLICE_PS, max(now, self._next_alarm())))
                self._go_off()

    def every(self, period_s: Period, work: TimedWork, name: str) -> Ticker:
        return _VirtualTicker(self, period_s, work)


class _WallTicker(Ticker):
    def __init__(self, period_s: Period, work: TimedWork, name: str) -> None:
        self._period_s, self._work = period_s, work
        self._again = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            period = self._period_s()
            due = max(due + (period or 0.0), time.monotonic())
            self._again.clear()
            if self._ended:  # looked at after the flag is cleared, which `stop` sets afterwards
                return
            if self._again.wait(None if period is None else due - time.monotonic()):
                due = time.monotonic()
                continue
            self._work()

    def restart(self) -> None:
        self._again.set()

    def stop(self) -> None:
        self._ended = True
        self._again.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


class _VirtualTicker(Ticker):
    def __init__(self, clock: VirtualClock, period_s: Period, work: TimedWork) -> None:
        self._clock, self._period_s, self._work = clock, period_s, work
        self._due_ps = 0
        self.restart()

    def _arm(self, since_ps: int) -> None:
        period = self._period_s()
        if period is None:
            self._due_ps = MAX_TIME
            return
        self._due_ps = since_ps + ps(period)
        self._clock.at(self._due_ps, partial(self._go_off, self._due_ps))

    def _go_off(self, due_ps: int) -> None:
        if due_ps == self._due_ps:  # otherwise it was restarted, or stopped, meanwhile
            self._work()
            if due_ps == self._due_ps:
                self._arm(due_ps)

    def restart(self) -> None:
        self._arm(self._clock.now_ps)

    def stop(self) -> None:
        with self._clock.turn:
            self._due_ps = MAX_TIME
