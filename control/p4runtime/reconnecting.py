# SPDX-License-Identifier: Apache-2.0
"""Keeps the connections to the switches of a fabric: one that is lost is made anew, and its owner then brings the
switch, which may have lost everything, to what it has to hold.

A controller that has been displaced by another one keeps its connection and is not meant here: what the other one wrote
is not undone behind its back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from detour.base.errors import DetourError
from detour.control.p4runtime.client import SwitchClient

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
"""between two attempts to reach a switch"""

Returned = Callable[[SwitchClient], Awaitable[None]]
"""called when a switch is connected again; a DetourError means that it is to be called again later"""


class Keeper:
    """See the module. Made and used in the event loop of the client.

    `lost`: switches that are not reached, or do not hold again what they must, and why; by name.
    """

    def __init__(self, switches: Iterable[SwitchClient], returned: Returned) -> None:
        self._returned = returned
        self.lost: dict[str, str] = {}
        self._tasks = [asyncio.create_task(self._keep(switch)) for switch in switches]

    async def close(self) -> None:
        """Keeps no connection any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, switch: SwitchClient) -> None:
        while True:
            await switch.lost.wait()
            self.lost[switch.name] = "the connection is lost"
            await self._bring_back(switch)
            del self.lost[switch.name]

    async def _bring_back(self, switch: SwitchClient) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                if switch.lost.is_set():
                    await switch.reopen()
                await self._returned(switch)
                return
            except DetourError as error:
                self.lost[switch.name] = str(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
