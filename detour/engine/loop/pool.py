# SPDX-License-Identifier: Apache-2.0
"""The packet pool: slots with bytes, PHVs, free lists, copies, and moving headers in front of a payload.

A packet has a slot all its life and a PHV only while it is in a switch, so that few PHVs serve many packets and
stay in the processor's cache. Slots and PHVs that were never used stay untouched (their pages cost no memory):
the free list is filled by what was given back, and only when it is empty the next fresh one is taken.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.engine.loop.layout import CACHE_LINE, SLOT_BYTES, LoopGlobals, SlotRecord
from detour.engine.loop.native import load64, move_bytes, phv_at, prefetch, prefetch_lines, slot_at, store64

_SLOT_SIZE = SlotRecord.dtype.itemsize
_FRAME_BYTES = 2 * CACHE_LINE
"""Of a frame, what its headers take; where there is little head room its beginning is in the slot's line."""
_PHV_BYTES = 320
"""Of fabric.p4's PHV, what packets without a segment routing header use; every PHV is longer (`memory`)."""


@inner(forceinline=True)
def _room(index: int) -> int:
    """Return where the memory of a slot's frame begins, counted as `start`."""
    return index * _SLOT_SIZE + SLOT_BYTES


@inner()
def take(g: LoopGlobals) -> int:
    """A free slot whose frame would begin after the head room, or -1 (counted) if all are in use."""
    index = g.free
    if index >= 0:
        g.free = slot_at(g.slots, index).next
    elif g.fresh < g.slots_end:
        index = g.fresh
        g.fresh = index + g.slot_lines
    else:
        g.pool_drops += 1
        return -1
    g.used += 1
    if g.used > g.used_peak:
        g.used_peak = g.used
    slot = slot_at(g.slots, index)
    slot.next = -1
    slot.start = _room(index) + g.headroom
    slot.length = 0
    slot.wire = 0
    slot.origin = -1
    slot.phv = -1
    return index


@inner(forceinline=True)
def take_phv(g: LoopGlobals, index: int) -> None:
    """Give the packet a PHV; there are as many as slots. A free PHV holds the index of the next one.
    The one behind the last is scratch (`scratch_phv`)."""
    phv = g.phv_free
    if phv >= 0:
        g.phv_free = load64(g.phvs + phv * g.phv_stride)
    elif g.phv_fresh < g.phvs_end:
        phv = g.phv_fresh
        g.phv_fresh = phv + 1
    else:  # only a worker's own part can be used up, and then its run ends
        g.pool_drops += 1
        phv = g.phvs_end
    slot_at(g.slots, index).phv = phv


@inner(forceinline=True)
def give_back_phv(g: LoopGlobals, index: int) -> None:
    """The packet leaves the switch."""
    slot = slot_at(g.slots, index)
    store64(g.phvs + slot.phv * g.phv_stride, g.phv_free)
    g.phv_free = slot.phv
    slot.phv = -1


@inner()
def give_back(g: LoopGlobals, index: int) -> None:
    """End a packet."""
    if slot_at(g.slots, index).phv >= 0:
        give_back_phv(g, index)
    slot_at(g.slots, index).next = g.free
    g.free = index
    g.used -= 1


@inner(forceinline=True)
def address(g: LoopGlobals, index: int) -> int:
    """Return where the frame of a slot begins."""
    return g.slots + slot_at(g.slots, index).start


@inner(forceinline=True)
def phv_address(g: LoopGlobals, index: int) -> int:
    """Return where the PHV of a packet that has one is."""
    return g.phvs + slot_at(g.slots, index).phv * g.phv_stride


@inner(forceinline=True)
def scratch_phv(g: LoopGlobals) -> int:
    """Return where the PHV is that belongs to no packet."""
    return g.phvs + g.phvs_end * g.phv_stride


@inner(forceinline=True)
def prefetch_slot(g: LoopGlobals, index: int) -> None:
    """Ask the cache for a slot."""
    prefetch(g.slots + index * _SLOT_SIZE)


@inner(forceinline=True)
def prefetch_frame(g: LoopGlobals, index: int) -> None:
    """Ask the cache for what switches need of a frame's headers, where they are unless a switch made them longer or
    shorter."""
    prefetch_lines(g.slots + _room(index) + g.headroom, _FRAME_BYTES)


@inner(forceinline=True)
def prefetch_rest(g: LoopGlobals, index: int) -> None:
    """Ask the cache for the last headers of a frame, which hosts read."""
    prefetch(g.slots + _room(index) + g.headroom + _FRAME_BYTES)


@inner(forceinline=True)
def prefetch_next(g: LoopGlobals, index: int) -> None:
    """A frame (-1: none) will be parsed soon: its headers, and the slot of the one behind it."""
    prefetch_frame(g, index)
    behind = slot_at(g.slots, index).next
    if behind >= 0:
        prefetch_slot(g, int64(behind))


@inner(forceinline=True)
def prefetch_egress(g: LoopGlobals, index: int) -> None:
    """A packet leaves its queue soon: the part of its PHV that most packets use, its frame, the slot behind it."""
    slot = slot_at(g.slots, index)
    phv = g.phvs + slot.phv * g.phv_stride
    prefetch_lines(phv, _PHV_BYTES)
    prefetch_frame(g, index)
    if slot.next >= 0:
        prefetch_slot(g, int64(slot.next))


@inner()
def copy_frame(g: LoopGlobals, source: int) -> int:
    """A new slot with the same bytes and without a PHV, or -1."""
    index = take(g)
    if index < 0:
        return -1
    old = slot_at(g.slots, source)
    new = slot_at(g.slots, index)
    new.start += old.start - (_room(source) + g.headroom)
    new.length = old.length
    new.wire = old.wire
    new.time = old.time
    new.origin = old.origin
    new.port = old.port
    move_bytes(g.slots + new.start, g.slots + old.start, old.length)
    return index


@inner()
def copy_packet(g: LoopGlobals, source: int, phv_size: int) -> int:
    """A new slot with the same bytes and the same PHV, or -1."""
    index = copy_frame(g, source)
    if index >= 0:
        take_phv(g, index)
        move_bytes(phv_address(g, index), phv_address(g, source), phv_size)
        point_at_payload(g, index)
    return index


@inner(forceinline=True)
def point_at_payload(g: LoopGlobals, index: int) -> None:
    """Tell the PHV where the part of the frame is that was not parsed."""
    phv = phv_at(phv_address(g, index), 0)
    slot = slot_at(g.slots, index)
    phv.payload_ptr = g.slots + slot.start + phv.payload_offset
    phv.payload_len = slot.length - phv.payload_offset


@inner()
def clear_fixed(phv: int) -> None:
    """Zero the fixed part of a PHV."""
    for offset in range(0, 128, 8):
        store64(phv + offset, 0)


@inner()
def put_headers(g: LoopGlobals, index: int, headers: int, length: int, payload: int, payload_length: int) -> bool:
    """Put `length` bytes at address `headers` in front of the payload; False if the slot has no room for both.

    `payload` counts from the pool's first byte and lies in the slot.
    """
    slot = slot_at(g.slots, index)
    low = _room(index)
    if length + payload_length > g.byte_stride:
        return False
    start = payload - length
    if start < low:
        # The head room is used up: move the payload, so that the next switch finds some again if it can.
        room = g.byte_stride - length - payload_length
        start = low + min(room, g.headroom)
        move_bytes(g.slots + start + length, g.slots + payload, payload_length)
    move_bytes(g.slots + start, headers, length)
    slot.wire += length + payload_length - slot.length
    slot.start = start
    slot.length = length + payload_length
    return True
