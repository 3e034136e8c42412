# SPDX-License-Identifier: Apache-2.0
"""What a NIC decides: which QP sends next, and control messages before data.

Each host has a ring of control messages (ACK, NAK, PTM, PTR) and a list, linked through the QPs, of those that
may have something to send; both cost O(1) a packet however many QPs there are.
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import njit
from detour.hosts.jit import inner
from detour.hosts.rows import cfg_row, host_row, qp_row
from detour.hosts.state import NIL

CTL_NONE, CTL_ACK, CTL_PTM, CTL_PTR = 0, 1, 2, 3


@njit
def activate(hs: Any, i: int, q: Any) -> None:
    """QP `i` may have something to send: it gets the last place in the round."""
    if q["active"]:
        return
    q["active"] = 1
    q["active_next"] = NIL
    h = host_row(hs, q["host"])
    if h["active_tail"] == NIL:
        h["active_head"] = i
    else:
        qp_row(hs, h["active_tail"])["active_next"] = i
    h["active_tail"] = i


@njit
def take_active(hs: Any, h: Any) -> int:
    """Removes and returns the first QP of the round, or `NIL`."""
    i = h["active_head"]
    if i == NIL:
        return NIL
    q = qp_row(hs, i)
    q["active"] = 0
    h["active_head"] = q["active_next"]
    if h["active_head"] == NIL:
        h["active_tail"] = NIL
    return i


@inner
def push_control(hs: Any, host: int) -> int:
    """Index of a fresh entry at the end of the host's control ring; `NIL` if the ring is full (then the
    message is lost, which every protocol here survives)."""
    h = host_row(hs, host)
    depth = cfg_row(hs)["control_depth"]
    if h["ctl_tail"] - h["ctl_head"] >= depth:
        h["control_dropped"] += 1
        return NIL
    index = h["ctl_tail"] & (depth - 1)
    h["ctl_tail"] += 1
    return index


@inner
def pop_control(hs: Any, h: Any) -> int:
    """Removes the oldest entry, of which there must be one; its index is valid until the next push."""
    index = h["ctl_head"] & (cfg_row(hs)["control_depth"] - 1)
    h["ctl_head"] += 1
    return index


@njit
def random_below(h: Any, n: int) -> int:
    """Next random number in 0..n-1 from the host's generator (xorshift64)."""
    x = h["rng"]
    x ^= x << 13
    x ^= (x >> 7) & 0x01FFFFFFFFFFFFFF
    x ^= x << 17
    h["rng"] = x
    return ((x >> 16) & 0x7FFFFFFF) % n
