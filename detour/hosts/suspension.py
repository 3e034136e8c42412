# SPDX-License-Identifier: Apache-2.0
"""Flows that are suspended for a while, as if it had not passed, and then have sent more than they did.

A suspended sender has no window, no timer and no place in its NIC's round; answers that wait to be sent to it are kept.
When it is resumed what it is said to have sent meanwhile is cut out of its message: the rest is the same message, only
shorter, so that sequence numbers and frames stay what they are. Its payload is copied from memory to memory.

Only for senders that do not spray, between two slices of the loop.
"""

from __future__ import annotations

from detour.base.arrays import Floats1, Int64s1, Int64s2
from detour.base.jit import inner, int64
from detour.base.memory import load8, move_bytes
from detour.base.native import Part
from detour.base.pointers import record_address
from detour.hosts import nic, timers
from detour.hosts.records import ControlMessage, QueuePair, WorkRequest
from detour.hosts.rows import (
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
from detour.hosts.state import MAX_TIME, NIL, SLOT_FLIGHT, Handle, hosts_at
from detour.hosts.transport import sender

SUSPENDED_QPS = Part("suspended", __name__)

_CTL_BYTES = ControlMessage.dtype.itemsize
_IN_ORDER = int64(0)


@SUSPENDED_QPS.entry
def look(
    state: int, senders: Int64s1, una: Int64s1, flying: Int64s1, trouble: Int64s1, busy: Int64s1, changed: Int64s1
) -> int:
    """What senders have: the first packet that is not acknowledged, packets in flight, losses and timeouts so far, and
    whether something is left of a message. Returns how many are busy that were not or the other way round; `changed`:
    which."""
    hs, count = hosts_at(state, 0), 0
    for k in range(len(senders)):
        q = qp_row(hs, senders[k])
        una[k] = q.snd_una
        is_busy = int64(q.snd_una < q.snd_end)
        if is_busy:
            flying[k] = q.inflight
            trouble[k] = q.st_lost + q.st_rtos + q.st_retransmitted
        if is_busy != busy[k]:
            busy[k] = is_busy
            changed[count] = k
            count += 1
    return count


@SUSPENDED_QPS.entry
def unsent(state: int, senders: Int64s1, left: Int64s1) -> None:
    """Packets of the message that each sends that were not sent yet."""
    hs = hosts_at(state, 0)
    for k in range(len(senders)):
        q = qp_row(hs, senders[k])
        w = _current(hs, senders[k], q)
        left[k] = w.first + w.packets - q.snd_nxt


@inner
def _current(hs: Handle, i: int, q: QueuePair) -> WorkRequest:
    """The work request of which packets are sent."""
    return wqe_row(hs, i, q.sq_nxt & (cfg_row(hs).sq_depth - 1))


@SUSPENDED_QPS.entry
def suspend(state: int, senders: Int64s1, windows: Floats1, marks: int, hosts: Int64s1, kept: int, room: int) -> int:
    """Suspends senders, whose windows are returned, and takes the answers that wait to be sent at `hosts` by QPs with
    a mark (a byte each): returns how many of `room` entries at `kept`."""
    hs = hosts_at(state, 0)
    for k in range(len(senders)):
        q = qp_row(hs, senders[k])
        windows[k] = q.cwnd
        q.cwnd = 0.0
        timers.remove(hs, q)
        nic.deactivate(hs, senders[k], q)
    count = 0
    for k in range(len(hosts)):
        ring = host_row(hs, hosts[k]).ctl
        for number in range(ring.head, ring.tail):
            m = ctl_row(hs, hosts[k], number & (cfg_row(hs).control_depth - 1))
            if m.kind != nic.CTL_NONE and load8(marks + m.qp) != 0 and count < room:
                move_bytes(kept + count * _CTL_BYTES, record_address(m), _CTL_BYTES)
                m.kind = nic.CTL_NONE
                count += 1
    return count


@SUSPENDED_QPS.entry
def resume(
    state: int, senders: Int64s1, receivers: Int64s1, windows: Floats1, gained: Int64s2, elapsed: int, kept: int,
    owners: Int64s1,
) -> None:  # fmt: skip
    """Resumes senders after `elapsed` ps. `gained`: of each the packets that it has sent, how many of them were marked,
    their delays in queues (ticks), and how many brought those. `owners`: hosts of the answers that were kept."""
    hs = hosts_at(state, 0)
    for k in range(len(senders)):
        i = senders[k]
        q, r = qp_row(hs, i), qp_row(hs, receivers[k])
        _shift(hs, i, q, elapsed)
        if gained[k, 0] > 0:
            _cut(hs, i, q, gained[k, 0])
            candidate_row(hs, i, q.cand).packets += gained[k, 0]
            _credit(hs, q, r, gained[k, 0], gained[k, 1], gained[k, 2], gained[k, 3])
        q.cwnd = windows[k]
        when = sender.deadline(hs, i, q)
        if when < MAX_TIME:
            timers.advance(hs, i, q, when)
        if sender.can_send(hs, q):
            nic.activate(hs, i, q)
    for k in range(len(owners)):
        index = nic.push_control(hs, owners[k])
        if index != NIL:
            move_bytes(record_address(ctl_row(hs, owners[k], index)), kept + k * _CTL_BYTES, _CTL_BYTES)


@inner
def _shift(hs: Handle, i: int, q: QueuePair, elapsed: int) -> None:
    """Moves all that a sender remembers of times."""
    for seq in range(q.snd_una, q.snd_nxt):
        s = slot_row(hs, i, seq & (cfg_row(hs).window - 1))
        if s.state == SLOT_FLIGHT:
            s.sent += elapsed
            s.first += elapsed if s.first >= 0 else 0
    q.last_progress += elapsed
    q.last_sent += elapsed
    q.newest_sent += elapsed
    q.pace_next += elapsed if q.pace_next > 0 else 0
    q.cc_timer += elapsed if q.cc_timer < MAX_TIME else 0
    q.path_timer += elapsed if q.path_timer < MAX_TIME else 0


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
def _credit(hs: Handle, q: QueuePair, r: QueuePair, packets: int, marked: int, delay: int, samples: int) -> None:
    """Counts packets that were not sent as sent and received."""
    size = packets * cfg_row(hs).payload
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
