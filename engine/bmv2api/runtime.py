# SPDX-License-Identifier: Apache-2.0
"""BMv2's runtime API on a switch of the engine, as an object: for the Thrift server, and for commands in this process.

`BmRuntime` has the three services of simple_switch. Whoever has a Thrift connection instead has the same three
(`client.Connection`), so that commands need not know which of both they are given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from detour.engine.bmv2api.calls.arrays import ArrayCalls
from detour.engine.bmv2api.calls.config import ConfigCalls
from detour.engine.bmv2api.calls.multicast import MulticastCalls
from detour.engine.bmv2api.calls.part import CallPart
from detour.engine.bmv2api.calls.profiles import ProfileCalls
from detour.engine.bmv2api.calls.reading import ReadingCalls
from detour.engine.bmv2api.calls.tables import TableCalls
from detour.engine.bmv2api.calls.target import TargetCalls
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.interface import SERVICES, Api
from detour.engine.bmv2api.queues import Queues
from detour.engine.bmv2api.replication import Replicas
from detour.engine.bmv2api.wire import methods

T = TypeVar("T")


class BmRuntime(Api):
    """See the module. Its methods may be called from any thread; each is carried out at one moment."""

    def __init__(self, device: BmDevice) -> None:
        self.device = device
        replicas, queues = Replicas(device), Queues(device)
        parts: tuple[CallPart, ...] = (
            TableCalls(device),
            ProfileCalls(device),
            ReadingCalls(device),
            ArrayCalls(device),
            ConfigCalls(device, replicas, queues),
            MulticastCalls(device, replicas),
            TargetCalls(device, replicas, queues),
        )
        self._services = {service: _Service(service, device, parts) for service in SERVICES}

    def service(self, service: type[T]) -> T:
        return cast(T, self._services[service])


class _Service:
    """The functions of one service; the switch stands while one is carried out, but for those that stand alone."""

    def __init__(self, service: type, device: BmDevice, parts: tuple[CallPart, ...]) -> None:
        for name, method in methods(service).items():
            function = next(getattr(part, name) for part in parts if hasattr(part, name))
            if not hasattr(function, "stands_alone"):
                function = _standing(device, function)
            setattr(self, name, _without_context(function) if method.has_context else function)


def _standing(device: BmDevice, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: device.run(partial(function, *arguments))


def _without_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Parts do not take the context, which is always the same."""
    return lambda cxt_id, *arguments: function(*arguments)
