# SPDX-License-Identifier: Apache-2.0
"""What the parts of the services share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from detour.engine.bmv2api.calls.keys import refused
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.replication import Replicas
from detour.engine.bmv2api.types import TableCode
from detour.engine.tables import MatchTable

C = TypeVar("C", bound=Callable[..., object])


class CallPart:
    """Acts on one switch. Its methods are called while the switch stands, but for those marked `alone`."""

    def __init__(self, device: BmDevice) -> None:
        self.device = device

    def table(self, name: str) -> MatchTable:
        """Any table."""
        found = self.device.state.tables.get(name)
        if found is None:
            raise refused(TableCode.INVALID_TABLE_NAME)
        return found


class ReplicaPart(CallPart):
    """One that acts on multicast groups or mirroring sessions."""

    def __init__(self, device: BmDevice, replicas: Replicas) -> None:
        super().__init__(device)
        self._kept = replicas

    @property
    def replicas(self) -> Replicas:
        """With what was changed elsewhere."""
        self._kept.follow()
        return self._kept


def alone(function: C) -> C:
    """Marks a method that stands for itself: it takes long, or takes turns by its own."""
    function.stands_alone = True  # type: ignore[attr-defined]
    return function
