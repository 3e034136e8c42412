# SPDX-License-Identifier: Apache-2.0
"""Servers by which the engine's switches are programmed: P4Runtime and BMv2's runtime API on UNIX sockets in a folder
of this user's, and P4Runtime besides at another address, if one is asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from detour.base.addresses import UnixAddress, too_long
from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.base.tcp_listener import PATIENCE_S
from detour.control.p4runtime.client import SwitchTarget
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.bmv2api.server import ThriftServer
from detour.engine.endpoint import GrpcEndpoint, Tls
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from detour.fabric.backends.base import made_folder
from detour.fabric.records import ServedAt
from detour.topo import Switch

_SOCKET = "p4rt.sock"
_THRIFT = "bmv2.sock"


class Serving:
    """See the module. The addresses are taken when it is made; who connects is refused until `serve`."""

    def __init__(
        self,
        address: str | None = None,
        tls: Tls | None = None,
        scratch: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        """`address`: where else, with `tls` if given. `scratch`: folder for the sockets, made here and removed by
        `close` (default: a temporary one). Raises DetourError: an address cannot be had."""
        self._tls = tls
        self._progress = silent if address is None else progress
        self.server: P4RuntimeServer | None = None
        with ExitStack() as opened:
            folder = made_folder(scratch)
            opened.callback(shutil.rmtree, folder, ignore_errors=True)
            if why := too_long(folder / _SOCKET):
                raise DetourError(f"P4Runtime: {folder / _SOCKET}: {why} with XDG_RUNTIME_DIR or TMPDIR")
            self._endpoint = GrpcEndpoint(address, tls, folder / _SOCKET)
            self._endpoint.bind(PATIENCE_S, progress)
            opened.callback(self._endpoint.stop)
            self._served = opened.enter_context(ExitStack())
            self._thrift = opened.enter_context(ThriftServer(UnixAddress(folder / _THRIFT)))
            self._thrift.bind()
            self._opened = opened.pop_all()

    def serve(self, network: Network, switches: Iterable[Switch]) -> None:
        """Serve these switches of a network."""
        switches = list(switches)
        self.server = P4RuntimeServer(network, self._endpoint)
        for switch in switches:
            self.server.add_device(switch.device_id)
        self._served.callback(self.server.stop)
        self.server.start()
        self._progress(f"P4Runtime: {self._endpoint.reach()}")
        devices = {switch.name: BmDevice(network, switch.device_id, self.server) for switch in switches}
        self._thrift.serve({name: BmRuntime(device) for name, device in devices.items()})

    def targets(self, switches: Iterable[Switch]) -> list[SwitchTarget]:
        """Return where this user's own programs find them."""
        return [SwitchTarget(s.name, s.device_id, self._endpoint.private_target) for s in switches]

    def addresses(self, switches: Iterable[Switch]) -> dict[str, str]:
        """Return where everybody else does, by the switches' names."""
        return dict.fromkeys((switch.name for switch in switches), self._endpoint.target)

    def details(self) -> ServedAt:
        """Return the part of `detour status` on endpoints."""
        at = self._endpoint
        return ServedAt(at.private_target, at.target, self._tls is not None, at.reach(), self._thrift.target)

    def close(self) -> None:
        """End it and leave nothing behind. May be called twice."""
        self._opened.close()
