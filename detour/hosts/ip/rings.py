# SPDX-License-Identifier: Apache-2.0
"""Two rings of frames a host: answers that wait to be sent, and frames that Python wants to see."""

from __future__ import annotations

from detour.base.jit import inner
from detour.base.memory import move_bytes
from detour.hosts.ip.layout import IpHostRecord, StackGlobals, inbox_row, outbox_row


@inner()
def room(g: StackGlobals, h: IpHostRecord, host: int) -> int:
    """Return where the next answer may be written, 0 (counted) if the ring is full: then it is lost, as in a full
    queue. It is sent once `push` was called."""
    if h.out_tail - h.out_head >= g.out_depth:
        h.out_drops += 1
        return 0
    return g.boxes + (host * g.out_depth + h.out_tail % g.out_depth) * g.box_bytes


@inner()
def push(g: StackGlobals, h: IpHostRecord, host: int, stored: int, wire: int) -> None:
    """The answer that was written at `room` is complete."""
    box = outbox_row(g, host * g.out_depth + h.out_tail % g.out_depth)
    box.stored = stored
    box.wire = wire
    h.out_tail += 1


@inner()
def pop(g: StackGlobals, h: IpHostRecord, host: int, frame: int) -> int:
    """Move the oldest answer to `frame`; return bytes stored << 32 | on the wire, 0 if there is none."""
    if h.out_head == h.out_tail:
        return 0
    place = host * g.out_depth + h.out_head % g.out_depth
    box = outbox_row(g, place)
    move_bytes(frame, g.boxes + place * g.box_bytes, box.stored)
    h.out_head += 1
    return (box.stored << 32) | box.wire


@inner()
def show(g: StackGlobals, h: IpHostRecord, host: int, frame: int, stored: int, wire: int, now: int) -> None:
    """Keep a frame for Python; the newest are lost (counted) if it does not take them."""
    if h.in_tail - h.in_head >= g.in_depth:
        h.in_drops += 1
        return
    place = host * g.in_depth + h.in_tail % g.in_depth
    box = inbox_row(g, place)
    box.stored = min(stored, g.box_bytes)
    box.wire = wire
    box.time = now
    move_bytes(g.inboxes + place * g.box_bytes, frame, box.stored)
    h.in_tail += 1
