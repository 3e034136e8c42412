# SPDX-License-Identifier: Apache-2.0
"""A fabric of the engine's switches: one process, native hosts, one P4Runtime endpoint for all. The default.

P4Runtime is served on a UNIX socket in a folder of this user's; at another address besides, if one is asked for.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from detour.base.addresses import too_long
from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.base.tcp_place import PATIENCE_S
from detour.control.p4runtime.client import PipelineConfig, SwitchTarget
from detour.engine import warm
from detour.engine.clock import RealTime
from detour.engine.endpoint import GrpcEndpoint, Tls
from detour.engine.network import Network
from detour.engine.p4runtime.server import P4RuntimeServer
from detour.engine.p4runtime.target import compile_program
from detour.fabric.footings.base import Fabric, PortState
from detour.fabric.footings.settings import ENGINE, FootingSettings
from detour.hosts.verbs.verbs import Device
from detour.topo import Topology

_SOCKET = "p4rt.sock"


class EngineFabric(Fabric):
    """See the module."""

    target = "engine"

    def __init__(
        self,
        topology: Topology,
        settings: FootingSettings = ENGINE,
        grpc_address: str | None = None,
        tls: Tls | None = None,
        scratch: Path | None = None,
    ) -> None:
        """`grpc_address`: where P4Runtime is served besides, with `tls` if given. `scratch`: folder for the socket,
        made and removed with the fabric (default: a temporary one)."""
        super().__init__(topology, settings)
        self._grpc_address, self._tls, self._scratch = grpc_address, tls, scratch
        self._folder: Path | None = None
        self._endpoint: GrpcEndpoint | None = None
        self._network: Network | None = None
        self._server: P4RuntimeServer | None = None

    @property
    def network(self) -> Network:
        """The running network."""
        assert self._network is not None
        return self._network

    # -- life -------------------------------------------------------------------------------------------

    def start(self, tell: Progress = silent) -> None:
        try:
            self._listen(tell)
            warm.ensure(tell)
            tell("loading the P4 program")
            compile_program(PipelineConfig.fabric().blob.read_bytes())  # switches find it in the cache
            self._build()
            tell(f"starting {len(self.topology.switches)} switches")
            self.network.start()
            assert self._endpoint is not None
            self._server = P4RuntimeServer(self.network, self._endpoint)
            for switch in self.topology.switches:
                self._server.add_device(switch.device_id)
            self._server.start()
        except BaseException:
            self.close()
            raise

    def _listen(self, tell: Progress) -> None:
        """Before anything that takes long: an address that cannot be had is told at once."""
        if self._scratch is None:
            self._folder = Path(tempfile.mkdtemp(prefix="detour-fabric-"))
        else:
            self._scratch.mkdir(mode=0o700)
            self._folder = self._scratch
        if why := too_long(self._folder / _SOCKET):
            raise DetourError(f"P4Runtime: {self._folder / _SOCKET}: {why} with XDG_RUNTIME_DIR or TMPDIR")
        endpoint = GrpcEndpoint(self._grpc_address, self._tls, self._folder / _SOCKET)
        endpoint.bind(PATIENCE_S, tell)
        self._endpoint = endpoint
        if self._grpc_address is not None:
            tell(f"P4Runtime: {endpoint.reach()}")

    def _build(self) -> None:
        settings = self.settings
        tick = settings.hosts.tick_ps
        network = self._network = Network(RealTime(), tick, settings.seed, hosts=self.hs)
        self.device = Device(self.hs, network.call, network.kick_host, lambda: network.now_ps)
        for switch in self.topology.switches:
            network.add_switch(switch.device_id, switch.name, priorities=settings.priorities)
        cable = settings.rate_bps, settings.delay_ps, settings.queue_packets
        for link in self.topology.links:
            ends = self.link_ends(link.index)
            if link.kind == "host":
                network.attach_host(ends[0], link.b[0], *cable)
            else:
                network.connect(ends[0], ends[1], *cable)

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._endpoint is not None:
            self._endpoint.stop()
            self._endpoint = None
        if self._network is not None:
            self._network.stop()
            self._network = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    # -- while it runs ----------------------------------------------------------------------------------

    def targets(self) -> list[SwitchTarget]:
        assert self._endpoint is not None
        return [SwitchTarget(s.name, s.device_id, self._endpoint.private_target) for s in self.topology.switches]

    def addresses(self) -> dict[str, str]:
        assert self._endpoint is not None
        return dict.fromkeys((switch.name for switch in self.topology.switches), self._endpoint.target)

    def set_link(self, link: int, up: bool) -> None:
        self.network.set_link(self.link_ends(link)[0], up)

    def throttle(self, link: int, share: float) -> None:
        for end in self.link_ends(link):
            self.network.set_rate(end, max(1, round(self.settings.rate_bps * share)))

    def ports(self) -> dict[tuple[int, int], PortState]:
        stats = self.network.port_stats()
        names = ("device_id", "port", "up", "queue_packets", "queue_peak_packets", "queue_drops")
        rows = zip(*(stats[name].tolist() for name in names), strict=True)
        return {(device, port): PortState(bool(up), *rest) for device, port, up, *rest in rows}

    @property
    def now_ps(self) -> int:
        return self.network.now_ps

    def capture(self, folder: Path | None) -> None:
        if self._network is not None:
            self._network.capture(folder)

    def check(self) -> None:
        self.network.check()

    def first_step(self) -> None:
        self.network.call(lambda: None)  # the loop's thread does it between two steps
        self.check()

    def details(self) -> dict[str, Any]:
        return {"lag_ms": self.network.lag_ps / 1e9} | self._serving()

    def _serving(self) -> dict[str, Any]:
        if self._endpoint is None:
            return {}
        found = {"socket": self._endpoint.private_target, "address": self._endpoint.target}
        return {"p4runtime": found | {"tls": self._tls is not None, "reach": self._endpoint.reach()}}
