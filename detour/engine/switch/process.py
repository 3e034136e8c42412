# SPDX-License-Identifier: Apache-2.0
"""The process of `detour switch`: starts a switch, waits for a signal, ends in time.

No signal handler runs: the signals are blocked in all threads and the main thread waits for them. A handler that
raises, to cut a long start short, raises wherever the thread is; inside the compiler's callbacks such an exception
is lost or becomes another one. So a start or a stop that takes too long is abandoned by ending the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from detour.base import descriptors
from detour.engine.switch.options import SwitchOptions

if TYPE_CHECKING:
    from detour.engine.switch.run import Switch

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.02
_PATIENCE_S = 5.0
"""Harnesses that wait for the end of a switch wait about ten seconds; compiling takes longer."""


def run(options: SwitchOptions) -> None:
    """Runs a switch until a signal ends it. `DetourError` if it cannot be started.

    Ends the process, with exit code 0, if the signal comes in the middle of something that takes long.
    """
    # A file or socket for each interface, and two captures.
    descriptors.require(descriptors.PROCESS + 3 * len(options.interfaces), "detour switch")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # threads that are started inherit it
    try:
        _run(options)
    finally:
        while signal.sigtimedwait(_SIGNALS, 0) is not None:
            pass  # a second signal must not kill a process that has ended well
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(options: SwitchOptions) -> None:
    switches: list[Switch] = []
    starting = _Task(lambda: _started(options, switches))
    ended = False
    while not (ended or starting.finished(0)):
        ended = _ended(_POLL_S)
    if not starting.finished(_PATIENCE_S):
        _abandon(switches)
    starting.result()
    (switch,) = switches
    if not ended:
        switch.run(_ended)
    stopping = _Task(switch.stop)
    if not stopping.finished(_PATIENCE_S):
        _abandon(switches)
    stopping.result()


def _started(options: SwitchOptions, switches: list[Switch]) -> None:
    from detour.engine.switch.run import Switch  # takes seconds, in which signals are heard already

    switch = Switch(options)
    switches.append(switch)
    switch.start()


def _ended(seconds: float) -> bool:
    """Waits for a signal, but not longer than that."""
    return signal.sigtimedwait(_SIGNALS, seconds) is not None


def _abandon(switches: list[Switch]) -> NoReturn:
    """Ends the process in the middle of what other threads do: the system takes back all but files."""
    for switch in switches:
        switch.abandon()
    sys.stdout.flush()
    os._exit(0)


class _Task:
    """A function in a thread of its own, which ends with the process at the latest."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="switch", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        try:
            self._function()
        except BaseException as error:
            self._error = error

    def finished(self, seconds: float) -> bool:
        """Waits for the end of the function, but not longer than that."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> None:
        """Raises what the function raised."""
        if self._error is not None:
            raise self._error
