# SPDX-License-Identifier: Apache-2.0
"""Packets a second of the engine's loop alone, in virtual time: no sockets, no Python while it is timed.

The thread's processor time is what counts, so that whatever else runs on the machine takes little away from it. Packets
come in long bursts: what Python does in between leaves the processor's caches cold, as nothing does to a switch in use.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from detour.engine.network import Network
from detour.engine.wiring import Port

INJECT_BATCH = 16_384
NOWHERE = 999
"""Device id of a switch without a program: it takes packets and drops them."""
_SPACING_PS = 20_000
_DRAIN_PS = 2_000_000
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
        at = network.now_ps + 1

        def arrive(batch: Sequence[bytes] = batch, at: int = at) -> None:
            for number, frame in enumerate(batch):
                network.inject(port, frame, at + number * _SPACING_PS)

        network.call(arrive)
        start = time.thread_time()
        network.run(at + len(batch) * _SPACING_PS + _DRAIN_PS)
        busy += time.thread_time() - start
        packets += len(batch)
    return packets / busy
