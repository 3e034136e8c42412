# SPDX-License-Identifier: Apache-2.0
"""The contract of an RDMA host: six functions by which something runs it (docs/architecture.md).

All take the shared arrays and the index of a host; `buf` is a C-contiguous `uint8` array with room for `MAX_FRAME`
bytes from `offset` on, `now` the time in ps, which must not run backwards. The event loop and drivers call the same
functions by address (`hosts.rdma`).
"""

from __future__ import annotations

from typing import Any

from detour.hosts import rdma
from detour.hosts.frames.sizes import MAX_FRAME as MAX_FRAME
from detour.hosts.stacks import WIRE_MASK
from detour.hosts.state import MAX_TIME as MAX_TIME
from detour.hosts.state import Hosts
from detour.hosts.state import make_hosts as make_hosts


def receive(hs: Hosts, host: int, buf: Any, offset: int, length: int, now: int) -> None:
    """A frame of `length` bytes came in."""
    rdma.receive(hs.listing, host, buf.ctypes.data + offset, length, length, now)


def transmit(hs: Hosts, host: int, buf: Any, offset: int, now: int) -> int:
    """Write the next frame to send; return its length, 0 if nothing may go now."""
    return rdma.transmit(hs.listing, host, buf.ctypes.data + offset, len(buf) - offset, now) & WIRE_MASK


def deadline(hs: Hosts, host: int) -> int:
    """The time at which `expire` wants to be called, ps; `MAX_TIME`: never."""
    return rdma.deadline(hs.listing, host)


def not_before(hs: Hosts, host: int) -> int:
    """A time before which no deadline is, ps: `deadline` may be later, but to know that takes looking at a QP."""
    return rdma.not_before(hs.listing, host)


def expire(hs: Hosts, host: int, now: int) -> None:
    """The deadline has passed. Harmless if it has not."""
    rdma.expire(hs.listing, host, now)


def pause(hs: Hosts, host: int, mask: int) -> None:
    """Priority p must not be sent while bit p of `mask` is set (PFC). Control goes on; data and PTMs are of
    `data_priority`. When it is cleared there may be something to `transmit`."""
    rdma.pause(hs.listing, host, mask)
