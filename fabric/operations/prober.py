# SPDX-License-Identifier: Apache-2.0
"""Path Test Messages on demand: the queuing delay of every candidate path between two hosts, without traffic."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from detour.hosts.verbs.verbs import CQ, PD, QP, Context, Device, Path

_SECONDS = 2.0
_POLL_SECONDS = 0.001


def probe(device: Device, source: int, target: int, candidates: Sequence[Path]) -> list[int | None]:
    """Accumulated queuing delay on each candidate in ticks; None: no answer within two seconds."""
    sender, receiver = Context(device, source), Context(device, target)
    queues = CQ(sender), CQ(receiver)
    ours, theirs = QP(PD(sender), queues[0]), QP(PD(receiver), queues[1])
    try:
        ours.connect(theirs.endpoint, candidates=candidates)
        ours.probe()
        end = time.monotonic() + _SECONDS
        pause = threading.Event()
        while None in ours.probed() and time.monotonic() < end:
            pause.wait(_POLL_SECONDS)
        return ours.probed()
    finally:
        ours.close()
        theirs.close()
        for queue in queues:
            queue.close()
