# SPDX-License-Identifier: Apache-2.0
"""The schemes of the comparison: one transport, LERP with DCTCP and the same loss recovery and marking, below ways to
choose paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.base.errors import DetourError
from detour.control.expander.families import WeightedRoutes, weighted_routes
from detour.control.policy import Amount, StepMarking
from detour.control.routes.spraypoint import SpraypointParameters
from detour.experiments.flat.points import (
    FAMILIES,
    PLACED,
    SINGLE_PATH,
    SPRAYING,
    SWITCH_ROUTINGS,
    UGAL,
    FlatSetting,
    FlatWay,
)
from detour.fabric.backends.virtual.scheme import SPRAY_LERP, LinkSettings, RunSettings, Scheme
from detour.fabric.traffic.expander import ExpanderFabric, lists_of
from detour.hosts.addresses import to_words
from detour.topo.address import usid_address
from detour.topo.expander import Expander
from detour.topo.failures import NONE, Failures
from detour.topo.topology import HostPair

LINKS = LinkSettings(rate_bps=25_000_000_000)
"""in time as 100 Gb/s with packets of 4 kB"""
WINDOW = 256
"""packets that a connection may have under way"""
LISTS = 32
"""paths of a connection at most, as many as hosts have room for"""
FLOWLET_GAP_NS = 5_000
_TURNS = 256
"""in which paths that take turns by weight have their shares"""


def _switches(routing: str, setting: FlatSetting) -> str:
    """The routing of switches (`control.routings`)."""
    spraypoint = f"spraypoint:p={setting.waypoints}"
    return {
        "spraypoint": spraypoint,
        "spraypoint-flowlet": f"{spraypoint},gap={FLOWLET_GAP_NS}",
        "spraypoint-packet": f"{spraypoint},per_packet=1",
        UGAL: f"ugal-graph:threshold={setting.bias}",
    }.get(routing, "valiant")


def check(routing: str, scheme: str) -> None:
    """Raises `DetourError`: there is no such routing or scheme, or they do not go together."""
    routings = (*SWITCH_ROUTINGS, *FAMILIES, PLACED)
    if routing not in routings:
        raise DetourError(f"routing {routing!r}; there are {', '.join(routings)}")
    if scheme not in (SINGLE_PATH, *SPRAYING):
        raise DetourError(f"scheme {scheme!r}; there are {', '.join((SINGLE_PATH, *SPRAYING))}")


def scheme_of(point: FlatWay) -> Scheme:
    """The scheme of a point."""
    lists = point.routing in FAMILIES
    by_ports = "shortest" if point.scheme == SINGLE_PATH else SPRAYING[point.scheme]
    return Scheme(
        f"{point.routing}/{point.scheme}",
        "lerp",
        "dctcp",
        "pinned" if lists else by_ports,
        StepMarking(Amount(point.setting.ecn_kb * 1000, "bytes")),
        routing=_switches(point.routing, point.setting),
        hosts=SPRAY_LERP.hosts,
    )


class FlatFabric(ExpanderFabric):
    """A network whose connections have the paths of a point. `failures`: that take parts down, and if `known` routes
    and lists avoid."""

    def __init__(
        self, network: Expander, point: FlatWay, queue_pairs: int, failures: Failures = NONE, known: bool = False
    ) -> None:
        super().__init__(
            network, scheme_of(point), RunSettings(LINKS, window=WINDOW, seed=point.seed), queue_pairs=queue_pairs
        )
        self._point = point
        self._network_for_lists = network.under(failures) if known else network
        if failures and known:
            self.replan(failures)
        self.apply_failures(failures)

    def connect(self, pairs: Sequence[HostPair]) -> None:
        """Connections that send nothing yet; those of the same switch have one path. To be called once."""
        super().connect(pairs)
        hosts = self.topology.hosts
        ends = np.array([(hosts[a].switch, hosts[b].switch) for a, b in pairs], np.int32).reshape(-1, 2)
        away = np.flatnonzero(ends[:, 0] != ends[:, 1])
        if self._point.routing == UGAL:
            self.route(pairs, self._last_switches(pairs))
        elif self._point.routing in FAMILIES:
            self._spray_lists(away, [pairs[k] for k in away.tolist()], ends[away])

    def _last_switches(self, pairs: Sequence[HostPair]) -> Int64Array:
        """Lists that name the last switch and the host, and leave the path to the switches (ugal_graph.p4)."""
        topology = self.topology
        ends = [topology.hosts[target] for _, target in pairs]
        words = [to_words(usid_address((topology.switches[end.switch].node_id, end.node_id))) for end in ends]
        return np.array(words, np.int64).reshape(-1, 2)

    def _spray_lists(self, which: Int64Array, pairs: Sequence[HostPair], ends: Int32Array) -> None:
        """Gives connections the lists of the point's family, shortest first."""
        point = self._point
        distinct, place = np.unique(ends, axis=0, return_inverse=True)
        routes, shares = family_paths(point, FAMILIES[point.routing], self._network_for_lists, distinct)
        counts = np.diff(routes.first)
        rows = routes.first[:-1, None] + np.arange(int(counts.max())) % counts[:, None]
        length = routes.length[rows].astype(np.int64)
        used = np.arange(rows.shape[1]) < counts[:, None]
        shortest = ((length == length[:, :1]) & used).sum(axis=1) if point.setting.shortest_first else counts
        preferred = np.where(used, shares[rows] * length ** float(-point.setting.exponent), 0.0)
        turns = _TURNS * preferred / preferred.sum(axis=1, keepdims=True)
        weights = np.maximum(1, np.round(turns)).astype(np.int64)
        mine = rows[place.ravel()]
        repeated = [pair for pair in pairs for _ in range(mine.shape[1])]
        lists = lists_of(routes, repeated, mine.ravel().tolist()).reshape(*mine.shape, 2)
        place = place.ravel()
        ports = np.random.default_rng([point.seed, 0x5997]).integers(1 << 15, size=mine.shape)
        self.spray(which, pairs, lists, counts[place], shortest[place], SPRAYING[point.scheme], weights[place], ports)


def family_paths(point: FlatWay, family: str, network: Expander, pairs: Int32Array) -> WeightedRoutes:
    """The paths of a family between pairs of switches, by the setting of a point."""
    spraypoint = SpraypointParameters(p=point.setting.waypoints)
    return weighted_routes(family, network, pairs, k=LISTS, spraypoint=spraypoint)
