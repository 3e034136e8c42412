# SPDX-License-Identifier: Apache-2.0
"""A fat-tree FT(2; m0, m1) in virtual time, or one of three levels, whose hosts name the path of every message in a
uSID list.

    with PinnedFabric(FatTree(spines=4, leaves=4), Tuning(), connections=100) as fabric:
        flows = fabric.connect_pinned(src, dst, path)
        post_many(flows, 1 << 20, now_ps=fabric.now_ps)

Leaf u has the hosts u*m0 to u*m0 + m0 - 1, and a link to each of the m0 spines (FORS, section 4; `FatTree` knows of
other numbers of hosts and of parallel cables). A message to another leaf carries [spine, leaf, host] in its destination
address (RFC 9800), or [uA of the cable up, uA of the cable down, host] where there are several. On three levels it is
[core, leaf, host], as one aggregation switch of a pod leads to a core, and [aggregation switch, leaf, host] inside a
pod. Inside a leaf a message carries the plain address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.fors.fabric import FatTree, TreeLink
from detour.control.fors.paths import INSIDE, TreePaths
from detour.control.policy import Amount, StepMarking
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SPRAY_LERP, LinkSettings, RunSettings, Scheme
from detour.hosts import rdma
from detour.hosts.addresses import final_words, to_words
from detour.hosts.verbs.bulk import Flows, connect_many, draw_ports, lead
from detour.topo.address import adjacency_function, usid_address
from detour.topo.clos import leaf_spine, three_levels
from detour.topo.failures import Failure
from detour.topo.topology import Host, Topology


@dataclass(frozen=True)
class Tuning:
    """Parameters that the paper leaves open, for the whole fabric.

    200 Gb/s is HDR InfiniBand's rate (section 2.3). Delays are of a cable and the switch behind it: an HDR switch takes
    130 ns from port to port, cables of some metres the rest. `payload` is the largest RDMA MTU. The fabric is lossy and
    its buffers deep, so that nothing is lost unless something breaks; packets are marked above `mark_packets`.
    """

    rate_bps: int = 200_000_000_000
    host_delay_ps: int = 100_000
    local_delay_ps: int = 200_000
    payload: int = 4096
    window: int = 128
    mark_packets: int = 40
    min_rto_ps: int = 100 * US
    seed: int = 1

    def __post_init__(self) -> None:
        if self.rate_bps < 1_000_000:
            raise DetourError(f"a rate of {self.rate_bps} bit/s is less than 1 Mb/s")

    def scheme(self) -> Scheme:
        """LERP with DCTCP on the one path that the sender names."""
        marking = StepMarking(Amount(self.mark_packets))
        return Scheme("pinned", "lerp", "dctcp", "shortest", marking, hosts=tuple(self._network().items()))

    def _network(self) -> dict[str, int]:
        """Parameters of hosts that depend on the network: packets, windows and timeouts."""
        return {
            "payload": self.payload,
            "mtu": self.payload,
            "line_rate_cwnd": self.window,
            "reroute_cwnd": self.window,
            "min_rto_ps": self.min_rto_ps,
            "initial_rto_ps": 2 * self.min_rto_ps,
            "min_probe_timeout_ps": self.min_rto_ps // 4,
        }

    def speed(self, speed: Fraction) -> float:
        """Return the speed of links between switches, rounded so that they carry whole bits a second."""
        return int(self.rate_bps * speed) / self.rate_bps

    def settings(self) -> RunSettings:
        """Links, buffers, sizes and seed."""
        links = LinkSettings(self.rate_bps, self.host_delay_ps, self.local_delay_ps, self.local_delay_ps)
        return RunSettings(links, window=self.window, seed=self.seed)


@dataclass(frozen=True)
class SprayTuning(Tuning):
    """The same network with the transport of SprayLERP, its congestion control, marking and recovery of losses.
    `choosing`: every packet takes a path of its own where a message has none; else the transport is the same, and paths
    are the senders' (what the choice is worth)."""

    choosing: bool = True

    def scheme(self) -> Scheme:
        """`SPRAY_LERP` with this network's packets, windows and timeouts."""
        paths = SPRAY_LERP.paths if self.choosing else "shortest"
        return replace(SPRAY_LERP, paths=paths, hosts=(*SPRAY_LERP.hosts, *self._network().items()))


_SPRAY_PORTS = 32
"""candidates of a connection that sprays, as in `VirtualFabric`: switches hash them to spines"""


class PinnedFabric(VirtualFabric):
    """See the module. A context manager."""

    def __init__(self, tree: FatTree, tuning: Tuning | None = None, *, connections: int) -> None:
        """`connections`: how many will be made at most. Raises DetourError: the tree is not possible."""
        tuning = tuning or Tuning()
        super().__init__(_topology(tree, tuning), tuning.scheme(), tuning.settings(), queue_pairs=connections)
        self.tree, self.tuning, self.paths = tree, tuning, TreePaths(tree)
        self._leaf = [switch.index for switch in self.topology.switches if self.topology.hosts_of[switch.index]]
        broken = [link for link, works in zip(self.paths.links, self.paths.working(), strict=True) if not works]
        for link in broken:
            self.cut(link)
        if broken:
            self.reroute(broken)
        self._lists, self._finals = self._usid_lists()
        self._ports = np.random.default_rng([self.settings.seed, 7])
        self._up_rows: Int64Array | None = None

    def _usid_lists(self) -> tuple[Int64Array, Int64Array]:
        """Destination addresses by path and host, shape (paths, hosts, 2), and what the hosts see, shape (hosts,)."""
        hosts = self.topology.hosts
        lists = np.empty((self.paths.count, len(hosts), 2), np.int64)
        for path in range(self.paths.count):
            for host in hosts:
                lists[path, host.index] = to_words(usid_address((*self._before_last(path, host), host.node_id)))
        return lists, final_words(host.node_id for host in hosts)

    def _before_last(self, path: int, host: Host) -> tuple[int, int]:
        """The two uSIDs before the host's own."""
        tree, switches = self.tree, self.topology.switches
        if tree.cores:
            last = tree.pods * (tree.leaves + tree.spines)
            across = tree.spines * tree.cores
            pod = switches[host.switch].group
            above = last + path if path < across else pod * (tree.leaves + tree.spines) + tree.leaves + path - across
        elif tree.cables > 1:
            up, down = divmod(path, tree.cables)
            return adjacency_function(tree.hosts + 1 + up), adjacency_function(host.switch * tree.cables + down + 1)
        else:
            above = tree.leaves + path
        return switches[above].node_id, switches[host.switch].node_id

    # -- connections ------------------------------------------------------------------------------------

    def connect_pinned(self, src: Int64Array, dst: Int64Array, path: Int64Array) -> Flows:
        """Connections from hosts `src` to `dst` by their paths (`INSIDE`: inside a leaf), shapes (n,). May be called
        again for more."""
        ports = self._ports.integers(0, 1 << 15, (len(src), 1))
        flows = connect_many(self.device, src, dst, telemetry=False, ports=ports, seed=self.settings.seed)
        self.pin(flows.sender, dst, path)
        return flows

    def connect_messages(self, src: Int64Array, dst: Int64Array, path: Int64Array) -> Flows:
        """`connect_pinned`, but under a scheme that sprays every packet finds its own path; paths must be `INSIDE`."""
        if self.scheme.paths != "spray":
            return self.connect_pinned(src, dst, path)
        if (path != INSIDE).any():
            raise DetourError("sprayed messages have no path of their own")
        ports = draw_ports(len(src), _SPRAY_PORTS, 0, self.settings.seed)
        return connect_many(self.device, src, dst, choice="spray", ports=ports, seed=self.settings.seed)

    def pin(self, senders: Int64Array, dst: Int64Array, path: Int64Array) -> None:
        """The senders' packets go by these paths from the next one on. What is under way is not touched."""
        away = np.asarray(path) != INSIDE
        lists = np.where(away[:, None], self._lists[np.where(away, path, 0), dst], 0)
        lead(self.device, senders, lists, self._finals[dst])

    def move(self, senders: Int64Array, dst: Int64Array, path: Int64Array) -> None:
        """`pin` for connections in the middle of a message: what is on the old path counts as left behind, and LERP
        sends again what does not arrive."""
        now = self.now_ps

        def change() -> None:
            self.pin(senders, dst, path)
            for row in senders.tolist():
                rdma.move(self.hs.listing, row, 0, now)

        self.call_of(change, senders)

    def call_of(self, change: Callable[[], None], rows: Int64Array) -> None:
        """Changes queue pairs, by their rows, while nothing happens; their hosts look at once."""
        self.network.call(change)
        for host in np.unique(self.hs.qp["host"][rows]).tolist():
            self.network.kick_host(host)

    # -- failures ---------------------------------------------------------------------------------------

    def port(self, link: TreeLink) -> tuple[int, int]:
        """(device id, port) of a link's lower end."""
        switch, port = self._lower_end(link)
        return self.topology.switches[switch].device_id, port

    def _lower_end(self, link: TreeLink) -> tuple[int, int]:
        """Index and port of the switch."""
        tree = self.tree
        if len(link) == 3:
            pod, plane, core = link
            return pod * (tree.leaves + tree.spines) + tree.leaves + plane, tree.leaves + 1 + core
        return self._leaf[link[0]], tree.hosts + 1 + link[1]

    def link_index(self, link: TreeLink) -> int:
        """The link's index in the topology."""
        switch, port = self._lower_end(link)
        peer = self.topology.switches[switch].peer(port)
        assert peer is not None  # every link of `paths` is there
        return peer.link

    def links_up(self) -> NDArray[np.bool_]:
        """(links,) whether their ports are up, as their lower ends see it."""
        return self._of_links("up") != 0

    def queued_up(self) -> Int64Array:
        """(links,) bytes that wait for them at their lower ends."""
        return self._of_links("queue_bytes")

    def _of_links(self, name: str) -> Int64Array:
        stats = self.network.port_stats()
        if self._up_rows is None:
            at = {end: k for k, end in enumerate(zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True))}
            self._up_rows = np.array([at[self.port(link)] for link in self.paths.links], np.int64)
        return stats[name][self._up_rows].astype(np.int64)

    def cut(self, link: TreeLink, *, silent: bool = False) -> None:
        """Break a link: its ports go down, or, if `silent`, it loses every frame and looks as if it were up."""
        if silent:
            self.network.set_faults(self.port(link), loss=1.0)
        else:
            self.network.set_link(self.port(link), False)

    def cut_hosts(self, leaf: int) -> None:
        """Take down the ports to a leaf's hosts."""
        switch = self.topology.switches[self._leaf[leaf]]
        for host in self.topology.hosts_of[switch.index]:
            self.network.set_link((switch.device_id, host.port), False)

    def reroute(self, dead: Iterable[TreeLink]) -> int:
        """Routes around dead links, for packets that no uSID list leads; returns entries written."""
        return self.replan(frozenset(Failure("link", self.link_index(link)) for link in dead))


def _topology(tree: FatTree, tuning: Tuning) -> Topology:
    if not tree.cores:
        return leaf_spine(tree.leaves, tree.spines, tree.hosts, tree.cables, tuning.speed(tree.speed))
    return three_levels(tree.pods, tree.leaves, tree.spines, tree.cores, tree.hosts)
