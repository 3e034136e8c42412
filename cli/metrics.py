# SPDX-License-Identifier: Apache-2.0
"""`metrics`, `flows`, `reroute`: what flows and ports do, for Prometheus, and another path for a flow."""

from __future__ import annotations

import argparse
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rich.console import Console

from detour.base.addresses import TcpAddress, joined, parse
from detour.base.errors import DetourError
from detour.base.tcp_place import PATIENCE_S, take_tcp
from detour.cli.output import emit, progress, table
from detour.cli.parser import command
from detour.fabric.footings.base import Tell, silent

_CONNECTIONS = 32
_IDLE_S = 10.0  # for a client that sends no request, or does not read the answer
_PAUSE_S = 0.1
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def register(commands: Any) -> None:
    """Adds these commands."""
    metrics = command(commands, "metrics", "flows and ports of the fabric in Prometheus' text format", _metrics)
    metrics.add_argument("--serve", metavar="[HOST]:PORT", help="answer Prometheus over HTTP until Ctrl-C")
    flows = command(commands, "flows", "what sends now, as its receivers and the switches on its way see it", _flows)
    flows.add_argument(
        "--watch", choices=("on", "off"), help="switches count every flow by itself from now on, or no more"
    )
    reroute = command(commands, "reroute", "give a flow that sends another uSID list", _reroute)
    reroute.add_argument("flow", metavar="FLOW", help="like h0-h9, as `detour flows` names it")
    reroute.add_argument("usid", metavar="LIST", help="uSIDs to pass, like s9,s3 (completed with those of the target)")


def _ask(*arguments: Any, **more: Any) -> Any:
    from detour.fabric.daemon.daemon import ask

    return ask(*arguments, **more)


def _metrics(options: argparse.Namespace) -> None:
    if options.serve is not None:
        _serve(options.serve)
        return
    result = _ask("metrics")
    if options.json:
        emit(result, True, lambda console: None)
    else:
        sys.stdout.write(_text(result))


def _text(result: dict[str, Any]) -> str:
    from detour.fabric.monitoring.metrics import text

    return text(result["metrics"])


class _Server(ThreadingHTTPServer):
    """Serves on all sockets that it is given, which listen already: so many clients at a time at each of them. Goes on
    when there are no descriptors left."""

    daemon_threads = True

    def __init__(self, sockets: list[socket.socket], connections: int = _CONNECTIONS) -> None:
        super().__init__(sockets[0].getsockname()[:2], _Scrape, bind_and_activate=False)
        self.socket.close()
        self.socket = sockets[0]
        self._others = [_Server([sock], connections) for sock in sockets[1:]]
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
        """Waits a little after an error: the connection is still there to be accepted, and would be tried at once."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts the thread; whoever is one too many is turned away."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """In the thread."""
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
            status, body = 200, _text(_ask("metrics"))
        except DetourError as error:
            status, body = 503, f"{error}\n"
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody wants a line for each."""


def make_server(where: str, tell: Tell = silent) -> ThreadingHTTPServer:
    """An HTTP server for Prometheus at `host:port` or `:port` (loopback).

    Raises:
        DetourError: that is no address, or it cannot be had.
    """
    try:
        address = parse(f"127.0.0.1{where}" if where.startswith(":") else where, "--serve")
    except DetourError:
        address = None
    if not isinstance(address, TcpAddress):
        raise DetourError(f"--serve {where!r}: wanted is an address like :9464 or 127.0.0.1:9464")
    with take_tcp(address, "--serve", PATIENCE_S, tell) as place:
        return _Server(place.listen())


def _serve(where: str) -> None:
    with progress(as_json=False, log=True) as tell, make_server(where, tell) as server:
        address = joined(*server.socket.getsockname()[:2])
        tell(f"serving metrics at http://{address}/metrics")
        server.serve_forever()


def _flows(options: argparse.Namespace) -> None:
    result = _ask("flows") if options.watch is None else _ask("watch_flows", on=options.watch == "on")

    def render(console: Console) -> None:
        if not result["flows"]:
            watched = "; switches will watch what does" if result["watching"] else ""
            console.print(f"nothing sends now{watched}")
            return
        rows = [
            (r["name"], r["path"], "yes" if r["placed"] else "no", f"{r['rate_bps'] / 1e6:.2f}", f"{r['drop']:.0%}",
             f"{r['ecn_share']:.0%}", f"{r['delay_ps'] / 1e9:.2f}", r["bytes"], r["duplicates"])
            for r in result["flows"]
        ]  # fmt: skip
        names = ("flow", "path", "placed", ">Mb/s", ">drop", ">ECN", ">delay, ms", ">bytes", ">repeated packets")
        console.print(table(names, rows, f"windows of {result['window_s'] * 1e3:g} ms"))
        if result["watching"]:
            _show_switches(console, result)

    emit(result, options.json, render)


def _show_switches(console: Console, result: dict[str, Any]) -> None:
    rows = [
        (flow["name"], r["switch"], f"{r['rate_bps'] / 1e6:.2f}", f"{r['drop']:.0%}", f"{r['ecn_share']:.0%}",
         f"{r['delay_ps'] / 1e9:.2f}", r["bytes"], r["packets"], r["ecn_packets"])
        for flow in result["flows"]
        for r in flow["switches"]
    ]  # fmt: skip
    names = ("flow", "switch", ">Mb/s", ">drop", ">ECN", ">delay, ms", ">bytes", ">packets", ">marked")
    console.print(
        table(names, rows, f"in the switches, headers included; windows of {result['switch_window_s'] * 1e3:.0f} ms")
    )


def _reroute(options: argparse.Namespace) -> None:
    result = _ask("reroute", flow=options.flow, usid=options.usid)
    text = f"{result['flow']} goes by {' '.join(result['switches'])} ({result['path']})"
    emit(result, options.json, lambda console: console.print(text))
