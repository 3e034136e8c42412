# SPDX-License-Identifier: Apache-2.0
"""The server of the page: static files, answers, and a WebSocket on which samples go out."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler, Middleware

from detour.base.errors import DetourError
from detour.base.plugins import unpinned
from detour.cli.web.feed import SampleHub

TOKEN_HEADER = "X-Detour-Token"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}  # fmt: skip


class Guard:
    """Access rules of a server. `token` None: nobody may change anything.

    The page listens on loopback, but every page in a browser can send requests there, and a name of somebody else's can
    be made to lead there (DNS rebinding). So requests must name this server by a name of loopback, must not come from
    another page, and change something only by POST with the token that is printed with the address."""

    def __init__(self, port: int, token: str | None) -> None:
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._token = token

    def may_change(self, request: web.Request) -> bool:
        """Return whether a request has the token."""
        given = request.headers.get(TOKEN_HEADER, "")
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def middleware(self) -> Middleware:
        """Refuse what must not be, and tell the browser what the page may do."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            why = self._refused(request)
            if why is not None:
                return web.json_response({"error": why}, status=403, headers=HEADERS)
            response = await handler(request)
            if not response.prepared:
                response.headers.update(HEADERS)
            return response

        return guard

    def _refused(self, request: web.Request) -> str | None:
        if request.headers.get("Host", "") not in self._hosts:
            return "this server is asked by the name 127.0.0.1 or localhost only"
        origin = request.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return "another page may not ask this server"
        if request.method not in ("GET", "HEAD") and not self.may_change(request):
            return "read-only: changes need the token of the address that `detour web` printed"
        return None


_STATIC = Path(__file__).with_name("static")
_WAITING = 64  # samples for somebody who does not read; then the connection ends, and the page makes a new one
_AT_ONCE = 64  # samples of the past in a message
_THREADS = 8
_LONGEST_REQUEST = 1 << 18  # bytes: a frame in hex and more


Query = Mapping[str, str]
Question = Callable[[Query], Any]


class NotThereError(DetourError):
    """A page asks for something that does not exist."""


class PageAnswers(Protocol):
    """Content of a page. `questions`: GET requests, which change nothing, by name."""

    questions: Mapping[str, Question]

    def do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Changes something. Raises `DetourError`: it may not, or cannot."""
        ...


def asked_for(query: Query, name: str) -> str:
    """A part of a question. Raises `DetourError`: it is missing."""
    if not query.get(name):
        raise DetourError(f"{name} is missing")
    return query[name]


class WebServer:
    """Serves until `close`."""

    def __init__(self, answers: PageAnswers, feed: SampleHub, guard: Guard) -> None:
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
        """Serve on sockets that listen."""
        await self._runner.setup()
        for each in sockets:
            await web.SockSite(self._runner, each).start()

    async def close(self) -> None:
        """End all connections."""
        await self._runner.cleanup()
        self._pool.shutdown(wait=False, cancel_futures=True)

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
            return web.json_response({"error": 'expected {"operation": NAME, "arguments": {...}}'}, status=400)
        return await self._in_thread(partial(self._answers.do, name, arguments))

    async def _in_thread(self, work: Callable[[], Any]) -> web.Response:
        """Operations wait for switches: not in the loop."""
        try:
            return web.json_response(await asyncio.get_running_loop().run_in_executor(self._pool, work))
        except DetourError as error:
            status = 404 if isinstance(error, NotThereError) else 400
            return web.json_response({"error": unpinned(str(error))}, status=status)

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
