# SPDX-License-Identifier: Apache-2.0
"""A flow that is suspended for a while, as if it had not passed, and then has sent more than it did.

A suspended sender has no window, no timer and no place in its NIC's round; answers that wait to be sent to it are kept.
When it is resumed what it is said to have sent meanwhile is cut out of its message: the rest is the same message, only
shorter, so that sequence numbers and frames stay what they are. Its payload is copied from memory to memory.

Only between two slices of the loop.
"""

from __future__ import annotations

from detour.base.chain import Chain, RowTable, is_full, make_chain
from detour.base.jit import inner, int64
from detour.base.memory import load8, load64, move_bytes, store64
from detour.base.pointers import record_address, record_by_address
from detour.base.structs import Int64, NativeRecord
from detour.hosts import event_queue, nic, timers
from detour.hosts.records import ControlMessage, QueuePair, WorkRequest
from detour.hosts.rows import (
    arrival_row,
    candidate_row,
    cfg_row,
    ctl_row,
    host_row,
    late_row,
    move_in_memory,
    qp_row,
    slot_row,
    wqe_row,
)
from detour.hosts.state import MAX_TIME, NIL, WQE_IMM, Handle
from detour.hosts.transport import flight, progress, sender

_CTL_BYTES = ControlMessage.dtype.itemsize
_IN_ORDER = int64(0)


class KeptAnswer(ControlMessage):
    """A control message that waits until its connection is resumed."""

    owner: Int64  # the host that is to send it
    next: Int64  # see `base.chain`


class AnswerTable(NativeRecord):
    """Store of such messages; `marks` as in `engine.loop.suspension`."""

    table: RowTable
    marks: Int64


class TimeFields(NativeRecord):
    """The places of times in a plugin's row: the address of so many offsets."""

    offsets: Int64
    count: Int64


_append, _take_first = make_chain(record_by_address(KeptAnswer))


@inner
def unsent(hs: Handle, i: int) -> int:
    """Return how many packets of the message that a sender sends were not sent yet; 0 while some of one before it are
    not acknowledged, which would wait as long as the sender does."""
    q = qp_row(hs, i)
    w = _current(hs, i, q)
    return int64(0) if q.snd_una < w.first else w.first + w.packets - q.snd_nxt


@inner
def _current(hs: Handle, i: int, q: QueuePair) -> WorkRequest:
    """The work request of which packets are sent."""
    return wqe_row(hs, i, q.sq_nxt & (cfg_row(hs).sq_depth - 1))


@inner
def can_finish(hs: Handle, i: int, j: int) -> bool:
    """Return whether a sender that is busy has one message in flight, of which QP `j` has not all, and that tells the
    receiver's user nothing at its end."""
    q = qp_row(hs, i)
    is_plain = _current(hs, i, q).flags & WQE_IMM == 0
    return is_plain and q.sq_nxt == q.sq_una and undelivered(hs, i, j) > 0


@inner
def undelivered(hs: Handle, i: int, j: int) -> int:
    """Return how many packets of the message that a sender sends have not come to QP `j`."""
    q, r = qp_row(hs, i), qp_row(hs, j)
    w = _current(hs, i, q)
    return w.first + w.packets - r.rcv_nxt - r.rcv_early


@inner
def posted(hs: Handle, i: int) -> int:
    """Return when the message that a sender sends was posted, ps."""
    return _current(hs, i, qp_row(hs, i)).posted


@inner
def suspend(hs: Handle, i: int) -> float:
    """Suspend a sender and returns its window."""
    q = qp_row(hs, i)
    window = q.cwnd
    q.cwnd = 0.0
    timers.remove(hs, q)
    nic.deactivate(hs, i, q)
    return window


@inner
def under_way(hs: Handle, i: int, j: int) -> int:
    """Return how many packets that QP `i` has sent have not come to QP `j`, if none of them was lost."""
    r = qp_row(hs, j)
    return qp_row(hs, i).snd_nxt - r.rcv_nxt - r.rcv_early


@inner
def take_answers(hs: Handle, host: int, kept: AnswerTable, chain: Chain) -> None:
    """Take the answers that wait to be sent at a host by QPs with a mark."""
    ring = host_row(hs, host).ctl
    for number in range(ring.head, ring.tail):
        m = ctl_row(hs, host, number & (cfg_row(hs).control_depth - 1))
        if m.kind == nic.CTL_NONE or load8(kept.marks + m.qp) == 0 or is_full(kept.table):
            continue
        row = _append(kept.table, chain)
        move_bytes(record_address(row), record_address(m), _CTL_BYTES)
        m.kind = nic.CTL_NONE
        row.owner = host


@inner
def put_answers(hs: Handle, kept: AnswerTable, chain: Chain) -> None:
    """Put them back."""
    while chain.count > 0:
        row = _take_first(kept.table, chain)
        place = nic.push_control(hs, row.owner)
        if place != NIL:
            move_bytes(record_address(ctl_row(hs, row.owner, place)), record_address(row), _CTL_BYTES)


@inner
def drop_answers(hs: Handle, kept: AnswerTable, chain: Chain) -> None:
    """End those of QPs with a mark."""
    for _ in range(chain.count):
        row = _take_first(kept.table, chain)
        if load8(kept.marks + row.qp) != 0:
            qp_row(hs, row.qp).answers -= 1
            continue
        # Its row is free until another one is appended, which is the same one then: it goes from one end to the other.
        _append(kept.table, chain)


@inner
def land(hs: Handle, i: int, j: int) -> None:
    """All that a suspended sender has in flight to QP `j` has arrived and is acknowledged; its frames are gone."""
    q, r, cfg = qp_row(hs, i), qp_row(hs, j), cfg_row(hs)
    w, mask = _current(hs, i, q), cfg_row(hs).window - 1
    packets, end = under_way(hs, i, j), min((q.snd_nxt - w.first) * cfg.payload, w.length)
    fresh = end - r.rcv_length - r.rcv_held
    if not cfg.elide_payload:
        begin = (q.snd_una - w.first) * cfg.payload
        move_in_memory(hs, w.remote + begin, w.local + begin, end - begin)
    for seq in range(q.snd_una, q.snd_nxt):
        flight.take(hs, i, q, seq & mask)
    if r.rcv_early > 0:
        for seq in range(r.rcv_nxt, r.rcv_top):
            arrival_row(hs, j, seq & mask).flags = 0
    r.st_rx_packets += packets
    r.st_rx_bytes += fresh
    r.st_rx_delivered += end - r.rcv_length
    host_row(hs, r.host).rx_payload += fresh
    late_row(hs, r.host, _IN_ORDER).packets += packets
    r.rcv_nxt = r.rcv_top = q.snd_nxt
    r.rcv_length = end
    r.rcv_early = r.rcv_held = r.rcv_nak = 0
    progress.slide(hs, i, q)


@inner
def finish(hs: Handle, i: int, j: int, when: int) -> None:
    """The last packet that is left of a suspended sender's message (`skip`) has arrived as well, at `when`."""
    q, r = qp_row(hs, i), qp_row(hs, j)
    w = _current(hs, i, q)
    unsent = w.first + w.packets - q.snd_nxt
    q.st_packets += unsent
    q.snd_nxt += unsent
    host_row(hs, q.host).now = max(host_row(hs, q.host).now, when)
    if r.tasks_of:
        event_queue.delivered(hs, r, when)
    land(hs, i, j)
    r.rcv_msn = (r.rcv_msn + 1) & 0xFFFFFF
    r.rcv_length = 0


@inner
def resume(
    hs: Handle, i: int, window: float, packets: int, elapsed: int, control: TimeFields, paths: TimeFields
) -> None:
    """Resume a sender after `elapsed` ps in which it has sent `packets`. `control`, `paths`: where congestion control
    and path scheme have times."""
    q = qp_row(hs, i)
    _shift(hs, i, q, elapsed)
    _shift_fields(q.cc_row, control, elapsed)
    if q.path_row != 0:
        _shift_fields(q.path_row, paths, elapsed)
    skip(hs, i, packets)
    q.cwnd = window
    when = sender.deadline(hs, i, q)
    if when < MAX_TIME:
        timers.advance(hs, i, q, when)
    if sender.can_send(hs, q):
        nic.activate(hs, i, q)


@inner
def skip(hs: Handle, i: int, packets: int) -> None:
    """A suspended sender has sent so many packets of its message."""
    if packets > 0:
        _cut(hs, i, qp_row(hs, i), packets)
        _share(hs, i, qp_row(hs, i), packets)


@inner
def _shift(hs: Handle, i: int, q: QueuePair, elapsed: int) -> None:
    """Move all that a sender remembers of times: also of packets that have arrived, of which answers may still come
    if it sprays."""
    for seq in range(max(q.snd_nxt - cfg_row(hs).window, 0), q.snd_nxt):
        s = slot_row(hs, i, seq & (cfg_row(hs).window - 1))
        s.sent += elapsed
        s.first += elapsed if s.first >= 0 else 0
    if q.sprays:
        for cand in range(q.n_cand):
            c = candidate_row(hs, i, cand)
            c.newest = _later(c.newest, elapsed)
            c.answered = _later(c.answered, elapsed)
            c.ask_next = _later(c.ask_next, elapsed)
    q.blackhole_due = _later(q.blackhole_due, elapsed)
    q.probe_at = _later(q.probe_at, elapsed)
    q.last_progress += elapsed
    q.last_sent += elapsed
    q.newest_sent += elapsed
    q.pace_next = _later(q.pace_next, elapsed)
    q.cc_timer = _later(q.cc_timer, elapsed)
    q.path_timer = _later(q.path_timer, elapsed)


@inner
def _later(time: int, elapsed: int) -> int:
    """A time that is moved, unless it stands for none."""
    return time + elapsed if 0 < time < MAX_TIME else time


@inner
def _shift_fields(row: int, times: TimeFields, elapsed: int) -> None:
    """Move the times in a plugin's row."""
    for k in range(times.count):
        at = row + load64(times.offsets + 8 * k)
        store64(at, _later(load64(at), elapsed))


@inner
def _share(hs: Handle, i: int, q: QueuePair, packets: int) -> None:
    """Count packets that were not sent on the paths, in the same shares as those that were."""
    if not q.sprays:
        candidate_row(hs, i, q.cand).packets += packets
        return
    sent = int64(0)
    for cand in range(q.n_cand):
        sent += candidate_row(hs, i, cand).packets
    for cand in range(q.n_cand):
        c = candidate_row(hs, i, cand)
        c.packets += int64(packets * (c.packets / sent))


@inner
def _cut(hs: Handle, i: int, q: QueuePair, packets: int) -> None:
    """The next packets of the message have arrived, and are none of it any more."""
    depth, size = cfg_row(hs).sq_depth, cfg_row(hs).payload
    w = _current(hs, i, q)
    if not cfg_row(hs).elide_payload:
        # What is in flight as well: if it is sent again its place is another one.
        begin = max(q.snd_una - w.first, 0) * size
        end = (q.snd_nxt - w.first + packets) * size
        move_in_memory(hs, w.remote + begin, w.local + begin, end - begin)
    w.packets -= packets
    w.length -= packets * size
    w.local += packets * size
    w.remote += packets * size
    for number in range(q.sq_nxt + 1, q.sq_end):
        wqe_row(hs, i, number & (depth - 1)).first -= packets
    q.snd_end -= packets


@inner
def credit(hs: Handle, i: int, j: int, packets: int, marked: int, delay: int, samples: int) -> None:
    """Count packets that were not sent as sent by QP `i` and received by QP `j`; how many of them were marked, their
    delays in queues (ticks), and how many brought those."""
    q, r, size = qp_row(hs, i), qp_row(hs, j), packets * cfg_row(hs).payload
    q.st_packets += packets
    q.st_bytes += size
    q.st_ecn_marked += marked
    r.st_rx_packets += packets
    r.st_rx_bytes += size
    r.st_rx_delivered += size
    r.st_rx_ecn_marked += marked
    r.st_rx_delay_sum += delay
    r.st_rx_delay_samples += samples
    host_row(hs, r.host).rx_payload += size
    late_row(hs, r.host, _IN_ORDER).packets += packets
