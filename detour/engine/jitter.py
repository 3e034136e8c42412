# SPDX-License-Identifier: Apache-2.0
"""Jitter of senders, against phase effects (Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways",
1992): where senders and queues are exactly periodic, the phase between two senders decides which of them a full queue
drops, for as long as they send. A random time of the order of what one packet takes at the bottleneck ends that.

It belongs to the host: a frame is late by a draw on its way into the network, in order, so a host still sends at the
rate of its link. By default the draw is below twice what a packet takes on the slowest link. Below once, of two senders
that fill their links one may get 57 %: it has one arrival in every service, the other one none or two. Below twice, 51.
"""

from __future__ import annotations

import numpy as np

from detour.base.times import MS
from detour.engine.loop.layout import JITTER_SHIFT, TO_NOWHERE
from detour.engine.loop.memory import Memory

AUTO = -1
"""twice as long as a packet takes at the slowest link or queue"""
LONGEST_PS = 100 * MS
FULL_FRAME_BYTES = 1514
"""longest frame of an MTU of 1500 bytes"""
_PS_PER_SECOND_OF_BITS = 8 * 10**12


def default_ps(memory: Memory, size: int) -> int:
    """Return the jitter of `AUTO` for packets of that many bytes."""
    return min(2 * packet_time_ps(memory, size), LONGEST_PS)


def packet_time_ps(memory: Memory, size: int) -> int:
    """The longest time that a packet of `size` bytes on the wire takes on a link, or in a queue that has a rate."""
    rates = np.concatenate(
        [memory.column("channels", "rate_bps")[memory.column("channels", "kind") != TO_NOWHERE],
         memory.column("queues", "rate_bps")]
    )  # fmt: skip
    slowest = int(rates[rates > 0].min(initial=np.iinfo(np.int64).max))
    size += int(memory.g["overhead_bytes"])
    return max(size * _PS_PER_SECOND_OF_BITS // slowest, int(memory.column("queues", "interval_ps").max(initial=0)))


def set_jitter(memory: Memory, jitter_ps: int, size: int, seed: int) -> None:
    """Set the jitter of all hosts that are attached, for a frame of `size` bytes; events of the same time are ordered
    by a draw from the seed from now on."""
    channels = memory.table("channels")
    taken = size + int(memory.g["overhead_bytes"])
    channels["jitter"][memory.column("nics", "channel")] = (jitter_ps << JITTER_SHIFT) // taken
    memory.g["tie_seed"] = int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0] >> 1) | 1
