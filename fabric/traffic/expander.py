# SPDX-License-Identifier: Apache-2.0
"""An expander in virtual time whose hosts name the path of every message in a uSID list (FC+, section III).

    with ExpanderFabric(routes.network, scheme_of(routes.policy), settings, queue_pairs=len(flows)) as fabric:
        fabric.connect_routed(flows, lists_of(routes, flows, rows))
        fabric.send(100_000)

The planner lets the lossless priority rise by (in-port, out-port); PFC works per priority. ACKs have no list: they go
by shortest paths, in a priority of their own that PFC never pauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.control.expander.routes import ExpanderRoutes
from detour.control.policy import Amount, Ecn, RedMarking
from detour.fabric.footings.virtual.fabric import VirtualFabric
from detour.fabric.footings.virtual.scheme import PATIENT, RunSettings, Scheme
from detour.hosts.frames.addresses import final_address, to_words
from detour.topo.address import usid_address
from detour.topo.expander.network import Expander
from detour.topo.paths import path_usids
from detour.topo.topology import HostPair

BY_ADDRESS = -1
"""in place of a path: the switches choose among shortest ones (in a Clos: up and down)"""

EXPANDER_RED_MARKING = RedMarking(Amount(5_000, "bytes"), Amount(200_000, "bytes"), 0.01)
"""section V-B"""


def scheme_of(
    name: str, priorities: int, ecn: Ecn = EXPANDER_RED_MARKING, hosts: Sequence[tuple[str, Any]] = ()
) -> Scheme:
    """RoCEv2 with PFC in `priorities` lossless priorities (1 to 3; KSP has 1 and no regard to deadlock)."""
    return Scheme(name, "gbn", "dcqcn", "pinned", ecn, pfc=True, channels=max(1, priorities), hosts=(*PATIENT, *hosts))


def lists_of(routes: ExpanderRoutes, pairs: Sequence[HostPair], rows: Sequence[int]) -> Int64Array:
    """Destination addresses, shape (n, 2), that lead messages between pairs of hosts by paths of `routes`, or
    `BY_ADDRESS` (then 0).

    Raises:
        DetourError: a path needs more than six uSIDs.
    """
    topology = routes.network.topology
    heads: dict[int, tuple[int, ...]] = {}
    found = np.zeros((len(rows), 2), np.int64)
    for k, ((source, target), row) in enumerate(zip(pairs, rows, strict=True)):
        if row == BY_ADDRESS:
            continue
        host = topology.hosts[target]
        if row not in heads:
            switches, _ = routes.path(row, topology.hosts[source].switch)
            heads[row] = path_usids(topology, tuple(switches), host)[:-1]
        found[k] = to_words(usid_address((*heads[row], host.node_id)))
    return found


class ExpanderFabric(VirtualFabric):
    """See the module. A context manager."""

    def __init__(
        self, network: Expander, scheme: Scheme, settings: RunSettings | None = None, *, queue_pairs: int = 64
    ) -> None:
        """As `VirtualFabric`."""
        super().__init__(network.topology, scheme, settings, queue_pairs=queue_pairs)

    def connect_routed(self, pairs: Sequence[HostPair], lists: Int64Array) -> None:
        """Connections between pairs of hosts by the paths of `lists_of`; they send nothing yet. To be called once."""
        self.connect(pairs)
        hosts = self.topology.hosts
        candidate, senders, pinned = self.hs.candidate, self.flows.sender, lists[:, 0] != 0
        finals = np.array([to_words(final_address((hosts[target].node_id,)))[0] for _, target in pairs], np.int64)
        candidate["dst_hi"][senders, 0], candidate["dst_lo"][senders, 0] = lists[:, 0], lists[:, 1]
        candidate["final_hi"][senders, 0] = np.where(pinned, finals, 0)
