# SPDX-License-Identifier: Apache-2.0
"""A fabric of the engine's switches: one process, native hosts, one P4Runtime endpoint for all. The default."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from msgspec.structs import replace

from detour.base.dataplane import PACKET_BYTES
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
from detour.fabric.linux.hosts import LinuxHosts, LinuxRequest, end
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
    ) -> None:
        """`grpc_address`: where P4Runtime is served besides, with `tls` if given. `scratch`: folder for the socket,
        made and removed with the fabric (default: a temporary one). `linux`: hosts that are namespaces of Linux."""
        super().__init__(topology, settings.terms(topology), address_hosts(settings.host_arrays(topology), topology))
        self.settings = settings
        self.clock = WallClock(self._now_ps)
        self._serve_at = grpc_address, tls, scratch
        if linux is not None and linux.interfaces:
            self.linux = LinuxHosts(linux)

    # -- life -------------------------------------------------------------------------------------------

    def start(self, progress: Progress = silent) -> None:
        try:
            # Before anything that takes long: an address that cannot be had is told at once.
            serving = self._serving = Serving(*self._serve_at, progress)
            if self.linux is not None:
                progress("making namespaces")
                self.linux.start()
            warm.ensure(progress, RDMA, FLOW_WINDOWS, VERIFIER)
            progress("loading the P4 program")
            compile_program(self.terms.pipeline.blob.read_bytes())  # switches find it in the cache
            self._build()
            progress(f"starting {len(self.topology.switches)} switches")
            self.network.start()
            serving.serve(self.network, self.topology.switches)
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        settings = self.settings
        longest = MAX_FRAME if self.linux is None else max(MAX_FRAME, self.linux.request.longest_frame)
        network = self._network = Network(
            RealTime(), settings.hosts.tick_ps, settings.seed, hosts=self.hs, frame_bytes=longest
        )
        self.device = Device(self.hs, network.call, network.kick_host, self._now_ps)
        for switch in self.topology.switches:
            network.add_switch(switch.device_id, switch.name, priorities=settings.priorities)

        def cable(link: Link) -> CableTerms:
            delay = settings.delay_ps if link.delay_ps is None else link.delay_ps
            return round(settings.rate_bps * link.speed), delay, settings.queue_packets

        lay_cables(network, self.topology, cable, self.linux)
        network.set_jitter(packet_bytes=PACKET_BYTES)
        self._lose(settings.loss)

    def close(self) -> None:
        super().close()
        network, self._network = self._network, None
        end(network, self.linux)

    def details(self) -> BackendDetails:
        if self.linux is None:
            return super().details()
        links = (link for link in self.topology.links if link.kind == "host")
        ports = {self.topology.hosts[link.b[0]].name: self.link_ends(link.index)[0] for link in links}
        return replace(super().details(), linux=self.linux.details(self.network, ports))

    def capture(self, folder: Path | None, only: Container[str] | None = None) -> None:
        if self._network is not None:
            super().capture(folder, only)
