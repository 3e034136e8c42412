# SPDX-License-Identifier: Apache-2.0
"""The process of `detour switch`: takes its address, starts a switch, waits for a signal, ends in time.

Whoever started it may call the port at once, again and again. So it takes the port before it loads the engine, which
keeps the kernel from connecting a caller to itself, and listens when it can answer.

No signal handler runs: the signals are blocked in all threads and the main thread waits for them. A handler that
raises, to cut a long start short, raises wherever the thread is; inside the compiler's callbacks such an exception
is lost or becomes another one. So a start or a stop that takes too long is abandoned by ending the process.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from detour.base import descriptors
from detour.base.errors import DetourError
from detour.base.garbage import keep_all
from detour.engine.switch.options import SwitchOptions, narrowed

if TYPE_CHECKING:
    from detour.engine.bmv2api.server import ThriftServer
    from detour.engine.endpoint import GrpcEndpoint
    from detour.engine.switch.run import StandaloneSwitch

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.02
_PATIENCE_S = 0.05
"""how long a start or a stop may still take after a signal"""


def run(options: SwitchOptions) -> NoReturn:
    """Run a switch until a signal ends it, and the process with it (exit code 0). `DetourError` if it cannot be
    started."""
    # Two sockets and a ring for each interface, and two captures.
    descriptors.require(descriptors.PROCESS + 5 * len(options.interfaces), "detour switch")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # threads that are started inherit it
    try:
        _run(options)
    finally:
        while signal.sigtimedwait(_SIGNALS, 0) is not None:
            pass  # a second signal must not kill a process that has ended well
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(options: SwitchOptions) -> NoReturn:
    parts = _Parts()
    starting = _Task(lambda: _start(options, parts))
    ended = False
    while not (ended or starting.finished(0)):
        ended = _ended(_POLL_S)
    if not starting.finished(_PATIENCE_S):
        _end(parts)
    starting.result()
    switch = parts.switch
    assert switch is not None
    if not ended:
        switch.run(_ended)
    stopping = _Task(switch.stop_serving)
    stopped = stopping.finished(_PATIENCE_S)
    switch.complete()  # files are worth waiting for
    if stopped:
        stopping.result()
    _end(parts)


@dataclass
class _Parts:
    """The parts made so far."""

    endpoint: GrpcEndpoint | None = None
    thrift: ThriftServer | None = None
    switch: StandaloneSwitch | None = None


def _start(options: SwitchOptions, parts: _Parts) -> None:
    gc.disable()  # of what is loaded nothing is garbage, and looking for some takes a tenth of the time
    endpoint = parts.endpoint = _listen(options)
    try:
        parts.thrift = _listen_to_thrift(options)
        from detour.engine.switch.run import StandaloneSwitch  # takes seconds, in which signals are heard already

        parts.switch = StandaloneSwitch(options, endpoint, _say, parts.thrift)
        parts.switch.start()
    except BaseException:
        endpoint.stop()
        if parts.thrift is not None:
            parts.thrift.stop()
        raise
    finally:
        keep_all()
        gc.enable()


def _listen(options: SwitchOptions) -> GrpcEndpoint:
    from detour.base.tcp_listener import PATIENCE_S
    from detour.engine.endpoint import GrpcEndpoint, Tls

    address, notice = narrowed(options)
    files = options.tls
    tls = None if files is None else Tls(files.certificate, files.key, files.ca if files.require_client else None)
    endpoint = GrpcEndpoint(address, tls)
    endpoint.bind(PATIENCE_S, _say)
    for text in (*options.notices, *([notice] if notice else [])):
        _say(text)
    return endpoint


def _listen_to_thrift(options: SwitchOptions) -> ThriftServer | None:
    if options.thrift_port is None:
        return None
    from detour.base.addresses import TcpAddress
    from detour.base.tcp_listener import PATIENCE_S
    from detour.engine.bmv2api.server import ThriftServer

    server = ThriftServer(TcpAddress("localhost", options.thrift_port))
    server.bind(PATIENCE_S, _say)
    _say(f"Thrift: {server.target}; every user of this machine can program the switch there")
    return server


def _say(text: str) -> None:
    print(f"detour switch: {text}", flush=True)


def _ended(seconds: float) -> bool:
    """Wait for a signal, but not longer than that."""
    return signal.sigtimedwait(_SIGNALS, seconds) is not None


def _end(parts: _Parts) -> NoReturn:
    """End the process, whatever other threads do: the system takes back all but files. Python would take a second."""
    if parts.endpoint is not None:
        parts.endpoint.abandon()
    logging.disable()  # what else runs may fail now
    with suppress(DetourError, OSError):
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
        """Wait for the end of the function, but not longer than that."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> None:
        """Raise what the function raised."""
        if self._error is not None:
            raise self._error
