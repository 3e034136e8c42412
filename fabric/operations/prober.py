# SPDX-License-Identifier: Apache-2.0
"""Path Test Messages on demand: the queuing delay of every candidate path between two hosts, without traffic."""

from __future__ import annotations

from collections.abc import Sequence

from detour.fabric.footings.base import Fabric
from detour.fabric.footings.clock import ps
from detour.hosts.verbs.verbs import CQ, PD, QP, Path

_SECONDS = 2.0


def probe(fabric: Fabric, source: int, target: int, candidates: Sequence[Path]) -> list[int | None]:
    """Accumulated queuing delay on each candidate in ticks; None: no answer within two seconds."""
    sender, receiver, clock = fabric.context(source), fabric.context(target), fabric.clock
    queues = CQ(sender), CQ(receiver)
    ours, theirs = QP(PD(sender), queues[0]), QP(PD(receiver), queues[1])
    try:
        ours.connect(theirs.endpoint, candidates=candidates)
        ours.probe()
        end = clock.now_ps + ps(_SECONDS)
        while None in ours.probed() and clock.now_ps < end:
            clock.wait(clock.now_ps + clock.pause_ps)
        return ours.probed()
    finally:
        ours.close()
        theirs.close()
        for queue in queues:
            queue.close()
