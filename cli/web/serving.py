# SPDX-License-Identifier: Apache-2.0
"""Serves the page on loopback until somebody ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from detour.base.addresses import TcpAddress
from detour.base.tcp_place import PATIENCE_S, take_tcp
from detour.cli.web.answers import Answers
from detour.cli.web.feed import Feed
from detour.cli.web.security import Guard
from detour.cli.web.server import WebServer
from detour.control.topology_files import open_topology
from detour.fabric.operations.registry import Operations

_HOST = "127.0.0.1"


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
