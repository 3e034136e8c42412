# SPDX-License-Identifier: Apache-2.0
"""Brings switches to what a plan wants: reads back everything, writes only differences."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from finsy.proto import p4r

from detour.control.entries import Difference, Entity, Plan, difference
from detour.control.p4runtime.client import FabricClient, SwitchClient
from detour.control.p4runtime.codec import Codec


@dataclass(frozen=True)
class Written:
    """How many entities were written, and how many were already right."""

    inserted: int = 0
    modified: int = 0
    deleted: int = 0
    unchanged: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(
            self.inserted + other.inserted,
            self.modified + other.modified,
            self.deleted + other.deleted,
            self.unchanged + other.unchanged,
        )

    @property
    def entries(self) -> int:
        """Entities that are on the switches now."""
        return self.inserted + self.modified + self.unchanged

    @property
    def writes(self) -> int:
        """Entities that differed."""
        return self.inserted + self.modified + self.deleted

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def updates(codec: Codec, change: Difference) -> list[p4r.Update]:
    """The updates for a difference, insertions first: a longer prefix is in place before the shorter one goes."""
    return [
        *(codec.insert(entity) for entity in change.insert),
        *(codec.modify(entity) for entity in change.modify),
        *(codec.delete(entity) for entity in change.delete),
    ]


async def reconcile_switch(switch: SwitchClient, wanted: list[Entity]) -> Written:
    """Writes what `wanted` and the switch differ in.

    Raises:
        DetourError: the switch refuses an update or is gone.
    """
    change = difference(await switch.read(), wanted)
    await switch.write(updates(switch.codec, change))
    fresh, changed = len(change.insert), len(change.modify)
    return Written(fresh, changed, len(change.delete), len(wanted) - fresh - changed)


async def reconcile(fabric: FabricClient, plan: Plan) -> Written:
    """The same for all switches of a plan, concurrently. A second run writes nothing."""
    done = await fabric.each(lambda s: reconcile_switch(s, plan[s.target.device_id]), list(plan))
    return sum(done.values(), Written())
