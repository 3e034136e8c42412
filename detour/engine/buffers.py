# SPDX-License-Identifier: Apache-2.0
"""How much packet memory a switch has and who may use it; the rules are in `detour.engine.loop.buffers`."""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.errors import DetourError

_PS_PER_SECOND_OF_BITS = 8 * 10**12
PFC_CLASSES = 8
"""PFC knows eight classes (IEEE 802.1Qbb)."""


def headroom(rate_bps: int, delay_ps: int, mtu_bytes: int) -> int:
    """Bytes that may still arrive after a class was paused: `2 * rate * delay + 2 * MTU` (FACTS 5), rounded up."""
    return -(-2 * rate_bps * delay_ps // _PS_PER_SECOND_OF_BITS) + 2 * mtu_bytes


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
            raise DetourError(f"a switch with {self.total_bytes} bytes of packet memory stores nothing")
        if not 0 <= self.lossless < 1 << PFC_CLASSES:
            raise DetourError(f"lossless classes {self.lossless:#b}: PFC has classes 0 to {PFC_CLASSES - 1}")
        if self.lossless and self.headroom_bytes < 1:
            raise DetourError("PFC without headroom loses what arrives while the neighbour hears of the pause")
        if min(self.headroom_bytes, self.reserve_bytes, self.xoff_shift, self.xon_offset_bytes) < 0:
            raise DetourError("headroom, reserve, xoff_shift and xon_offset cannot be negative")
        if not 0 < self.alpha <= 1024:
            raise DetourError(f"alpha is {self.alpha}; it must be above 0 and at most 1024")

    def shared_bytes(self, ports: int) -> int:
        """What all classes of a switch with that many cabled ports share.

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
