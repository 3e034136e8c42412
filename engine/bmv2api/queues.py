# SPDX-License-Identifier: Apache-2.0
"""Depths and rates of egress queues as BMv2 sets them: of one queue, of a port, of all.

BMv2 takes settings for ports that do not exist yet; so they are kept, and given to ports that are added later.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.engine.bmv2api.device import BmDevice


@dataclass(frozen=True)
class QueueSetting:
    """A depth in packets or a rate in packets a second; None: for all ports, all priorities."""

    port: int | None
    priority: int | None
    depth: int | None = None
    rate: int | None = None


class Queues:
    """See the module."""

    def __init__(self, device: BmDevice) -> None:
        self._device = device
        self._settings: list[QueueSetting] = []

    def set_depth(self, packets: int, port: int | None = None, priority: int | None = None) -> None:
        """How many packets queues hold."""
        if packets < 0:
            raise DetourError(f"a queue of {packets} packets; a depth cannot be negative")
        self._set(QueueSetting(port, priority, depth=packets))

    def set_rate(self, packets_per_second: int, port: int | None = None, priority: int | None = None) -> None:
        """At which rate queues are emptied (0: as fast as the link)."""
        if packets_per_second < 0:
            raise DetourError(f"a queue with {packets_per_second} packets a second; a rate cannot be negative")
        self._set(QueueSetting(port, priority, rate=packets_per_second))

    def _set(self, setting: QueueSetting) -> None:
        for port in self._device.network.ports(self._device.switch):
            if setting.port in (None, port):
                self._apply(port, setting)
        # What the new one covers is over.
        self._settings = [s for s in self._settings if not _covers(setting, s)]
        self._settings.append(setting)

    def added(self, port: int) -> None:
        """A port has come: it gets what was asked for."""
        for setting in self._settings:
            if setting.port in (None, port):
                self._apply(port, setting)

    def _apply(self, port: int, setting: QueueSetting) -> None:
        at = (self._device.switch, port)
        self._device.network.set_queue(at, packets=setting.depth, rate_pps=setting.rate, priority=setting.priority)


def _covers(new: QueueSetting, old: QueueSetting) -> bool:
    same_kind = (new.depth is None) == (old.depth is None)
    return same_kind and new.port in (None, old.port) and new.priority in (None, old.priority)
