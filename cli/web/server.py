# SPDX-License-Identifier: Apache-2.0
"""The server of the page: static files, answers, and a WebSocket on which samples go out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from aiohttp import WSMsgType, web

from detour.base.doors import unpinned
from detour.base.errors import DetourError
from detour.cli.web.samples import SampleListener
from detour.cli.web.security import HEADERS, Guard

_STATIC = Path(__file__).with_name("static")
_WAITING = 64
"""samples for somebody who does not read; then the connection ends, and the page makes a new one"""
_AT_ONCE = 64
"""samples of the past in a message"""
_THREADS = 8
_LONGEST_REQUEST = 1 << 18
"""bytes: a frame in hex and more"""


Query = Mapping[str, str]
Question = Callable[[Query], Any]


class NotThereError(DetourError):
    """What a page asks for does not exist."""


class PageAnswers(Protocol):
    """What a page shows. `questions`: what may be asked for by GET, which changes nothing, by name."""

    questions: Mapping[str, Question]

    def do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Changes something.

        Raises:
            DetourError: it may not, or cannot.
        """
        ...


class SampleFeed(Protocol):
    """Where samples come from."""

    def listen(self, listener: SampleListener) -> list[dict[str, Any]]:
        """Calls `listener` with every sample from now on; returns those before."""
        ...

    def forget(self, listener: SampleListener) -> None:
        """Calls it no more."""
        ...


def asked_for(query: Query, name: str) -> str:
    """A part of a question.

    Raises:
        DetourError: it is missing.
    """
    if not query.get(name):
        raise DetourError(f"{name} is missing")
    return query[name]


class WebServer:
    """Serves until `close`."""

    def __init__(self, answers: PageAnswers, feed: SampleFeed, guard: Guard) -> None:
        self._answers, self._feed = answers, feed
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="web")
        self._app = web.Application(middlewares=[guard.middleware()], client_max_size=_LONGEST_REQUEST)
        self._app.add_routes(
            [
                web.get("/", self._index),
                *(web.get(f"/api/{name}", self._answering(work)) for name, work in answers.questions.items()),
                web.get("/api/live", self._live),
                web.post("/api/do", self._do),
                web.static("/static", _STATIC),
            ]
        )
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=1.0)

    async def start(self, sockets: list[socket.socket]) -> None:
        """Serves on sockets that listen."""
        await self._runner.setup()
        for each in sockets:
            await web.SockSite(self._runner, each).start()

    async def close(self) -> None:
        """Ends all connections."""
        await self._runner.cleanup()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- answers --------------------------------------------------------------------------------------------

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(_STATIC / "index.html")

    def _answering(self, work: Question) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.Response:
            return await self._in_thread(partial(work, request.query))

        return answer

    async def _do(self, request: web.Request) -> web.Response:
        try:
            message = await request.json()
            name, arguments = message["operation"], dict(message.get("arguments") or {})
        except (ValueError, KeyError, TypeError):
            return web.json_response({"error": 'wanted is {"operation": NAME, "arguments": {...}}'}, status=400)
        return await self._in_thread(partial(self._answers.do, name, arguments))

    async def _in_thread(self, work: Callable[[], Any]) -> web.Response:
        """Operations wait for switches: not in the loop."""
        try:
            return web.json_response(await asyncio.get_running_loop().run_in_executor(self._pool, work))
        except DetourError as error:
            status = 404 if isinstance(error, NotThereError) else 400
            return web.json_response({"error": unpinned(str(error))}, status=status)

    # -- samples --------------------------------------------------------------------------------------------

    async def _live(self, request: web.Request) -> web.StreamResponse:
        connection = web.WebSocketResponse(heartbeat=20.0, max_msg_size=1024, compress=False)
        connection.headers.update(HEADERS)
        await connection.prepare(request)
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]](_WAITING)

        def put(sample: dict[str, Any]) -> None:
            if waiting.full():
                loop.create_task(connection.close())
            else:
                waiting.put_nowait(sample)

        def heard(sample: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(put, sample)

        history = self._feed.listen(heard)
        sender = loop.create_task(_send(connection, history, waiting))
        try:
            async for message in connection:
                if message.type == WSMsgType.ERROR:
                    break
        finally:
            self._feed.forget(heard)
            sender.cancel()
        return connection


async def _send(
    connection: web.WebSocketResponse, history: list[dict[str, Any]], waiting: asyncio.Queue[dict[str, Any]]
) -> None:
    for begin in range(0, max(len(history), 1), _AT_ONCE):
        await connection.send_json({"history": history[begin : begin + _AT_ONCE]})
    await connection.send_json({"whole": True})
    while not connection.closed:
        await connection.send_json(await waiting.get())
