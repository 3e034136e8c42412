# SPDX-License-Identifier: Apache-2.0
"""Where the engine's switches are programmed: P4Runtime and BMv2's runtime API on UNIX sockets in a folder of this
user's, and P4Runtime besides at another address, if one is asked for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from msgspec import UNSET, UnsetType

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
from detour.fabric.records import ServedAt
from detour.topo import Switch

_SOCKET = "p4rt.sock"
_THRIFT = "bmv2.sock"


class Serving:
    """See the module. `listen`, then `serve`, then `close`."""

    def __init__(self, address: str | None = None, tls: Tls | None = None, scratch: Path | None = None) -> None:
        """`address`: where else, with `tls` if given. `scratch`: folder for the socket, made by `listen` and removed by
        `close` (default: a temporary one)."""
        self._address, self._tls, self._scratch = address, tls, scratch
        self._folder: Path | None = None
        self._progress: Progress = silent
        self._endpoint: GrpcEndpoint | None = None
        self._thrift: ThriftServer | None = None
        self.server: P4RuntimeServer | None = None

    def listen(self, progress: Progress) -> None:
        """Takes the addresses; who connects is refused until they are served. Raises DetourError: one cannot be had."""
        if self._scratch is None:
            self._folder = Path(tempfile.mkdtemp(prefix="detour-fabric-"))
        else:
            self._scratch.mkdir(mode=0o700)
            self._folder = self._scratch
        if why := too_long(self._folder / _SOCKET):
            raise DetourError(f"P4Runtime: {self._folder / _SOCKET}: {why} with XDG_RUNTIME_DIR or TMPDIR")
        endpoint = GrpcEndpoint(self._address, self._tls, self._folder / _SOCKET)
        endpoint.bind(PATIENCE_S, progress)
        self._endpoint = endpoint
        self._thrift = ThriftServer(UnixAddress(self._folder / _THRIFT))
        self._thrift.bind()
        self._progress = progress

    def serve(self, network: Network, switches: Iterable[Switch]) -> None:
        """Serves these switches of a network."""
        assert self._endpoint is not None
        assert self._thrift is not None
        switches = list(switches)
        self.server = P4RuntimeServer(network, self._endpoint)
        for switch in switches:
            self.server.add_device(switch.device_id)
        self.server.start()
        if self._address is not None:
            self._progress(f"P4Runtime: {self._endpoint.reach()}")
        devices = {switch.name: BmDevice(network, switch.device_id, self.server) for switch in switches}
        self._thrift.serve({name: BmRuntime(device) for name, device in devices.items()})

    def targets(self, switches: Iterable[Switch]) -> list[SwitchTarget]:
        """Where this user's own programs find them."""
        assert self._endpoint is not None
        return [SwitchTarget(s.name, s.device_id, self._endpoint.private_target) for s in switches]

    def addresses(self, switches: Iterable[Switch]) -> dict[str, str]:
        """Where everybody else does, by the switches' names."""
        assert self._endpoint is not None
        return dict.fromkeys((switch.name for switch in switches), self._endpoint.target)

    def details(self) -> ServedAt | UnsetType:
        """What `detour status` says of it."""
        at, thrift = self._endpoint, self._thrift
        if at is None or thrift is None:
            return UNSET
        return ServedAt(at.private_target, at.target, self._tls is not None, at.reach(), thrift.target)

    def close(self) -> None:
        """Ends it and leaves nothing behind. May be called twice."""
        if self._thrift is not None:
            self._thrift.stop()
            self._thrift = None
        if self.server is not None:
            self.server.stop()
            self.server = None
        if self._endpoint is not None:
            self._endpoint.stop()
            self._endpoint = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
