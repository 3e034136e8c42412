# SPDX-License-Identifier: Apache-2.0
"""A fabric of the engine's switches: one process, native hosts, one P4Runtime endpoint for all. The default."""

from __future__ import annotations

from collections.abc import Container
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import told_of
from detour.base.progress import Progress, silent
from detour.control.native import VERIFIER
from detour.engine import warm
from detour.engine.clock import RealTime
from detour.engine.endpoint import Tls
from detour.engine.network import Network
from detour.engine.p4runtime import compile_program
from detour.fabric.backends.base import address_hosts
from detour.fabric.backends.clock import WallClock
from detour.fabric.backends.network import CableTerms, NetworkFabric, lay_cables
from detour.fabric.backends.serving import Serving
from detour.fabric.backends.settings import ENGINE, BackendSettings
from detour.fabric.linux.hosts import LinuxRequest, linux_hosts
from detour.fabric.monitoring.windows import FLOW_WINDOWS
from detour.fabric.records import BackendDetails
from detour.hosts.frames.sizes import MAX_FRAME
from detour.hosts.rdma import RDMA
from detour.hosts.verbs import Device
from detour.topo import Topology
from detour.topo.topology import Link


class EngineFabric(NetworkFabric):
    target = "engine"

    def __init__(
        self,
        topology: Topology,
        settings: BackendSettings = ENGINE,
        grpc_address: str | None = None,
        tls: Tls | None = None,
        scratch: Path | None = None,
        linux: LinuxRequest | None = None,
        progress: Progress = silent,
    ) -> None:
        """`grpc_address`: where P4Runtime is served besides, with `tls` if given. `scratch`: folder for the socket,
        made and removed with the fabric (default: a temporary one). `linux`: hosts that are namespaces of Linux."""
        super().__init__(topology, settings.terms(topology), address_hosts(settings.host_arrays(topology), topology))
        self.settings = settings
        self.clock = WallClock(self._now_ps)
        with ExitStack() as opened:
            # Before anything that takes long: an address that cannot be had is told at once.
            self._serving = Serving(grpc_address, tls, scratch, progress)
            opened.callback(self._serving.close)
            self.linux = opened.enter_context(linux_hosts(linux, progress))
            warm.ensure(progress, RDMA, FLOW_WINDOWS, VERIFIER)
            progress("loading the P4 program")
            with told_of(str(self.terms.pipeline.blob)):
                compile_program(self.terms.pipeline.blob.read_bytes())  # switches find it in the cache
            longest = MAX_FRAME if self.linux is None else max(MAX_FRAME, self.linux.request.longest_frame)
            network = self._network = Network(
                RealTime(), settings.hosts.tick_ps, settings.seed, hosts=self.hs, frame_bytes=longest
            )
            opened.callback(network.stop)
            self.device = Device(self.hs, network.call, network.kick_host, self._now_ps)
            self._lay_cables(network)
            progress(f"starting {len(topology.switches)} switches")
            network.start()
            self._serving.serve(network, topology.switches)
            self._opened = opened.pop_all()

    def _lay_cables(self, network: Network) -> None:
        settings = self.settings
        for switch in self.topology.switches:
            network.add_switch(switch.device_id, switch.name, priorities=settings.priorities)

        def cable(link: Link) -> CableTerms:
            delay = settings.delay_ps if link.delay_ps is None else link.delay_ps
            return round(settings.rate_bps * link.speed), delay, settings.queue_packets

        lay_cables(network, self.topology, cable, self.linux)
        network.set_jitter(packet_bytes=PACKET_BYTES)
        self._lose(settings.loss)

    def close(self) -> None:
        self._network = None
        super().close()

    def details(self) -> BackendDetails:
        if self.linux is None:
            return super().details()
        links = (link for link in self.topology.links if link.kind == "host")
        ports = {self.topology.hosts[link.b[0]].name: self.link_ends(link.index)[0] for link in links}
        return replace(super().details(), linux=self.linux.details(self.network, ports))

    def capture(self, folder: Path | None, only: Container[str] | None = None) -> None:
        if self._network is not None:
            super().capture(folder, only)
