# SPDX-License-Identifier: Apache-2.0
"""The transports that the loop calls: the contract in docs/architecture.md, bound when the loop is compiled."""

from __future__ import annotations

from typing import Any

from detour.engine.loop.jit import inner
from detour.engine.loop.native import load8, load32, load64, prefetch, prefetch_lines
from detour.hosts.endpoint import MAX_FRAME, Hosts, deadline, expire, make_hosts, not_before, pause, receive, transmit
from detour.hosts.frames.wire import ETHERNET, IPV6, MAX_OVERHEAD, TRANSIT, UDP
from detour.hosts.rows import cfg_row, host_row, qp_row
from detour.hosts.state import FIRST_QPN, HOST, NIL, PSN_SLOT, QP_RECORD, TABLES

__all__ = [
    "HOST_BYTES",
    "MAX_FRAME",
    "QP_BYTES",
    "STORED_BYTES",
    "Hosts",
    "deadline",
    "expire",
    "host_address",
    "no_hosts",
    "not_before",
    "pause",
    "prefetch_answers",
    "prefetch_flight",
    "qp_address",
    "qp_of",
    "receive",
    "transmit",
]


STORED_BYTES = MAX_OVERHEAD
"""bytes of a frame's beginning that hosts write and read when they elide payload: all headers"""


def no_hosts() -> Hosts:
    """Arrays for a fabric without native hosts: of the same types, so that the same code runs."""
    return make_hosts(1, 1, 0, window=1, sq_depth=1, cq_depth=1, max_candidates=1, control_depth=1)


HOST_BYTES, QP_BYTES = HOST.itemsize, QP_RECORD.itemsize
_NUMBER = {name: number for number, name in enumerate(TABLES)}
_HOST_AT, _QP_AT, _SLOT_AT, _CTL_AT = (8 * _NUMBER[name] for name in ("host", "qp", "slot", "ctl"))
_LENGTHS_AT = 8 * len(TABLES)
_ANSWERED = 4
"""Packets in flight that answers may take off a QP in a window."""

_SLOT_BYTES, _CTL_BYTES = PSN_SLOT.itemsize, TABLES["ctl"].itemsize
_NEXT_HEADER = ETHERNET + 6
_QPN_BEHIND_IP = UDP + 4
"""From the UDP header on: the word of the BTH that ends with the destination QP."""


@inner()
def host_address(hs: Any, host: int) -> int:
    """Where a host's row is."""
    return load64(hs.listing + _HOST_AT) + host * HOST_BYTES


@inner()
def qp_of(hs: Any, frame: int) -> int:
    """The QP that a frame at that address is for, -1 if it does not look like one for any."""
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
def qp_address(hs: Any, i: int) -> int:
    """Where a QP's row is."""
    return load64(hs.listing + _QP_AT) + i * QP_BYTES


@inner()
def prefetch_answers(hs: Any, host: int) -> None:
    """Asks the cache for where the next answer of a host is written that waits for its uplink."""
    h = host_row(hs, host)
    length = load64(hs.listing + _LENGTHS_AT + _CTL_AT)
    ring = h.ctl
    place = ring.tail & (cfg_row(hs).control_depth - 1) if ring.tail != ring.head else 0
    prefetch_lines(load64(hs.listing + _CTL_AT) + (host * length + place) * _CTL_BYTES, _CTL_BYTES)


@inner()
def prefetch_flight(hs: Any, i: int) -> None:
    """Asks for the first packet in flight of a QP and for the place of the next one to send."""
    q = qp_row(hs, i)
    first = load64(hs.listing + _SLOT_AT) + i * load64(hs.listing + _LENGTHS_AT + _SLOT_AT) * _SLOT_BYTES
    if q.flight_head != NIL:
        prefetch_lines(first + q.flight_head * _SLOT_BYTES, _ANSWERED * _SLOT_BYTES)
        prefetch(first + (q.snd_nxt & (cfg_row(hs).window - 1)) * _SLOT_BYTES)
