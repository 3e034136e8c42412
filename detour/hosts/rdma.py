# SPDX-License-Identifier: Apache-2.0
"""RDMA hosts as a stack of `hosts.stacks`: what becomes of a frame that comes in, which frame goes next, and whose
deadline has passed.

`state` is the address of the record of tables (`Hosts.listing`).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from detour.base.arrays import CACHE_LINE, Int64s1
from detour.base.jit import inner, int64
from detour.base.memory import load8, load32, load32be, load64, prefetch_lines, store64
from detour.base.memory import prefetch as prefetch_line
from detour.base.native import Part
from detour.base.pointers import record_address
from detour.base.structs import offsets
from detour.hosts import draws, leases, nic, openloop, tasks, timers
from detour.hosts.cc import control
from detour.hosts.frames import dissect, wire
from detour.hosts.frames.sizes import BTH, ETHERNET, IPV6, TRANSIT, UDP
from detour.hosts.paths import paths, plugin
from detour.hosts.paths.probes import send_ptm
from detour.hosts.records import ControlMessage, QueuePair, RdmaHost
from detour.hosts.rows import (
    arrival_row,
    candidate_row,
    cfg_row,
    ctl_row,
    frame_row,
    heap_row,
    host_row,
    late_row,
    mr_row,
    ptm_row,
    qp_row,
    slot_row,
    wqe_row,
)
from detour.hosts.stacks import STORED_SHIFT, record_of
from detour.hosts.state import DTYPES, FIRST_QPN, MAX_TIME, NIL, QPS_RTS, WQE_SIGNALED, Handle, Hosts, hosts_at
from detour.hosts.transport import ack_validation, blackhole, multipath, queues, responder, sender

RDMA = Part("rdma", __name__)

_SLOT_BYTES, _CTL_BYTES, _WQE_BYTES, _CANDIDATE_BYTES = (
    DTYPES[name].itemsize for name in ("slot", "ctl", "wqe", "candidate")
)
_HOST_BYTES = offsets(RdmaHost)["rx_bad_checksum"]
_REQUESTER_BYTES, _RESPONDER_AT, _HOT_BYTES = (offsets(QueuePair)[name] for name in ("pd", "qpn", "generation"))
"""of a host and a QP what most packets touch, whole lines; so do the beginnings of what congestion control, path scheme
and transport have"""
_CC_AT, _PATH_AT = QueuePair.CC_AT, QueuePair.CC_AT + QueuePair.CC_BYTES
_TRANSPORT_AT = _PATH_AT + QueuePair.PATH_BYTES
_ANSWERED = 2
"""packets in flight that answers may take off a QP in a window"""
_NEXT_HEADER = ETHERNET + 6
_NOBODY = int64(NIL)
_QPN, _RKEY = 4, BTH + 8
"""behind the beginning of the BTH: the word that ends with the destination QP; the key of a region"""
_FIRST = int64(0)


def stack_of(hs: Hosts, worker: int = 0) -> tuple[np.ndarray, Any]:
    """The record of a stack of these hosts, and what must be kept for as long as it is used. Each thread that runs some
    of the hosts has one of its own, by its number."""
    return record_of(sys.modules[__name__], hs.listing_of(worker))


@RDMA.entry
def receive(state: int, host: int, frame: int, stored: int, wire: int, now: int) -> int:
    """A frame came in."""
    hs = hosts_at(state, 0)
    i = _take(hs, host, host_row(hs, host), frame, wire, now)
    if host_row(hs, host).events_when <= now:
        tasks.perform(hs, host, now)
    if i != NIL:
        leases.settle(hs, i)
    return 0


@inner
def _take(hs: Handle, host: int, h: RdmaHost, frame: int, length: int, now: int) -> int:
    """Return the QP that the frame was for, or `NIL`."""
    h.now = now
    h.rx_frames += 1
    h.rx_bytes += length
    if h.open_loop and openloop.receive(hs, host, frame, length, now):
        return _NOBODY
    kind = dissect.dissect(hs, host, frame, length)
    i = _NOBODY
    if kind < 0:
        _count_bad(h, kind)
    elif kind == dissect.IS_PTM:
        paths.answer_ptm(hs, host)
    else:
        i = _addressed(hs, host)
        if i == NIL and kind == dissect.IS_DATA:
            i = leases.receiver_of(hs, host, now)
        if i == NIL:
            _count_lost(hs, h)
        elif kind == dissect.IS_DATA:
            responder.on_data(hs, i, now)
        else:
            _feedback(hs, i, qp_row(hs, i), kind, now)
    return i


@inner
def _feedback(hs: Handle, i: int, q: QueuePair, kind: int, now: int) -> None:
    """Something that the sender of QP `i` is to know came in."""
    if kind == dissect.IS_ACK:
        sender.on_ack(hs, i, now)
    elif kind == dissect.IS_PTR:
        if paths.on_ptr(hs, i, now):
            blackhole.on_answer(hs, i, q, now)
    elif not ack_validation.is_notification(hs, i, q):
        q.st_answers_dropped += 1
    else:
        q.st_cnps += 1
        if ack_validation.is_about_this_path(hs, i, q):
            control.on_cnp(q, now)
    when = sender.deadline(hs, i, q)
    if when < MAX_TIME:
        timers.advance(hs, i, q, when)


@inner
def _count_bad(h: RdmaHost, kind: int) -> None:
    if kind == dissect.NOT_MINE:
        h.rx_not_mine += 1
    elif kind == dissect.BAD_CHECKSUM:
        h.rx_bad_checksum += 1
    elif kind == dissect.BAD_ICRC:
        h.rx_bad_icrc += 1
    else:
        h.rx_malformed += 1


@inner
def _addressed(hs: Handle, host: int) -> int:
    """QP of this host that the frame is for and whose peer sent it, or `NIL`."""
    f = frame_row(hs)
    i = row_of(hs, f.qpn)
    if i == NIL:
        return NIL
    q = qp_row(hs, i)
    mine = q.qpn == f.qpn and q.host == host
    return i if mine and q.peer_hi == f.src_hi and q.peer_lo == f.src_lo else NIL


@inner
def row_of(hs: Handle, qpn: int) -> int:
    """Row of the table of QPs to which a number belongs, whether it is in use or not; `NIL`: none."""
    if cfg_row(hs).leased:
        return leases.row_of(hs, qpn)
    i = (qpn - FIRST_QPN) & cfg_row(hs).qpn_mask
    return i if qpn >= FIRST_QPN and i < cfg_row(hs).n_qps else int64(NIL)


@inner
def _count_lost(hs: Handle, h: RdmaHost) -> None:
    """A frame for no QP of this host came in: of an earlier connection, if its number was used before in its row."""
    qpn = frame_row(hs).qpn
    i = row_of(hs, qpn)
    if leases.is_known(hs, qpn) or (
        i != NIL and qpn < FIRST_QPN + i + qp_row(hs, i).generation * (cfg_row(hs).qpn_mask + 1)
    ):
        h.rx_old_connection += 1
    else:
        h.rx_unknown_qp += 1


@RDMA.entry
def transmit(state: int, host: int, frame: int, room: int, now: int) -> int:
    """Write the next frame to send; return bytes stored << 32 | bytes on the wire, 0 if nothing may go now."""
    hs = hosts_at(state, 0)
    h = host_row(hs, host)
    h.now = now
    length = 0
    while length == 0 and nic.waits(h.ctl):
        length = _control(hs, frame, h, ctl_row(hs, host, nic.pop(hs, h.ctl)))
    if length == 0 and nic.may_send_data(hs, h):
        length = _data(hs, host, h, frame, now)
        if length == 0 and h.open_loop:
            length = openloop.write(hs, host, frame, now)
    if length:
        h.tx_frames += 1
        h.tx_bytes += length
    return min(length, room) << STORED_SHIFT | length


@inner
def _data(hs: Handle, host: int, h: RdmaHost, frame: int, now: int) -> int:
    """The next PTM or data packet."""
    length = 0
    while length == 0 and nic.waits(h.ptm):
        m = ptm_row(hs, host, nic.pop(hs, h.ptm))
        if m.kind == nic.CTL_PTM:  # it is withdrawn when its QP is destroyed
            length = paths.write_ptm(hs, frame, h, m, now)
            leases.answered(hs, m.qp)
    while length == 0 and h.active_head != NIL:
        i = nic.take_active(hs, h)
        if h.active_head != NIL:
            _prefetch_requester(hs, h.active_head)
        q = qp_row(hs, i)
        length = sender.next_frame(hs, i, q, frame, now)
        if length and sender.can_send(hs, q):
            sender.continue_after(hs, i, q, length, now)
    return length


@inner
def _control(hs: Handle, frame: int, h: RdmaHost, m: ControlMessage) -> int:
    if m.kind == nic.CTL_PTR:
        return wire.write_probe(hs, frame, h, m, wire.PTR)
    if m.kind == nic.CTL_NONE:
        return 0  # withdrawn when its QP was destroyed
    if m.kind == nic.CTL_ACK:
        length = responder.write_ack(hs, frame, m)
    else:
        length = wire.write_cnp(hs, frame, qp_row(hs, m.qp), m)
    leases.answered(hs, m.qp)
    return length


@RDMA.entry
def deadline(state: int, host: int) -> int:
    """The time at which `expire` wants to be called, ps; `MAX_TIME`: never."""
    return _deadline(hosts_at(state, 0), host)


@inner
def _deadline(hs: Handle, host: int) -> int:
    if host_row(hs, host).open_loop:
        return openloop.due(hs, host)
    return min(host_row(hs, host).events_when, _first_deadline(hs, host))


@inner
def _first_deadline(hs: Handle, host: int) -> int:
    """Return the earliest deadline of all QPs."""
    while True:
        i = timers.top(hs, host)
        if i == NIL:
            return MAX_TIME
        q = qp_row(hs, i)
        when = sender.deadline(hs, i, q)
        if when <= q.heap_key:
            _prefetch_sent(hs, i, q)
            return q.heap_key
        if when == MAX_TIME:
            timers.remove(hs, q)
        else:
            timers.postpone_top(hs, host, when)


@RDMA.entry
def not_before(state: int, host: int) -> int:
    """A time before which no deadline is, ps: `deadline` may be later, but to know that takes looking at a QP."""
    hs = hosts_at(state, 0)
    if host_row(hs, host).open_loop:
        return openloop.due(hs, host)
    return min(host_row(hs, host).events_when, timers.first_key(hs, host))


@RDMA.entry
def expire(state: int, host: int, now: int) -> int:
    """The deadline has passed. Harmless if it has not."""
    hs = hosts_at(state, 0)
    host_row(hs, host).now = now
    if host_row(hs, host).open_loop:
        return 0  # `transmit` follows
    if host_row(hs, host).events_when <= now:
        tasks.perform(hs, host, now)
    while _first_deadline(hs, host) <= now:
        i = timers.top(hs, host)
        sender.on_deadline(hs, i, now)
        if timers.top(hs, host) == i:
            # a key above `now` even if something is still due: it waits for `transmit` now
            timers.postpone_top(hs, host, max(sender.deadline(hs, i, qp_row(hs, i)), now + 1))
    return 0


@RDMA.entry
def pause(state: int, host: int, mask: int) -> int:
    """Priority p must not be sent while bit p of `mask` is set (PFC). Control goes on; data and PTMs are of
    `data_priority`. When it is cleared there may be something to `transmit`."""
    host_row(hosts_at(state, 0), host).paused = mask
    return 0


# -- what a frame will touch -------------------------------------------------------------------------------


@RDMA.entry
def prefetch(state: int, host: int, frame: int, step: int) -> int:
    """Step 0: the rows of the host, its first deadline, and of the QP and memory that the frame is for; 1: what these
    lead to."""
    hs = hosts_at(state, 0)
    bth = frame + ETHERNET + IPV6 + UDP
    if load8(frame + _NEXT_HEADER) == 0:
        bth += TRANSIT
    i, writes = _qp_of(hs, bth), load8(bth) <= wire.OP_WRITE_ONLY_IMM
    if step == 0:
        prefetch_lines(record_address(host_row(hs, host)), _HOST_BYTES)
        prefetch_line(record_address(heap_row(hs, host, _FIRST)))
        if i >= 0 and writes:
            prefetch_lines(record_address(qp_row(hs, i)) + _RESPONDER_AT, _HOT_BYTES - _RESPONDER_AT)
            prefetch_line(record_address(late_row(hs, host, _FIRST)))
            prefetch_line(record_address(mr_row(hs, (load32be(bth + _RKEY) >> 8) & cfg_row(hs).mr_mask)))
        elif i >= 0:
            _prefetch_requester(hs, i)
    elif writes:
        _prefetch_answer(hs, host)
        if i >= 0 and qp_row(hs, i).rcv_early:
            prefetch_line(record_address(arrival_row(hs, i, qp_row(hs, i).rcv_nxt & (cfg_row(hs).window - 1))))
    elif i >= 0:
        _prefetch_flight(hs, i)
    return 0


@inner()
def _qp_of(hs: Handle, bth: int) -> int:
    """The QP that a BTH names, -1 if it does not look like one for any."""
    word = load32(bth + _QPN)
    return row_of(hs, ((word >> 8) & 0xFF) << 16 | ((word >> 16) & 0xFF) << 8 | ((word >> 24) & 0xFF))


@inner()
def _prefetch_requester(hs: Handle, i: int) -> None:
    """Prefetch the lines of a QP that sending and answers touch."""
    row = record_address(qp_row(hs, i))
    prefetch_lines(row, _REQUESTER_BYTES)
    prefetch_lines(row + _CC_AT, 2 * CACHE_LINE)
    prefetch_line(row + _TRANSPORT_AT)


@inner()
def _prefetch_sent(hs: Handle, i: int, q: QueuePair) -> None:
    """The places of the next packets of a QP, and the work request of the first one."""
    prefetch_lines(record_address(slot_row(hs, i, q.snd_nxt & (cfg_row(hs).window - 1))), _ANSWERED * _SLOT_BYTES)
    prefetch_lines(record_address(wqe_row(hs, i, q.sq_nxt & (cfg_row(hs).sq_depth - 1))), _WQE_BYTES)


@inner()
def _prefetch_answer(hs: Handle, host: int) -> None:
    """Return where the next answer of a host is written that waits for its uplink."""
    ring = host_row(hs, host).ctl
    place = ring.tail & (cfg_row(hs).control_depth - 1) if ring.tail != ring.head else 0
    prefetch_lines(record_address(ctl_row(hs, host, place)), _CTL_BYTES)


@inner()
def _prefetch_flight(hs: Handle, i: int) -> None:
    """The first packets in flight of a QP, the last one, the path that they take and what its scheme knows, and the
    QP's next packet."""
    q = qp_row(hs, i)
    prefetch_lines(record_address(candidate_row(hs, i, q.cand)), _CANDIDATE_BYTES if q.sprays else CACHE_LINE)
    if q.path_row:
        prefetch_line(q.path_row)
    if q.flight_head != NIL:
        prefetch_lines(record_address(slot_row(hs, i, q.flight_head)), _ANSWERED * _SLOT_BYTES)
        prefetch_line(record_address(slot_row(hs, i, q.flight_tail)))
        _prefetch_sent(hs, i, q)


# -- for Python, while nothing runs -------------------------------------------------------------------------


@RDMA.entry
def survey(state: int, count: int, hosts: int, when: int, busy: int) -> None:
    """For each of `count` hosts its deadline and whether it may have something to send; arrays of int64."""
    hs = hosts_at(state, 0)
    for k in range(count):
        host = load64(hosts + 8 * k)
        store64(when + 8 * k, _deadline(hs, host))
        store64(busy + 8 * k, nic.has_work(hs, host))


@RDMA.entry
def dissect_frame(state: int, frame: int, length: int) -> int:
    """`dissect.dissect` of a frame for nobody, behind which there must be room for headers."""
    return dissect.dissect(hosts_at(state, 0), int64(NIL), frame, length)


@RDMA.entry
def random_below(state: int, host: int, n: int) -> int:
    """`draws.random_below`."""
    return draws.random_below(host_row(hosts_at(state, 0), host), n)


@RDMA.entry
def begin(state: int, rows: Int64s1, window: float) -> None:
    """Begin the first path of QPs."""
    hs = hosts_at(state, 0)
    for i in rows:
        q = qp_row(hs, i)
        control.on_path(cfg_row(hs), q, window, int64(0))
        q.state = QPS_RTS


@RDMA.entry
def post_write(
    state: int, i: int, wr_id: int, local: int, remote: int, rkey: int, length: int, flags: int, imm: int, now: int
) -> int:
    """`queues.post_write`."""
    return queues.post_write(hosts_at(state, 0), i, wr_id, local, remote, rkey, length, flags, imm, now)


@RDMA.entry
def post_many(state: int, row: Int64s1, key: Int64s1, size: Int64s1, wr_id: Int64s1, now: int) -> int:
    """Post a WRITE from and to the begin of memory on each of some QPs, until one is refused; say why."""
    hs, zero = hosts_at(state, 0), int64(0)
    for k in range(len(row)):
        refused = queues.post_write(hs, row[k], wr_id[k], zero, zero, key[k], size[k], int64(WQE_SIGNALED), zero, now)
        if refused:
            return refused
    return 0


@RDMA.entry
def abandon(state: int, i: int) -> None:
    """`multipath.abandon`."""
    multipath.abandon(hosts_at(state, 0), i)


@RDMA.entry
def move(state: int, i: int, cand: int, now: int) -> None:
    """`paths.move`."""
    hs = hosts_at(state, 0)
    paths.move(hs, i, qp_row(hs, i), cand, now)


@RDMA.entry
def new_candidates(state: int, rows: Int64s1) -> None:
    """The lists of candidates of QPs are others."""
    hs = hosts_at(state, 0)
    for i in rows:
        plugin.call(hs, i, qp_row(hs, i), plugin.PATH_CANDIDATES, int64(0))


@RDMA.entry
def probe_all(state: int, i: int) -> None:
    """Queue a PTM on every candidate of a QP: what is asked for from outside, not by the rules of its scheme."""
    hs = hosts_at(state, 0)
    q = qp_row(hs, i)
    for place in range(q.n_cand):
        send_ptm(hs, i, q, place)


@RDMA.entry
def forget(state: int, i: int) -> None:
    """A QP that is about to be destroyed has no deadline and no place among those that send."""
    hs = hosts_at(state, 0)
    q = qp_row(hs, i)
    timers.remove(hs, q)
    nic.deactivate(hs, i, q)
