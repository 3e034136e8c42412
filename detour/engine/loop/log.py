# SPDX-License-Identifier: Apache-2.0
"""Logs of records that the loop leaves for Python: frames for controllers and sinks, digests, captured frames.

There are two logs, one for callbacks (`up`) and one for captures (`taken`). The loop appends; Python takes a log as
a whole between two slices, so nothing is shared between threads. The loop asks for that as soon as half
of a log is used; the other half takes what one event may still produce.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.engine.loop.layout import LoopGlobals, UpcallRecord
from detour.engine.loop.native import move_bytes, slot_at, up_at

_HEAD = UpcallRecord.dtype.itemsize
_NO_DETAIL = int64(0)


@inner()
def _append(base: int, kind: int, index: int, detail: int, time: int, data: int, length: int, wire: int) -> int:
    """Write a record at `base` and return its size."""
    size = _HEAD + ((length + 7) & ~7)
    head = up_at(base, 0)
    head.size = size
    head.kind = kind
    head.index = index
    head.detail = detail
    head.time = time
    head.length = length
    head.wire = wire
    move_bytes(base + _HEAD, data, length)
    return size


@inner()
def log_upcall(g: LoopGlobals, kind: int, index: int, detail: int, data: int, length: int, wire: int) -> bool:
    """Leaves `length` bytes at address `data` for Python's callbacks; False (counted) if the log is full."""
    if g.up_used + _HEAD + length + 8 > g.up_size:
        g.up_drops += 1
        return False
    g.up_used += _append(g.up + g.up_used, kind, index, detail, g.now, data, length, wire)
    return True


@inner()
def log_capture(g: LoopGlobals, kind: int, port: int, slot: int) -> None:
    """Capture a frame that a port received or sent (`UP_RECEIVED`, `UP_SENT`)."""
    frame = slot_at(g.slots, slot)
    if g.taken_used + _HEAD + frame.length + 8 > g.taken_size:
        g.taken_drops += 1
        return
    at = g.taken + g.taken_used
    g.taken_used += _append(at, kind, port, _NO_DETAIL, g.now, g.slots + frame.start, frame.length, frame.wire)


@inner(forceinline=True)
def must_drain(g: LoopGlobals) -> bool:
    """Return whether a log is half full (or, in virtual time, has a callback's record at all)."""
    if g.inline_upcalls != 0 and g.up_used > 0:
        return True
    return g.up_used > g.up_size >> 1 or g.taken_used > g.taken_size >> 1
