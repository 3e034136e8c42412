# SPDX-License-Identifier: Apache-2.0
"""Packet memory of a switch and its use; the rules are in `detour.engine.loop.buffers`."""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.engine.loop.layout import PFC_BYTES

_PS_PER_SECOND_OF_BITS = 8 * 10**12
PFC_CLASSES = 8
"""PFC knows eight classes (IEEE 802.1Qbb)."""


def headroom(rate_bps: int, delay_ps: int, mtu_bytes: int, overhead_bytes: int = 0) -> int:
    """Bytes of one class that its headroom must hold, so that nothing is lost (IEEE 802.1Q-2018, annex N).

    `rate_bps` and `delay_ps` are those of the cable, `mtu_bytes` is the longest frame that it carries, `overhead_bytes`
    what preamble and gap add to a frame's time (none, as links are by default). From the frame that is the first to
    find no other room until the pause has taken effect, frames arrive for as long as

    * a frame of the receiver's own is under way, so that the pause must wait,
    * the pause itself takes to be sent,
    * it takes to travel, and what was sent meanwhile to arrive: twice the delay,
    * a frame takes that the sender began right before the pause came.

    Annex N adds what interfaces and higher layers need to react; here they need no time. That first frame lies in the
    headroom too, and frames are charged whole. The result is safe for frames of any size up to the MTU, and at most
    one MTU above the least that is safe for frames of just that size.
    """
    frame, pause = mtu_bytes + overhead_bytes, PFC_BYTES + overhead_bytes
    window = (2 * frame + pause) * _PS_PER_SECOND_OF_BITS + 2 * rate_bps * delay_ps  # ps times bit/s
    # The engine cuts a frame's time to whole picoseconds; where that is inexact, frames are faster by up to one.
    cut = rate_bps if _PS_PER_SECOND_OF_BITS % rate_bps else 0
    arriving = max(
        -(-window * size // ((size + overhead_bytes) * _PS_PER_SECOND_OF_BITS - cut))
        for size in (min(mtu_bytes, PFC_BYTES), mtu_bytes)
    )
    return arriving + mtu_bytes


@dataclass(frozen=True)
class Buffers:
    """The packet memory of one switch, shared by all its ports; sizes in bytes on the wire."""

    total_bytes: int
    lossless: int = 0
    """bit p: class p is under PFC"""
    headroom_bytes: int = 0
    """for each port and lossless class, see `headroom`"""
    reserve_bytes: int = 4096
    """for each port and lossless class"""
    xoff_shift: int = 3
    """a class of a port is paused when it uses the free shared memory divided by 2**xoff_shift"""
    xon_offset_bytes: int = 3072
    """and goes on when it uses this much less"""
    alpha: float = 1.0
    """an output queue of a lossy class takes at most this times the free shared memory"""

    def __post_init__(self) -> None:
        if self.total_bytes < 1:
            raise DetourError(f"a switch cannot work with {self.total_bytes} bytes of packet memory")
        if not 0 <= self.lossless < 1 << PFC_CLASSES:
            raise DetourError(f"lossless classes {self.lossless:#b}: PFC has classes 0 to {PFC_CLASSES - 1}")
        if self.lossless and self.headroom_bytes < 1:
            raise DetourError("PFC needs headroom for frames that arrive until the neighbour pauses")
        if min(self.headroom_bytes, self.reserve_bytes, self.xoff_shift, self.xon_offset_bytes) < 0:
            raise DetourError("headroom, reserve, xoff_shift and xon_offset cannot be negative")
        if not 0 < self.alpha <= 1024:
            raise DetourError(f"alpha is {self.alpha}; it must be above 0 and at most 1024")

    def shared_bytes(self, ports: int) -> int:
        """Return the memory that all classes of a switch with that many cabled ports share.

        Raises:
            DetourError: headroom and reserves alone take more than there is.
        """
        accounts = ports * self.lossless.bit_count()
        left = self.total_bytes - accounts * (self.headroom_bytes + self.reserve_bytes)
        if left <= 0:
            raise DetourError(
                f"{accounts} accounts ({ports} ports, {self.lossless.bit_count()} lossless classes) of "
                f"{self.headroom_bytes} bytes headroom and {self.reserve_bytes} bytes reserve do not fit "
                f"into {self.total_bytes} bytes of packet memory"
            )
        return left
