# SPDX-License-Identifier: Apache-2.0
"""A Dragonfly in virtual time under open-loop load: latency and accepted throughput of a way of routing.

    with OpenLoop(parse_topology("dragonfly:p=4,a=8,h=4"), "PB", load=0.4, pattern="ADV") as fabric:
        print(fabric.measure(warm_ps=200_000_000, window_ps=100_000_000))

Every packet runs through a compiled P4 program: adaptive.p4 for MIN, VAL and PB, qcn.p4 for a `Mechanism`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.base.times import NS
from detour.control import qcn, schema
from detour.control.entries import Plan
from detour.control.planner import plan
from detour.control.policy import NoMarking, Policy, Routing
from detour.control.qcn import MECHANISMS, PROGRAM, Mechanism, plan_qcn
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings, Scheme, SwitchMemory
from detour.hosts.openloop import configure, discard_queues
from detour.topo import Topology

OPEN_LOOP_BYTES = 1024
SLICES = 100
"""of a window: what arrives in each says whether the rate was level"""

OPEN_LOOP_PATTERNS = ("UN", "ADV", "ADVc")
"""UN: any host. ADV: any host of the next group. ADVc: any host of the next h groups, all of whose direct links leave
the same switch (Fuentes et al., 2016)."""

# Cables with the pipeline of the switch at their end, which the engine does not model.
LINKS = LinkSettings(40_000_000_000, host_delay_ps=250 * NS, local_delay_ps=250 * NS, global_delay_ps=700 * NS)
MEMORY = SwitchMemory(port_bytes=60_000)


_REFERENCES: dict[str, Routing] = {"MIN": "minimal", "VAL": "random", "PB": "adaptive"}


def reference(name: str, threshold: int = 0) -> Scheme:
    """MIN, VAL or PB, under PFC with three channels and without congestion control. Raises DetourError: there is no
    such reference."""
    routing = _REFERENCES.get(name)
    if routing is None:
        raise DetourError(f"there is no reference {name!r}; allowed: MIN, VAL, PB")
    return Scheme(
        name, "lerp", "dctcp", "shortest", NoMarking(), routing=routing, pfc=True, channels=3, threshold=threshold
    )


@dataclass(frozen=True)
class Measured:
    """What came of a window. `accepted`: share of the hosts' links; latencies are means over the packets that arrived
    in it, from generation and from transmission; `switches`: mean number on the way; `injected`: by switch, share of
    its hosts' links; `minimal`: share of the packets for other groups that were sent the shortest way."""

    accepted: float
    latency_ns: float
    network_ns: float
    switches: float
    injected: np.ndarray = field(repr=False)
    minimal: float
    messages: int
    lost: int
    arrived: list[float] = field(repr=False)
    """bytes in each of `SLICES` parts of the window"""


class OpenLoop(VirtualFabric):
    """See the module. A context manager."""

    def __init__(
        self,
        topology: Topology,
        routing: Scheme | Mechanism,
        *,
        load: float,
        pattern: str = "UN",
        links: LinkSettings = LINKS,
        memory: SwitchMemory = MEMORY,
        seed: int = 1,
    ) -> None:
        self._mechanism = routing if isinstance(routing, Mechanism) else None
        scheme = reference("MIN") if isinstance(routing, Mechanism) else routing
        frames = 1 << max(16, (len(topology.hosts) * 256 - 1).bit_length())
        super().__init__(
            topology, scheme, RunSettings(links, memory, window=1, frames=frames, seed=seed), queue_pairs=1
        )
        if self._mechanism is not None:
            self._mirror()
        for host in topology.hosts:
            targets = _targets(topology, pattern, host.group)
            configure(
                self.hs, host.index, load=load, targets=targets, frame_bytes=OPEN_LOOP_BYTES, rate_bps=links.rate_bps
            )
            self.network.kick_host(host.index)

    def _plan(self) -> tuple[str, Plan]:
        if self._mechanism is None:
            policy = self.scheme.policy
            return policy.program, _planned(self.topology, policy)
        return PROGRAM, _planned(self.topology, self._mechanism)

    def _mirror(self) -> None:
        """Programs see what waits of every port's input, and which output ports are paused."""
        for switch in self.topology.switches:
            registers = self.states[switch.device_id].registers
            for port, peer in enumerate(switch.ports, start=1):
                if peer is not None:
                    buffered, paused = (registers[name].address(port) for name in (qcn.BUFFERED, qcn.PAUSED))
                    self.network.mirror_input((switch.device_id, port), buffered=buffered, paused=paused)

    def measure(self, warm_ps: int, window_ps: int) -> Measured:
        """Runs on for `warm_ps`, then counts for `window_ps`. Half way to the window what waits in source queues is
        discarded: switches begin with minimal routes for everything, and the flood until they have heard the first
        messages would take milliseconds to drain. Where more is offered than goes through, the queues fill again."""
        start = self.now_ps
        self.run(start + warm_ps // 2)
        discard_queues(self.hs, self.now_ps)
        self.run(start + warm_ps)
        before = self._counts()
        arrived, counted, begin = [], int(before["rx_bytes"].sum()), self.now_ps
        for part in range(1, SLICES + 1):
            self.run(begin + window_ps * part // SLICES)
            now = int(self.hs.source["rx_bytes"].sum())
            arrived.append(float(now - counted))
            counted = now
        after = self._counts()
        change = {name: after[name] - before[name] for name in before}
        room = self.settings.links.rate_bps * window_ps / 8e12  # bytes of one host's link
        packets = max(int(change["rx_packets"].sum()), 1)
        of_switch = np.array([host.switch for host in self.topology.hosts])
        sent = np.bincount(of_switch, weights=change["tx_bytes"], minlength=len(self.topology.switches))
        chosen = change["decisions"]
        return Measured(
            accepted=float(change["rx_bytes"].sum() / room / len(self.topology.hosts)),
            latency_ns=float(change["rx_latency_ps"].sum() / packets / NS),
            network_ns=float(change["rx_network_ps"].sum() / packets / NS),
            switches=float(change["rx_switches"].sum() / packets),
            injected=sent / room / np.bincount(of_switch),
            minimal=float(chosen[0] / max(chosen.sum(), 1)),
            messages=int(change["messages"]),
            lost=int(change["lost"]),
            arrived=arrived,
        )

    def _counts(self) -> dict[str, Any]:
        names = ("tx_bytes", "rx_packets", "rx_bytes", "rx_latency_ps", "rx_network_ps", "rx_switches")
        counts: dict[str, Any] = {name: self.hs.source[name].copy() for name in names}
        decided = schema.DECISIONS if self._mechanism is None else qcn.CONDITIONAL_DECISIONS
        cells = [[state.counters[decided].read(i)[0] for i in range(2)] for state in self.states.values()]
        counts["decisions"] = np.array(cells, np.int64).sum(axis=0)
        stats = self.network.switch_stats()
        counts["messages"] = int(stats["clones"].sum())
        counts["lost"] = sum(
            int(stats[name].sum()) for name in ("queue_drops", "headroom_drops", "buffer_drops", "faults")
        )
        return counts


@lru_cache(maxsize=len(MECHANISMS) + 3)
def _planned(topology: Topology, how: Policy | Mechanism) -> Plan:
    """Plans of large fabrics take seconds, and sweeps need the same ones again."""
    return plan(topology, how) if isinstance(how, Policy) else plan_qcn(topology, how)


def _targets(topology: Topology, pattern: str, group: int) -> tuple[int, int]:
    """First host and number of hosts that a group's hosts send to. Raises DetourError: there is no such pattern."""
    per_group = len(topology.hosts) // topology.groups
    first = (group + 1) % topology.groups * per_group
    match pattern:
        case "UN":
            return 0, len(topology.hosts)
        case "ADV":
            return first, per_group
        case "ADVc":
            peers = [sum(peer is not None and peer.kind == "global" for peer in s.ports) for s in topology.switches]
            return first, per_group * max(peers)
    raise DetourError(f"there is no traffic pattern {pattern!r}; allowed: {', '.join(OPEN_LOOP_PATTERNS)}")
