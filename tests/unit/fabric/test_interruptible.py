# SPDX-License-Identifier: Apache-2.0
"""A signal ends what it should, also where C code would swallow what it raises."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable

import pytest

from detour.base.interrupting import Interrupted, interruptible

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


def until_interrupted(begin: Callable[[], None]) -> None:
    begin()
    for _ in range(1000):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_callback_from_c_swallows_is_raised_again(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
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
    assert not told, "no traceback for what is raised again"
    assert sys.unraisablehook == told.append


def test_what_ends_is_not_disturbed() -> None:
    ended: list[bool] = []

    def ends_slowly() -> None:
        try:
            until_interrupted(lambda: os.kill(os.getpid(), signal.SIGINT))
        finally:
            for _ in range(4):  # longer than until a swallowed one is raised again
                try:
                    time.sleep(0.1)
                    raise ValueError
                except ValueError:
                    os.kill(os.getpid(), signal.SIGTERM)
            ended.append(True)

    with pytest.raises(Interrupted), interruptible():
        ends_slowly()
    assert ended
