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
from detour.fabric.traffic.expander import ExpanderFabric, pair_paths, path_sets
from detour.hosts.addresses import head_words
from detour.hosts.verbs.bulk import PathSets
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
    """Raise `DetourError`: there is no such routing or scheme, or they do not go together."""
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
        self._give_lists(np.array(pairs, np.int64).reshape(-1, 2))

    def lease(self, pairs: Int64Array) -> None:
        """As `connect`, of tasks; see `VirtualFabric`."""
        super().lease(pairs)
        self._give_lists(pairs)

    def _give_lists(self, pairs: Int64Array) -> None:
        ends = np.array([host.switch for host in self.topology.hosts], np.int32)[pairs]
        away = np.flatnonzero(ends[:, 0] != ends[:, 1])
        if self._point.routing == UGAL:
            last, place = np.unique(ends[:, 1], return_inverse=True)
            self.give_sets(np.arange(len(pairs)), pairs, place, self._last_switches(last), "pinned")
        elif self._point.routing in FAMILIES:
            distinct, place = np.unique(ends[away], axis=0, return_inverse=True)
            sets, place = self._sets(distinct), place.ravel()
            ports = np.random.default_rng([self._point.seed, 0x5997]).integers(
                1 << 15, size=(len(away), sets.words.shape[1])
            )
            self.give_sets(away, pairs[away], place, sets, SPRAYING[self._point.scheme], ports)

    def _last_switches(self, switches: Int32Array) -> PathSets:
        """Lists that name the last switch and the host, and leave the path to the switches (ugal_graph.p4)."""
        heads = np.array([head_words((self.topology.switches[k].node_id,)) for k in switches.tolist()], np.int64)
        one = np.ones(len(heads), np.int64)
        return PathSets(heads[:, None, :2], heads[:, 2:], one[:, None], one, one)

    def _sets(self, distinct: Int32Array) -> PathSets:
        """The lists of the point's family for pairs of switches, (n, 2), shortest first."""
        point = self._point
        routes, shares = family_paths(point, FAMILIES[point.routing], self._network_for_lists, distinct)
        paths = pair_paths(routes)
        preferred = np.where(paths.used, shares[paths.rows] * paths.links ** float(-point.setting.exponent), 0.0)
        turns = _TURNS * preferred / preferred.sum(axis=1, keepdims=True)
        weights = np.maximum(1, np.round(turns)).astype(np.int64)
        return path_sets(routes, paths, shortest_first=point.setting.shortest_first, weights=weights)


def family_paths(point: FlatWay, family: str, network: Expander, pairs: Int32Array) -> WeightedRoutes:
    """The paths of a family between pairs of switches, by the setting of a point."""
    spraypoint = SpraypointParameters(p=point.setting.waypoints)
    return weighted_routes(family, network, pairs, k=LISTS, spraypoint=spraypoint)
