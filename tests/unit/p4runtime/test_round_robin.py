# SPDX-License-Identifier: Apache-2.0
"""A flood of packet-ins leaves the event loop to others: a turn of one device, then rounds without any."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

from detour.engine.p4runtime.device import P4Device, RoundRobin
from detour.engine.p4runtime.stream import serve
from tests.waiting import PATIENCE_S

ROUNDS = 10


class Rounds:
    """Counts how often the event loop goes round."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.count, self._loop = 0, loop
        self._go()

    def _go(self) -> None:
        self.count += 1
        self._loop.call_soon(self._go)


def test_others_have_rounds_between_two_turns() -> None:
    async def run() -> list[int]:
        loop = asyncio.get_running_loop()
        rounds, turns, seen = Rounds(loop), RoundRobin(loop), []

        def turn() -> bool:
            seen.append(rounds.count)
            return len(seen) < 20

        turns.ask(turn)
        while len(seen) < 20:
            await asyncio.sleep(0)
        return seen

    seen = asyncio.run(run())
    assert min(b - a for a, b in itertools.pairwise(seen)) >= ROUNDS


def test_devices_take_turns() -> None:
    async def run() -> str:
        turns, order = RoundRobin(asyncio.get_running_loop()), ""

        def device(name: str) -> Callable[[], bool]:
            def turn() -> bool:
                nonlocal order
                order += name
                return True

            return turn

        a, b = device("a"), device("b")
        for _ in range(5):  # who asks often is not called more often than the others
            turns.ask(a)
        turns.ask(b)
        while len(order) < 8:
            await asyncio.sleep(0)
        return order

    assert asyncio.run(run()) == "abababab"


class _Target:
    def listen(self, *_: object) -> None: ...


class _Device(P4Device):
    turns = 0

    def _deliver(self) -> bool:
        self.turns += 1
        return super()._deliver()


async def _flooded(turns: int) -> tuple[int, int]:
    """(turns, rounds) of a device that another thread floods all the while."""
    loop = asyncio.get_running_loop()

    async def work(function: Callable[[], Any]) -> Any:
        return function()

    device = _Device(1, _Target(), loop, work, lambda _: None, False)  # type: ignore[arg-type]
    ended = threading.Event()

    def flood() -> None:
        while not ended.is_set():
            device._post(-1, bytes(100), 0)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        rounds = Rounds(loop)
        while device.turns < turns:
            await asyncio.sleep(0)
        return device.turns, rounds.count
    finally:
        ended.set()
        thread.join()
        device.close()


def test_a_flooded_device_has_one_turn_at_a_time() -> None:
    """Each turn during which something came used to ask for one more turn, beside the one that it had already."""
    turns, rounds = asyncio.run(_flooded(50))
    assert rounds >= ROUNDS * (turns - 2)


def test_a_refused_stream_is_listened_to_slowly() -> None:
    """What is refused costs its sender time, not the event loop's."""
    size, count = 1 << 20, 3

    class Context:
        def __init__(self) -> None:
            self.sent: list[float] = []
            self.times: list[float] = []

        def peer(self) -> str:
            return "test"

        async def read(self) -> Any:
            self.times.append(asyncio.get_running_loop().time())
            if len(self.times) > count:
                await asyncio.Event().wait()
            return b"\x12" + bytes(size)  # of a packet-out, before any arbitration

        async def write(self, _: bytes) -> None:
            self.sent.append(asyncio.get_running_loop().time())

    async def run() -> Context:
        from detour.engine.p4runtime.limits import Budgets, Limits
        from detour.engine.p4runtime.requests import Reception

        budgets, context = Budgets(Limits()), Context()
        stream = asyncio.ensure_future(serve(context, lambda _: None, set(), budgets, Reception(budgets)))  # type: ignore[arg-type,return-value]
        async with asyncio.timeout(PATIENCE_S):
            while len(context.times) <= count:
                await asyncio.sleep(0.01)
        stream.cancel()
        return context

    context = asyncio.run(run())
    assert len(context.sent) == count, "each is refused at once"
    assert all(b - a >= 0.2 for a, b in zip(context.times, context.times[1:], strict=False))
