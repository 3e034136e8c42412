# SPDX-License-Identifier: Apache-2.0
"""`web`: serves the page in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from detour.base.addresses import TcpAddress
from detour.base.errors import DetourError
from detour.base.tcp_place import PATIENCE_S, take_tcp
from detour.cli.asking import running
from detour.cli.parser import add_name_option, command, port_number, seconds

if TYPE_CHECKING:
    from detour.fabric.operations.registry import Operations

DEFAULT_PORT = 8470
_SHORTEST_TOKEN = 16
_HOST = "127.0.0.1"


def register(commands: Any) -> None:
    """Adds this command."""
    web = command(commands, "web", "a page that shows the fabric that is up and lets it be changed, until Ctrl-C", _web)
    web.add_argument(
        "--port", type=port_number, default=DEFAULT_PORT, metavar="N", help=f"on loopback ({DEFAULT_PORT}; 0: any)"
    )
    who = web.add_mutually_exclusive_group()
    who.add_argument("--token", metavar="TEXT", help="that lets the page change the fabric (default: a random one)")
    who.add_argument("--read-only", action="store_true", help="nobody changes anything by the page")
    web.add_argument("--interval", type=seconds, default=0.5, metavar="S", help="between updates (0.5)")
    add_name_option(web)


def _web(options: argparse.Namespace) -> None:
    token = None if options.read_only else options.token or secrets.token_urlsafe(24)
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise DetourError(f"--token: {_SHORTEST_TOKEN} printable ASCII characters at least")

    def ready(url: str) -> None:
        if options.json:
            print(json.dumps({"url": url}), flush=True)
        else:
            print(f"{url}\n(who has this address can change the fabric; Ctrl-C ends)" if token else url, flush=True)

    serve(running(), options.port, token, options.interval, ready)


def serve(
    asked: Operations,
    port: int,
    token: str | None,
    interval_s: float = 0.5,
    ready: Callable[[str], None] = lambda url: None,
    ended: asyncio.Event | None = None,
) -> None:
    """Serves until Ctrl-C or SIGTERM. `ready` gets the address with the token.

    Raises:
        DetourError: no fabric is up, the port is taken, or aiohttp is missing.
    """
    from detour.cli.web.answers import Answers
    from detour.cli.web.feed import Feed
    from detour.cli.web.security import Guard
    from detour.cli.web.server import WebServer
    from detour.control.topology_files import open_topology

    topology = open_topology(asked.status().topology)
    feed = Feed(asked, interval_s)
    with take_tcp(TcpAddress(_HOST, port), "--port", PATIENCE_S) as place:
        sockets = place.listen()
        number = sockets[0].getsockname()[1]
        feed.start()
        try:
            server = WebServer(Answers(asked, topology, feed, token is not None), feed, Guard(number, token))
            url = f"http://{_HOST}:{number}/" + (f"?token={token}" if token else "")
            asyncio.run(_until_ended(server, sockets, lambda: ready(url), ended))
        finally:
            feed.stop()


async def _until_ended(server: Any, sockets: list[Any], ready: Callable[[], None], ended: asyncio.Event | None) -> None:
    end = ended or asyncio.Event()
    if ended is None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end.set)
    await server.start(sockets)
    ready()
    try:
        await end.wait()
    finally:
        await server.close()
