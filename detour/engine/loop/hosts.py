# SPDX-License-Identifier: Apache-2.0
"""The transports that the loop calls: the contract in docs/architecture.md, bound when the loop is compiled."""

from __future__ import annotations

from typing import Any

from detour.engine.loop.jit import inner
from detour.engine.loop.native import load8, load32, load64
from detour.hosts.endpoint import MAX_FRAME, Hosts, deadline, expire, make_hosts, pause, receive, transmit
from detour.hosts.rows import cfg_row
from detour.hosts.state import FIRST_QPN, HOST, QP, TABLES
from detour.hosts.wire import ETHERNET, IPV6, MAX_OVERHEAD, TRANSIT, UDP

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
    "pause",
    "qp_address",
    "receive",
    "transmit",
]


STORED_BYTES = MAX_OVERHEAD
"""bytes of a frame's beginning that hosts write and read when they elide payload: all headers"""


def no_hosts() -> Hosts:
    """Arrays for a fabric without native hosts: of the same types, so that the same code runs."""
    return make_hosts(1, 1, 0, window=1, sq_depth=1, cq_depth=1, max_candidates=1, control_depth=1)


HOST_BYTES, QP_BYTES = HOST.itemsize, QP.itemsize
_HOST_AT, _QP_AT = 8 * list(TABLES).index("host"), 8 * list(TABLES).index("qp")
_NEXT_HEADER = ETHERNET + 6
_QPN_BEHIND_IP = UDP + 4
"""From the UDP header on: the word of the BTH that ends with the destination QP."""


@inner()
def host_address(hs: Any, host: int) -> int:
    """Where a host's row is."""
    return load64(hs.listing + _HOST_AT) + host * HOST_BYTES


@inner()
def qp_address(hs: Any, frame: int) -> int:
    """Where the row is of the QP that a frame at that address is for, 0 if it does not look like one for any."""
    at = frame + ETHERNET + IPV6
    if load8(frame + _NEXT_HEADER) == 0:
        at += TRANSIT
    word = load32(at + _QPN_BEHIND_IP)
    number = ((word >> 8) & 0xFF) << 16 | ((word >> 16) & 0xFF) << 8 | ((word >> 24) & 0xFF)
    number -= FIRST_QPN
    if number < 0 or number >= cfg_row(hs)["n_qps"]:
        return 0
    return load64(hs.listing + _QP_AT) + number * QP_BYTES
