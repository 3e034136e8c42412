# SPDX-License-Identifier: Apache-2.0
"""The receiving half of both transports: access check, direct placement, duplicates, ACKs, CNPs.

LERP: packets are accepted in any order inside the window and go to memory at once (section I of the
non-shortest-path paper); only counting messages and delivering immediates wait for order. Every one is answered.

Go-back-N (docs/facts.md, "Go-back-N"): what comes early is dropped. One NAK (PSN sequence error) reports a gap; the
next one can only come after the expected packet. With reordering, for networks that reorder but do not lose (section
II-B of the paper), what comes early is held, in its place already, until the gap is filled; there is no NAK, and ACKs
name only what came in order. They are sent for held packets too, because they tell the sender about marks. An ACK
answers a packet that asks for one or is marked, or fills a gap behind which packets are held: one of these may have
asked, and what it overtook need not.

DCQCN's notification point: a marked packet makes a CNP unless the last one of the QP is less than `cnp_interval_ps`
ago. CNPs go back with the source port of the marked packet, so the sender knows which path they are about.

A packet that violates access rights is
refused with a NAK. From then on nothing behind it is accepted, while what is missing before it still is, so the
requester sees its work requests complete in order up to the one that failed.

Answers go back with the source port of the packet that they answer. They are a tenth of the traffic: when a whole
Dragonfly group sends to another one, the single shortest path back could not carry them, and a sender that leaves
a dead path takes its answers along.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts import event_queue, state
from detour.hosts.frames import wire
from detour.hosts.frames.wire import unwrap
from detour.hosts.nic import CTL_ACK, CTL_CNP, push_control
from detour.hosts.records import ControlMessage, QueuePair, ReceivedFrame
from detour.hosts.rows import (
    arrival_row,
    cfg_row,
    ctl_row,
    frame_row,
    frame_to_memory,
    host_row,
    late_row,
    mr_row,
    qp_row,
)
from detour.hosts.state import NIL, Handle
from detour.hosts.transport import queues


@inner
def access_allowed(hs: Handle, q: QueuePair, rkey: int, va: int, length: int) -> bool:
    """Return whether the peer of `q` may write `length` bytes at `va` with `rkey` (IBTA 9.7.4.1.3 and 10.6.3)."""
    if length == 0:
        return True
    index = (rkey >> 8) & cfg_row(hs).mr_mask
    if index >= cfg_row(hs).n_mrs:
        return False
    r = mr_row(hs, index)
    if not r.used or r.key != rkey or r.host != q.host or r.pd != q.pd:
        return False
    if not r.access & state.ACCESS_REMOTE_WRITE or length > r.length:
        return False
    return va >= r.base and va - r.base <= r.length - length


@inner
def on_data(hs: Handle, i: int, now: int) -> None:
    """The data packet in `frame_row(hs)` came in for QP `i`."""
    f = frame_row(hs)
    q = qp_row(hs, i)
    # After a refusal the QP is in error, but lost ACKs and the NAK must be repeatable.
    if q.state != state.QPS_RTR and q.state != state.QPS_RTS and (q.state != state.QPS_ERR or q.rcv_refused < 0):
        host_row(hs, q.host).rx_wrong_state += 1
        return
    window = cfg_row(hs).window
    seq = unwrap(f.psn, q.rcv_nxt)
    if seq >= q.rcv_nxt + window:
        host_row(hs, q.host).rx_out_of_window += 1
        return
    if f.trimmed:
        _on_trimmed(hs, i, q, f, seq)
        return
    if f.ce and q.rate_based:
        _notify(hs, i, q, f, now)
    if seq < q.rcv_nxt or (q.rcv_early and arrival_row(hs, i, seq & (window - 1)).flags):
        q.st_rx_duplicates += 1
        _acknowledge(hs, i, q, f, seq, int64(wire.SYNDROME_ACK))
        return
    if q.rcv_refused >= 0 and seq >= q.rcv_refused:
        _acknowledge(hs, i, q, f, q.rcv_refused, int64(wire.SYNDROME_ACCESS))
        return
    if seq > q.rcv_nxt and q.in_order:
        _on_gap(hs, i, q, f, seq)
        return
    if not access_allowed(hs, q, f.rkey, f.va, f.length):
        q.rcv_refused = seq
        q.st_rx_refused += 1
        _acknowledge(hs, i, q, f, seq, int64(wire.SYNDROME_ACCESS))
        _check_refusal(hs, i, q)
        return
    if f.opcode == wire.OP_WRITE_ONLY_IMM and not queues.reserve(hs, q.recv_cq):
        q.st_rx_not_ready += 1
        _acknowledge(hs, i, q, f, seq, int64(wire.SYNDROME_RNR))
        return
    _accept(hs, i, q, f, seq)
    if f.ack_request or f.ce or q.rcv_nxt > seq + 1:
        _acknowledge(hs, i, q, f, seq, int64(wire.SYNDROME_ACK))
    _check_refusal(hs, i, q)


@inner
def _on_trimmed(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, seq: int) -> None:
    """Packet `seq` came without its payload. Go-back-N finds out by the packets behind it."""
    if not q.selective:
        return
    f.has_delay = 0  # what is trimmed overtakes the queue that was full
    held = q.rcv_early and arrival_row(hs, i, seq & (cfg_row(hs).window - 1)).flags
    arrived = seq < q.rcv_nxt or held
    _acknowledge(hs, i, q, f, seq, int64(wire.SYNDROME_ACK if arrived else wire.SYNDROME_TRIMMED))


@inner
def _on_gap(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, seq: int) -> None:
    """Go-back-N: packet `seq` came before the expected one."""
    q.st_rx_early_dropped += 1
    if q.rcv_nak:
        return
    q.rcv_nak = 1
    q.st_rx_naks += 1
    _acknowledge(hs, i, q, f, seq, int64(wire.SYNDROME_SEQUENCE))


@inner
def _notify(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, now: int) -> None:
    """A marked packet of a QP under DCQCN: queues a CNP if it is time for one."""
    interval = cfg_row(hs).cnp_interval_ps
    if interval == 0 or now < q.cnp_next:
        return
    index = push_control(hs, q.host)
    if index == NIL:
        return
    q.cnp_next = now + interval
    q.st_rx_cnps += 1
    m = ctl_row(hs, q.host, index)
    q.answers += 1
    m.kind = CTL_CNP
    m.qp = i
    m.sport = f.sport


@inner
def _check_refusal(hs: Handle, i: int, q: QueuePair) -> None:
    """Once all that precedes the refused packet is here, nothing more can come: the QP is in error."""
    if q.rcv_nxt == q.rcv_refused and q.state != state.QPS_ERR:
        queues.fail(hs, i, int64(state.WC_WR_FLUSH_ERR))


@inner
def _accept(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, seq: int) -> None:
    if not cfg_row(hs).elide_payload:
        frame_to_memory(hs, f.va, f.payload, f.length)
    q.st_rx_packets += 1
    _count_lateness(hs, q, seq)
    q.st_rx_bytes += f.length
    host_row(hs, q.host).rx_payload += f.length
    q.st_rx_ecn_marked += f.ce
    if f.has_delay and cfg_row(hs).monitor:
        q.st_rx_delay_sum += f.delay
        q.st_rx_delay_samples += 1
    flags = int64(state.ARRIVED)
    if f.solicited:
        flags |= state.ARRIVED_LAST
    if f.opcode == wire.OP_WRITE_ONLY_IMM:
        flags |= state.ARRIVED_IMM
    if seq != q.rcv_nxt:
        a = arrival_row(hs, i, seq & (cfg_row(hs).window - 1))
        a.flags = flags
        a.length = f.length
        a.imm = f.imm
        q.rcv_early += 1
        q.rcv_held += f.length
        q.st_rx_held_peak = max(q.st_rx_held_peak, q.rcv_early)
        q.st_rx_held_bytes_peak = max(q.st_rx_held_bytes_peak, q.rcv_held)
        return
    _in_order(hs, i, q, flags, f.length, f.imm)
    while q.rcv_early:
        a = arrival_row(hs, i, q.rcv_nxt & (cfg_row(hs).window - 1))
        if not a.flags:
            break
        q.rcv_early -= 1
        q.rcv_held -= int64(a.length)
        _in_order(hs, i, q, int64(a.flags), int64(a.length), int64(a.imm))
        a.flags = 0


@inner
def _count_lateness(hs: Handle, q: QueuePair, seq: int) -> None:
    """Count by how many packets `seq` is behind the newest one."""
    top = max(q.rcv_top, q.rcv_nxt)
    behind, place = top - 1 - seq, 0
    q.rcv_top = max(top, seq + 1)
    while behind > 0 and place < state.LATE_CLASSES - 1:
        behind >>= 1
        place += 1
    late_row(hs, q.host, place).packets += 1


@inner
def _in_order(hs: Handle, i: int, q: QueuePair, flags: int, length: int, imm: int) -> None:
    """The next packet in order is there: counts it, and the message if this was its last."""
    q.rcv_nxt += 1
    q.rcv_nak = 0
    q.rcv_length += length
    q.st_rx_delivered += length
    if flags & state.ARRIVED_IMM:
        queues.push_completion(
            hs,
            q.recv_cq,
            int64(0),
            int64(state.WC_SUCCESS),
            int64(state.WC_RECV_RDMA_WITH_IMM),
            q.rcv_length,
            imm,
            q.qpn,
            int64(state.WC_WITH_IMM),
            int64(0),
        )
    if flags & state.ARRIVED_LAST:
        if q.tasks_of:
            event_queue.delivered(hs, q, host_row(hs, q.host).now)
        q.rcv_msn = (q.rcv_msn + 1) & 0xFFFFFF
        q.rcv_length = 0


@inner
def _acknowledge(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, seq: int, syndrome: int) -> None:
    """Queue the answer to the packet in `f`."""
    index = push_control(hs, q.host)
    if index == NIL:
        return
    m = ctl_row(hs, q.host, index)
    q.answers += 1
    m.kind = CTL_ACK
    m.qp = i
    m.psn = seq
    m.count = f.count
    m.ce = f.ce
    m.has_delay = f.has_delay
    m.delay = f.delay
    m.hops = f.hops
    m.syndrome = syndrome
    m.sport = f.sport


@inner
def write_ack(hs: Handle, frame: int, m: ControlMessage) -> int:
    """Write the ACK or NAK in control message `m` with what has arrived by now; return its length."""
    i = m.qp
    q = qp_row(hs, i)
    base = max(q.rcv_nxt, m.psn - wire.SACK_BEHIND)
    bitmap = 0
    if q.rcv_early and q.selective:
        window = cfg_row(hs).window
        for k in range(min(wire.SACK_BITS, q.rcv_nxt + window - base)):
            if arrival_row(hs, i, (base + k) & (window - 1)).flags:
                bitmap |= 1 << k
    if m.syndrome == wire.SYNDROME_SEQUENCE and not q.rcv_nak:
        m.syndrome = wire.SYNDROME_ACK  # what was missing has come meanwhile
    cum = m.psn
    if m.syndrome == wire.SYNDROME_ACK:
        cum = q.rcv_nxt - 1
    elif m.syndrome == wire.SYNDROME_SEQUENCE:
        cum = q.rcv_nxt
    return wire.write_ack(hs, frame, q, m, cum, base, bitmap)
