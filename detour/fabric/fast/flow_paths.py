# SPDX-License-Identifier: Apache-2.0
"""The links that a connection's packets take, and those of the answers to them, as the switches' hashes choose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.control.placement.placement import Placement
from detour.control.routes.hashes import DETOUR_BIT, PATHS, pick_member
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.fast.records import NONE, Hop
from detour.topo import Topology
from detour.topo.failures import Failures
from detour.topo.paths import directed_links, next_hops, port_towards
from detour.topo.topology import Host


@dataclass(frozen=True)
class FlowPath:
    """Links of data, from the sender's on, then those of answers (rows of `Hop`); `delay_ps`: of all, or of the longest
    path, there and back."""

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
        """The links of a connection; None: there are none, or its packets do not take shortest paths."""
        hs, sender = self._fabric.hs, self._fabric.flows.sender[flow]
        queue_pair = hs.qp[sender]
        if not queue_pair["sprays"]:
            return self._single(flow, hs.candidate[sender, int(queue_pair["cand"])], placement)
        paths = [self._single(flow, one, None) for one in hs.candidate[sender, : int(queue_pair["n_cand"])]]
        known = [path for path in paths if path is not None]
        if not known or len(known) < len(paths):
            return None
        weights = hs.candidate["weight"][sender, : len(paths)].astype(np.float64)
        return _merged(known, weights if weights.any() else np.ones(len(paths)))

    def _single(self, flow: int, candidate: np.void, placement: Placement | None) -> FlowPath | None:
        topology, failures = self._fabric.topology, self._fabric.failures
        source, target = (topology.hosts[host] for host in self._ends[flow])
        port, listed = int(candidate["sport"]), bool(candidate["dst_hi"])
        if placement is not None and listed:
            links = directed_links(topology, placement.path(flow))
            there = [(topology.switches[at].device_id, port_towards(topology, at, stop)) for at, stop in links]
        elif listed or port & DETOUR_BIT:
            return None
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
        rows["share"] = 1.0
        return rows


def _merged(paths: Sequence[FlowPath], weights: NDArray[np.float64]) -> FlowPath:
    """All links of several paths that share packets by weights."""
    parts = [slice(path.data_hops) for path in paths], [slice(path.data_hops, None) for path in paths]
    data, answers = (
        _union([path.hops[part] for path, part in zip(paths, some, strict=True)], weights / weights.sum())
        for some in parts
    )
    return FlowPath(np.concatenate([data, answers]), len(data), max(path.delay_ps for path in paths))


def _union(parts: Sequence[np.ndarray], shares: NDArray[np.float64]) -> np.ndarray:
    """Each link once, in the order in which they first occur, with the sum of the shares of those that have it."""
    rows = np.concatenate(parts)
    _, first, place = np.unique(rows["channel"], return_index=True, return_inverse=True)
    kept = rows[first]
    kept["share"] = np.bincount(place, np.repeat(shares, [len(part) for part in parts]))
    return kept[np.argsort(first)]


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
