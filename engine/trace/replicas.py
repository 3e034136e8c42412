# SPDX-License-Identifier: Apache-2.0
"""What a packet's groups and clone sessions replicate to, as long as nobody changes them while it is traced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

Copies = tuple[tuple[int, int], ...]
"""(egress port, replication id) of each"""


class Replicating(Protocol):
    """A network."""

    def replication(self, switch: int) -> tuple[dict[int, Copies], dict[int, Copies]]:
        """Of multicast groups and of clone sessions."""
        ...

    def replication_changes(self, switch: int) -> int:
        """How often they have changed."""
        ...


class ReplicaReader:
    """Look (`look`) when tracing starts and whenever records are fetched: what has changed in between is not known."""

    def __init__(self, network: Replicating) -> None:
        self._network = network
        self._changes: dict[int, int] = {}
        self._known: dict[int, tuple[dict[int, Copies], dict[int, Copies]] | None] = {}

    def look(self, switches: Iterable[int]) -> None:
        """At these."""
        for switch in switches:
            changes = self._network.replication_changes(switch)
            if self._changes.get(switch) != changes:
                self._known[switch] = None if switch in self._changes else self._network.replication(switch)
                self._changes[switch] = changes
            elif self._known[switch] is None:
                self._known[switch] = self._network.replication(switch)

    def of_group(self, switch: int, group: int) -> Copies | None:
        """What a packet of a multicast group becomes; None: not known."""
        known = self._known.get(switch)
        return None if known is None else known[0].get(group, ())

    def of_session(self, switch: int, session: int) -> Copies | None:
        """What a clone becomes; None: not known."""
        known = self._known.get(switch)
        return None if known is None else known[1].get(session, ())
