# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command as Ctrl-C does. Light: it comes before everything that takes time to load."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP came, or whoever waited for a detached fabric has gone before it was up."""


@contextmanager
def noticed() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is noted and not raised: a function that says whether it came, so that work stops where it may. The second
    one is raised. Elsewhere than in the main thread, where no signal comes, it never does."""
    came = False

    def note(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, note) if main else None
    try:
        yield lambda: came
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


_AGAIN_S = 0.2
"""until a signal whose exception was swallowed is raised again"""


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what is inside as Ctrl-C does; once that has begun, no signal disturbs it.

    A signal that comes while C code calls Python back, as llvmlite does while it compiles, is raised there, and ctypes
    swallows it. So it is raised again until somebody handles it, and that it was swallowed is not worth a traceback.
    """
    chosen = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, frame: Any) -> None:
        for each in chosen:
            signal.signal(each, signal.SIG_IGN)
        again(number, frame)

    def again(number: int, frame: Any) -> None:
        if not _is_handled():
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            raise Interrupted(number)

    def tell(swallowed: Any) -> None:
        if not isinstance(swallowed.exc_value, Interrupted):
            usual(swallowed)

    usual, sys.unraisablehook = sys.unraisablehook, tell
    before = {number: signal.signal(number, interrupt) for number in chosen}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = usual


_BEGINS_S = 1.0
"""until a thread has begun whose start a signal interrupted, if it does at all"""


def join_thread(thread: threading.Thread) -> None:
    """Wait for the end of a thread, also if a signal came while it was started: then it may begin only now, or never,
    which `Thread.join` does not take."""
    end = time.monotonic() + _BEGINS_S
    while True:
        try:
            return thread.join()
        except RuntimeError:
            if thread is threading.current_thread():
                raise
            if time.monotonic() >= end:
                return None
            time.sleep(0.001)


def _is_handled() -> bool:
    """Return whether what runs now runs because a signal was raised: a `finally`, an `except` or the end of a
    `with`."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, Interrupted):
        error = error.__context__
    return error is not None
