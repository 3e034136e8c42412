# SPDX-License-Identifier: Apache-2.0
"""Helpers for the functions of all services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from detour.base.errors import DetourError
from detour.engine.bmv2api.calls.keys import refused
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.replication import Replicas
from detour.engine.bmv2api.types import TableCode
from detour.engine.tables import MatchTable

C = TypeVar("C", bound=Callable[..., object])


@dataclass(frozen=True)
class QueueSetting:
    """A depth in packets or a rate in packets a second (0: as fast as the link); None: of all ports, all priorities."""

    port: int | None
    priority: int | None
    depth: int | None = None
    rate: int | None = None

    def covers(self, old: QueueSetting) -> bool:
        """Return whether it leaves nothing of another one."""
        same_kind = (self.depth is None) == (old.depth is None)
        return same_kind and self.port in (None, old.port) and self.priority in (None, old.priority)


class EgressQueues:
    """Depths and rates of egress queues as BMv2 sets them: of one queue, of a port, of all. BMv2 takes settings for
    ports that do not exist yet; so they are kept, and given to ports that are added later."""

    def __init__(self, device: BmDevice) -> None:
        self._device = device
        self._settings: list[QueueSetting] = []

    def set(self, setting: QueueSetting) -> int:
        """Return BMv2's code for success."""
        if (setting.depth or 0) < 0:
            raise DetourError(f"a queue of {setting.depth} packets; a depth cannot be negative")
        if (setting.rate or 0) < 0:
            raise DetourError(f"a queue with {setting.rate} packets a second; a rate cannot be negative")
        for port in self._device.network.ports(self._device.switch):
            self._apply(port, setting)
        self._settings = [old for old in self._settings if not setting.covers(old)] + [setting]
        return 0

    def added(self, port: int) -> None:
        """A port has come: it gets what was asked for."""
        for setting in self._settings:
            self._apply(port, setting)

    def _apply(self, port: int, setting: QueueSetting) -> None:
        if setting.port in (None, port):
            at = (self._device.switch, port)
            self._device.network.set_queue(at, packets=setting.depth, rate_pps=setting.rate, priority=setting.priority)


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
    """Mark a function that takes long, or that runs what it does to the switch by itself."""
    function.stands_alone = True  # type: ignore[attr-defined]
    return function
