# SPDX-License-Identifier: Apache-2.0
"""A two-level fat-tree FT(2; m0, m1) in virtual time whose hosts name the spine of every message in a uSID list.

    with PinnedFabric(FatTree2(spines=4, leaves=4), Tuning(), connections=100) as fabric:
        flows = fabric.connect(src, dst, spine)
        post_many(flows, 1 << 20, now_ps=fabric.now_ps)

Leaf u has the hosts u*m0 to u*m0 + m0 - 1, and a link to each of the m0 spines (FORS, section 4). A message to another
leaf carries [spine, leaf, host] in its destination address (RFC 9800); inside a leaf it carries the plain address.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.fors.fabric import FatTree2, LeafSpineLink
from detour.control.fors.plan import INSIDE
from detour.control.policy import Amount, StepMarking
from detour.fabric.footings.virtual.fabric import VirtualFabric
from detour.fabric.footings.virtual.scheme import LinkSettings, RunSettings, Scheme
from detour.hosts.frames.addresses import final_address, to_words
from detour.hosts.paths import paths
from detour.hosts.verbs.bulk import Flows, connect_many
from detour.hosts.verbs.verbs import CongestionControl
from detour.topo.address import usid_address
from detour.topo.clos import leaf_spine
from detour.topo.failures import Failure


@dataclass(frozen=True)
class Tuning:
    """What the paper's network leaves open, for the whole fabric.

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
        hosts = {
            "payload": self.payload,
            "mtu": self.payload,
            "line_rate_cwnd": self.window,
            "reroute_cwnd": self.window,
            "min_rto_ps": self.min_rto_ps,
            "initial_rto_ps": 2 * self.min_rto_ps,
            "min_probe_timeout_ps": self.min_rto_ps // 4,
        }
        marking = StepMarking(Amount(self.mark_packets))
        return Scheme("pinned", "lerp", "dctcp", "shortest", marking, hosts=tuple(hosts.items()))

    def settings(self) -> RunSettings:
        """Links, buffers, sizes and seed."""
        links = LinkSettings(self.rate_bps, self.host_delay_ps, self.local_delay_ps, self.local_delay_ps)
        return RunSettings(links, window=self.window, seed=self.seed)


class PinnedFabric(VirtualFabric):
    """See the module. A context manager."""

    def __init__(self, tree: FatTree2, tuning: Tuning | None = None, *, connections: int) -> None:
        """`connections`: how many will be made at most.

        Raises:
            DetourError: the tree is not possible.
        """
        tuning = tuning or Tuning()
        topology = leaf_spine(leaves=tree.leaves, spines=tree.spines, hosts=tree.spines)
        super().__init__(topology, tuning.scheme(), tuning.settings(), queue_pairs=connections)
        self.tree, self.tuning = tree, tuning
        for leaf, spine in sorted(tree.failed):
            self.cut(leaf, spine)
        if tree.failed:
            self.reroute(tree.failed)
        self._lists, self._finals = self._usid_lists()
        self._ports = np.random.default_rng([self.settings.seed, 7])
        self._up_rows: Int64Array | None = None

    def _usid_lists(self) -> tuple[Int64Array, Int64Array]:
        """Destination addresses by spine and host, shape (m0, hosts, 2), and what the hosts see, shape (hosts,)."""
        switches, hosts = self.topology.switches, self.topology.hosts
        lists = np.empty((self.tree.spines, len(hosts), 2), np.int64)
        for spine in range(self.tree.spines):
            above = switches[self.tree.leaves + spine].node_id
            for host in hosts:
                lists[spine, host.index] = to_words(usid_address((above, switches[host.switch].node_id, host.node_id)))
        finals = np.array([to_words(final_address((host.node_id,)))[0] for host in hosts], np.int64)
        return lists, finals

    # -- connections ------------------------------------------------------------------------------------

    def connect_pinned(self, src: Int64Array, dst: Int64Array, spine: Int64Array) -> Flows:
        """Connections from hosts `src` to `dst` by way of `spine` (`INSIDE`: inside a leaf), shapes (n,).

        May be called again for more."""
        flows = connect_many(
            self.device,
            src,
            dst,
            congestion_control=CongestionControl.DCTCP,
            telemetry=False,
            ports=self._ports.integers(0, 1 << 15, (len(src), 1)),
            seed=self.settings.seed,
        )
        self.pin(flows.sender, dst, spine)
        return flows

    def pin(self, senders: Int64Array, dst: Int64Array, spine: Int64Array) -> None:
        """The senders' packets go by these spines from the next one on. What is under way is not touched."""
        away = np.asarray(spine) != INSIDE
        lists = np.where(away[:, None], self._lists[np.where(away, spine, 0), dst], 0)
        candidate = self.hs.candidate
        candidate["dst_hi"][senders, 0], candidate["dst_lo"][senders, 0] = lists[:, 0], lists[:, 1]
        candidate["final_hi"][senders, 0] = np.where(away, self._finals[dst], 0)

    def move(self, senders: Int64Array, dst: Int64Array, spine: Int64Array) -> None:
        """`pin` for connections in the middle of a message: what is on the old path counts as left behind, and LERP
        sends again what does not arrive."""
        self.pin(senders, dst, spine)
        now = self.now_ps

        def change() -> None:
            for row in senders.tolist():
                paths.move(self.hs, row, self.hs.qp[row], 0, now)

        self.network.call(change)
        for host in np.unique(self.hs.qp["host"][senders]).tolist():
            self.network.kick_host(host)

    # -- failures ---------------------------------------------------------------------------------------

    def port(self, leaf: int, spine: int) -> tuple[int, int]:
        """(device id, port) of a leaf's link to a spine."""
        return self.topology.switches[leaf].device_id, self.tree.spines + 1 + spine

    def link_index(self, leaf: int, spine: int) -> int:
        """The link's index in the topology."""
        peer = self.topology.switches[leaf].peer(self.tree.spines + 1 + spine)
        assert peer is not None  # every leaf has a link to every spine
        return peer.link

    def links_up(self) -> NDArray[np.bool_]:
        """Whether the links' ports are up, shape (leaves, spines), as the leaves see it."""
        return self._of_uplinks("up") != 0

    def queued_up(self) -> Int64Array:
        """Bytes that wait in the leaves for their links to the spines, shape (leaves, spines)."""
        return self._of_uplinks("queue_bytes")

    def _of_uplinks(self, name: str) -> Int64Array:
        stats = self.network.port_stats()
        if self._up_rows is None:
            at = {end: k for k, end in enumerate(zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True))}
            ends = [at[self.port(u, c)] for u in range(self.tree.leaves) for c in range(self.tree.spines)]
            self._up_rows = np.array(ends, np.int64)
        return stats[name][self._up_rows].astype(np.int64).reshape(self.tree.leaves, self.tree.spines)

    def cut(self, leaf: int, spine: int, *, silent: bool = False) -> None:
        """Breaks a link: its ports go down, or, if `silent`, it loses every frame and looks as if it were up."""
        if silent:
            self.network.set_faults(self.port(leaf, spine), loss=1.0)
        else:
            self.network.set_link(self.port(leaf, spine), False)

    def cut_hosts(self, leaf: int) -> None:
        """Takes down the ports to a leaf's hosts."""
        switch = self.topology.switches[leaf]
        for host in self.topology.hosts_of[leaf]:
            self.network.set_link((switch.device_id, host.port), False)

    def reroute(self, dead: Iterable[LeafSpineLink]) -> int:
        """Routes around dead (leaf, spine) links, for packets that no uSID list leads; returns entries written."""
        return self.replan(frozenset(Failure("link", self.link_index(u, c)) for u, c in dead))
