# SPDX-License-Identifier: Apache-2.0
"""The network that fabrics of the engine's switches share, in real time and in virtual time, with its operations."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from detour.base.errors import DetourError
from detour.engine.network import Network
from detour.fabric.backends.base import Fabric, switch_ends
from detour.fabric.records import BackendDetails, PortState
from detour.topo import Topology
from detour.topo.topology import Link

if TYPE_CHECKING:  # see `base`
    from detour.control.p4runtime.client import SwitchTarget
    from detour.engine.p4runtime import StreamClient
    from detour.fabric.backends.serving import Serving
    from detour.fabric.linux.hosts import LinuxHosts

CableTerms = tuple[int, ...]
"""rate in bits a second, delay in ps and, where ports have queues of their own, their depth in packets"""


def lay_cables(
    network: Network, topology: Topology, cable: Callable[[Link], CableTerms | None], linux: LinuxHosts | None = None
) -> None:
    """Connect the switches and native hosts of a topology, in the order of its links. `cable`: what that of a link is
    like; None: it gets none. `linux`: hosts that are none of ours, whose namespaces are there."""
    for link in topology.links:
        ends, terms = switch_ends(topology, link), cable(link)
        if terms is None:
            continue
        if link.kind == "host":
            name = topology.hosts[link.b[0]].name
            if linux is not None and name in linux:
                network.attach_linux_host(ends[0], linux.opened(name), *terms)
                linux.configure(name)
            else:
                network.attach_host(ends[0], link.b[0], *terms)
        else:
            network.connect(ends[0], ends[1], *terms)


class NetworkFabric(Fabric):
    _serving: Serving | None = None
    _network: Network | None = None

    @property
    def network(self) -> Network:
        """The network, which in virtual time can be read after `close` as well. Raises DetourError: there is none (any
        more)."""
        if self._network is None:
            raise DetourError("the fabric is going down")
        return self._network

    def _now_ps(self) -> int:
        return self.network.now_ps

    # -- P4Runtime --------------------------------------------------------------------------------------

    @property
    def serving(self) -> Serving:
        """Return where P4Runtime is served. Raises DetourError: nowhere."""
        if self._serving is None:
            raise DetourError("this fabric serves no P4Runtime")
        return self._serving

    def targets(self) -> list[SwitchTarget]:
        return self.serving.targets(self.topology.switches)

    def addresses(self) -> dict[str, str]:
        return self.serving.addresses(self.topology.switches)

    def p4runtime_clients(self, device_id: int) -> list[StreamClient] | None:
        server = self.serving.server
        return None if server is None else server.clients(device_id)

    def table_writes(self) -> Mapping[int, int] | None:
        server = self.serving.server
        return None if server is None else server.table_writes

    def details(self) -> BackendDetails:
        where = UNSET if self._serving is None else self._serving.details()
        return BackendDetails(lag_ms=self.network.lag_ps / 1e9, p4runtime=where)

    # -- links ------------------------------------------------------------------------------------------

    def set_link(self, link: int, up: bool) -> None:
        self.network.set_link(self.link_ends(link)[0], up)

    def throttle(self, link: int, fraction: float) -> None:
        rate = self.terms.rate_bps * self.topology.links[link].speed * fraction
        for end in self.link_ends(link):
            self.network.set_rate(end, max(1, round(rate)))

    def set_loss(self, link: int, fraction: float) -> None:
        self.network.set_faults(self.link_ends(link)[0], loss=fraction)

    def _lose(self, fraction: float) -> None:
        """All links between switches lose that fraction of their frames."""
        for link in self.topology.links:
            if fraction and link.kind != "host":
                self.set_loss(link.index, fraction)

    # -- what can be seen -------------------------------------------------------------------------------

    def ports(self) -> dict[tuple[int, int], PortState]:
        stats = self.network.port_stats()
        names = ("device_id", "port", "up", "queue_packets", "queue_peak_packets", "queue_drops")
        rows = zip(*(stats[name].tolist() for name in names), strict=True)
        states = {(device, port): PortState(bool(up), *rest) for device, port, up, *rest in rows}
        return {end: states[end] for link in self.topology.links for end in self.link_ends(link.index)}

    def capture(self, folder: Path | None, only: Container[str] | None = None) -> None:
        self.network.capture(folder, only)

    def capture_error(self) -> str | None:
        return self.network.capture_error

    def check(self) -> None:
        self.network.check()

    def first_step(self) -> None:
        self.network.call(lambda: None)  # the loop's thread does it between two steps
        self.check()
