# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that Prometheus scrapes (`detour metrics --serve`)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from detour.base.addresses import TcpAddress, parse
from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.base.tcp_listener import PATIENCE_S, take_tcp

_CONNECTIONS = 32
_IDLE_S = 10.0  # for a client that sends no request, or does not read the answer
_PAUSE_S = 0.1
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Server(ThreadingHTTPServer):
    """Serves on all sockets that it is given, which listen already: so many clients at a time at each of them. Goes on
    when there are no descriptors left."""

    daemon_threads = True

    def __init__(
        self, sockets: list[socket.socket], current: Callable[[], str], connections: int = _CONNECTIONS
    ) -> None:
        super().__init__(sockets[0].getsockname()[:2], _Scrape, bind_and_activate=False)
        self.socket.close()
        self.socket = sockets[0]
        self._others = [_Server([sock], current, connections) for sock in sockets[1:]]
        self.current = current
        self._free = threading.BoundedSemaphore(connections)

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        for other in self._others:
            threading.Thread(target=other.serve_forever, name="metrics", daemon=True).start()
        super().serve_forever(poll_interval)

    def shutdown(self) -> None:
        for other in self._others:
            other.shutdown()
        super().shutdown()

    def server_close(self) -> None:
        for other in self._others:
            other.server_close()
        super().server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Wait a little after an error: the connection is still there to be accepted, and would be tried at once."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread; whoever is one too many is turned away."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to print a traceback for."""


class _Scrape(BaseHTTPRequestHandler):
    """Asks the fabric anew for every request."""

    timeout = _IDLE_S

    def do_GET(self) -> None:
        """`/metrics`; the path does not matter."""
        try:
            assert isinstance(self.server, _Server)
            status, body = 200, self.server.current()
        except DetourError as error:
            status, body = 503, f"{error}\n"
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a line for each request is of no use."""


def make_server(where: str, current: Callable[[], str], progress: Progress = silent) -> ThreadingHTTPServer:
    """An HTTP server for Prometheus at `host:port` or `:port` (loopback); `current` gives the text of each answer.
    Raises `DetourError`: that is not an address, or it cannot be had."""
    try:
        address = parse(f"127.0.0.1{where}" if where.startswith(":") else where, "--serve")
    except DetourError:
        address = None
    if not isinstance(address, TcpAddress):
        raise DetourError(f"--serve {where!r}: expected an address like :9464 or 127.0.0.1:9464")
    with take_tcp(address, "--serve", PATIENCE_S, progress) as place:
        return _Server(place.listen(), current)
