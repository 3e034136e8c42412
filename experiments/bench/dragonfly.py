# SPDX-License-Identifier: Apache-2.0
"""The paper's Dragonfly in this process, programmed without P4Runtime: what the benchmarks send packets through."""

from __future__ import annotations

from collections.abc import Iterable

from detour.base.p4build import BUILD
from detour.control.entries import Plan
from detour.control.planner import plan
from detour.engine.clock import Clock
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.experiments.bench.frames import partners
from detour.fabric.footings.virtual.load import load
from detour.topo import Topology, parse_topology

D1 = "dragonfly:p=2,a=4,h=2"
D3 = "dragonfly:p=4,a=8,h=4"
BENCH_PRIORITIES = 8
BENCH_QUEUE_PACKETS = 256


class BenchFabric:
    """A Dragonfly's topology, its tables, and fabric.p4 as machine code."""

    def __init__(self, spec: str = D1) -> None:
        self.topology: Topology = parse_topology(spec)
        self.plan: Plan = plan(self.topology)
        self.program = Program.from_json((BUILD / "fabric.json").read_text())

    def add_switches(self, network: Network, devices: Iterable[int]) -> list[SwitchState]:
        """Adds switches with their program and all their entries."""
        states = []
        for device in devices:
            network.add_switch(device, priorities=BENCH_PRIORITIES)
            state = SwitchState(self.program, device, network.tick_ps)
            load(network, device, state, self.plan[device])
            network.set_pipeline(device, self.program, state)
            states.append(state)
        return states

    def end(self, switch: int, port: int) -> tuple[int, int]:
        """A switch's port as a network knows it."""
        return self.topology.switches[switch].device_id, port

    def network(self, clock: Clock, delay_ps: int, packets: int) -> Network:
        """The whole fabric; instead of hosts there are cables between the ports of partners."""
        network = Network(clock, packets=packets)
        self.add_switches(network, [switch.device_id for switch in self.topology.switches])
        for link in self.topology.links:
            if link.kind != "host":
                network.connect(self.end(*link.a), self.end(*link.b), 0, delay_ps, BENCH_QUEUE_PACKETS)
        for one, other in partners(self.topology):
            ends = self.end(one.switch, one.port), self.end(other.switch, other.port)
            network.connect(*ends, 0, delay_ps, BENCH_QUEUE_PACKETS)
        return network
