# SPDX-License-Identifier: Apache-2.0
"""The links that a connection's packets take, and those of the answers to them, as the switches' hashes choose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detour.base.arrays import Int64Array
from detour.control.placement.placement import Placement
from detour.control.routes.hashes import PATHS, pick_member
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.fast.records import NONE, Hop
from detour.topo import Topology
from detour.topo.failures import Failures
from detour.topo.paths import directed_links, next_hops, port_towards
from detour.topo.topology import Host


@dataclass(frozen=True)
class FlowPath:
    """Links of data in order, then those of answers (rows of `Hop`); `delay_ps`: of all."""

    hops: np.ndarray
    data_hops: int
    delay_ps: int


class FlowPaths:
    """Paths of a fabric's connections, found when they are asked for."""

    def __init__(self, fabric: VirtualFabric, ends: Int64Array) -> None:
        """`ends`: (connections, 2) hosts."""
        self._fabric, self._ends = fabric, ends
        self._ports, self._nics = fabric.network.frame_places()
        self._delays = fabric.network.link_delays()

    def path(self, flow: int, placement: Placement | None) -> FlowPath | None:
        """The path of a connection; None: there is none."""
        topology, failures = self._fabric.topology, self._fabric.failures
        source, target = (topology.hosts[host] for host in self._ends[flow])
        hs, sender = self._fabric.hs, self._fabric.flows.sender[flow]
        candidate = hs.candidate[sender, int(hs.qp["cand"][sender])]
        port = int(candidate["sport"])
        if placement is not None and candidate["dst_hi"]:
            links = directed_links(topology, placement.path(flow))
            there = [(topology.switches[at].device_id, port_towards(topology, at, stop)) for at, stop in links]
        else:
            there = _hops(topology, source, target, port, failures)
        back = _hops(topology, target, source, port, failures)
        if there is None or back is None:
            return None
        hops = np.concatenate([self._rows(source, target, there), self._rows(target, source, back)])
        return FlowPath(hops, len(there) + 2, int(self._delays[hops["channel"]].sum()))

    def _rows(self, source: Host, target: Host, hops: Sequence[tuple[int, int]]) -> np.ndarray:
        """Links of a path."""
        nic, uplink = self._nics[source.index]
        last = (self._fabric.topology.switches[target.switch].device_id, target.port)
        places = [self._ports[hop] for hop in (*hops, last)]
        rows = np.zeros(len(places) + 1, Hop.dtype)
        rows["port"], rows["channel"] = np.array([(NONE, uplink), *places]).T
        rows["nic"] = [nic, *[NONE] * len(places)]
        return rows


def _hops(
    topology: Topology, source: Host, target: Host, port: int, failures: Failures
) -> list[tuple[int, int]] | None:
    """Switches (device ids) and the ports by which they send a packet with a source port."""
    hops, at = [], source.switch
    while at != target.switch:
        choices = next_hops(topology, at, target.switch, failures)
        switch = topology.switches[at]
        if not choices:
            return None
        chosen = choices[pick_member(port % PATHS, switch.node_id, len(choices)) if len(choices) > 1 else 0]
        hops.append((switch.device_id, chosen))
        peer = switch.peer(chosen)
        assert peer is not None  # there is a link
        at = peer.index
    return hops
