# SPDX-License-Identifier: Apache-2.0
"""Packets a second of the engine's loop alone, in virtual time: no sockets, no Python while it is timed.

The thread's processor time is what counts, so that whatever else runs on the machine takes little away from it. Packets
come in long bursts: what Python does in between leaves the processor's caches cold, as nothing does to a switch in use.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from detour.base.errors import DetourError
from detour.engine.network import Network
from detour.engine.wiring import Port

INJECT_BATCH = 16_384
NOWHERE = 999
"""Device id of a switch without a program: it takes packets and drops them."""
_SPACING_PS = 20_000
DRAIN_PS = 2_000_000
_RUNS = 5
_WARM_UP = 0.2


def packets_per_second(network: Network, port: Port, frames: Callable[[], Sequence[bytes]], seconds: float) -> float:
    """The median of some runs. `frames` makes the frames of the next batch, which arrive at `port`."""
    _timed(network, port, frames, _WARM_UP)
    return statistics.median(_timed(network, port, frames, seconds / _RUNS) for _ in range(_RUNS))


def _timed(network: Network, port: Port, frames: Callable[[], Sequence[bytes]], seconds: float) -> float:
    packets, busy = 0, 0.0
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        batch = frames()
        over = arrive(network, port, batch)
        start = time.thread_time()
        network.run(over + DRAIN_PS)
        busy += time.thread_time() - start
        packets += len(batch)
    return packets / busy


def arrive(network: Network, port: Port, frames: Sequence[bytes]) -> int:
    """Let frames arrive from now on, evenly spaced. Return when that is over, ps."""
    at = network.now_ps + 1
    for length, run in groupby(frames, len):
        data = b"".join(run)
        rows = np.frombuffer(data, np.uint8).reshape(-1, length)
        times = at + np.arange(len(rows), dtype=np.int64) * _SPACING_PS
        taken = network.inject_many(port, times, rows)
        if taken < len(rows):
            raise DetourError(f"the packet pool took {taken} of {len(rows)} frames")
        at += len(rows) * _SPACING_PS
    return at
