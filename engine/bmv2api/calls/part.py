# SPDX-License-Identifier: Apache-2.0
"""What the functions of all services share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from detour.engine.bmv2api.calls.keys import refused
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.queues import EgressQueues
from detour.engine.bmv2api.replication import Replicas
from detour.engine.bmv2api.types import TableCode
from detour.engine.tables import MatchTable

C = TypeVar("C", bound=Callable[..., object])


class CallPart:
    """Functions on one switch, some of a service's. They are called while the switch stands, but for those marked
    `alone`. Contexts, which are always the same, are not passed."""

    def __init__(self, device: BmDevice) -> None:
        self.device, self.queues = device, EgressQueues(device)
        self._replicas = Replicas(device)

    @property
    def replicas(self) -> Replicas:
        """Multicast groups and mirroring sessions, with what was changed elsewhere."""
        self._replicas.follow()
        return self._replicas

    def table(self, name: str) -> MatchTable:
        """Any table."""
        table = self.device.state.tables.get(name)
        if table is None:
            raise refused(TableCode.INVALID_TABLE_NAME)
        return table


def alone(function: C) -> C:
    """Marks a function that takes long, or that runs what it does to the switch by itself."""
    function.stands_alone = True  # type: ignore[attr-defined]
    return function
