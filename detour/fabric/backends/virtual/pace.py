# SPDX-License-Identifier: Apache-2.0
"""Virtual time that passes by itself, as fast as somebody wants it beside the wall clock: `1x`, `10x`, `max`.

For controllers that know nothing of virtual time: a P4Runtime or Thrift client finds switches on which time goes on
while it thinks. With a pace, virtual time is never ahead of the wall clock times the pace; a machine that is too slow
makes it fall behind, and what is lost is not caught up. With `max` it goes as fast as the machine lets it. Who wants
runs that can be repeated lets time stand still instead while the controller acts (`Network.run`, `run_to_event`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.base.interrupting import join_thread
from detour.base.quantities import number_of
from detour.base.times import MS
from detour.fabric.backends.clock import PS, VirtualClock

_STEP_S = 0.001
"""between two looks at the wall clock"""
_MOST_BEHIND_S = 0.05
"""of wall time; what is more is given up"""
_MAX_STEP_PS = MS
"""of `max`, after which who waits or ends it is heard"""
_FASTEST = 1e6


@dataclass(frozen=True)
class TimePace:
    """Seconds of virtual time in a second of wall time; None: as many as the machine can."""

    factor: float | None = 1.0

    @classmethod
    def given(cls, text: str) -> TimePace:
        """`1x`, `10x`, `0.5x`, `max`. Raises DetourError if it is none of these."""
        if text == "max":
            return cls(None)
        try:
            factor = number_of(text.removesuffix("x"))
        except DetourError:
            factor = 0.0
        if not 0 < factor <= _FASTEST:
            raise DetourError(f"{text!r} is not a pace: 1x, 10x, 0.1x or any other number above 0, or max")
        return cls(factor)

    def __str__(self) -> str:
        return "max" if self.factor is None else f"{self.factor:g}x"


class PacedClock(VirtualClock):
    """The clock of a fabric in virtual time that passes in a thread of its own, from `start` until `stop`. Before and
    after, it is a `VirtualClock`. Meanwhile who waits sleeps until the time has come; alarms go off in the clock's
    thread, at their very moment."""

    def __init__(self, now: Callable[[], int], run: Callable[[int], object], pace: TimePace) -> None:
        super().__init__(now, run)
        self.pace = pace
        self.slipped_ps = 0
        """virtual time that the machine was too slow for"""
        self._passed = threading.Condition()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Time begins to pass."""
        if self._thread is None:
            self._ending.clear()
            self._failure = None
            self._thread = threading.Thread(target=self._main, name="virtual time", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Time stands still again; who waits goes on waiting in its own thread. May be called twice."""
        thread, self._thread = self._thread, None
        self._ending.set()
        if thread is not None and thread is not threading.current_thread():
            join_thread(thread)
        with self._passed:
            self._passed.notify_all()

    def check(self) -> None:
        """Raise DetourError if an error has ended the thread in which time passes."""
        if self._failure is not None:
            raise DetourError(f"virtual time has stopped: {self._failure!r}") from self._failure

    def wait(self, until_ps: int, cancelled: threading.Event | None = None) -> None:
        while self._thread is not None and threading.current_thread() is not self._thread:
            with self._passed:
                if self.now_ps >= until_ps or (cancelled is not None and cancelled.is_set()):
                    return
                self._passed.wait(_STEP_S if cancelled is not None else 0.1)
            self.check()
        super().wait(until_ps, cancelled)

    def _main(self) -> None:
        try:
            self._pass_time()
        except BaseException as error:
            self._failure = error
        finally:
            with self._passed:
                self._passed.notify_all()

    def _pass_time(self) -> None:
        begun_ps, begun = self.now_ps, time.monotonic()
        factor = self.pace.factor
        while not self._ending.is_set():
            if factor is None:
                target = self.now_ps + _MAX_STEP_PS
            else:
                target = begun_ps + round((time.monotonic() - begun) * factor * PS)
                behind = target - self.now_ps - round(_MOST_BEHIND_S * factor * PS)
                if behind > 0:
                    self.slipped_ps += behind
                    begun_ps -= behind
                    target -= behind
            super().wait(target, self._ending)
            with self._passed:
                self._passed.notify_all()
            if factor is not None:
                self._ending.wait(_STEP_S)
