# SPDX-License-Identifier: Apache-2.0
"""One output port with queues, fed from outside, that measures itself: `p4src/queues.p4` adds up, for each queue, how
long frames waited (`deq_timedelta`) and how many they found (`enq_qdepth`).

The line has 8 Gb/s, so a byte takes a nanosecond. What leaves it arrives at a second switch without a program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.fabric.backends.virtual.fabric import program

_QUEUES = 8
LINE_BPS = 8_000_000_000
PS_OF_A_BYTE = 8 * 10**12 // LINE_BPS
_TICK_PS = 1_000
_HEADER = 14
ENDLESS_QUEUE = 1 << 40
_BATCH = 4096
_PORT = (1, 2)


@dataclass(frozen=True)
class QueueCounts:
    """What left a queue: frames and their bytes; sums of how long they waited, in ps, and of how many they found."""

    packets: int
    bytes: int
    waited_ps: int
    waiting: int


class QueueBench:
    """See the module. A context manager."""

    def __init__(self, depth: int = ENDLESS_QUEUE, line_bps: int = LINE_BPS, packets: int = 1 << 17) -> None:
        """`depth`: of each queue, in packets. `packets`: that may be there at once."""
        code = program("queues")
        self.network = Network(Virtual(), _TICK_PS, packets=packets, frame_bytes=64)
        self.network.add_switch(1, priorities=_QUEUES)
        self.network.add_switch(2)
        self._state = SwitchState(code, 1, _TICK_PS)
        self.network.set_pipeline(1, code, self._state)
        self.network.connect(_PORT, (2, 1), line_bps, 0, depth)

    def set_queue(self, priority: int, **settings: int) -> None:
        """As `Network.set_queue`."""
        self.network.set_queue(_PORT, priority=priority, **settings)

    def offer(self, times_ps: Int64Array, sizes: Int64Array, queues: Int64Array) -> None:
        """Lets frames come in at these times (rising), of these bytes on the wire, for these queues. Raises
        `DetourError`: more of them wait than there is memory for."""
        for first in range(0, len(times_ps), _BATCH):
            part = slice(first, first + _BATCH)
            frames = np.zeros((len(times_ps[part]), _HEADER), np.uint8)
            frames[:, 5] = queues[part]
            if self.network.inject_many(_PORT, times_ps[part], frames, sizes[part]) < len(frames):
                raise DetourError("more frames wait than the packet pool holds")
            self.network.run(int(times_ps[part][-1]))

    def drain(self) -> None:
        """Lets everything leave that waits."""
        while self.network.loop_stats()["used"]:
            self.network.run(self.network.now_ps + 10**9)

    def counts(self) -> list[QueueCounts]:
        """What has left each queue."""
        names = ("packets", "octets", "waited", "found")
        values = [self._state.registers[f"QueuesEgress.{name}"].values() for name in names]
        rows = zip(*values, strict=True)
        return [QueueCounts(packets, octets, waited * _TICK_PS, waiting) for packets, octets, waited, waiting in rows]

    def drops(self) -> int:
        """Frames that found their queue full."""
        return sum(state.drops for state in self.network.queue_states(_PORT))

    def __enter__(self) -> QueueBench:
        return self

    def __exit__(self, *_: object) -> None:
        self.network.stop()
