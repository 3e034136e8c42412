# SPDX-License-Identifier: Apache-2.0
"""A two-level fat-tree FT(2; m0, m1) in virtual time whose hosts name the spine of every message in a uSID list.

    with PinnedFabric(FatTree2(spines=4, leaves=4), Tuning(), connections=100) as fabric:
        flows = fabric.connect(src, dst, spine)
        post_many(flows, 1 << 20, now_ps=fabric.now_ps)

Leaf u has the hosts u*m0 to u*m0 + m0 - 1, and a link to each of the m0 spines (FORS, section 4; `FatTree2` knows of
other numbers of hosts and of parallel cables). A message to another leaf carries [spine, leaf, host] in its destination
address (RFC 9800), or [uA of the cable up, uA of the cable down, host] where there are several; inside a leaf it
carries the plain address.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.fors.fabric import FatTree2, LeafSpineLink
from detour.control.fors.plan import INSIDE
from detour.control.policy import Amount, StepMarking
from detour.fabric.footings.virtual.fabric import VirtualFabric
from detour.fabric.footings.virtual.scheme import SPRAY_LERP, LinkSettings, RunSettings, Scheme
from detour.hosts.frames.addresses import final_address, to_words
from detour.hosts.paths import paths
from detour.hosts.verbs.bulk import Flows, connect_many, draw_ports
from detour.hosts.verbs.verbs import CongestionControl, PathChoice
from detour.topo.address import adjacency_function, usid_address
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
        """Of links between switches, so that they carry whole bits a second."""
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

    def __init__(self, tree: FatTree2, tuning: Tuning | None = None, *, connections: int) -> None:
        """`connections`: how many will be made at most.

        Raises:
            DetourError: the tree is not possible.
        """
        tuning = tuning or Tuning()
        speed = tuning.speed(tree.speed)
        topology = leaf_spine(tree.leaves, tree.spines, tree.hosts, tree.cables, speed)
        super().__init__(topology, tuning.scheme(), tuning.settings(), queue_pairs=connections)
        self.tree, self.tuning = tree, tuning
        for leaf, uplink in sorted(tree.failed):
            self.cut(leaf, uplink)
        if tree.failed:
            self.reroute(tree.failed)
        self._lists, self._finals = self._usid_lists()
        self._by_cable = self._cable_lists() if tree.cables > 1 else None
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

    def _cable_lists(self) -> Int64Array:
        """Destination addresses by spine, cable up, cable down and host, shape (m0, cables, cables, hosts, 2)."""
        tree, hosts = self.tree, self.topology.hosts
        lists = np.empty((tree.spines, tree.cables, tree.cables, len(hosts), 2), np.int64)
        for spine, up, down in np.ndindex(lists.shape[:3]):
            first = adjacency_function(self._up_port(spine * tree.cables + up))
            for host in hosts:
                second = adjacency_function(host.switch * tree.cables + down + 1)
                lists[spine, up, down, host.index] = to_words(usid_address((first, second, host.node_id)))
        return lists

    # -- connections ------------------------------------------------------------------------------------

    def connect_pinned(
        self, src: Int64Array, dst: Int64Array, spine: Int64Array, cables: Int64Array | None = None
    ) -> Flows:
        """Connections from hosts `src` to `dst` by way of `spine` (`INSIDE`: inside a leaf), shapes (n,), and of
        `cables` (2, n), up and down (None: the switches choose among parallel ones).

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
        self.pin(flows.sender, dst, spine, cables)
        return flows

    def connect_messages(
        self, src: Int64Array, dst: Int64Array, spine: Int64Array, cables: Int64Array | None = None
    ) -> Flows:
        """`connect_pinned`, but under a scheme that sprays every packet finds its own way; spines must be `INSIDE`."""
        if self.scheme.paths != "spray":
            return self.connect_pinned(src, dst, spine, cables)
        if (spine != INSIDE).any():
            raise DetourError("messages whose packets are sprayed have no spine")
        return connect_many(
            self.device,
            src,
            dst,
            congestion_control=CongestionControl.DCTCP,
            choice=PathChoice.SPRAYING,
            ports=draw_ports(len(src), _SPRAY_PORTS, 0, self.settings.seed),
            seed=self.settings.seed,
        )

    def pin(self, senders: Int64Array, dst: Int64Array, spine: Int64Array, cables: Int64Array | None = None) -> None:
        """The senders' packets go by these spines from the next one on. What is under way is not touched."""
        away = np.asarray(spine) != INSIDE
        over = np.where(away, spine, 0)
        if cables is None or self._by_cable is None:
            chosen = self._lists[over, dst]
        else:
            chosen = self._by_cable[over, cables[0], cables[1], dst]
        lists = np.where(away[:, None], chosen, 0)
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

    def _up_port(self, uplink: int) -> int:
        return self.tree.hosts + 1 + uplink

    def port(self, leaf: int, uplink: int) -> tuple[int, int]:
        """(device id, port) of a leaf's link to a spine (its `uplink`, see `LeafSpineLink`)."""
        return self.topology.switches[leaf].device_id, self._up_port(uplink)

    def link_index(self, leaf: int, uplink: int) -> int:
        """The link's index in the topology."""
        peer = self.topology.switches[leaf].peer(self._up_port(uplink))
        assert peer is not None  # every leaf has a link to every spine
        return peer.link

    def links_up(self) -> NDArray[np.bool_]:
        """Whether the links' ports are up, shape (leaves, uplinks), as the leaves see it."""
        return self._of_uplinks("up") != 0

    def queued_up(self) -> Int64Array:
        """Bytes that wait in the leaves for their links to the spines, shape (leaves, uplinks)."""
        return self._of_uplinks("queue_bytes")

    def _of_uplinks(self, name: str) -> Int64Array:
        stats = self.network.port_stats()
        if self._up_rows is None:
            at = {end: k for k, end in enumerate(zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True))}
            ends = [at[self.port(u, c)] for u in range(self.tree.leaves) for c in range(self.tree.uplinks)]
            self._up_rows = np.array(ends, np.int64)
        return stats[name][self._up_rows].astype(np.int64).reshape(self.tree.leaves, self.tree.uplinks)

    def cut(self, leaf: int, uplink: int, *, silent: bool = False) -> None:
        """Breaks a link: its ports go down, or, if `silent`, it loses every frame and looks as if it were up."""
        if silent:
            self.network.set_faults(self.port(leaf, uplink), loss=1.0)
        else:
            self.network.set_link(self.port(leaf, uplink), False)

    def cut_hosts(self, leaf: int) -> None:
        """Takes down the ports to a leaf's hosts."""
        switch = self.topology.switches[leaf]
        for host in self.topology.hosts_of[leaf]:
            self.network.set_link((switch.device_id, host.port), False)

    def reroute(self, dead: Iterable[LeafSpineLink]) -> int:
        """Routes around dead (leaf, uplink) links, for packets that no uSID list leads; returns entries written."""
        return self.replan(frozenset(Failure("link", self.link_index(u, c)) for u, c in dead))
