# SPDX-License-Identifier: Apache-2.0
"""A whole fabric in virtual time in this process: topology, compiled P4, tables, buffers, native hosts, connections.

    with VirtualFabric(parse_topology("d1"), TELEMETRY_LERP, queue_pairs=64) as fabric:
        connections = [fabric.connect(a, b) for a, b in pairs]
        for connection in connections:
            connection.send(ENDLESS)
        fabric.run(2_000_000_000)

The same P4 program, planner, host stacks and loop as in real time; only the clock and the way of entries into tables
differ. Everything random derives from `Settings.seed`.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.base.p4build import BUILD
from detour.control.hashes import PATHS, probe_ports
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.fabric.virtual_load import load
from detour.fabric.virtual_scheme import PACKET_BYTES, Scheme, Settings
from detour.hosts.state import make_hosts, set_host
from detour.hosts.verbs import CQ, MR, PD, QP, AccessFlag, Context, Device, Path, QPInitAttr, SendWR
from detour.topo import Topology
from detour.topo.address import ipv6_text

ENDLESS = 1 << 31
"""bytes of a message that no run ends: 172 ms at 100 Gb/s"""

PRIORITIES = 8
CONTROL_PRIORITY = 7
_ARENA = 1 << 40
_STARTS = 64
_ECMP_CANDIDATES = 8
_NO_LIMIT = 1 << 30
_WRITE = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE


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


class Connection:
    """A QP at each end. `sender` and `receiver` are their rows in the table `qp`."""

    def __init__(self, fabric: VirtualFabric, source: int, target: int, paths: tuple[Path, ...]) -> None:
        self.source, self.target = source, target
        here, there = fabric.end(source), fabric.end(target)
        self._qp = QP(here.pd, here.cq, fabric.queue_pair_options())
        self._peer = QP(there.pd, there.cq, fabric.queue_pair_options())
        self._from, self._to = here.region, there.region
        self.sender, self.receiver = self._qp.index, self._peer.index
        self._peer.connect(self._qp.endpoint, path=Path(paths[0].sport & ~0x8000))
        if len(paths) == 1:
            self._qp.connect(self._peer.endpoint, path=paths[0])
        else:
            self._qp.connect(self._peer.endpoint, candidates=paths)

    def send(self, length: int, number: int = 0) -> None:
        """Posts an RDMA WRITE of `length` bytes from now on."""
        self._qp.post_send(SendWR(number, self._from.sge(0, length), self._to.addr, self._to.rkey))

    @property
    def queue_pair(self) -> QP:
        """The sender's end."""
        return self._qp


class End:
    """A host's domain, completion queue and memory, shared by its connections."""

    def __init__(self, device: Device, host: int) -> None:
        self.pd = PD(Context(device, host))
        self.cq = CQ(self.pd.context)
        self.region = MR(self.pd, ENDLESS, _WRITE, addr=0)


class VirtualFabric:
    """See the module. A context manager."""

    def __init__(
        self, topology: Topology, scheme: Scheme, settings: Settings | None = None, *, queue_pairs: int = 64
    ) -> None:
        """`queue_pairs`: connections that will be made at most.

        Raises:
            DetourError: the scheme does not fit the topology, or a parameter is out of range.
        """
        self.topology, self.scheme = topology, scheme
        self.settings = settings or Settings()
        self._check()
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
        self.device = Device(self.hs, self.network.call, self.network.kick_host)
        self._ends: dict[int, End] = {}
        self.connections: list[Connection] = []

    def _check(self) -> None:
        if self.scheme.program == "adaptive" and self.topology.valiant_groups < 3:
            raise DetourError(
                f"{self.scheme.name} sends packets by way of a third group; {self.topology.spec} has "
                f"{self.topology.groups}"
            )

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
            cq_depth=1 << 12,
            max_candidates=max(topology.valiant_groups - 1, _ECMP_CANDIDATES),
            control_depth=1 << 13,
        )
        for host in topology.hosts:
            set_host(hs, host.index, ipv6_text(host.address), mac=host.mac)
        return hs

    def policy(self) -> Policy:
        """What the planner has to know of the scheme."""
        return Policy(ecn=self.scheme.ecn, packet_bytes=PACKET_BYTES)

    def _add_switches(self) -> None:
        code = program(self.scheme.program)
        entities = plan(self.topology, self.policy())
        for switch in self.topology.switches:
            device = switch.device_id
            self.network.add_switch(device, switch.name, priorities=PRIORITIES)
            state = self.states[device] = SwitchState(code, self.settings.seed << 16 | device, self.network.tick_ps)
            load(self.network, device, state, entities[device])
            self.network.set_pipeline(device, code, state)

    def _add_links(self) -> None:
        links = self.settings.links
        for link in self.topology.links:
            cable = links.rate_bps, links.delay_ps(link.kind), 320
            one = self.topology.switches[link.a[0]].device_id, link.a[1]
            if link.kind == "host":
                self.network.attach_host(one, link.b[0], *cable)
            else:
                self.network.connect(one, (self.topology.switches[link.b[0]].device_id, link.b[1]), *cable)

    # -- connections ------------------------------------------------------------------------------------

    def end(self, host: int) -> End:
        """What a host's connections share."""
        if host not in self._ends:
            self._ends[host] = End(self.device, host)
        return self._ends[host]

    def queue_pair_options(self) -> QPInitAttr:
        """Transport and congestion control of the scheme."""
        return QPInitAttr()

    def connect(self, source: int, target: int) -> Connection:
        """A connection between two hosts that sends nothing yet."""
        connection = Connection(self, source, target, self._paths(source, target))
        self.connections.append(connection)
        return connection

    def _paths(self, source: int, target: int) -> tuple[Path, ...]:
        if self.scheme.paths == "shortest":
            return (Path(self._dice.randrange(PATHS)),)
        a, b = self.topology.hosts[source], self.topology.hosts[target]
        if self.topology.valiant_groups > 2 and a.group != b.group:
            # Few starts, so that the search for ports that lead to all groups is remembered.
            start = self._dice.randrange(_STARTS) * (PATHS // _STARTS)
            return tuple(Path(port) for port in probe_ports(a.group, b.group, self.topology.valiant_groups, start))
        return tuple(Path(port) for port in self._dice.sample(range(PATHS), _ECMP_CANDIDATES))

    # -- running ----------------------------------------------------------------------------------------

    def run(self, until_ps: int) -> None:
        """Executes everything until then."""
        self.network.run(until_ps)

    @property
    def now_ps(self) -> int:
        """Loop time."""
        return self.network.now_ps

    def column(self, name: str) -> np.ndarray:
        """A field of the senders' (`st_...`) or receivers' (`st_rx_...`) QPs, one element a connection."""
        side = "receiver" if name.startswith("st_rx_") else "sender"
        return self.hs.qp[name][np.array([getattr(one, side) for one in self.connections], np.int64)]

    def close(self) -> None:
        """Frees everything."""
        self.network.stop()

    def __enter__(self) -> VirtualFabric:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
