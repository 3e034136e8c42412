# SPDX-License-Identifier: Apache-2.0
"""Brings switches to what a plan wants: reads back everything, writes only differences. And keeps the connections to
them: one that is lost is made anew, and its owner then brings the switch, which may have lost everything, to what it
has to hold.

A controller that has been displaced by another one keeps its connection and is not meant here: what the other one wrote
is not undone behind its back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, astuple, dataclass

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.control.entries import Difference, Entity, Plan, difference
from detour.control.groups import grouped, ungrouped
from detour.control.p4runtime.client import FabricClient, SwitchClient
from detour.control.p4runtime.codec import Codec


@dataclass(frozen=True)
class Written:
    """Numbers of entities that are new, have changed, are gone, and were already right."""

    inserted: int = 0
    modified: int = 0
    deleted: int = 0
    unchanged: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(*map(int.__add__, astuple(self), astuple(other)))

    @property
    def entries(self) -> int:
        """Entities that are on the switches now."""
        return self.inserted + self.modified + self.unchanged

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def updates(codec: Codec, change: Difference) -> list[p4r.Update]:
    """The updates for a difference, insertions first: a longer prefix is in place before the shorter one goes."""
    return [
        *(codec.insert(entity) for entity in change.insert),
        *(codec.modify(entity) for entity in change.modify),
        *(codec.delete(entity) for entity in change.delete),
    ]


async def reconcile_switch(switch: SwitchClient, target: list[Entity]) -> Written:
    """Write what `target` and the switch differ in. Raises `DetourError`: the switch refuses an update or is gone."""
    held = await switch.read_stored()
    change = difference(ungrouped(held), target)
    stored = grouped(target, held, switch.codec.profiles)
    await switch.write(updates(switch.codec, difference(held, stored)))
    fresh, changed = len(change.insert), len(change.modify)
    return Written(fresh, changed, len(change.delete), len(target) - fresh - changed)


async def reconcile(fabric: FabricClient, plan: Plan) -> Written:
    """The same for all switches of a plan, concurrently. A second run writes nothing."""
    done = await fabric.each(lambda s: reconcile_switch(s, plan[s.target.device_id]), list(plan))
    return sum(done.values(), Written())


FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0  # between two attempts to reach a switch

Returned = Callable[[SwitchClient], Awaitable[None]]
"""called when a switch is connected again; a DetourError means that it is to be called again later"""


class Keeper:
    """See the module. Made and used in the event loop of the client.

    `lost`: switches that are not reached, or do not hold again what they must, and why; by name."""

    def __init__(self, switches: Iterable[SwitchClient], returned: Returned) -> None:
        self._returned = returned
        self.lost: dict[str, str] = {}
        self._tasks = [asyncio.create_task(self._keep(switch)) for switch in switches]

    async def close(self) -> None:
        """Keep no connection any more."""
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
