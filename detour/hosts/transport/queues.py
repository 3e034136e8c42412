# SPDX-License-Identifier: Apache-2.0
"""Send queues and completion queues. Work requests are posted, completed in order, and flushed when the QP fails.

A completion queue is a ring with one producer (the host) and one consumer (`verbs.CQ.poll`), which may be different
threads: an entry is complete before the tail says that it is there. Room is reserved before it is needed: a posted work
request holds one entry until it completes without one or its completion is polled, so no completion is ever lost. Work
requests of tasks complete in the host's event queue instead (`hosts.event_queue`) and hold none.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts import event_queue, state, timers
from detour.hosts.nic import activate
from detour.hosts.records import QueuePair
from detour.hosts.rows import cfg_row, cq_row, cqe_row, host_row, publish, qp_row, wqe_row
from detour.hosts.state import MAX_TIME, Handle
from detour.hosts.transport import flight

NOT_CONNECTED, SEND_QUEUE_FULL, CQ_FULL = -1, -2, -3


@inner
def reserve(hs: Handle, cq: int) -> bool:
    """Take one entry of the queue for a completion to come; False if there is none left."""
    c = cq_row(hs, cq)
    if c.reserved + c.tail - c.head >= cfg_row(hs).cq_depth:
        return False
    c.reserved += 1
    return True


@inner
def _release(hs: Handle, cq: int) -> None:
    """Give a reserved entry back."""
    cq_row(hs, cq).reserved -= 1


@inner
def push_completion(
    hs: Handle, cq: int, wr_id: int, status: int, opcode: int, length: int, imm: int, qpn: int, flags: int, posted: int
) -> None:
    """Fill a reserved entry; `posted` is when its work request was posted."""
    c = cq_row(hs, cq)
    e = cqe_row(hs, cq, c.tail & (cfg_row(hs).cq_depth - 1))
    e.wr_id = wr_id
    e.status = status
    e.opcode = opcode
    e.length = length
    e.imm = imm
    e.qpn = qpn
    e.flags = flags
    e.posted = posted
    e.done = host_row(hs, c.host).now
    c.reserved -= 1
    publish()
    c.tail += 1


@inner
def complete(hs: Handle, i: int, q: QueuePair, status: int) -> None:
    """Complete the oldest work request."""
    w = wqe_row(hs, i, q.sq_una & (cfg_row(hs).sq_depth - 1))
    q.sq_una += 1
    if w.flags & state.WQE_TASK:
        event_queue.acknowledged(hs, w.wr_id, status, host_row(hs, q.host).now)
    if status == state.WC_SUCCESS:
        q.st_bytes += w.length
        q.st_last_done_ps = host_row(hs, q.host).now
        if q.st_first_done_ps == 0:
            q.st_first_done_ps = q.st_last_done_ps
        if not w.flags & (state.WQE_SIGNALED | state.WQE_TASK):
            _release(hs, q.send_cq)
            return
    if w.flags & state.WQE_TASK:
        return
    push_completion(
        hs, q.send_cq, w.wr_id, status, int64(state.WC_RDMA_WRITE), w.length, int64(0), q.qpn, int64(0), w.posted
    )


@inner
def fail(hs: Handle, i: int, status: int) -> None:
    """Move QP `i` to the error state: its oldest work request completes with `status`, the others are flushed
    (IBTA 10.3.1.5, 11.6.2)."""
    q = qp_row(hs, i)
    q.state = state.QPS_ERR
    while q.sq_una < q.sq_end:
        complete(hs, i, q, status)
        status = int64(state.WC_WR_FLUSH_ERR)
    flight.clear(q)
    q.path_timer = MAX_TIME
    q.snd_una = q.snd_end
    q.snd_nxt = q.snd_end
    q.cc_timer = MAX_TIME
    q.pace_next = 0
    timers.remove(hs, q)


@inner
def post_write(
    hs: Handle, i: int, wr_id: int, local: int, remote: int, rkey: int, length: int, flags: int, imm: int, now: int
) -> int:
    """Post an RDMA WRITE of `length` bytes from arena offset `local` to `remote` at time `now` (if that is before
    the host's last call: then).

    Return 0 or why it was refused. On a QP in error the request is flushed (IBTA 10.8.3)."""
    q = qp_row(hs, i)
    depth = cfg_row(hs).sq_depth
    if q.state != state.QPS_RTS and q.state != state.QPS_ERR:
        return NOT_CONNECTED
    if q.sq_end - q.sq_una >= depth:
        return SEND_QUEUE_FULL
    if not flags & state.WQE_TASK and not reserve(hs, q.send_cq):
        return CQ_FULL
    w = wqe_row(hs, i, q.sq_end & (depth - 1))
    payload = cfg_row(hs).payload
    w.wr_id = wr_id
    w.first = q.snd_end
    w.packets = max(1, (length + payload - 1) // payload)
    w.local = local
    w.remote = remote
    w.rkey = rkey
    w.length = length
    w.flags = flags
    w.imm = imm
    w.posted = max(now, host_row(hs, q.host).now)
    q.snd_end += w.packets
    q.sq_end += 1
    if q.state == state.QPS_ERR:
        fail(hs, i, int64(state.WC_WR_FLUSH_ERR))
    else:
        activate(hs, i, q)
    return 0
