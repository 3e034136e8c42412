# SPDX-License-Identifier: Apache-2.0
"""The contract of a host: four native functions by which a loop or a driver runs it (docs/architecture.md).

All take the shared arrays and the index of a host; `buf` is a C-contiguous `uint8` array with room for
`MAX_FRAME` bytes from `offset` on, `now` the time in ps, which must not run backwards.
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import njit
from detour.hosts.state import MAX_TIME, Hosts, make_hosts

__all__ = ["MAX_FRAME", "MAX_TIME", "Hosts", "deadline", "expire", "make_hosts", "receive", "transmit"]

MAX_FRAME = 4224
"""bytes of the longest frame that `transmit` writes"""


@njit
def receive(hs: Any, host: int, buf: Any, offset: int, length: int, now: int) -> None:
    """A frame of `length` bytes came in."""
    hs.host[host]["rx_frames"] += 1
    hs.host[host]["rx_bytes"] += length


@njit
def transmit(hs: Any, host: int, buf: Any, offset: int, now: int) -> int:
    """Writes the next frame to send; returns its length, 0 if nothing may go now."""
    return 0


@njit
def deadline(hs: Any, host: int) -> int:
    """When `expire` wants to be called, ps; `MAX_TIME`: never."""
    return MAX_TIME


@njit
def expire(hs: Any, host: int, now: int) -> None:
    """The deadline has passed. Harmless if it has not."""
    return
