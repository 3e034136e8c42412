# SPDX-License-Identifier: Apache-2.0
"""The control socket of a running fabric: a UNIX socket, one JSON object per line.

A client sends `{"do": "send", "with": {...}}`. The answer is any number of `{"tell": "..."}` and then one of
`{"result": {...}}` and `{"error": "...", "exit_code": 2}`; `{"warn": "..."}` before it says what else has gone wrong,
whatever was asked for. When the client goes away, what it asked for is cancelled. While an
operation takes its time, `{"alive": true}` comes every few seconds, so that a client can tell a long one from a fabric
that hangs.

The server outlives a lack of descriptors: some are held back for the control socket alone, connections are limited in
number, and those that ask for nothing are closed.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from detour.base.addresses import UNIX_PATH_BYTES, too_long
from detour.base.descriptors import EXHAUSTED, Reserve
from detour.base.errors import DetourError, error_of
from detour.base.progress import Progress, silent
from detour.base.records import as_json
from detour.base.unix_listener import UnixServerSocket
from detour.fabric.daemon.state_dir import StateDir, about_this_fabric, not_up
from detour.fabric.operations.registry import LIMIT_S, OPERATIONS, Operation

_LONGEST_REQUEST = 1 << 16
_RESERVED = 12  # descriptors; when there are no others, the first client gets all of them: operations open files
_PAUSE_S = 0.1  # after an accept that failed
_SEND_S = 30.0  # for a client that does not read
_END_S = 20.0  # for operations that are cancelled
_ALIVE_S = 2.0
SILENCE_S = 30.0
"""without a sign of life from the fabric; then `call` gives up"""

_log = logging.getLogger(__name__)

OperationFunction = Callable[..., Any]


class _ClientGoneError(Exception):
    """The client is gone, so no answer is needed."""


class ControlServer:
    """Serves operations by name from when it is made until `stop`, each connection in a thread of its own.

    Operations get the client's arguments by keyword, decoded by the types of their parameters, and, if they have
    parameters of those names, `progress` (a function that reports it) and `cancelled` (an event that is set when the
    client goes away). What they return is a record, or what JSON knows.
    """

    def __init__(
        self,
        path: Path,
        operations: Mapping[str, OperationFunction],
        connections: int = 64,
        request_s: float = 10.0,
        warning: Callable[[str], str | None] = lambda name: None,
    ) -> None:
        """`connections` at the same time; a client has `request_s` seconds for its request. `warning`: what who asks
        for an operation is to hear besides. Raises DetourError: the socket cannot be bound."""
        _check_path(path)
        self._warning, self._operations = warning, operations
        self._most, self._request_s = connections, request_s
        self._place = UnixServerSocket(path, "control socket")
        self._socket = self._place.listen()
        self._reserve = Reserve(_RESERVED)
        self._stopping = threading.Event()
        self._clients: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(target=self._accept, name="control socket", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Serve nothing more; cancel what is under way and wait for it. May be called twice."""
        self._stopping.set()
        self._place.remove()
        # Closing alone does not wake a thread that waits in accept.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._socket.close()
        with self._lock:
            for connection in self._clients:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)
            waiting = list(self._clients.values())
        end = time.monotonic() + _END_S
        for thread in waiting:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
        self._reserve.close()

    def __enter__(self) -> ControlServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                # Whatever it was: a fabric that cannot be reached any more is of no use.
                spare = error.errno in EXHAUSTED and self._reserve.release()
                self._reserve.close()
                if not spare and not self._stopping.is_set():
                    _log.warning("control socket: %s", error.strerror)
                    self._stopping.wait(_PAUSE_S)
                continue
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(connection,), name="control client", daemon=True)
        with self._lock:
            full = len(self._clients) >= self._most
            if not full:
                self._clients[connection] = thread
        if full:
            _turn_away(connection, f"the fabric serves {self._most} clients already; try again")
            return
        try:
            thread.start()
        except RuntimeError:  # there are too many threads
            with self._lock:
                del self._clients[connection]
            _turn_away(connection, "the fabric can start no more threads; try again")

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, _ClientGoneError):
                self._answer(connection)
        finally:
            self._reserve.refill()
            with self._lock:
                del self._clients[connection]

    def _answer(self, connection: socket.socket) -> None:
        request = _receive(connection, self._request_s)
        if not request:
            return
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(_SEND_S), 0))
        lock = threading.Lock()

        def say(what: dict[str, Any]) -> None:
            try:
                with lock:
                    connection.sendall(json.dumps(what).encode() + b"\n")
            except OSError:
                raise _ClientGoneError from None

        cancelled = threading.Event()
        arguments = connection, cancelled, say
        watcher = threading.Thread(target=_watch, args=arguments, name="control watcher", daemon=True)
        watcher.start()
        try:
            say({"result": self._do(request, say, cancelled)})
        except DetourError as error:
            say({"error": str(error), "exit_code": error.exit_code})
        except _ClientGoneError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in EXHAUSTED:
                say({"error": f"the fabric has too little left to do that ({error.strerror}); who is connected to it?"})
            else:
                _log.exception("an operation failed")
                say({"error": f"internal error: {type(error).__name__}: {error}"})
        finally:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            watcher.join()

    def _do(self, request: bytes, say: Callable[[dict[str, Any]], None], cancelled: threading.Event) -> Any:
        try:
            message = json.loads(request)
            name, arguments = message["do"], dict(message.get("with") or {})
        except (ValueError, KeyError, TypeError):
            raise DetourError('control socket: a request is {"do": NAME, "with": {...}} on one line') from None
        operation = self._operations.get(name)
        if operation is None:
            raise DetourError(f"control socket: there is no {name!r}; there are {', '.join(self._operations)}")
        declared = OPERATIONS.get(name) or Operation(name, "", LIMIT_S, operation)
        arguments = declared.decoded(arguments)
        if (warning := self._warning(name)) is not None:
            say({"warn": warning})
        extras = {"progress": lambda text: say({"tell": text}), "cancelled": cancelled}
        taken = inspect.signature(operation).parameters
        return as_json(operation(**arguments, **{key: value for key, value in extras.items() if key in taken}))


def _receive(connection: socket.socket, seconds: float) -> bytes:
    """A client's line, empty if it sends none in time."""
    deadline = time.monotonic() + seconds
    data = bytearray()
    while not data.endswith(b"\n") and len(data) < _LONGEST_REQUEST:
        left = deadline - time.monotonic()
        if left <= 0:
            return b""
        connection.settimeout(left)
        chunk = connection.recv(_LONGEST_REQUEST - len(data))
        if not chunk:
            break
        data += chunk
    return bytes(data)


def _turn_away(connection: socket.socket, why: str) -> None:
    """Say why not, without waiting for anybody."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(json.dumps({"error": why}).encode() + b"\n")


def _watch(connection: socket.socket, cancelled: threading.Event, say: Callable[[dict[str, Any]], None]) -> None:
    """Say now and then that the fabric lives. Sets `cancelled` when the client goes away, or does not read; it never
    sends anything after its request."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    with suppress(OSError, _ClientGoneError):
        while True:
            if not poll.poll(_ALIVE_S * 1000):
                say({"alive": True})
            elif not connection.recv(4096):
                break
    cancelled.set()


def ask(
    do: str, progress: Progress = silent, state: StateDir | None = None, *, warn: Progress = silent, **arguments: Any
) -> Any:
    """Ask the fabric that is up for something. `warn` is told what else has gone wrong there. Raises DetourError: none
    is up, or it says why not."""
    state = state or StateDir()
    stale = state.remove_stale()
    try:
        limit = OPERATIONS[do].limit_s if do in OPERATIONS else LIMIT_S
        if limit is not None:
            limit += float(arguments.get("seconds") or 0)
        return call(state.socket, do, arguments, progress, limit, warn=warn)
    except DetourError as error:
        words = None if state.is_alive() else state.last_words()
        reason = f" ({words[0]}; its log: {words[1]})" if words else ""
        raise DetourError(f"the fabric that was up has died{reason}; {error}") if stale or words else error from None


def call(
    path: Path,
    do: str,
    arguments: Mapping[str, Any],
    progress: Progress = silent,
    limit_s: float | None = LIMIT_S,
    silence_s: float = SILENCE_S,
    warn: Progress = silent,
) -> Any:
    """Ask the fabric behind a control socket for something; return the result. `warn` is told what else has gone
    wrong there.

    `limit_s`: how long it may take (None: as long as the fabric says that it is at work); `silence_s`: how long the
    fabric may say nothing at all. Raises DetourError: with the fabric's own words, because it is gone, or because it
    does not answer in time."""
    _check_path(path)
    deadline = time.monotonic() + (float("inf") if limit_s is None else limit_s)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        request = {"do": do, "with": {key: value for key, value in arguments.items() if value is not None}}
        try:
            _connect(connection, path, min(deadline, time.monotonic() + silence_s))
            connection.settimeout(silence_s)
            with suppress(ConnectionError):  # who turns clients away may have closed, and has said why
                connection.sendall(json.dumps(request).encode() + b"\n")
            for answer in _answers(connection, deadline, silence_s):
                if "tell" in answer:
                    progress(answer["tell"])
                elif "warn" in answer:
                    warn(answer["warn"])
                elif "error" in answer:
                    raise error_of(answer["error"], answer.get("exit_code", DetourError.exit_code))
                elif "result" in answer:
                    return answer["result"]
        except TimeoutError:
            raise DetourError(f"the fabric does not answer `{do}`; {about_this_fabric('down')} ends it") from None
        except ConnectionError:
            pass
    raise DetourError("the fabric went down")


def _connect(connection: socket.socket, path: Path, deadline: float) -> None:
    """Connect; wait while too many others do."""
    while True:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            connection.connect(os.fspath(path))
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(0.05)
        except TimeoutError:
            raise
        except OSError:
            raise DetourError(not_up()) from None


def _answers(connection: socket.socket, deadline: float, silence_s: float) -> Iterator[dict[str, Any]]:
    """Yield the fabric's answers, line by line."""
    rest = b""
    while True:
        left = min(silence_s, deadline - time.monotonic())
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        chunk = connection.recv(1 << 16)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from map(json.loads, lines)


def _check_path(path: Path) -> None:
    if too_long(path):
        raise DetourError(
            f"control socket {path}: the path is longer than {UNIX_PATH_BYTES} bytes; set XDG_RUNTIME_DIR"
        )
