# SPDX-License-Identifier: Apache-2.0
"""A signal ends what it should, also where C code would swallow what it raises."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest

from detour.base.interrupting import Interrupted, interruptible
from tests.waiting import until

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


def until_interrupted(begin: Callable[[], None]) -> None:
    begin()
    until(lambda: False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_callback_from_c_swallows_is_raised_again(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    before = [signal.getsignal(each) for each in SIGNALS]

    def called_from_c() -> int:
        os.kill(os.getpid(), number)
        for _ in range(1000):  # the handler runs here
            pass
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int)(called_from_c)
    with pytest.raises(Interrupted), interruptible():
        until_interrupted(callback)
    assert [signal.getsignal(each) for each in SIGNALS] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert not reported, "no traceback for what is raised again"
    assert sys.unraisablehook == reported.append


def test_what_ends_is_not_disturbed() -> None:
    ended: list[bool] = []

    def ends_slowly() -> None:
        try:
            until_interrupted(lambda: os.kill(os.getpid(), signal.SIGINT))
        finally:
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0, "it would be raised again"
            handled = signal.getsignal(signal.SIGALRM)
            again = threading.Event()
            signal.signal(signal.SIGALRM, lambda *caught: (again.set(), handled(*caught)))  # type: ignore[operator]
            until(again.is_set)
            assert signal.getitimer(signal.ITIMER_REAL) == (0, 0), "not while this runs"
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append(True)

    with pytest.raises(Interrupted), interruptible():
        ends_slowly()
    assert ended
