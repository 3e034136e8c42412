# SPDX-License-Identifier: Apache-2.0
"""BMv2's runtime API on a switch of the engine, as an object: for the Thrift server, and for commands in this process.

Whoever has a Thrift connection instead has the same three services (`client.Connection`), so that commands need not
know which of both they are given.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar, cast

from detour.engine.bmv2api.calls.arrays import ArrayCalls
from detour.engine.bmv2api.calls.config import ConfigCalls
from detour.engine.bmv2api.calls.multicast import MulticastCalls
from detour.engine.bmv2api.calls.profiles import ProfileCalls
from detour.engine.bmv2api.calls.tables import TableCalls
from detour.engine.bmv2api.calls.target import TargetCalls
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.interface import SERVICES, Api
from detour.engine.bmv2api.wire import methods

T = TypeVar("T")


class BmRuntime(Api):
    """See the module. Its methods may be called from any thread; each is carried out at one moment."""

    def __init__(self, device: BmDevice) -> None:
        self.device = device
        calls = _Calls(device)
        self._services = {service: _Service(service, calls) for service in SERVICES}

    def service(self, service: type[T]) -> T:
        return cast(T, self._services[service])


class _Calls(TableCalls, ProfileCalls, ArrayCalls, ConfigCalls, MulticastCalls, TargetCalls): ...


class _Service:
    """The functions of one service; the switch stands while one is carried out, but for those that stand alone."""

    def __init__(self, service: type, calls: _Calls) -> None:
        for name in methods(service):
            function = getattr(calls, name)
            setattr(self, name, function if hasattr(function, "stands_alone") else partial(_stand, calls, function))


def _stand(calls: _Calls, function, *arguments: object) -> object:  # type: ignore[no-untyped-def]
    return calls.device.run(partial(function, *arguments))
