# SPDX-License-Identifier: Apache-2.0
"""A fabric of the engine's switches: one process, native hosts, one P4Runtime endpoint on loopback. The default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detour.control.client import Pipeline, Target
from detour.engine import warm
from detour.engine.clock import RealTime
from detour.engine.network import Network
from detour.engine.p4runtime.server import P4RuntimeServer
from detour.engine.p4runtime.target import compile_program
from detour.fabric.base import Fabric, PortState, Tell, silent
from detour.fabric.settings import ENGINE, Settings
from detour.hosts.verbs import Device
from detour.topo import Topology


class EngineFabric(Fabric):
    """See the module."""

    target = "engine"

    def __init__(self, topology: Topology, settings: Settings = ENGINE, grpc_address: str = "127.0.0.1:0") -> None:
        """`grpc_address`: where P4Runtime is served; port 0: any that is free."""
        super().__init__(topology, settings)
        self._grpc_address = grpc_address
        self._network: Network | None = None
        self._server: P4RuntimeServer | None = None

    @property
    def network(self) -> Network:
        """The running network."""
        assert self._network is not None
        return self._network

    # -- life -------------------------------------------------------------------------------------------

    def start(self, tell: Tell = silent) -> None:
        try:
            warm.ensure(tell)
            tell("loading the P4 program")
            compile_program(Pipeline.fabric().blob.read_bytes())  # switches find it in the cache
            self._build()
            tell(f"starting {len(self.topology.switches)} switches")
            self.network.start()
            self._server = P4RuntimeServer(self.network, self._grpc_address)
            for switch in self.topology.switches:
                self._server.add_device(switch.device_id)
            self._server.start()
        except BaseException:
            self.close()
            raise

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
        if self._network is not None:
            self._network.stop()
            self._network = None

    # -- while it runs ----------------------------------------------------------------------------------

    def targets(self) -> list[Target]:
        assert self._server is not None
        return [Target(s.name, s.device_id, self._server.target) for s in self.topology.switches]

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
        return {"lag_ms": self.network.lag_ps / 1e9}
