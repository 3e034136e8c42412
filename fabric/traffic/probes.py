# SPDX-License-Identifier: Apache-2.0
"""Probes that find links which lose every frame while their ports are up (PTM and PTR of the path measurement)."""

from __future__ import annotations

import numpy as np

from detour.control.fors.fabric import TreeLink
from detour.fabric.traffic.pinned import PinnedFabric
from detour.hosts import rdma
from detour.hosts.state import NIL


class Probes:
    """Connections over every link that a leaf with two hosts sees, and how many probes in a row have not come back."""

    def __init__(self, fabric: PinnedFabric) -> None:
        tree = fabric.tree
        there = tree.there()
        self._probes = [probe for probe in fabric.paths.probes() if there[probe.leaf] >= 2]
        leaf, path = (np.array([probe[side] for probe in self._probes], np.int64) for side in range(2))
        first, count = leaf * tree.hosts, there[leaf]
        self._fabric = fabric
        self._rows = fabric.connect_pinned(first + path % count, first + (path + 1) % count, path).sender
        self._missed = np.zeros(len(self._rows), np.int64)
        self._sent = False

    def round(self) -> None:
        """Counts what has not come back of the last round and sends the next one."""
        hs = self._fabric.hs
        if self._sent:
            open_ = hs.candidate["asked"][self._rows, 0] != NIL
            self._missed = np.where(open_, self._missed + 1, 0)
        self._sent = True

        def send() -> None:
            for row in self._rows.tolist():
                rdma.probe_all(hs.listing, row)

        self._fabric.network.call(send)
        for host in np.unique(hs.qp["host"][self._rows]).tolist():
            self._fabric.network.kick_host(host)

    def missing(self, patience: int, known: set[TreeLink]) -> set[TreeLink]:
        """Links whose last `patience` probes did not come back. `known`: links that are down; what is probed through
        these says nothing of others."""
        late = [self._probes[k].links for k in np.flatnonzero(self._missed >= patience)]
        dead = known | {links[0] for links in late if len(links) == 1}
        return dead | {links[-1] for links in late if not dead.intersection(links[:-1])}
