# SPDX-License-Identifier: Apache-2.0
"""A watcher of every run in virtual time that pauses: it says at once that queues are deadlocked, and who waits for
whom.

A deadlock does not end by itself, so one look in a while misses none. Every `WATCH_PS` the watcher asks which paused
queues have sent nothing since the last look, which is cheap; only where there are some it searches. If none is paused
it looks again after the next event. Looking changes nothing in the fabric.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from detour.base.arrays import Int64Array
from detour.base.times import US
from detour.engine.network import Network
from detour.topo import Topology
from detour.topo.names import link_name

WATCH_PS = 20 * US
_log = logging.getLogger(__name__)

QueueId = tuple[int, int, int]
"""(device id, port, priority)"""


def queue_name(topology: Topology, queue: QueueId) -> str:
    """`s0-s3, priority 0`: a queue by the link that it leads to."""
    device, port, priority = queue
    switch = topology.switches[device - 1]
    peer = switch.peer(port)
    assert peer is not None  # a queue that waits is one of a port in use
    far = (topology.hosts if peer.kind == "host" else topology.switches)[peer.index].name
    return f"{link_name(switch.name, far)}, priority {priority}"


@dataclass(frozen=True)
class DeadlockFound:
    """`at_ps`: when it was seen; `circle`: queues by name, each waiting for the next and the last for the first."""

    at_ps: int
    queues: tuple[QueueId, ...]
    circle: tuple[str, ...]

    def __str__(self) -> str:
        waits = " waits for ".join((*self.circle, *self.circle[:1]))
        return f"deadlock at {self.at_ps / US:g} us of virtual time, {len(self.queues)} queues are stuck: {waits}"


class DeadlockWatch:
    def __init__(self, network: Network, topology: Topology, run: Callable[[int], object]) -> None:
        """`run`: lets the network run until then."""
        self._network, self._topology, self._run = network, topology, run
        self._seen: Int64Array | None = None
        self._next_ps = WATCH_PS
        self.deadlock: DeadlockFound | None = None
        """the first deadlock, None without one"""

    def run(self, until_ps: int) -> None:
        """Let the network run until then; once a deadlock is found nobody looks any more."""
        while self.deadlock is None and self._next_ps <= until_ps:
            self._run(self._next_ps)
            self._look()
            now_ps, quiet_ps = self._network.now_ps, 0
            if self._seen is not None and not len(self._seen):
                quiet_ps = max(min(self._network.quiet_until_ps, until_ps) - now_ps, 0)
            self._next_ps = now_ps + (quiet_ps // WATCH_PS + 1) * WATCH_PS
        self._run(until_ps)

    def _look(self) -> None:
        still, self._seen = self._network.unmoved(self._seen)
        queues = self._network.deadlock() if still else []
        if queues:
            circle = tuple(queue_name(self._topology, queue) for queue in self._network.cyclic_wait())
            self.deadlock = DeadlockFound(self._network.now_ps, tuple(queues), circle)
            _log.warning("%s", self.deadlock)
