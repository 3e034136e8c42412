# SPDX-License-Identifier: Apache-2.0
"""Queue pairs that connections of tasks have only while they carry something.

Where there are more connections than rows in the table of QPs, a sender takes a row when a message is posted, and a
receiver when a packet comes; they give it back when nothing is in flight, held or queued. What must not be forgotten is
in the connection's lane: sequence numbers go on from row to row. The next row begins with a fresh window, as after an
idle time.

The number of a QP on the wire is that of its lane, not of its row. So a late frame can never be taken for one of the
row's next user. Packets that come again after the receiver has given its row back take another one, which knows by the
sequence number that they have arrived, and are answered; what comes for a sender without a row is dropped.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import fetch_add, move_bytes
from detour.base.pointers import record_address
from detour.base.structs import offsets
from detour.hosts import nic, timers
from detour.hosts.addresses import to_words
from detour.hosts.cc import control
from detour.hosts.paths import plugin
from detour.hosts.records import Candidate, Lease, QueuePair, TaskLane
from detour.hosts.rows import (
    candidate_row,
    cfg_row,
    frame_row,
    host_row,
    lane_port_row,
    lane_row,
    lease_row,
    leased_list_row,
    leased_set_row,
    mr_row,
    pool_row,
    qp_row,
)
from detour.hosts.state import FIRST_QPN, NIL, QPS_RTS, Handle
from detour.topo.address import USID_BLOCK

_SENDER, _RECEIVER = int64(0), int64(1)
_ROW_BYTES, _CANDIDATE_BYTES = QueuePair.dtype.itemsize, Candidate.dtype.itemsize
_TAKEN = offsets(Lease)["taken"]
_NONE, _ZERO, _ONE = int64(NIL), int64(0), int64(1)
_LIST_END = int64(to_words(USID_BLOCK << 96)[0])


@inner
def number_of(lane: int, end: int) -> int:
    """Number on the wire of an end of a lane."""
    return FIRST_QPN + 2 * lane + end


@inner
def is_known(hs: Handle, qpn: int) -> bool:
    """Return whether a number is one of a lane."""
    return FIRST_QPN <= qpn < number_of(cfg_row(hs).leased, _SENDER)


@inner
def row_of(hs: Handle, qpn: int) -> int:
    """The row that an end has now, by its number; `NIL`: none."""
    if not is_known(hs, qpn):
        return _NONE
    lane = lane_row(hs, (qpn - FIRST_QPN) >> 1)
    return int64(lane.receiver) if (qpn - FIRST_QPN) & 1 else int64(lane.qp)


@inner
def sender_of(hs: Handle, number: int, now: int) -> int:
    """The row of a lane's sender, which takes one if it has none; `NIL`: there is none left."""
    lane = lane_row(hs, number)
    if lane.qp != NIL:
        return int64(lane.qp)
    i = _take(hs)
    if i == NIL:
        return i
    q = _copy(hs, i, number, _SENDER, int64(lane.source), int64(lane.destination))
    q.snd_una = q.snd_nxt = q.snd_end = lane.snd_nxt
    q.sq_una = q.sq_nxt = q.sq_end = int64(lane.posted)
    q.n_short = 0
    for k in range(q.n_cand):
        c, port = candidate_row(hs, i, k), int64(lane_port_row(hs, number * q.n_cand + k).sport)
        move_bytes(record_address(c), record_address(candidate_row(hs, _SENDER, k)), _CANDIDATE_BYTES)
        c.sport = port
        q.n_short += 1 - (port >> 15)
    if lease_row(hs).lists:
        _give_lists(hs, i, q, lane)
    q.ptm_seq = lane.ptm_seq
    lane.qp = i
    plugin.call(hs, i, q, plugin.PATH_CANDIDATES, now)
    control.on_path(cfg_row(hs), q, lease_row(hs).window, now)
    return i


@inner
def _give_lists(hs: Handle, i: int, q: QueuePair, lane: TaskLane) -> None:
    """Give a sender the uSID lists of its lane's set; where there is one path nobody chooses."""
    lists = lease_row(hs).lists
    q.n_cand = q.n_short = _ONE
    if lane.path_set != 0:
        s = leased_set_row(hs, lane.path_set - 1)
        q.n_cand, q.n_short = int64(s.n_cand), int64(s.n_short)
        for k in range(q.n_cand):
            c, one = candidate_row(hs, i, k), leased_list_row(hs, (lane.path_set - 1) * lists + k)
            node, shift = int64(lane.node), int64(one.shift)
            c.dst_hi = one.dst_hi | (node << (shift - 64) if shift >= 64 else _ZERO)
            c.dst_lo = one.dst_lo | (node << shift if shift < 64 else _ZERO)
            c.final_hi = _LIST_END | node << 16
            c.weight = one.weight
    else:
        q.sprays = q.path_row = _ZERO


@inner
def receiver_of(hs: Handle, host: int, now: int) -> int:
    """The row that a lane's receiver takes for the packet in `frame_row(hs)`; `NIL`: it is not for one of this host, or
    there is none left."""
    f = frame_row(hs)
    if not is_known(hs, f.qpn) or not (f.qpn - FIRST_QPN) & 1:
        return _NONE
    number = (f.qpn - FIRST_QPN) >> 1
    lane = lane_row(hs, number)
    peer = host_row(hs, int64(lane.source))
    if lane.destination != host or peer.addr_hi != f.src_hi or peer.addr_lo != f.src_lo:
        return _NONE
    i = _take(hs)
    if i != NIL:
        q = _copy(hs, i, number, _RECEIVER, host, int64(lane.source))
        q.pd = mr_row(hs, (int64(lane.rkey) >> 8) & cfg_row(hs).mr_mask).pd
        q.rcv_nxt = lane.rcv_nxt
        q.rcv_msn = int64(lane.completed)
        lane.receiver = i
        control.on_path(cfg_row(hs), q, lease_row(hs).window, now)
    return i


@inner
def _take(hs: Handle) -> int:
    """A free row of this thread, else one that nobody has had; `NIL`: there is none."""
    pool = pool_row(hs)
    i = pool.free
    if i != 0:
        pool.free = qp_row(hs, i).active_next
        return i
    i = fetch_add(record_address(lease_row(hs)) + _TAKEN, _ONE)
    return i if i < cfg_row(hs).n_qps else _NONE


@inner
def _copy(hs: Handle, i: int, lane: int, end: int, host: int, peer: int) -> QueuePair:
    """Make row `i` an end of a lane that has just been connected."""
    q, template = qp_row(hs, i), record_address(qp_row(hs, end))
    move_bytes(record_address(q), template, _ROW_BYTES)
    # Plugins' fields are in the row.
    moved = record_address(q) - template
    q.cc_row += moved
    q.transport_row += moved
    if q.path_row != 0:
        q.path_row += moved
    q.host = host
    q.qpn = number_of(lane, end)
    q.peer_qpn = number_of(lane, 1 - end)
    q.peer_hi = host_row(hs, peer).addr_hi
    q.peer_lo = host_row(hs, peer).addr_lo
    q.tasks_of = lane + 1
    return q


@inner
def answered(hs: Handle, i: int) -> None:
    """One of the answers that waited was sent."""
    qp_row(hs, i).answers -= 1
    settle(hs, i)


@inner
def settle(hs: Handle, i: int) -> None:
    """Give row `i` back if it is a lease and at rest."""
    q = qp_row(hs, i)
    if cfg_row(hs).leased == 0 or q.answers > 0 or q.state != QPS_RTS:
        return
    lane = lane_row(hs, q.tasks_of - 1)
    if (q.qpn - FIRST_QPN) & 1:
        if q.rcv_early or q.rcv_length or q.rcv_nak or q.rcv_refused >= 0:
            return
        _keep_received(lane, q)
    else:
        if q.sq_una < q.sq_end or lane.waiting > 0:
            return
        lane.qp = NIL
        lane.snd_nxt = q.snd_nxt
        lane.posted = q.sq_end
        lane.ptm_seq = q.ptm_seq
        lane.packets += q.st_packets
        lane.retransmitted += q.st_retransmitted
        timers.remove(hs, q)
        nic.deactivate(hs, i, q)
    q.qpn = 0
    q.active_next = pool_row(hs).free
    pool_row(hs).free = i


@inner
def _keep_received(lane: TaskLane, q: QueuePair) -> None:
    lane.receiver = NIL
    lane.rcv_nxt = q.rcv_nxt
    lane.completed = q.rcv_msn
    lane.rx_bytes += q.st_rx_bytes
    lane.rx_packets += q.st_rx_packets
    lane.rx_duplicates += q.st_rx_duplicates
    lane.rx_ecn_marked += q.st_rx_ecn_marked
    lane.rx_delay_sum += q.st_rx_delay_sum
    lane.rx_delay_samples += q.st_rx_delay_samples
    lane.rx_held_peak = max(int64(lane.rx_held_peak), q.st_rx_held_peak)
