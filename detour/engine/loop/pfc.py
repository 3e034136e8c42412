# SPDX-License-Identifier: Apache-2.0
"""Priority-based flow control (IEEE 802.1Qbb): PFC frames out of a port, and what they do at the other end.

A frame says for all lossless classes whether they are to pause. A pause lasts until a frame ends it: senders of PFC
repeat it before its quanta have run out as long as the reason lasts, and here those repeats are left out.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.engine.loop import channels, pool
from detour.engine.loop.layout import CLASS_PFC, PFC_BYTES, LoopGlobals
from detour.engine.loop.native import load8, port_at, queue_at, slot_at, store8, store32, store64

_RETRY_PS = 100_000
"""Time until another attempt when the pool is empty."""

_CLASSES = 8
_HEAD = (0x01, 0x80, 0xC2, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x88, 0x08, 0x01, 0x01)
"""MAC control's group address, a source address, EtherType, opcode 0x0101"""
_AT_ENABLE = 17
_AT_TIMES = 18


@inner()
def send(g: LoopGlobals, port_index: int) -> int:
    """Tell the other end what is paused; return when the port is free again."""
    port = port_at(g.ports, port_index)
    slot_index = pool.take(g)
    if slot_index < 0:
        return g.now + _RETRY_PS
    slot = slot_at(g.slots, slot_index)
    at = g.slots + slot.start
    for offset in range(0, PFC_BYTES, 8):
        store64(at + offset, 0)
    for offset in range(16):
        store8(at + offset, _HEAD[offset])
    enable = 0
    for number in range(min(port.priorities, _CLASSES)):
        account = queue_at(g.queues, port.queues + number)
        if account.lossless != 0:
            enable |= 1 << number
            if account.in_paused != 0:
                store8(at + _AT_TIMES + 2 * number, 0xFF)
                store8(at + _AT_TIMES + 2 * number + 1, 0xFF)
    store8(at + _AT_ENABLE, enable)
    slot.length = PFC_BYTES
    slot.wire = PFC_BYTES
    slot.port = CLASS_PFC
    port.signal = 0
    port.pauses_sent += 1
    return channels.send(g, port.channel, slot_index)


@inner()
def masked(g: LoopGlobals, slot_index: int, before: int) -> int:
    """The mask of paused classes after the PFC frame in a slot, `before` it was another."""
    at = g.slots + slot_at(g.slots, slot_index).start
    mask = before & ~load8(at + _AT_ENABLE)
    for number in range(_CLASSES):
        if load8(at + _AT_TIMES + 2 * number) | load8(at + _AT_TIMES + 2 * number + 1):
            mask |= 1 << number
    return mask


@inner()
def receive(g: LoopGlobals, port_index: int, slot_index: int) -> None:
    """A PFC frame arrives at a switch port, whose event must be set afterwards."""
    port = port_at(g.ports, port_index)
    mask = masked(g, slot_index, port.paused)
    port.pauses_received += 1
    if port.paused == 0 and mask != 0:
        port.paused_since = g.now
    elif port.paused != 0 and mask == 0:
        port.paused_ps += g.now - port.paused_since
    port.paused = mask
    if port.mirror_paused != 0:
        store32(port.mirror_paused, mask)
    pool.give_back(g, slot_index)
