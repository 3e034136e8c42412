# SPDX-License-Identifier: Apache-2.0
"""A Dragonfly in virtual time under open-loop load: latency and accepted throughput of a way of routing.

    with OpenLoop(parse_topology("dragonfly:p=4,a=8,h=4"), "PB", load=0.4, pattern="ADV") as fabric:
        print(fabric.measure(warm_ps=200_000_000, window_ps=100_000_000))

Every packet runs through a compiled P4 program: adaptive.p4 or ugal.p4 for a `reference`, qcn.p4 for a `Mechanism`.
Source queues are never emptied. Traffic may change on the way (`change`, `series`). Channels take turns, packet by
packet; with `oldest_first` what has waited longest goes first (ranking.p4), whatever its channel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.times import NS
from detour.control import qcn, schema
from detour.control.entries import Plan
from detour.control.planner import plan
from detour.control.policy import NoMarking, Policy
from detour.control.qcn import CHANNELS, MECHANISMS, PROGRAM, Mechanism, plan_qcn
from detour.engine.buffers import headroom
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings, Scheme, SwitchMemory
from detour.hosts.openloop import configure
from detour.topo import Topology

OPEN_LOOP_BYTES = 1024
SLICES = 100
"""of a window: what arrives in each says whether the rate was level"""

OPEN_LOOP_PATTERNS = ("UN", "ADV", "ADVc", "MIX", "ADV+h")
"""UN: any host. ADV: any host of the next group. ADVc: any host of the next h groups, all of whose direct links leave
the same switch (Fuentes et al., 2016). MIX: half UN, half ADV, packet by packet. ADV+h: any host of the h-th group from
here, so that all that comes into a group by a switch leaves it by the same one. ADV+k: the k-th group."""

# Cables with the pipeline of the switch at their end, which the engine does not model.
LINKS = LinkSettings(40_000_000_000, host_delay_ps=250 * NS, local_delay_ps=250 * NS, global_delay_ps=700 * NS)
MEMORY = SwitchMemory(port_bytes=60_000)


_REFERENCES = {
    "MIN": "minimal", "VAL-group": "random", "PB": "adaptive:threshold=10", "UGAL-G": "ugal-global:threshold=10"
}  # fmt: skip
"""their routings"""
REFERENCES = tuple(_REFERENCES)


def reference(name: str) -> Scheme:
    """A way of routing to compare with, under PFC with three channels and without congestion control. PB and UGAL-G
    have ideal knowledge of the group's links. Raises DetourError: there is no such reference."""
    if name not in _REFERENCES:
        raise DetourError(f"there is no reference {name!r}; allowed: {', '.join(REFERENCES)}")
    return Scheme(
        name, "lerp", "dctcp", "shortest", NoMarking(), routing=_REFERENCES[name], pfc=True, channels=CHANNELS
    )


def memory_for(channels: int) -> SwitchMemory:
    """Return the memory of a switch: the part that classes share is the same for all; each class beyond the third
    brings its reserve along."""
    room = headroom(LINKS.rate_bps, LINKS.longest_ps, PACKET_BYTES)
    return replace(MEMORY, port_bytes=MEMORY.port_bytes + (channels - CHANNELS) * (room + MEMORY.reserve_bytes))


@dataclass(frozen=True)
class Measured:
    """Measurements in a window. `accepted`: share of the hosts' links; latencies are means over the packets that
    arrived in it, from generation and from transmission; `switches`: mean number on the way; `injected`: by switch,
    share of its hosts' links; `minimal`: share of the packets for other groups that were sent the shortest way"""

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


@dataclass(frozen=True)
class LoadWindow:
    """Sums over all hosts in a short window: bytes and packets that arrived, their latency from generation, and how
    many packets first switches sent the minimal way (and no switch turned) and round."""

    bytes: int
    packets: int
    latency_ns: float
    minimal: int
    around: int


class OpenLoop(VirtualFabric):
    """See the module. A context manager."""

    def __init__(
        self,
        topology: Topology,
        routing: Scheme | Mechanism,
        *,
        load: float,
        pattern: str = "UN",
        oldest_first: bool = False,
        links: LinkSettings = LINKS,
        seed: int = 1,
    ) -> None:
        self._oldest_first = oldest_first
        if oldest_first and isinstance(routing, Mechanism):
            routing = replace(routing, oldest_first=True)
        self._mechanism = routing if isinstance(routing, Mechanism) else None
        scheme = replace(reference("MIN"), channels=routing.channels) if isinstance(routing, Mechanism) else routing
        memory = memory_for(scheme.channels)
        frames = 1 << max(16, (len(topology.hosts) * 256 - 1).bit_length())
        super().__init__(
            topology, scheme, RunSettings(links, memory, window=1, frames=frames, seed=seed), queue_pairs=1
        )
        if self._mechanism is not None:
            self._mirror()
        self._share_links()
        self.change(load, pattern)

    def change(self, load: float, pattern: str) -> None:
        """From now on sources offer so much of that pattern. What waits in a source queue stays there, and goes where
        the new pattern says."""
        for host in self.topology.hosts:
            targets, uniform = _targets(self.topology, pattern, host.group)
            configure(
                self.hs, host.index, load=load, targets=targets, uniform=uniform, frame_bytes=OPEN_LOOP_BYTES,
                rate_bps=self.settings.links.rate_bps, now_ps=self.now_ps,
            )  # fmt: skip
            self.network.kick_host(host.index)

    def _plan(self) -> tuple[str, Plan]:
        if self._mechanism is None:
            policy = replace(self.scheme.policy, oldest_first=self._oldest_first)
            return policy.program, _planned(self.topology, policy)
        return PROGRAM, _planned(self.topology, self._mechanism)

    def _share_links(self) -> None:
        """Channels take turns, packet by packet, as in FOGSim and BookSim; with strict priority those that packets
        leave their hosts in starve beyond saturation. Messages go first."""
        for switch in self.topology.switches:
            for port, peer in enumerate(switch.ports, start=1):
                for channel in range(self.scheme.channels if peer is not None else 0):
                    self.network.set_queue((switch.device_id, port), priority=channel, quantum=OPEN_LOOP_BYTES)

    def _mirror(self) -> None:
        """Programs see what waits of every port's input, and which output ports are paused."""
        for switch in self.topology.switches:
            registers = self.states[switch.device_id].registers
            for port, peer in enumerate(switch.ports, start=1):
                if peer is not None:
                    buffered, paused = (registers[name].address(port) for name in (qcn.BUFFERED, qcn.PAUSED))
                    self.network.mirror_input((switch.device_id, port), buffered=buffered, paused=paused)

    def measure(self, warm_ps: int, window_ps: int) -> Measured:
        """Run on for `warm_ps`, then count for `window_ps`."""
        self.run(self.now_ps + warm_ps)
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
        straight, around, turned = (int(number) for number in change["decisions"])
        return Measured(
            accepted=float(change["rx_bytes"].sum() / room / len(self.topology.hosts)),
            latency_ns=float(change["rx_latency_ps"].sum() / packets / NS),
            network_ns=float(change["rx_network_ps"].sum() / packets / NS),
            switches=float(change["rx_switches"].sum() / packets),
            injected=sent / room / np.bincount(of_switch),
            minimal=(straight - turned) / max(straight + around, 1),
            messages=int(change["messages"]),
            lost=int(change["lost"]),
            arrived=arrived,
        )

    def series(self, window_ps: int, count: int) -> list[LoadWindow]:
        """Run on for so many windows."""
        windows, before = [], self._counts()
        for _ in range(count):
            self.run(self.now_ps + window_ps)
            after = self._counts()
            change = {name: (after[name] - before[name]).sum() for name in ("rx_bytes", "rx_packets", "rx_latency_ps")}
            straight, around, turned = (int(number) for number in after["decisions"] - before["decisions"])
            windows.append(
                LoadWindow(
                    bytes=int(change["rx_bytes"]),
                    packets=int(change["rx_packets"]),
                    latency_ns=float(change["rx_latency_ps"]) / NS,
                    minimal=straight - turned,
                    around=around + turned,
                )
            )
            before = after
        return windows

    def _counts(self) -> dict[str, Any]:
        names = ("tx_bytes", "rx_packets", "rx_bytes", "rx_latency_ps", "rx_network_ps", "rx_switches")
        counts: dict[str, Any] = {name: self.hs.source[name].copy() for name in names}
        decided = schema.DECISIONS if self._mechanism is None else qcn.CONDITIONAL_DECISIONS
        kinds = range(2 if self._mechanism is None else 3)
        cells = [[state.counters[decided].read(i)[0] for i in kinds] for state in self.states.values()]
        counts["decisions"] = np.resize(np.append(np.array(cells, np.int64).sum(axis=0), 0), 3)
        stats = self.network.switch_stats()
        counts["messages"] = int(stats["clones"].sum())
        counts["lost"] = sum(
            int(stats[name].sum()) for name in ("queue_drops", "headroom_drops", "buffer_drops", "faults")
        )
        return counts


@lru_cache(maxsize=len(MECHANISMS) + len(REFERENCES))
def _planned(topology: Topology, how: Policy | Mechanism) -> Plan:
    """Plans of large fabrics take seconds, and sweeps need the same ones again."""
    return plan(topology, how) if isinstance(how, Policy) else plan_qcn(topology, how)


def traffic(topology: Topology, pattern: str) -> tuple[int, int, float]:
    """Parse a pattern: how many groups ahead targets begin (0: all hosts are targets), how many groups they are, and
    the share of packets that go to any host instead. Raises DetourError: there is no such pattern."""
    most = max(sum(peer is not None and peer.kind == "global" for peer in s.ports) for s in topology.switches)
    name = pattern.upper()
    adversarial = re.fullmatch(r"ADV\+?(\d+|H)?", name)
    if name == "UN":
        return 0, topology.groups, 0.0
    if name == "MIX":
        return 1, 1, 0.5
    if name == "ADVC":
        return 1, most, 0.0
    if adversarial is not None:
        ahead = {None: 1, "H": most}.get(adversarial[1]) or int(adversarial[1])
        if ahead % topology.groups:
            return ahead, 1, 0.0
    allowed = (*OPEN_LOOP_PATTERNS, "ADV+k")
    raise DetourError(f"there is no traffic pattern {pattern!r} on {topology.spec}; allowed: {', '.join(allowed)}")


def _targets(topology: Topology, pattern: str, group: int) -> tuple[tuple[int, int], float]:
    """First host and number of hosts that a group's hosts send to, and the share of packets that go to any host."""
    ahead, groups, uniform = traffic(topology, pattern)
    per_group = len(topology.hosts) // topology.groups
    first = (group + ahead) % topology.groups * per_group if ahead else 0
    return (first, per_group * groups), uniform
