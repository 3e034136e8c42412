# SPDX-License-Identifier: Apache-2.0
"""What becomes of a frame that comes in, which frame goes next, and whose deadline has passed: `hosts.endpoint` in
native code.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts import nic, openloop, tasks
from detour.hosts.cc import control
from detour.hosts.frames import dissect, wire
from detour.hosts.paths import blackhole, paths
from detour.hosts.records import ControlMessage, QueuePair, RdmaHost
from detour.hosts.rows import cfg_row, ctl_row, frame_row, host_row, ptm_row, qp_row
from detour.hosts.state import FIRST_QPN, MAX_TIME, NIL, Handle
from detour.hosts.transport import ack_validation, responder, sender, timers


@inner
def receive(hs: Handle, host: int, frame: int, length: int, now: int) -> None:
    """A frame of `length` bytes came in."""
    h = host_row(hs, host)
    h.now = now
    h.rx_frames += 1
    h.rx_bytes += length
    if h.open_loop and openloop.receive(hs, host, frame, length, now):
        return
    kind = dissect.dissect(hs, host, frame, length)
    if kind < 0:
        _count_bad(h, kind)
    elif kind == dissect.IS_PTM:
        paths.answer_ptm(hs, host)
    else:
        i = _addressed(hs, host)
        if i == NIL:
            _count_lost(hs, h)
        elif kind == dissect.IS_DATA:
            responder.on_data(hs, i, now)
        else:
            _feedback(hs, i, qp_row(hs, i), kind, now)
    if h.agenda_when <= now:
        tasks.perform(hs, host, now)


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
    i = (qpn - FIRST_QPN) & cfg_row(hs).qpn_mask
    return i if qpn >= FIRST_QPN and i < cfg_row(hs).n_qps else int64(NIL)


@inner
def _count_lost(hs: Handle, h: RdmaHost) -> None:
    """A frame for no QP of this host came in: of an earlier connection, if its number was used before in its row."""
    qpn = frame_row(hs).qpn
    i = row_of(hs, qpn)
    if i != NIL and qpn < FIRST_QPN + i + qp_row(hs, i).generation * (cfg_row(hs).qpn_mask + 1):
        h.rx_old_connection += 1
    else:
        h.rx_unknown_qp += 1


@inner
def transmit(hs: Handle, host: int, frame: int, now: int) -> int:
    """Writes the next frame to send; returns its length, 0 if nothing may go now."""
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
    return length


@inner
def _data(hs: Handle, host: int, h: RdmaHost, frame: int, now: int) -> int:
    """The next PTM or data packet."""
    length = 0
    while length == 0 and nic.waits(h.ptm):
        m = ptm_row(hs, host, nic.pop(hs, h.ptm))
        if m.kind == nic.CTL_PTM:  # it is withdrawn when its QP is destroyed
            length = paths.write_ptm(hs, frame, h, m, now)
    while length == 0 and h.active_head != NIL:
        i = nic.take_active(hs, h)
        q = qp_row(hs, i)
        length = sender.next_frame(hs, i, q, frame, now)
        if length and sender.can_send(hs, q):
            sender.continue_after(hs, i, q, length, now)
    return length


@inner
def _control(hs: Handle, frame: int, h: RdmaHost, m: ControlMessage) -> int:
    if m.kind == nic.CTL_ACK:
        return responder.write_ack(hs, frame, m)
    if m.kind == nic.CTL_CNP:
        return wire.write_cnp(hs, frame, qp_row(hs, m.qp), m)
    if m.kind == nic.CTL_PTR:
        return wire.write_probe(hs, frame, h, m, wire.PTR)
    return 0  # withdrawn when its QP was destroyed


@inner
def deadline(hs: Handle, host: int) -> int:
    """When `expire` wants to be called, ps; `MAX_TIME`: never."""
    if host_row(hs, host).open_loop:
        return openloop.due(hs, host)
    return min(host_row(hs, host).agenda_when, _first_deadline(hs, host))


@inner
def _first_deadline(hs: Handle, host: int) -> int:
    """Of all QPs."""
    while True:
        i = timers.top(hs, host)
        if i == NIL:
            return MAX_TIME
        q = qp_row(hs, i)
        when = sender.deadline(hs, i, q)
        if when <= q.heap_key:
            return q.heap_key
        if when == MAX_TIME:
            timers.remove(hs, q)
        else:
            timers.postpone_top(hs, host, when)


@inner
def not_before(hs: Handle, host: int) -> int:
    """A time before which no deadline is, ps: `deadline` may be later, but to know that takes looking at a QP."""
    if host_row(hs, host).open_loop:
        return openloop.due(hs, host)
    return min(host_row(hs, host).agenda_when, timers.first_key(hs, host))


@inner
def expire(hs: Handle, host: int, now: int) -> None:
    """The deadline has passed. Harmless if it has not."""
    host_row(hs, host).now = now
    if host_row(hs, host).open_loop:
        return  # `transmit` follows
    if host_row(hs, host).agenda_when <= now:
        tasks.perform(hs, host, now)
    while _first_deadline(hs, host) <= now:
        i = timers.top(hs, host)
        sender.on_deadline(hs, i, now)
        if timers.top(hs, host) == i:
            # a key above `now` even if something is still due: it waits for `transmit` now
            timers.postpone_top(hs, host, max(sender.deadline(hs, i, qp_row(hs, i)), now + 1))


@inner
def pause(hs: Handle, host: int, mask: int) -> None:
    """Priority p must not be sent while bit p of `mask` is set (PFC). Control goes on; data and PTMs are of
    `data_priority`. When it is cleared there may be something to `transmit`."""
    host_row(hs, host).paused = mask
