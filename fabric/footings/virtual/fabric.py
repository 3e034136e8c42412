# SPDX-License-Identifier: Apache-2.0
"""A whole fabric in virtual time in this process: topology, compiled P4, tables, buffers, native hosts, connections.

    with VirtualFabric(parse_topology("d1"), TELEMETRY_LERP, queue_pairs=64) as fabric:
        fabric.connect(pairs)
        fabric.send(ENDLESS)
        fabric.run(2_000_000_000)
        print(fabric.column("st_rx_bytes"))

The same P4 program, planner, host stacks and loop as in real time; only the clock and the way of entries into tables
differ. Everything random derives from `RunSettings.seed`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np

from detour.base import pages
from detour.base.errors import DetourError
from detour.base.p4build import BUILD
from detour.control import schema
from detour.control.entries import Plan
from detour.control.planner import plan
from detour.control.routes.adaptive import group_links
from detour.control.routes.hashes import DETOUR_BIT, PATHS, probe_ports
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.fabric.footings.virtual.load import load
from detour.fabric.footings.virtual.scheme import RunSettings, Scheme
from detour.hosts.state import make_hosts, set_host
from detour.hosts.verbs.bulk import Flows, connect_many, path_packets, post_many
from detour.hosts.verbs.verbs import CongestionControl, Device, Transport
from detour.topo import Topology
from detour.topo.address import ipv6_text

ENDLESS = 1 << 36
"""bytes of a message that no run ends: 5 s at 100 Gb/s"""

PRIORITIES = 8
_ARENA = 1 << 40
_STARTS = 64
_ECMP_CANDIDATES = 8

# Rings that wrap touch all of their memory, so they are no longer than they must be: a host sends its answers first,
# and one answer goes out in a tenth of the time that a data packet takes to come in.
_CONTROL_DEPTH = 256
_CQ_DEPTH = 1024
_MANY_SWITCHES = 200
"""from here on their state is worth huge pages: 320 switches run a tenth faster, 114 do not, and asking takes time"""
_PACKETS_OF_A_HOST = 100
"""under way at once in a loaded fabric, answers included"""

_TRANSPORT = {"lerp": Transport.LERP, "gbn": Transport.GO_BACK_N}
_CONTROL = {"dctcp": CongestionControl.DCTCP, "dcqcn": CongestionControl.DCQCN}


@lru_cache(maxsize=4)
def program(name: str) -> Program:
    """A P4 program of ours as machine code, compiled once in a process.

    Raises:
        DetourError: it has not been built.
    """
    path = BUILD / f"{name}.json"
    if not path.exists():
        raise DetourError(f"p4src/build/{name}.json is missing; run `make p4`")
    return Program.from_json(path.read_text())


class VirtualFabric:
    """See the module. A context manager."""

    def __init__(
        self, topology: Topology, scheme: Scheme, settings: RunSettings | None = None, *, queue_pairs: int = 64
    ) -> None:
        """`queue_pairs`: connections that will be made at most.

        Raises:
            DetourError: the scheme does not fit the topology, or a parameter is out of range.
        """
        self.topology, self.scheme = topology, scheme
        self.settings = settings or RunSettings()
        self._dice = random.Random(f"paths {self.settings.seed}")
        self.config = self.settings.host_config(scheme)
        self.hs = self._make_hosts(queue_pairs)
        self.network = Network(
            Virtual(),
            seed=self.settings.seed,
            hosts=self.hs,
            packets=self.settings.frames,
        )
        self.states: dict[int, SwitchState] = {}
        self._add_switches()
        self._add_links()
        self._add_memory()
        if self.scheme.routing == "adaptive":
            self._share_loads()
        self.network.expect(min(self.settings.frames, _PACKETS_OF_A_HOST * len(topology.hosts)))
        if len(topology.switches) >= _MANY_SWITCHES:
            pages.collapse()
        self.device = Device(self.hs, self.network.call, self.network.kick_host, lambda: self.network.now_ps)
        self._flows: Flows | None = None
        self._posted_ps = np.zeros(0, np.int64)

    # -- building ---------------------------------------------------------------------------------------

    def _make_hosts(self, connections: int) -> Any:
        topology = self.topology
        hs = make_hosts(
            len(topology.hosts),
            2 * connections,
            _ARENA,
            config=self.config,
            seed=self.settings.seed,
            n_cqs=len(topology.hosts),
            n_mrs=len(topology.hosts),
            window=self.settings.window,
            sq_depth=16,
            cq_depth=_CQ_DEPTH,
            max_candidates=max(topology.valiant_groups - 1, _ECMP_CANDIDATES),
            control_depth=_CONTROL_DEPTH,
        )
        for host in topology.hosts:
            set_host(hs, host.index, ipv6_text(host.address), mac=host.mac)
        return hs

    def _add_switches(self) -> None:
        name, entities = self._plan()
        code = program(name)
        for switch in self.topology.switches:
            device = switch.device_id
            # Switches that share a register must not run apart from each other.
            domain = switch.group if self.scheme.routing == "adaptive" else -1
            self.network.add_switch(device, switch.name, priorities=PRIORITIES, domain=domain)
            state = self.states[device] = SwitchState(code, self.settings.seed << 16 | device, self.network.tick_ps)
            load(self.network, device, state, entities[device])
            self.network.set_pipeline(device, code, state)

    def _plan(self) -> tuple[str, Plan]:
        """The P4 program of all switches, and their entries."""
        policy = self.scheme.policy
        return policy.program, plan(self.topology, policy)

    def _add_links(self) -> None:
        links = self.settings.links
        for link in self.topology.links:
            cable = links.rate_bps, links.delay_ps(link.kind)
            one = self.topology.switches[link.a[0]].device_id, link.a[1]
            if link.kind == "host":
                self.network.attach_host(one, link.b[0], *cable)
            else:
                self.network.connect(one, (self.topology.switches[link.b[0]].device_id, link.b[1]), *cable)
                if self.settings.loss:
                    self.network.set_faults(one, loss=self.settings.loss)

    def _add_memory(self) -> None:
        settings = self.settings
        for switch in self.topology.switches:
            cabled = sum(peer is not None for peer in switch.ports)
            buffers = settings.memory.of_switch(cabled, self.scheme.lossless, settings.links)
            self.network.set_buffers(switch.device_id, buffers)

    def _share_loads(self) -> None:
        """Ideal PiggyBack: the switches of a group read one register, into which the loop writes what waits at each of
        the group's global links at any moment."""
        for group in range(self.topology.valiant_groups):
            states = [self.states[self.topology.switches[index].device_id] for index in self.topology.members[group]]
            loads = states[0].registers[schema.GROUP_LOAD]
            for state in states:
                state.share_register(schema.GROUP_LOAD, states[0])
            for peer, port in group_links(self.topology, group).items():
                self.network.mirror_load(port, loads.address(peer))

    # -- connections ------------------------------------------------------------------------------------

    def connect(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Connections between pairs of hosts; they send nothing yet. To be called once."""
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        ports = np.array([self._source_ports(int(a), int(b)) for a, b in ends], np.uint16)
        self._flows = connect_many(
            self.device,
            ends[:, 0],
            ends[:, 1],
            transport=_TRANSPORT[self.scheme.transport],
            congestion_control=_CONTROL[self.scheme.control],
            reordering=self.scheme.reorder,
            ports=ports,
            auto=self.scheme.paths == "telemetry",
            seed=self.settings.seed,
        )
        self._posted_ps = np.zeros(len(ends), np.int64)

    def _source_ports(self, source: int, target: int) -> tuple[int, ...]:
        """The candidates of a connection; as many for every one of a scheme."""
        if self.scheme.paths != "telemetry":
            detour = DETOUR_BIT if self.scheme.paths == "detour" else 0
            return (self._dice.randrange(PATHS) | detour,)
        a, b = self.topology.hosts[source], self.topology.hosts[target]
        groups = self.topology.valiant_groups
        if groups > 2 and a.group != b.group:
            # Few starts, so that the search for ports that lead to all groups is remembered.
            start = self._dice.randrange(_STARTS) * (PATHS // _STARTS)
            return probe_ports(a.group, b.group, groups, start)
        return tuple(self._dice.sample(range(PATHS), groups - 1 if groups > 2 else _ECMP_CANDIDATES))

    @property
    def flows(self) -> Flows:
        """The connections.

        Raises:
            DetourError: there are none yet.
        """
        if self._flows is None:
            raise DetourError("this fabric has no connections yet")
        return self._flows

    @property
    def count(self) -> int:
        """Number of connections."""
        return len(self.flows.sender)

    def send(self, length: int | np.ndarray, which: np.ndarray | None = None) -> None:
        """Posts an RDMA WRITE of `length` bytes (one number or one for each) on every connection, or on those whose
        numbers are in `which`."""
        post_many(self.flows, length, now_ps=self.now_ps, which=which)
        self._posted_ps[slice(None) if which is None else which] = self.now_ps

    def completion_times_ps(self) -> np.ndarray:
        """Of the last message of every connection whose messages have all been acknowledged."""
        done = self._done_ps()
        return (done - self._posted_ps)[done > 0]

    def unfinished(self) -> int:
        """Connections that have not finished what they were to send."""
        return int((self._done_ps() == 0).sum())

    @property
    def last_done_ps(self) -> int:
        """When the last of the messages that are done was acknowledged, 0 if none is."""
        return int(self._done_ps().max(initial=0))

    def _done_ps(self) -> np.ndarray:
        rows = self.hs.qp[self.flows.sender]
        return np.where(rows["sq_una"] == rows["sq_end"], rows["st_last_done_ps"], 0)

    # -- running ----------------------------------------------------------------------------------------

    def run(self, until_ps: int) -> None:
        """Executes everything until then."""
        self.network.run(until_ps)

    @property
    def now_ps(self) -> int:
        """Loop time."""
        return self.network.now_ps

    def deadlock(self) -> list[tuple[int, int, int]]:
        """(device id, port, priority) of queues that PFC will never let move again."""
        return self.network.deadlock() if self.scheme.lossless else []

    def column(self, name: str) -> np.ndarray:
        """A field of the senders' QPs, or of the receivers' (`st_rx_...`), one element a connection."""
        rows = self.flows.receiver if name.startswith("st_rx_") else self.flows.sender
        return self.hs.qp[name][rows]

    def packets_by_path(self) -> tuple[int, int]:
        """Data packets that were sent by shortest and by non-shortest paths, as the source port says."""
        shortest, detours = path_packets(self.hs, self.flows.sender)
        return int(shortest.sum()), int(detours.sum())

    def close(self) -> None:
        """Frees everything."""
        self.network.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
