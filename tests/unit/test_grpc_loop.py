# SPDX-License-Identifier: Apache-2.0
"""A loop that used gRPC may close while another one of the process goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from detour.base.grpc_loop import GrpcLoop
from tests.waiting import PATIENCE_S


class EchoServer:
    """A streaming echo in a thread; keeps what its loop complains about."""

    def __init__(self) -> None:
        self.complaints: list[Any] = []
        self.port = 0
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._main)
        self._thread.start()
        self._started.wait()

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=GrpcLoop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async def echo(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(lambda loop, context: self.complaints.append(context))
        server = grpc.aio.server()
        echo_handler = grpc.stream_stream_rpc_method_handler(echo)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"echo": echo_handler}),))
        self.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._started.set()
        await self._stop.wait()
        await server.stop(0)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


async def cancel_calls(port: int) -> None:
    """Leaves calls whose completions come when the loop is closed."""

    begun: list[bool] = []

    async def call() -> None:
        stream = channel.stream_stream("/echo/echo")()
        await stream.write(b"?")
        begun.append(True)
        while True:
            await stream.read()

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        calls = [asyncio.ensure_future(call()) for _ in range(20)]
        async with asyncio.timeout(PATIENCE_S):
            while len(begun) < len(calls):
                await asyncio.sleep(0)
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


def test_a_closed_loop_does_not_disturb_the_others() -> None:
    server = EchoServer()
    for _ in range(30):
        with asyncio.Runner(loop_factory=GrpcLoop) as runner:
            runner.run(cancel_calls(server.port))
    server.close()
    assert server.complaints == []


def test_what_comes_after_closing_is_dropped() -> None:
    loop = GrpcLoop()
    loop.close()
    called: list[int] = []
    assert loop.call_soon_threadsafe(called.append, 1).cancelled()
    assert called == []
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(called.append, 2)
