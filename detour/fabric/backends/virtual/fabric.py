# SPDX-License-Identifier: Apache-2.0
"""A whole fabric in virtual time in this process: topology, compiled P4, tables, buffers, native hosts, connections.

    with VirtualFabric(parse_topology("d1"), TELEMETRY_LERP, queue_pairs=64) as fabric:
        fabric.connect(pairs)
        fabric.send(ENDLESS)
        fabric.run(2_000_000_000)
        print(fabric.column("st_rx_bytes"))

The same P4 program, planner, host stacks and loop as in real time; only the clock and the way of entries into tables
differ: they are put there directly when the fabric is made, which is ready for sweeps then. P4Runtime can be served
besides, for a controller that programs and reads the switches as it does on the wall clock (`operations.session`); what
it does takes no virtual time. Everything random derives from `RunSettings.seed`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from detour.base import pages
from detour.base.arrays import Int64Array
from detour.base.cores import threads_for
from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.garbage import leave_cycles, no_collection
from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.control import schema
from detour.control.entries import Entity, Plan, Stored, difference
from detour.control.groups import grouped, ungrouped
from detour.control.planner import planner
from detour.control.routes.adaptive import group_links
from detour.control.routes.hashes import DETOUR_BIT, PATHS, probe_ports
from detour.engine.clock import Virtual
from detour.engine.compiler.covering import COLLECTOR, Collector
from detour.engine.compiler.program import Program
from detour.engine.jitter import AUTO
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.fabric.backends.base import address_hosts
from detour.fabric.backends.clock import VirtualClock
from detour.fabric.backends.network import NetworkFabric, lay_cables
from detour.fabric.backends.settings import BackendChanges, FabricTerms
from detour.fabric.backends.virtual.load import install, profiles_of, read_back, rewrite
from detour.fabric.backends.virtual.own_program import OwnProgram, read_program
from detour.fabric.backends.virtual.pace import PacedClock, TimePace
from detour.fabric.backends.virtual.path_sets import SET_PATHS, path_set
from detour.fabric.backends.virtual.scheme import (
    LERP_WITHOUT_PFC,
    LinkSettings,
    RunSettings,
    Scheme,
    SwitchMemory,
)
from detour.fabric.backends.virtual.watch import DeadlockFound, DeadlockWatch
from detour.hosts.addresses import list_words
from detour.hosts.cc import algorithm
from detour.hosts.config import HostConfig
from detour.hosts.frames.sizes import DATA_OVERHEAD
from detour.hosts.paths import path_scheme
from detour.hosts.paths.plugin import PathScheme
from detour.hosts.state import SLOT_FREE, Hosts, make_hosts
from detour.hosts.verbs import Device
from detour.hosts.verbs.bulk import Flows, connect_many, lane_column, lease_many, path_packets, post_many
from detour.topo import Topology
from detour.topo.failures import NONE, Failures
from detour.topo.graph import FAR, GLOBAL, distances

if TYPE_CHECKING:  # see `backends.base`
    from detour.fabric.backends.serving import Serving

ENDLESS = 1 << 36
"""bytes of a message that no run ends: 5 s at 100 Gb/s"""

PRIORITIES = 8
_ARENA, _ARENA_WITH_PAYLOAD = 1 << 40, 1 << 28
_STARTS = 64
_PORTS_AT_ONCE = 1 << 16

# Rings that wrap touch all of their memory, so they are no longer than they must be: a host sends its answers first,
# and one answer goes out in a tenth of the time that a data packet takes to come in.
_CONTROL_DEPTH = 256
_CQ_DEPTH = 1024
_MANY_SWITCHES = 200
"""from here on their state is worth huge pages: 320 switches run a tenth faster, 114 do not, and asking takes time"""
_PACKETS_OF_A_HOST = 100
"""under way at once in a loaded fabric, answers included"""

_LEAST_BDP = 64
"""packets of a bandwidth-delay product at least: an eighth of it is a queue that says something"""

PACED_RATE_BPS = 1_000_000_000
"""of links, unless it is said: what a laptop keeps up with at a pace of 1x"""
_PACED_QUEUE_PAIRS = 1024


def program(name: str) -> Program:
    """A P4 program of ours as machine code, compiled once in a process. Raises DetourError if it has not been built."""
    path = BUILD / f"{name}.json"
    if not path.exists():
        raise DetourError(f"detour/p4src/build/{name}.json is missing; run `make p4`")
    return _compiled(path, COLLECTOR.value)


@lru_cache(maxsize=4)
def _compiled(path: Path, collector: Collector | None) -> Program:
    return Program.from_json(path.read_text())


class VirtualFabric(NetworkFabric):
    """See the module. A context manager."""

    target = "virtual"

    def __init__(
        self,
        topology: Topology,
        scheme: Scheme,
        settings: RunSettings | None = None,
        *,
        queue_pairs: int = 64,
        host_ends: int = 0,
        own: OwnProgram | None = None,
        pace: TimePace | None = None,
        serving: Callable[..., Serving] | None = None,
        threads: int | None = None,
        progress: Progress = silent,
    ) -> None:
        """`queue_pairs`: connections that will be made at most, or, with `lease`, carry something at once.
        `host_ends`: ends of connections at a host at most (0: any number). `own`: the program of all switches, in place
        of fabric.p4. `pace`: time passes by itself. `serving`: by what P4Runtime is served (default: it is not).
        `threads`: of runs (default: `base.cores`). Raises DetourError if the scheme does not fit the topology, a
        parameter is out of range, the program lacks what planners write, or P4Runtime cannot be served: an address
        cannot be had, or switches read registers that are shared with their neighbours' or with queues, which would be
        lost with the pipeline that a controller sets."""
        self._own = own
        settings = settings or RunSettings()
        self.scheme, self.settings = scheme, replace(settings, links=settings.links.of(topology))
        config = self.settings.host_config(scheme)
        self.config = replace(config, line_rate_cwnd=config.line_rate_cwnd * topology.planes)
        if self._choice.sprays:
            self.config = replace(
                self.config, bdp_packets=_bdp_packets(topology, self.settings.links, scheme.packet_bytes)
            )
        terms = FabricTerms(scheme.policy, self.config, self.settings.links.rate_bps, self.settings.seed)
        hs = _make_hosts(topology, self.config, self.settings, queue_pairs, host_ends)
        super().__init__(topology, terms, address_hosts(hs, topology))
        self._rng = random.Random(f"paths {self.settings.seed}")
        seed, overhead = self.settings.seed, self.settings.links.overhead_bytes
        frames = self.settings.pool(len(topology.hosts))
        clock = Virtual(threads=threads or threads_for(len(topology.switches)))
        self._network = Network(clock, seed=seed, hosts=self.hs, packets=frames, overhead_bytes=overhead)
        self._watch = DeadlockWatch(self._network, topology, self._network.run) if scheme.lossless else None
        self._paced = None if pace is None else PacedClock(self._now_ps, self.run, pace)
        self.clock = self._paced or VirtualClock(self._now_ps, self.run)
        self.failures: Failures = NONE
        self._held: dict[int, list[Stored]] | None = None
        self._states: dict[int, SwitchState] = {}
        with no_collection():
            self._add_switches()
        links = self.settings.links
        lay_cables(self.network, topology, lambda link: (links.rate_of(link), links.delay_of(link)))
        jitter_ps = 0
        if self.settings.jitter_ps is not None:
            jitter_ps = self._network.set_jitter(self.settings.jitter_ps, self.config.payload + DATA_OVERHEAD)
        self._lose(self.settings.loss)
        self._add_memory(jitter_ps)
        if scheme.policy.routing.loads == "group":
            self._share_loads()
        elif scheme.policy.routing.loads == "own":
            self._show_own_loads()
        self.network.expect(min(frames, _PACKETS_OF_A_HOST * len(topology.hosts)))
        if len(topology.switches) >= _MANY_SWITCHES:
            pages.collapse()
        self.device = Device(self.hs, self.network.call, self.network.kick_host, self._now_ps)
        self._flows: Flows | None = None
        self._posted_ps = np.zeros(0, np.int64)
        with ExitStack() as opened:
            opened.callback(leave_cycles)
            opened.callback(self.network.stop)
            if serving is not None:
                self._serve(serving, progress, opened)
            if self._paced is not None:
                self._paced.start()
                opened.callback(self._paced.stop)
            self._opened = opened.pop_all()

    # -- building ---------------------------------------------------------------------------------------

    def _add_switches(self) -> None:
        (name, entities), seed = self._plan(), self.settings.seed
        code = program(name) if self._own is None else self._checked(self._own, name, entities)
        shared = self.scheme.policy.routing.loads == "group"
        for switch in self.topology.switches:
            # Switches that share a register must not run apart from each other.
            domain = switch.group if shared else -1
            held = entities[switch.device_id]
            state = install(self.network, switch, code, held, priorities=PRIORITIES, seed=seed, domain=domain)
            self._states[switch.device_id] = state

    def _plan(self) -> tuple[str, Plan]:
        """The P4 program of all switches, and their entries."""
        policy = self.scheme.policy
        return policy.program, planner(self.scheme.planner)(self.topology, policy, NONE)

    @staticmethod
    def _checked(own: OwnProgram, name: str, entities: Plan) -> Program:
        """The code of a program that is not ours, if it can hold the entries."""
        if name != "fabric":
            raise DetourError(f"the scheme runs {name}.p4; --program needs a scheme that runs fabric.p4")
        own.files.require(entities)
        return own.code

    def _add_memory(self, jitter_ps: int) -> None:
        settings = self.settings
        links = settings.links.covering(self.topology.links)
        # What a host sends late comes after a pause as well, so headroom must hold it.
        links = replace(links, host_delay_ps=links.host_delay_ps + jitter_ps)
        for switch in self.topology.switches:
            cabled = sum(peer is not None for peer in switch.ports)
            buffers = settings.memory.of_switch(cabled, self.scheme.lossless, links, self.scheme.packet_bytes)
            self.network.set_buffers(switch.device_id, buffers)

    def _share_loads(self) -> None:
        """Ideal PiggyBack: the switches of a group read one register, into which the loop writes what waits at each of
        the group's global links at any moment."""
        for group in range(self.topology.valiant_groups):
            states = [self._states[self.topology.switches[index].device_id] for index in self.topology.members[group]]
            loads = states[0].registers[schema.GROUP_LOAD]
            for state in states:
                state.share_register(schema.GROUP_LOAD, states[0])
            for peer, port in group_links(self.topology, group).items():
                self.network.mirror_load(port, loads.address(peer))

    def _show_own_loads(self) -> None:
        """UGAL-L: a switch reads what waits at its own ports."""
        for device, state in self._states.items():
            loads = state.registers[schema.PORT_LOAD]
            for port, peer in enumerate(self.topology.switches[device - 1].ports, start=1):
                if peer is not None and peer.kind != "host":
                    self.network.mirror_load((device, port), loads.address(port))

    # -- switches ---------------------------------------------------------------------------------------

    @property
    def states(self) -> dict[int, SwitchState]:
        """device id -> the state of the switch."""
        if self._serving is None:
            return self._states
        return {device: self.network.state(device) for device in self._states}  # a controller may set programs

    def _serve(self, serving: Callable[..., Serving], progress: Progress, opened: ExitStack) -> None:
        if self.scheme.policy.program != "fabric":
            raise DetourError(
                f"scheme {self.scheme.name} runs {self.scheme.policy.program}.p4, whose registers controllers "
                "cannot use; P4Runtime is served for fabric.p4 only"
            )
        self._serving = serving(progress=progress)
        opened.callback(self._serving.close)
        self._serving.serve(self.network, self.topology.switches)

    def replan(self, failures: Failures) -> int:
        """Routes around failures, straight in the tables of all switches; returns the entries written. Links do not
        change (`apply_failures`)."""
        plan = planner(self.scheme.planner)
        if self._held is None:
            first = plan(self.topology, self.scheme.policy, self.failures)
            self._held = {device: self._stored(device, entities, ()) for device, entities in first.items()}
        written = 0
        for device, entities in plan(self.topology, self.scheme.policy, failures).items():
            held = self._held.get(device, [])
            change = difference(ungrouped(held), entities)
            written += len(change.insert) + len(change.modify) + len(change.delete)
            if change:
                self._held[device] = self._stored(device, entities, held)
                stored = difference(held, self._held[device])
                self.network.call(lambda device=device, stored=stored: rewrite(self.states[device], stored))
        self.failures = failures
        return written

    def _stored(self, device: int, entities: Sequence[Entity], held: Sequence[Stored]) -> list[Stored]:
        return grouped(entities, held, profiles_of(self.states[device]))

    def installed(self) -> Plan:
        """Entries and default actions of all tables, read back from the switches, by device id."""
        return {device: self.network.call(lambda s=state: read_back(s)) for device, state in self.states.items()}

    # -- connections ------------------------------------------------------------------------------------

    def connect(self, pairs: Sequence[tuple[int, int]] | Int64Array) -> None:
        """Connections between pairs of hosts; they send nothing yet. To be called once."""
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        ports, lists = self._candidates(ends)
        control = algorithm(self.scheme.control)
        self._flows = connect_many(
            self.device, ends[:, 0], ends[:, 1], ports=ports, lists=lists, congestion_control=control, **self._terms
        )
        self._posted_ps = np.zeros(len(ends), np.int64)
        # Memory for packets in flight is asked for now, not in the midst of a run: zeros become zeros that are there.
        self.hs.slot["state"][self._flows.sender, 0] = SLOT_FREE

    def lease(self, pairs: Int64Array) -> None:
        """Connections for tasks, (n, 2), that have queue pairs only while they carry something (`hosts.leases`), in
        place of `connect`. There are no `flows`; a run in which too many carry something at once is an error."""
        ports, lists = self._candidates(pairs)
        if lists is not None:
            raise DetourError(f"{len(pairs)} connections on several planes; expected at most {len(self.hs.qp) // 2}")
        lease_many(self.device, pairs, ports, algorithm(self.scheme.control), **self._terms)

    @property
    def _terms(self) -> dict[str, Any]:
        """Return how connections are made."""
        scheme, choice = self.scheme, self._choice
        return {
            "transport": scheme.transport, "reordering": scheme.reorder, "auto": bool(choice.hooks), "choice": choice,
            "seed": self.settings.seed,
        }  # fmt: skip

    @cached_property
    def _choice(self) -> PathScheme:
        """Return the path scheme that chooses among candidates."""
        return path_scheme(self.scheme.paths)

    def _candidates(self, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Source ports of connections, and, of senders that spray over several planes, words of uSID lists."""
        hosts = self.topology.hosts
        if self.topology.planes == 1 or not self._choice.sprays:
            # In parts: as lists ports take much more memory than as numbers.
            parts = np.array_split(ends, len(ends) // _PORTS_AT_ONCE + 1)
            ports = ([self._source_ports(a, b) for a, b in part.tolist()] for part in parts)
            return np.concatenate([np.array(some, np.uint16) for some in ports]), None
        sets = [path_set(self.topology, hosts[a], hosts[b], SET_PATHS, self._rng) for a, b in ends.tolist()]
        most = max(map(len, sets), default=1)
        even = [[one[k % len(one)] for k in range(most)] for one in sets]
        ports = np.array([[path.sport for path in one] for one in even], np.uint16)
        return ports, np.array([[list_words(path.usids) for path in one] for one in even])

    def _source_ports(self, source: int, target: int) -> tuple[int, ...]:
        """The candidates of a connection; as many for every one of a scheme."""
        if not self._choice.hooks:
            detour = DETOUR_BIT if self._choice.ports == "detours" else 0
            return (self._rng.randrange(PATHS) | detour,)
        a, b = self.topology.hosts[source], self.topology.hosts[target]
        groups = self.topology.valiant_groups
        if groups > 2 and a.group != b.group:
            # Few starts, so that the search for ports that lead to all groups is remembered.
            start = self._rng.randrange(_STARTS) * (PATHS // _STARTS)
            ports = probe_ports(a.group, b.group, groups, start)
        else:
            count = groups - 1 if groups > 2 else self._choice.equal_paths
            ports = tuple(self._rng.sample(range(PATHS), count))
        return ports[1:] if self._choice.ports == "detours" else ports

    @property
    def flows(self) -> Flows:
        """The connections. Raises DetourError if there are none yet."""
        if self._flows is None:
            raise DetourError("this fabric has no connections yet")
        return self._flows

    @property
    def count(self) -> int:
        """Number of connections."""
        return int(self.hs.cfg[0]["leased"]) or len(self.flows.sender)

    def send(self, length: int | np.ndarray, which: np.ndarray | None = None) -> None:
        """Post an RDMA WRITE of `length` bytes (one number or one for each) on every connection, or on those whose
        numbers are in `which`."""
        post_many(self.flows, length, now_ps=self.now_ps, which=which)
        self._posted_ps[slice(None) if which is None else which] = self.now_ps

    def completion_times_ps(self) -> np.ndarray:
        """Return the completion times of the last message of every connection whose messages have all been
        acknowledged."""
        done = self._done_ps()
        return (done - self._posted_ps)[done > 0]

    def unfinished(self, which: slice = slice(None)) -> int:
        """Connections, all or those of some numbers, that have not finished what they were to send."""
        return int((self._done_ps()[which] == 0).sum())

    @property
    def last_done_ps(self) -> int:
        """The time at which the last message that is done was acknowledged, 0 if none is."""
        return int(self._done_ps().max(initial=0))

    def _done_ps(self) -> np.ndarray:
        rows = self.hs.qp[self.flows.sender]
        return np.where(rows["sq_una"] == rows["sq_end"], rows["st_last_done_ps"], 0)

    # -- running ----------------------------------------------------------------------------------------

    def run(self, until_ps: int) -> None:
        """Execute everything until then; alarms of the clock do not go off (`clock.wait`)."""
        if self._watch is None:
            self.network.run(until_ps)
        else:
            self._watch.run(until_ps)
        if self.hs.lease[0]["taken"] > len(self.hs.qp):
            raise DetourError(f"more than {len(self.hs.qp) // 2} connections carry something at once")

    @property
    def deadlock_found(self) -> DeadlockFound | None:
        """The first deadlock that the watcher has seen: what pauses is watched (`virtual.watch`)."""
        return None if self._watch is None else self._watch.deadlock

    def deadlock(self) -> list[tuple[int, int, int]]:
        """(device id, port, priority) of queues that PFC will never let move again."""
        return self.network.deadlock() if self.scheme.lossless else []

    def column(self, name: str) -> np.ndarray:
        """A field of the senders' QPs, or of the receivers' (`st_rx_...`), one element a connection."""
        if self.hs.cfg[0]["leased"]:
            return lane_column(self.hs, name)
        rows = self.flows.receiver if name.startswith("st_rx_") else self.flows.sender
        return self.hs.qp[name][rows]

    def lateness(self) -> np.ndarray:
        """Data packets that all hosts took in, by how far they were behind the newest one of their connection: element
        0: not at all; k: 2^(k-1) to 2^k - 1 packets, the last one: or more."""
        return self.hs.late["packets"].sum(axis=0)

    def packets_by_path(self) -> tuple[int, int]:
        """Data packets that were sent by shortest and by non-shortest paths, as the source port says."""
        shortest, detours = path_packets(self.hs, self.flows.sender)
        return int(shortest.sum()), int(detours.sum())

    def check(self) -> None:
        if self._paced is not None:
            self._paced.check()
        super().check()


def _bdp_packets(topology: Topology, links: LinkSettings, packet_bytes: int) -> int:
    """Packets that a host sends in the round trip of the longest shortest path from the first switch without queues:
    delays, and a packet's time on each link. Links that say nothing count."""
    away = distances(topology)[0]
    farthest = int(away[away < FAR].max())
    globals_, locals_ = divmod(farthest, GLOBAL)
    delays_ps = 2 * (2 * links.host_delay_ps + globals_ * links.global_delay_ps + locals_ * links.local_delay_ps)
    packets = delays_ps * links.rate_bps // (8 * packet_bytes * 10**12) + 2 + globals_ + locals_
    return max(_LEAST_BDP, packets)


def _make_hosts(
    topology: Topology, config: HostConfig, settings: RunSettings, connections: int, host_ends: int
) -> Hosts:
    """Arrays for as many connections, or, with payload, for connections that each have memory of their own."""
    return make_hosts(
        len(topology.hosts),
        2 * connections,
        _ARENA_WITH_PAYLOAD if settings.payload else _ARENA,
        config=config,
        seed=settings.seed,
        n_cqs=(4 if settings.payload else 1) * len(topology.hosts),
        n_mrs=2 * connections if settings.payload else len(topology.hosts),
        window=settings.window,
        sq_depth=16,
        cq_depth=_CQ_DEPTH,
        max_candidates=max(topology.valiant_groups - 1, SET_PATHS),
        control_depth=_CONTROL_DEPTH,
        qps_per_host=host_ends,
    )


def paced_fabric(
    topology: Topology,
    changes: BackendChanges,
    pace: str,
    serving: Callable[..., Serving],
    progress: Progress = silent,
) -> VirtualFabric:
    """A fabric in which time passes by itself. Packets carry their bytes; a queue's depth is the packet memory of its
    port. Raises DetourError: no such pace, or something does not fit."""
    given = TimePace.given(pace)
    links = LinkSettings(PACED_RATE_BPS if changes.rate_bps is None else changes.rate_bps)
    if links.rate_bps < 1:
        raise DetourError("links in virtual time need a rate")
    if (delay := changes.delay_ps) is not None:
        links = replace(links, host_delay_ps=delay, local_delay_ps=delay, global_delay_ps=delay)
    memory = SwitchMemory()
    if changes.queue_packets is not None:
        memory = replace(memory, port_bytes=changes.queue_packets * PACKET_BYTES)
    own = changes.pipeline
    return VirtualFabric(
        topology,
        LERP_WITHOUT_PFC,
        RunSettings(links=links, memory=memory, loss=changes.loss or 0.0, payload=True, jitter_ps=AUTO),
        queue_pairs=_PACED_QUEUE_PAIRS,
        own=None if own is None else read_program(f"{own.p4info},{own.blob}"),
        pace=given,
        serving=serving,
        progress=progress,
    )
