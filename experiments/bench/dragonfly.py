# SPDX-License-Identifier: Apache-2.0
"""The paper's Dragonfly in this process, programmed without P4Runtime: what the benchmarks send packets through.

Switches, entries and cables are made as those of the backends are; but there are no hosts, which a `Fabric` has.
"""

from __future__ import annotations

from collections.abc import Iterable

from detour.control.entries import Plan
from detour.control.planner import plan
from detour.engine.clock import Clock
from detour.engine.network import Network
from detour.experiments.bench.frames import partners
from detour.fabric.backends.network import lay_cables
from detour.fabric.backends.virtual.fabric import program
from detour.fabric.backends.virtual.load import install
from detour.topo import Switch, Topology, parse_topology

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
        """Adds switches with their program and all their entries."""
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
