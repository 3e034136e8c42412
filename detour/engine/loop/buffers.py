# SPDX-License-Identifier: Apache-2.0
"""The packet memory of a switch: who may still store a packet, and which classes the neighbours must pause.

Lossless classes (PFC) have an account for each port by which packets come in. It is charged first to a reserve of its
own, then to the memory that all share, and when it has had its part of that, to a headroom of its own, which
holds what still arrives while the neighbour hears of the pause. Packets of lossy classes share what is left of the
shared memory: an output queue takes at most `alpha` times what is free (dynamic thresholds, Choudhury and Hahne).

An account is a row of `QUEUE`; `slot.origin` names the one that a packet is charged to.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.engine.loop import heap
from detour.engine.loop.layout import LoopGlobals, QueueRecord, SlotRecord, SwitchRecord
from detour.engine.loop.native import load32, port_at, queue_at, store32


@inner(forceinline=True)
def _threshold(switch: SwitchRecord) -> int:
    """Shared memory that one account may use now: an eighth of what is free at `xoff_shift` 3
    (docs/facts.md, "PFC thresholds")."""
    return (switch.shared_bytes - switch.shared_used) >> switch.xoff_shift


@inner(forceinline=True)
def is_lossless(g: LoopGlobals, switch: SwitchRecord, slot: SlotRecord) -> bool:
    return switch.lossless != 0 and slot.origin >= 0 and queue_at(g.queues, slot.origin).lossless != 0


@inner()
def admit(g: LoopGlobals, switch: SwitchRecord, queue: QueueRecord, slot: SlotRecord) -> bool:
    """Store a packet that is about to join an output queue; False if there is no room for it."""
    wire = slot.wire
    if is_lossless(g, switch, slot):
        account = queue_at(g.queues, slot.origin)
        if not _charge(switch, account, wire):
            return False
        _mirror(g, account, wire)
        _consider_pause(g, switch, account)
    else:
        free = switch.shared_bytes - switch.shared_used
        if wire > free or queue.bytes + wire > (free * switch.alpha) >> 16:
            return False
        switch.shared_used += wire
    switch.buffer_used += wire
    switch.buffer_peak = max(switch.buffer_peak, switch.buffer_used)
    return True


@inner()
def count_drop(g: LoopGlobals, switch: SwitchRecord, slot: SlotRecord) -> None:
    """A packet is dropped because there was no room for it."""
    if is_lossless(g, switch, slot):
        switch.headroom_drops += 1
    else:
        switch.buffer_drops += 1


@inner(forceinline=True)
def _mirror(g: LoopGlobals, account: QueueRecord, change: int) -> None:
    """Tell the program, if it wants to know, how much waits of what came in by a port."""
    cell = port_at(g.ports, account.port).mirror_input
    if cell != 0:
        store32(cell, load32(cell) + change)


@inner()
def _charge(switch: SwitchRecord, account: QueueRecord, wire: int) -> bool:
    """Charge a packet to a lossless account; False if even its headroom is full."""
    excess = account.in_bytes + wire - switch.reserve
    if excess <= max(_threshold(switch), 0):
        account.in_bytes += wire
        switch.shared_used += min(wire, max(excess, 0))
    elif account.in_headroom + wire <= switch.headroom:
        account.in_headroom += wire
    else:
        return False
    return True


@inner()
def _consider_pause(g: LoopGlobals, switch: SwitchRecord, account: QueueRecord) -> None:
    if account.in_paused != 0:
        return
    shared = account.in_bytes - switch.reserve
    if account.in_headroom > 0 or (shared > 0 and shared >= _threshold(switch)):
        account.in_paused = 1
        _signal(g, account.port)


@inner()
def release(g: LoopGlobals, switch: SwitchRecord, slot: SlotRecord) -> None:
    """A packet leaves its output queue."""
    wire = slot.wire
    switch.buffer_used -= wire
    if not is_lossless(g, switch, slot):
        switch.shared_used -= wire
        return
    account = queue_at(g.queues, slot.origin)
    from_headroom = min(account.in_headroom, wire)
    rest = wire - from_headroom
    account.in_headroom -= from_headroom
    switch.shared_used -= min(rest, max(account.in_bytes - switch.reserve, 0))
    account.in_bytes -= rest
    _mirror(g, account, -wire)
    if account.in_paused != 0 and account.in_headroom == 0:
        shared = account.in_bytes - switch.reserve
        if shared <= 0 or shared + switch.xon_offset <= _threshold(switch):
            account.in_paused = 0
            _signal(g, account.port)


@inner()
def _signal(g: LoopGlobals, port_index: int) -> None:
    """The other end of the cable must hear of it: as soon as the port is free, before all packets."""
    port = port_at(g.ports, port_index)
    port.signal = 1
    time = max(g.now, port.busy_until)
    if heap.pending_time(g, port.entity) > time:
        heap.schedule(g, port.entity, time)
