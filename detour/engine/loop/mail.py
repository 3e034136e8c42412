# SPDX-License-Identifier: Apache-2.0
"""Exchange between workers: frames that one sends to another's nodes, free slots, and when to go on.

The workers of a fabric execute a window of time side by side, each its own nodes. A frame that crosses to another
worker's node waits in a mailbox until all have come to the end of the window (`meet`); it cannot arrive earlier. From
each worker to each other one there are two mailboxes: one is emptied while the next window's mail goes to the other.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import fetch_add, libc, load_acquire
from detour.engine.loop.layout import LoopGlobals, MailboxRecord, ProgressRecord
from detour.engine.loop.native import mail_at, mailbox_at, progress_at, slot_at
from detour.engine.loop.socket_io import wall_ns

_SPINS = 4_000
"""looks at the barrier before another thread may have the core"""
_BATCH = 256
"""free slots that are given away at once"""
FREE_SLOTS = int64(-1)
"""in place of a channel: the slot is the first of a list of free ones, and its `start` says which is the last"""

_sched_yield = libc("sched_yield", "int32")


@inner(forceinline=True)
def mailbox(g: LoopGlobals, number: int, sender: int, receiver: int) -> MailboxRecord:
    """The one of a round."""
    return mailbox_at(g.mailboxes, ((number & 1) * g.workers + sender) * g.workers + receiver)


@inner(forceinline=True)
def progress(g: LoopGlobals, number: int, worker: int) -> ProgressRecord:
    """Return a worker's report at the end of a round."""
    return progress_at(g.progress, (number & 1) * g.workers + worker)


@inner(forceinline=True)
def _put(g: LoopGlobals, receiver: int, channel: int, slot: int) -> bool:
    box = mailbox(g, g.round, g.worker, receiver)
    if box.count >= box.room:
        return False
    mail = mail_at(box.mails, box.count)
    mail.channel = channel
    mail.slot = slot
    box.count += 1
    return True


@inner()
def post(g: LoopGlobals, receiver: int, channel: int, slot: int, arrival: int) -> None:
    """Mail a frame that enters a channel to the worker that executes its other end."""
    slot_at(g.slots, slot).time = arrival
    if _put(g, receiver, channel, slot):
        g.used -= 1
    else:
        g.pool_drops += 1  # which ends the run


@inner()
def meet(g: LoopGlobals, next_time: int, other_time: int, events: int, stop: int) -> None:
    """Say how far this worker is, and wait until all others have come to the end of the window as well."""
    mine = progress(g, g.round, g.worker)
    mine.next_time = next_time
    mine.other_time = other_time
    mine.events = events
    mine.free = g.slots_own - g.used
    mine.stop = stop
    g.round += 1
    everybody = g.round * g.workers
    if fetch_add(g.barrier, int64(1)) + 1 == everybody:
        return
    begin = wall_ns(g)
    spins = 0
    while load_acquire(g.barrier) < everybody:
        spins += 1
        if spins > _SPINS:
            _sched_yield()
    g.waited_ns += wall_ns(g) - begin


@inner()
def share_slots(g: LoopGlobals) -> None:
    """Give free slots to a worker that has few. Where traffic goes one way they would all end at its destination."""
    if g.slots_own - g.used < g.slots_share:
        return
    for receiver in range(g.workers):
        if receiver != g.worker and progress(g, g.round - 1, receiver).free < g.slots_share >> 2:
            _give_slots(g, receiver)


@inner()
def _give_slots(g: LoopGlobals, receiver: int) -> None:
    first = last = g.free
    for _ in range(_BATCH - 1):
        if last < 0:
            return
        last = slot_at(g.slots, last).next
    if last < 0:
        return
    slot_at(g.slots, first).start = last
    if _put(g, receiver, FREE_SLOTS, first):
        g.free = slot_at(g.slots, last).next
        g.used += _BATCH


@inner()
def take_slots(g: LoopGlobals, first: int) -> None:
    """Take in what another worker has given."""
    slot_at(g.slots, slot_at(g.slots, first).start).next = g.free
    g.free = first
    g.used -= _BATCH
