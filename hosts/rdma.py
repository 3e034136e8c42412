# SPDX-License-Identifier: Apache-2.0
"""RDMA hosts as a stack of `hosts.stacks`: the functions of `hosts.endpoint`, to be called by address.

`state` is the address of the list of tables (`Hosts.listing`).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from detour.base.arrays import Int64s1
from detour.base.jit import inner, int64
from detour.base.memory import load8, load32, load64, prefetch_lines, store64
from detour.base.memory import prefetch as prefetch_line
from detour.base.parts import Part
from detour.hosts import demux, draws, nic
from detour.hosts.cc import control
from detour.hosts.frames import dissect
from detour.hosts.frames.sizes import ETHERNET, IPV6, TRANSIT, UDP
from detour.hosts.paths import paths
from detour.hosts.rows import cfg_row, host_row, qp_row
from detour.hosts.stacks import STORED_SHIFT, record_of
from detour.hosts.state import (
    FIRST_QPN,
    HOST_TABLES,
    NIL,
    QPS_RTS,
    TABLES,
    WQE_SIGNALED,
    Handle,
    Hosts,
    hosts_at,
)
from detour.hosts.transport import multipath, timers
from detour.hosts.verbs import queues

RDMA = Part("rdma", __name__)

_PREFETCHED = ("host", "qp", "slot", "ctl")
_HOST_AT, _QP_AT, _SLOT_AT, _CTL_AT = (8 * HOST_TABLES.index(name) for name in _PREFETCHED)
_LENGTHS_AT = 8 * len(HOST_TABLES)
_HOST_BYTES, _QP_BYTES, _SLOT_BYTES, _CTL_BYTES = (TABLES[name].dtype.itemsize for name in _PREFETCHED)
_ANSWERED = 4
"""packets in flight that answers may take off a QP in a window"""
_NEXT_HEADER = ETHERNET + 6
_QPN_BEHIND_IP = UDP + 4
"""from the UDP header on: the word of the BTH that ends with the destination QP"""


def stack_of(hs: Hosts) -> tuple[np.ndarray, Any]:
    """The record of a stack of these hosts, and what must be kept for as long as it is used."""
    return record_of(sys.modules[__name__], hs.listing)


@RDMA.entry
def receive(state: int, host: int, frame: int, stored: int, wire: int, now: int) -> int:
    """A frame came in."""
    demux.receive(hosts_at(state), host, frame, wire, now)
    return 0


@RDMA.entry
def transmit(state: int, host: int, frame: int, room: int, now: int) -> int:
    """Writes the next frame to send; returns bytes stored << 32 | bytes on the wire, 0 if nothing may go now."""
    length = demux.transmit(hosts_at(state), host, frame, now)
    return min(length, room) << STORED_SHIFT | length


@RDMA.entry
def deadline(state: int, host: int) -> int:
    """When `expire` wants to be called, ps; `MAX_TIME`: never."""
    return demux.deadline(hosts_at(state), host)


@RDMA.entry
def not_before(state: int, host: int) -> int:
    """A time before which no deadline is, ps."""
    return demux.not_before(hosts_at(state), host)


@RDMA.entry
def expire(state: int, host: int, now: int) -> int:
    """The deadline has passed."""
    demux.expire(hosts_at(state), host, now)
    return 0


@RDMA.entry
def pause(state: int, host: int, mask: int) -> int:
    """Priority p must not be sent while bit p of `mask` is set."""
    demux.pause(hosts_at(state), host, mask)
    return 0


# -- what a frame will touch -------------------------------------------------------------------------------


@RDMA.entry
def prefetch(state: int, host: int, frame: int, step: int) -> int:
    """Step 0: the rows of the host and of the QP that the frame is for; 1: what these lead to."""
    hs = hosts_at(state)
    i = _qp_of(hs, frame)
    if step == 0:
        prefetch_lines(load64(state + _HOST_AT) + host * _HOST_BYTES, _HOST_BYTES)
        if i >= 0:
            prefetch_lines(load64(state + _QP_AT) + i * _QP_BYTES, _QP_BYTES)
        return 0
    _prefetch_answer(hs, host)
    if i >= 0:
        _prefetch_flight(hs, i)
    return 0


@inner()
def _qp_of(hs: Handle, frame: int) -> int:
    """The QP that a frame is for, -1 if it does not look like one for any."""
    at = frame + ETHERNET + IPV6
    if load8(frame + _NEXT_HEADER) == 0:
        at += TRANSIT
    word = load32(at + _QPN_BEHIND_IP)
    number = ((word >> 8) & 0xFF) << 16 | ((word >> 16) & 0xFF) << 8 | ((word >> 24) & 0xFF)
    row = (number - FIRST_QPN) & cfg_row(hs).qpn_mask
    if number < FIRST_QPN or row >= cfg_row(hs).n_qps:
        return -1
    return row


@inner()
def _prefetch_answer(hs: Handle, host: int) -> None:
    """Where the next answer of a host is written that waits for its uplink."""
    length = load64(hs.listing + _LENGTHS_AT + _CTL_AT)
    ring = host_row(hs, host).ctl
    place = ring.tail & (cfg_row(hs).control_depth - 1) if ring.tail != ring.head else 0
    prefetch_lines(load64(hs.listing + _CTL_AT) + (host * length + place) * _CTL_BYTES, _CTL_BYTES)


@inner()
def _prefetch_flight(hs: Handle, i: int) -> None:
    """The first packets in flight of a QP and the place of the next one to send."""
    q = qp_row(hs, i)
    first = load64(hs.listing + _SLOT_AT) + i * load64(hs.listing + _LENGTHS_AT + _SLOT_AT) * _SLOT_BYTES
    if q.flight_head != NIL:
        prefetch_lines(first + q.flight_head * _SLOT_BYTES, _ANSWERED * _SLOT_BYTES)
        prefetch_line(first + (q.snd_nxt & (cfg_row(hs).window - 1)) * _SLOT_BYTES)


# -- for Python, while nothing runs -------------------------------------------------------------------------


@RDMA.entry
def survey(state: int, count: int, hosts: int, when: int, busy: int) -> None:
    """For each of `count` hosts its deadline and whether it may have something to send; arrays of int64."""
    hs = hosts_at(state)
    for k in range(count):
        host = load64(hosts + 8 * k)
        store64(when + 8 * k, demux.deadline(hs, host))
        store64(busy + 8 * k, nic.has_work(hs, host))


@RDMA.entry
def dissect_frame(state: int, frame: int, length: int) -> int:
    """`dissect.dissect` of a frame for nobody, behind which there must be room for headers."""
    return dissect.dissect(hosts_at(state), int64(NIL), frame, length)


@RDMA.entry
def random_below(state: int, host: int, n: int) -> int:
    """`draws.random_below`."""
    return draws.random_below(host_row(hosts_at(state), host), n)


@RDMA.entry
def begin(state: int, rows: Int64s1, window: float) -> None:
    """Begins the first path of QPs."""
    hs = hosts_at(state)
    for i in rows:
        q = qp_row(hs, i)
        control.on_path(cfg_row(hs), q, window, int64(0))
        q.state = QPS_RTS


@RDMA.entry
def post_write(
    state: int, i: int, wr_id: int, local: int, remote: int, rkey: int, length: int, flags: int, imm: int, now: int
) -> int:
    """`queues.post_write`."""
    return queues.post_write(hosts_at(state), i, wr_id, local, remote, rkey, length, flags, imm, now)


@RDMA.entry
def post_many(state: int, row: Int64s1, key: Int64s1, size: Int64s1, wr_id: Int64s1, now: int) -> int:
    """Posts a WRITE from and to the begin of memory on each of some QPs, until one is refused; says why."""
    hs, zero = hosts_at(state), int64(0)
    for k in range(len(row)):
        refused = queues.post_write(hs, row[k], wr_id[k], zero, zero, key[k], size[k], int64(WQE_SIGNALED), zero, now)
        if refused:
            return refused
    return 0


@RDMA.entry
def abandon(state: int, i: int) -> None:
    """`multipath.abandon`."""
    multipath.abandon(hosts_at(state), i)


@RDMA.entry
def move(state: int, i: int, cand: int, now: int) -> None:
    """`paths.move`."""
    hs = hosts_at(state)
    paths.move(hs, i, qp_row(hs, i), cand, now)


@RDMA.entry
def new_candidates(state: int, rows: Int64s1) -> None:
    """`paths.new_candidates` of QPs."""
    hs = hosts_at(state)
    for i in rows:
        paths.new_candidates(hs, i)


@RDMA.entry
def probe_all(state: int, i: int) -> None:
    """`paths.probe_all`."""
    paths.probe_all(hosts_at(state), i)


@RDMA.entry
def forget(state: int, i: int) -> None:
    """A QP that is about to be destroyed has no deadline and no place among those that send."""
    hs = hosts_at(state)
    q = qp_row(hs, i)
    timers.remove(hs, q)
    nic.deactivate(hs, i, q)
