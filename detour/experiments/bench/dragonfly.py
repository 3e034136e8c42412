# SPDX-License-Identifier: Apache-2.0
"""The paper's Dragonfly in this process, programmed without P4Runtime: what the benchmarks send packets through;
and the packets that its hosts send.

Switches, entries and cables are made as those of the backends are; but there are no hosts, which a `Fabric` has.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence

from detour.control.entries import Plan
from detour.control.planner import plan
from detour.engine.clock import Clock
from detour.engine.network import Network
from detour.fabric.backends.network import lay_cables
from detour.fabric.backends.virtual.fabric import program
from detour.fabric.backends.virtual.load import install
from detour.hosts.frames.sizes import ETHERNET, IPV6, TRANSIT, UDP
from detour.topo import Switch, Topology, address, parse_topology
from detour.topo.topology import Host

MOST_HOPS = 255
_NO_NEXT_HEADER = 59
_ECT0 = 2
_NON_SHORTEST = 0x8000
_ROCE = 4791


def frame(source: Host, destination: int, source_port: int, size: int, hop_limit: int = 64) -> bytes:
    """A packet of `size` bytes to an IPv6 address (a host's, or a uSID list), capable of ECN.

    It carries the Transit Measurement option and UDP. Where `size` has no room for both, UDP is left out if a uSID
    list chooses the path anyway, and the option otherwise.
    """
    usids = destination >> 96 == address.USID_BLOCK
    roomy = size >= ETHERNET + IPV6 + TRANSIT + UDP
    transit, udp = roomy or usids, roomy or not usids
    after = b""
    if transit:
        after += struct.pack("!BBBBI", 17 if udp else _NO_NEXT_HEADER, 0, 0x3E, 4, 0)
    if udp:
        length = size - ETHERNET - IPV6 - len(after)
        after += struct.pack("!HHHH", source_port, _ROCE, length, 0)
    payload = size - ETHERNET - IPV6
    first = 0 if transit else 17
    ipv6 = struct.pack("!IHBB", 6 << 28 | _ECT0 << 20 | source_port, payload, first, hop_limit)
    ipv6 += source.address.to_bytes(16, "big") + destination.to_bytes(16, "big")
    macs = address.GATEWAY_MAC.to_bytes(6, "big") + source.mac.to_bytes(6, "big")
    head = macs + b"\x86\xdd" + ipv6 + after
    return head + bytes(number & 0xFF for number in range(size - len(head)))


def through_switch(topology: Topology, size: int, count: int = 64, seed: int = 1) -> list[bytes]:
    """Return the frames that host 0 sends into its switch: half of it by uSID lists that begin with this switch, the
    rest to addresses, of which half by non-shortest paths. All of it leaves by other ports."""
    random_numbers = random.Random(seed)
    source = topology.hosts[0]
    own = topology.switches[source.switch].node_id
    others = [host for host in topology.hosts if host.index != source.index]
    frames = []
    for number in range(count):
        target = random_numbers.choice(others)
        port = random_numbers.randrange(0x8000) | (_NON_SHORTEST if number % 4 == 1 else 0)
        there = topology.switches[target.switch].node_id
        usids = [own, target.node_id] if there == own else [own, there, target.node_id]
        destination = target.address if number % 2 else address.usid_address(usids)
        frames.append(frame(source, destination, port, size))
    return frames


def partners(topology: Topology) -> list[tuple[Host, Host]]:
    """Every host once, with one half the network away."""
    half = len(topology.hosts) // 2
    return [(topology.hosts[index], topology.hosts[index + half]) for index in range(half)]


def between(pairs: Sequence[tuple[Host, Host]], size: int, count: int, seed: int = 1) -> list[tuple[Host, bytes]]:
    """`count` packets that live long: (host from which it starts, packet) between partners, half of it by non-shortest
    paths. Where partners' ports are cabled to each other, a packet that arrives sets out again."""
    random_numbers = random.Random(seed)
    frames = []
    for number in range(count):
        one, other = pairs[number % len(pairs)][:: 1 if number // len(pairs) % 2 else -1]
        port = random_numbers.randrange(0x8000) | (_NON_SHORTEST if random_numbers.random() < 0.5 else 0)
        frames.append((one, frame(one, other.address, port, size, MOST_HOPS)))
    return frames


D1 = "dragonfly:p=2,a=4,h=2"
D3 = "dragonfly:p=4,a=8,h=4"
BENCH_PRIORITIES = 8
BENCH_QUEUE_PACKETS = 256


class BenchFabric:
    """A Dragonfly's topology, its tables, and fabric.p4 as machine code."""

    def __init__(self, spec: str = D1) -> None:
        self.topology: Topology = parse_topology(spec)
        self.plan: Plan = plan(self.topology)
        self.program = program("fabric")

    def add_switches(self, network: Network, switches: Iterable[Switch]) -> None:
        """Add switches with their program and all their entries."""
        for switch in switches:
            install(network, switch, self.program, self.plan[switch.device_id], priorities=BENCH_PRIORITIES)

    def end(self, switch: int, port: int) -> tuple[int, int]:
        """A switch's port as a network knows it."""
        return self.topology.switches[switch].device_id, port

    def network(self, clock: Clock, delay_ps: int, packets: int) -> Network:
        """The whole fabric; instead of hosts there are cables between the ports of partners."""
        network = Network(clock, packets=packets)
        cable = 0, delay_ps, BENCH_QUEUE_PACKETS
        self.add_switches(network, self.topology.switches)
        lay_cables(network, self.topology, lambda link: None if link.kind == "host" else cable)
        for one, other in partners(self.topology):
            network.connect(self.end(one.switch, one.port), self.end(other.switch, other.port), *cable)
        return network
