# SPDX-License-Identifier: Apache-2.0
"""Parameters of connections."""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.base.times import MS

_SECOND = 1_000 * MS
_LONGEST_RING = 1 << 20


@dataclass(frozen=True)
class TcpConfig:
    """Defaults are Linux's where RFCs leave a choice. Times are picoseconds."""

    cc: str = "cubic"
    """congestion control: `newreno`, `cubic`, `dctcp`, or one of one's own (docs/extending.md)"""
    sack: bool = True
    timestamps: bool = True
    ecn: bool = False
    """RFC 3168; DCTCP has it in any case, and receivers then echo every mark (RFC 8257)"""
    recovery: str = "rack"
    """`rack` (RFC 8985, with tail loss probes) or `sack` (RFC 6675)"""
    pacing: bool = False
    """segments go 1.2 windows a round trip apart, 2 in slow start"""
    initial_window: int = 10
    """segments (RFC 6928)"""
    window_segments: int = 4_096
    """segments that may be under way; a power of two"""
    receive_buffer: int = 6 << 20
    """bytes; what is offered to the peer"""
    delayed_ack_ps: int = 40 * MS
    min_rto_ps: int = 200 * MS
    """RFC 6298 wants 1 s"""
    max_rto_ps: int = 60 * _SECOND
    initial_rto_ps: int = 1 * _SECOND
    max_retries: int = 15
    time_wait_ps: int = 60 * _SECOND
    clock_ps: int = MS
    """granularity of RTT measurements (RFC 6298's G)"""
    check: bool = True
    """receivers compare what comes with the pattern that our senders send"""

    def __post_init__(self) -> None:
        if self.recovery not in ("rack", "sack"):
            raise DetourError(f"recovery is rack or sack, not {self.recovery!r}")
        ring = self.window_segments
        if not 8 <= ring <= _LONGEST_RING or ring & (ring - 1):
            raise DetourError(f"a window of {ring} segments; expected a power of two from 8 to {_LONGEST_RING}")
        if not 4_096 <= self.receive_buffer <= 1 << 30:
            raise DetourError(f"a receive buffer of {self.receive_buffer} bytes; expected 4096 to 2**30")
        if not 1 <= self.initial_window <= ring:
            raise DetourError(f"an initial window of {self.initial_window} segments; expected 1 to {ring}")
        if not 0 < self.min_rto_ps <= self.max_rto_ps:
            raise DetourError("the minimum timeout must be above 0 and at most the maximum")
