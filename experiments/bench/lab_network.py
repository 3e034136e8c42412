# SPDX-License-Identifier: Apache-2.0
"""Networks of `ipv4.p4` for `bench lab`: plain IPv4 hosts on switches in virtual time, routed by longest prefix.

Hosts have addresses from 10.0.0.1 on and ask nobody for MACs. Payloads are not stored, as everywhere
in virtual time where nobody reads them; lengths, times and checksums are those of whole frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from detour.base.times import US
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.fabric.backends.virtual.fabric import program
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.arrival_process import Spacing
from detour.hosts.ip.hosts import IpStack
from detour.topo import Topology
from detour.topo.graph import distances
from detour.topo.topology import Link

_BMV2_TICK_PS = 1_000_000
_STORED_BYTES = 256
ONE_SWITCH = "leaf-spine:leaves=1,spines=1,hosts=2"
LAB_DELAY_PS = 10 * US
"""of every link, as in p4sim's example"""


@dataclass(frozen=True)
class LabFlow:
    """Datagrams of `payload` bytes from host `a` to host `b`, at a constant rate of payload."""

    a: int
    b: int
    rate_bps: float
    payload: int = 1_000
    tos: int = 0


class LabNetwork:
    """Switches and hosts of a topology, ready to send. A context manager."""

    def __init__(self, topology: Topology, rate_of: Callable[[Link], int], queue_packets: int = 64) -> None:
        """`rate_of`: bits a second of a link."""
        self.topology = topology
        self.network = Network(Virtual(), _BMV2_TICK_PS, frame_bytes=_STORED_BYTES)
        self.stack = IpStack([self._config(host) for host in range(len(topology.hosts))], elide=True)
        code = program("ipv4")
        for switch in topology.switches:
            state = SwitchState(code, 1 + switch.index, _BMV2_TICK_PS)
            self.network.add_switch(switch.device_id, switch.name)
            self.network.set_pipeline(switch.device_id, code, state)
            for host, port in self._routes(switch.index):
                state.tables["Ipv4Ingress.routes"].insert(
                    ((_address_number(host), 32),), "Ipv4Ingress.forward", (topology.hosts[host].mac, port)
                )
        for link in topology.links:
            ends = [
                (topology.switches[at].device_id, port) for at, port in (link.a, link.b)[: 2 - (link.kind == "host")]
            ]
            if link.kind == "host":
                self.network.attach_stack(ends[0], self.stack, link.b[0], rate_of(link), LAB_DELAY_PS, queue_packets)
            else:
                self.network.connect(ends[0], ends[1], rate_of(link), LAB_DELAY_PS, queue_packets)

    def _config(self, host: int) -> IpHostConfig:
        mac = self.topology.hosts[host].mac.to_bytes(6, "big").hex(":")
        gateway = "10.255.255.254"
        return IpHostConfig(f"h{host}", mac, f"{_address(host)}/8", gateway, neighbours=self._neighbours(host))

    def _neighbours(self, host: int) -> dict[str, str]:
        """Whom a host will send to: MACs are the switch's business, so that any will do."""
        return {_address(other): "02:00:00:ff:ff:01" for other in range(len(self.topology.hosts)) if other != host}

    def _routes(self, switch: int) -> Iterator[tuple[int, int]]:
        """(host, port) of a switch: one of the ports that are next on shortest paths, by the host's number."""
        hops = distances(self.topology)
        ports = self.topology.switches[switch].ports
        for host in self.topology.hosts:
            if host.switch == switch:
                yield host.index, host.port
                continue
            nearer = [
                number
                for number, peer in enumerate(ports, 1)
                if peer is not None
                and peer.kind != "host"
                and hops[peer.index, host.switch] < hops[switch, host.switch]
            ]
            yield host.index, nearer[host.index % len(nearer)]

    def send(self, flow: LabFlow, packets: int, port: int = 9_093) -> None:
        """Lets a host send so many datagrams from now on."""
        self.stack.host(flow.a).udp(
            _address(flow.b),
            spacing=Spacing(flow.rate_bps, flow.payload),
            port=port,
            packets=packets,
            tos=flow.tos,
        )

    def __enter__(self) -> LabNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self.network.stop()


def _address_number(host: int) -> int:
    return (10 << 24) + host + 1


def _address(host: int) -> str:
    return ".".join(str(octet) for octet in _address_number(host).to_bytes(4, "big"))
