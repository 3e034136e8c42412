# SPDX-License-Identifier: Apache-2.0
"""How commands reach a running fabric: a UNIX socket, one JSON object a line.

A client sends `{"do": "send", "with": {...}}`. The answer is any number of `{"tell": "..."}` and then one of
`{"result": {...}}` and `{"error": "..."}`. When the client goes away, what it asked for is cancelled.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from detour.base.addresses import UNIX_PATH_BYTES, too_long
from detour.base.errors import DetourError
from detour.base.unix_place import UnixPlace
from detour.fabric.base import Tell, silent

_LONGEST_REQUEST = 1 << 16

_log = logging.getLogger(__name__)

Operation = Callable[..., Any]


class _ClientGoneError(Exception):
    """Nobody is left to hear an answer."""


class ControlServer:
    """Serves operations by name, each connection in a thread of its own.

    Operations get the client's arguments by keyword and, if they have parameters of those names, `tell` (a
    function that reports progress) and `cancelled` (an event that is set when the client goes away).
    """

    def __init__(self, path: Path, operations: Mapping[str, Operation]) -> None:
        self._path = path
        self._operations = operations
        self._socket: socket.socket | None = None
        self._place: UnixPlace | None = None
        self._threads: set[threading.Thread] = set()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(target=self._accept, name="control socket", daemon=True)

    def start(self) -> None:
        """Binds the socket and begins to serve.

        Raises:
            DetourError: the socket cannot be bound.
        """
        _check_path(self._path)
        self._place = UnixPlace(self._path, "control socket")
        self._socket = self._place.listen()
        self._acceptor.start()

    def stop(self) -> None:
        """Serves nothing more; cancels what is under way and waits for it. May be called twice."""
        if self._place is not None:
            self._place.remove()
        if self._socket is not None:
            # Closing alone does not wake a thread that waits in accept.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            if self._acceptor.is_alive():
                self._acceptor.join()
            self._socket.close()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)
            waiting = list(self._threads)
        for thread in waiting:
            if thread is not threading.current_thread():
                thread.join()

    def _accept(self) -> None:
        assert self._socket is not None
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="control client", daemon=True)
            with self._lock:
                self._threads.add(thread)
                self._connections.add(connection)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, _ClientGoneError):
                self._answer(connection)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
                self._connections.discard(connection)

    def _answer(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            request = lines.readline(_LONGEST_REQUEST)
        if not request:
            return
        lock = threading.Lock()

        def say(what: dict[str, Any]) -> None:
            try:
                with lock:
                    connection.sendall(json.dumps(what).encode() + b"\n")
            except OSError:
                raise _ClientGoneError from None

        cancelled = threading.Event()
        watcher = threading.Thread(target=_watch, args=(connection, cancelled), name="control watcher", daemon=True)
        watcher.start()
        try:
            say({"result": self._do(request, say, cancelled)})
        except DetourError as error:
            say({"error": str(error)})
        except _ClientGoneError:
            raise
        except Exception as error:
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
        parameters = inspect.signature(operation).parameters
        unknown = set(arguments) - (set(parameters) - {"tell", "cancelled"})
        if unknown:
            raise DetourError(f"control socket: {name} has no {', '.join(sorted(unknown))}")
        extras = {"tell": lambda text: say({"tell": text}), "cancelled": cancelled}
        return operation(**arguments, **{key: value for key, value in extras.items() if key in parameters})


def _watch(connection: socket.socket, cancelled: threading.Event) -> None:
    """Sets `cancelled` when the client goes away; it never sends anything after its request."""
    with suppress(OSError):
        while connection.recv(4096):
            pass
    cancelled.set()


def call(path: Path, do: str, arguments: Mapping[str, Any], tell: Tell = silent) -> Any:
    """Asks the fabric behind a control socket for something; returns the result.

    Raises:
        DetourError: with the fabric's own words, or because it is gone.
    """
    _check_path(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.fspath(path))
        except OSError:
            raise DetourError("no fabric is up; `detour up --detach` starts one") from None
        request = {"do": do, "with": {key: value for key, value in arguments.items() if value is not None}}
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as lines:
            for line in lines:
                answer = json.loads(line)
                if "tell" in answer:
                    tell(answer["tell"])
                elif "error" in answer:
                    raise DetourError(answer["error"])
                else:
                    return answer["result"]
    raise DetourError("the fabric went down")


def _check_path(path: Path) -> None:
    if too_long(path):
        raise DetourError(
            f"control socket {path}: the path is longer than {UNIX_PATH_BYTES} bytes; set XDG_RUNTIME_DIR"
        )
