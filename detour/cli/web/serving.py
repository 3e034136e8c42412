# SPDX-License-Identifier: Apache-2.0
"""Serves the page on loopback until somebody ends it, or beside something else in this process."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from detour.base.addresses import TcpAddress
from detour.base.tcp_listener import PATIENCE_S, take_tcp
from detour.cli.web.answers import Answers
from detour.cli.web.feed import Feed, SampleHub
from detour.cli.web.server import Guard, PageAnswers, WebServer
from detour.control.graph_files import open_topology
from detour.fabric.operations.registry import Operations

_HOST = "127.0.0.1"
_ENDING_S = 5.0

Ready = Callable[[str], None]
"""gets the address of the page, with the token"""


def serve(
    asked: Operations, port: int, token: str | None, interval_s: float = 0.5, ready: Ready = lambda url: None,
    ended: asyncio.Event | None = None,
) -> None:  # fmt: skip
    """Serve a fabric's page until Ctrl-C or SIGTERM. Raises `DetourError`: no fabric is up, the port is taken, or
    aiohttp is missing."""
    with _fed(asked, token, interval_s) as (answers, feed):
        serve_page(answers, feed, port, token, ready, ended)


def serve_page(
    answers: PageAnswers, feed: SampleHub, port: int, token: str | None = None, ready: Ready = lambda url: None,
    ended: asyncio.Event | None = None,
) -> None:  # fmt: skip
    """The same for a page that shows something else. Raises `DetourError`: the port is taken."""
    with _listening(port) as (sockets, number):
        server = WebServer(answers, feed, Guard(number, token))
        asyncio.run(_until_ended(server, sockets, lambda: ready(_address(number, token)), ended))


@contextmanager
def page_beside(answers: PageAnswers, feed: SampleHub, port: int, token: str | None = None) -> Iterator[str]:
    """Serve a page in a thread for as long as the context lasts; give its address. Raises `DetourError`: the port is
    taken."""
    with _listening(port) as (sockets, number):
        begun = threading.Event()
        ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

        async def run() -> None:
            end = asyncio.Event()
            ends.append((asyncio.get_running_loop(), end))
            await _until_ended(WebServer(answers, feed, Guard(number, token)), sockets, begun.set, end)

        thread = threading.Thread(target=lambda: asyncio.run(run()), name="web page", daemon=True)
        thread.start()
        begun.wait(_ENDING_S)
        try:
            yield _address(number, token)
        finally:
            for loop, end in ends:
                loop.call_soon_threadsafe(end.set)
            thread.join(_ENDING_S)


@contextmanager
def fabric_page_beside(asked: Operations, port: int, token: str | None, interval_s: float = 0.5) -> Iterator[str]:
    """The same for the page of a fabric. Raises `DetourError`: the port is taken, or the fabric does not answer."""
    with _fed(asked, token, interval_s) as (answers, feed), page_beside(answers, feed, port, token) as url:
        yield url


@contextmanager
def _listening(port: int) -> Iterator[tuple[list[socket.socket], int]]:
    with take_tcp(TcpAddress(_HOST, port), "--port", PATIENCE_S) as place:
        sockets = place.listen()
        try:
            yield sockets, sockets[0].getsockname()[1]
        finally:
            for each in sockets:
                each.close()


@contextmanager
def _fed(asked: Operations, token: str | None, interval_s: float) -> Iterator[tuple[Answers, Feed]]:
    topology = open_topology(asked.status().topology)
    feed = Feed(asked, interval_s)
    feed.start()
    try:
        yield Answers(asked, topology, feed, token is not None), feed
    finally:
        feed.stop()


def _address(number: int, token: str | None) -> str:
    return f"http://{_HOST}:{number}/" + (f"?token={token}" if token else "")


async def _until_ended(
    server: WebServer, sockets: list[socket.socket], ready: Callable[[], None], ended: asyncio.Event | None
) -> None:
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
