# SPDX-License-Identifier: Apache-2.0
"""The transports that the loop calls: the contract in docs/architecture.md, bound when the loop is compiled."""

from __future__ import annotations

from detour.hosts.endpoint import MAX_FRAME, Hosts, deadline, expire, make_hosts, pause, receive, transmit
from detour.hosts.wire import MAX_OVERHEAD

__all__ = ["MAX_FRAME", "STORED_BYTES", "Hosts", "deadline", "expire", "no_hosts", "pause", "receive", "transmit"]


STORED_BYTES = MAX_OVERHEAD
"""bytes of a frame's beginning that hosts write and read when they elide payload: all headers"""


def no_hosts() -> Hosts:
    """Arrays for a fabric without native hosts: of the same types, so that the same code runs."""
    return make_hosts(1, 1, 0, window=1, sq_depth=1, cq_depth=1, max_candidates=1, control_depth=1)
