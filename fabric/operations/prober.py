# SPDX-License-Identifier: Apache-2.0
"""Path Test Messages on demand: the queuing delay of every candidate path between two hosts, without traffic."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from detour.fabric.footings.base import Fabric
from detour.fabric.footings.clock import ps
from detour.hosts.verbs.verbs import CQ, PD, QP, Path

_SECONDS = 2.0


def probe(fabric: Fabric, source: int, target: int, candidates: Sequence[Path]) -> list[int | None]:
    """Accumulated queuing delay on each candidate in ticks; None: no answer within two seconds."""
    sender, receiver, clock = fabric.context(source), fabric.context(target), fabric.clock
    with ExitStack() as opened:
        queues = [opened.enter_context(closing(CQ(context))) for context in (sender, receiver)]
        ours, theirs = (opened.enter_context(closing(QP(PD(queue.context), queue))) for queue in queues)
        ours.connect(theirs.endpoint, candidates=candidates)
        ours.probe()
        end = clock.now_ps + ps(_SECONDS)
        while None in ours.probed() and clock.now_ps < end:
            clock.wait(clock.now_ps + clock.pause_ps)
        return ours.probed()
