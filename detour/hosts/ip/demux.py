# SPDX-License-Identifier: Apache-2.0
"""The socket of a packet: a hash table a host, by protocol, local port, and the remote address and port.

Sockets that take packets from everybody are entered with remote address and port 0.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import load32, store32
from detour.hosts.ip.layout import StackGlobals, host_row, socket_row

_GONE = int64(-1)
"""A place whose socket was removed: a search goes on behind it. 0 is a free place, else it is the socket plus 1."""


@inner()
def _first(g: StackGlobals, proto: int, lport: int, r_hi: int, r_lo: int, rport: int) -> int:
    x = (proto << 48) ^ (lport << 24) ^ rport ^ (r_lo << 7) ^ (r_hi << 3)
    x = ((x ^ (x >> 31)) & 0x7FFFFFFF) * 0x9E3779B1
    return (x >> 15) & (g.demux_size - 1)


@inner()
def find(g: StackGlobals, host: int, proto: int, lport: int, r_hi: int, r_lo: int, rport: int) -> int:
    """The socket of exactly this, -1: there is none."""
    base = g.demux + 4 * host * g.demux_size
    place = _first(g, proto, lport, r_hi, r_lo, rport)
    for _ in range(g.demux_size):
        entry = load32(base + 4 * place)
        if entry == 0:
            return -1
        if entry > 0:
            s = socket_row(g, entry - 1)
            if s.lport == lport and s.rport == rport and s.r_lo == r_lo and s.r_hi == r_hi and s.proto == proto:
                return entry - 1
        place = (place + 1) & (g.demux_size - 1)
    return -1


@inner()
def enter(g: StackGlobals, i: int) -> None:
    """Enter a socket. There is room: a table has at least twice as many places as a host has sockets."""
    s = socket_row(g, i)
    base = g.demux + 4 * s.host * g.demux_size
    place = _first(g, s.proto, s.lport, s.r_hi, s.r_lo, s.rport)
    while load32(base + 4 * place) > 0:
        place = (place + 1) & (g.demux_size - 1)
    store32(base + 4 * place, i + 1)


@inner()
def remove(g: StackGlobals, i: int) -> None:
    """Remove a socket, if it is there."""
    s = socket_row(g, i)
    base = g.demux + 4 * s.host * g.demux_size
    place = _first(g, s.proto, s.lport, s.r_hi, s.r_lo, s.rport)
    for _ in range(g.demux_size):
        entry = load32(base + 4 * place)
        if entry == 0:
            return
        if entry == i + 1:
            following = load32(base + 4 * ((place + 1) & (g.demux_size - 1)))
            store32(base + 4 * place, 0 if following == 0 else _GONE)
            return
        place = (place + 1) & (g.demux_size - 1)


@inner()
def new_socket(g: StackGlobals, host: int, kind: int, proto: int) -> int:
    """A fresh socket of a host, -1 (counted) if all are in use. All of its fields are 0 but for places in lists."""
    h = host_row(g, host)
    if h.sockets_used >= g.per_host - 1:  # the last one is the resolver's
        h.no_sockets += 1
        return -1
    i = host * g.per_host + h.sockets_used
    h.sockets_used += 1
    s = socket_row(g, i)
    s.kind = kind
    s.host = host
    s.proto = proto
    s.heap_pos = -1
    s.neighbour = -1
    return i
