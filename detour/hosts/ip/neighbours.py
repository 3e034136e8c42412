# SPDX-License-Identifier: Apache-2.0
"""Next hops and their MACs: static ones, ARP (RFC 826) and neighbour discovery (RFC 4861, 7.2).

A socket asks for its next hop before it sends. If the MAC is not known it waits, the host asks the link three times, a
second apart, and whoever waited is told.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import load8, load16be, load32be, load64be, store16be, store32be, store64be
from detour.base.times import MS
from detour.hosts.frames.checksum import fold, sum_bytes
from detour.hosts.frames.headers import (
    ETHERNET_BYTES,
    IPV6_BYTES,
    TYPE_ARP,
    TYPE_IPV6,
    load48,
    pseudo_sum,
    put_ethernet,
    put_ipv6,
    store48,
)
from detour.hosts.ip import layout, rings, timers
from detour.hosts.ip.frames import BROADCAST_MAC, MAPPED, prepare
from detour.hosts.ip.layout import (
    NeighbourRecord,
    ParsedFrame,
    SocketRecord,
    StackGlobals,
    host_row,
    neighbour_row,
    socket_row,
)

_ARP_BYTES = int64(28)
_ICMP6, _HOPS = int64(layout.PROTO_ICMP6), int64(255)
_TRIES, _RETRY_PS = 3, 1_000 * MS
_SOLICITATION, _ADVERTISEMENT = 135, 136
_REQUEST, _REPLY = int64(1), int64(2)
SOLICITED_HI = int64(0xFF02 - 0x10000) << 48
"""Upper half of ff02::1:ff00:0/104, where who has an address is asked."""
_NONE = int64(0)
_SOLICITED, _OVERRIDE = int64(0x40000000), int64(0x20000000)


@inner()
def _find(g: StackGlobals, host: int, hi: int, lo: int) -> int:
    """Row of a neighbour, -1: it is not in the table."""
    base = host * g.n_neighbours
    for row in range(base, base + host_row(g, host).neighbours_used):
        n = neighbour_row(g, row)
        if n.lo == lo and n.hi == hi:
            return row
    return int64(-1)


@inner()
def _entry(g: StackGlobals, host: int, hi: int, lo: int) -> int:
    """Row of a neighbour, a fresh one if it is new; -1: the table is full."""
    row, h = _find(g, host, hi, lo), host_row(g, host)
    if row >= 0 or h.neighbours_used == g.n_neighbours:
        return row
    row = host * g.n_neighbours + h.neighbours_used
    h.neighbours_used += 1
    n = neighbour_row(g, row)
    n.hi = hi
    n.lo = lo
    n.state = layout.NEIGHBOUR_FREE
    return row


@inner()
def next_hop(g: StackGlobals, host: int, v6: int, hi: int, lo: int) -> int:
    """Row of the neighbour to which packets for an address go, -1: there is no way (no gateway, or no room)."""
    h = host_row(g, host)
    if v6 == 0:
        if (lo ^ h.v4_lo) & h.v4_mask == 0:
            return _entry(g, host, hi, lo)
        return -1 if h.v4_gateway == 0 else _entry(g, host, _NONE, h.v4_gateway)
    on_link = (hi ^ h.v6_hi) & h.v6_mask_hi == 0 and (lo ^ h.v6_lo) & h.v6_mask_lo == 0
    if on_link or (hi >> 54) & 0x3FF == 0x3FA:  # fe80::/10
        return _entry(g, host, hi, lo)
    gateway = h.v6_gateway_hi | h.v6_gateway_lo
    return -1 if gateway == 0 else _entry(g, host, h.v6_gateway_hi, h.v6_gateway_lo)


@inner()
def reachable(g: StackGlobals, s: SocketRecord, i: int) -> bool:
    """Return whether socket `i` may send now, and its headers are written for that. If not it waits (`s.waiting`), or
    there is not a way (`s.failed`)."""
    if s.neighbour < 0:
        s.neighbour = next_hop(g, s.host, s.v6, s.r_hi, s.r_lo)
        if s.neighbour < 0:
            s.failed = 1
            return False
    n = neighbour_row(g, s.neighbour)
    if s.version == n.version and s.version != 0:
        return True
    if n.state == layout.NEIGHBOUR_KNOWN or n.state == layout.NEIGHBOUR_STATIC:
        prepare(s, g.headers + i * layout.HEADERS_BYTES, n.mac, host_row(g, s.host).mac)
        s.version = n.version
        return True
    s.waiting = 1
    if n.state != layout.NEIGHBOUR_ASKED:
        n.state = layout.NEIGHBOUR_ASKED
        n.tries = 0
        _ask(g, s.host, n)
    return False


@inner()
def _ask(g: StackGlobals, host: int, n: NeighbourRecord) -> None:
    """Ask the link for a neighbour, and again in a second."""
    h = host_row(g, host)
    n.tries += 1
    n.when = h.now + _RETRY_PS
    if n.hi == 0 and n.lo & ~int64(0xFFFFFFFF) == MAPPED:
        _put_arp(g, host, _REQUEST, BROADCAST_MAC, _NONE, n.lo)
    else:
        _solicit(g, host, n)
    h.arp_sent += 1
    timer = (host + 1) * g.per_host - 1
    s = socket_row(g, timer)
    if n.when < s.due:
        timers.set_due(g, timer, s, n.when)


@inner()
def on_timer(g: StackGlobals, host: int, now: int) -> None:
    """Ask again for those who did not answer, and give up those who never do."""
    h = host_row(g, host)
    soonest = layout.MAX_TIME
    for k in range(h.neighbours_used):
        n = neighbour_row(g, host * g.n_neighbours + k)
        if n.state != layout.NEIGHBOUR_ASKED:
            continue
        if n.when <= now:
            if n.tries < _TRIES:
                _ask(g, host, n)
            else:
                n.state = layout.NEIGHBOUR_FAILED
                h.unresolved += 1
                _wake(g, host, host * g.n_neighbours + k, int64(1))
                continue
        soonest = min(soonest, n.when)
    timer = (host + 1) * g.per_host - 1
    timers.set_due(g, timer, socket_row(g, timer), soonest)


@inner()
def _wake(g: StackGlobals, host: int, row: int, failed: int) -> None:
    """Let the sockets that wait for a neighbour go on."""
    h = host_row(g, host)
    for i in range(host * g.per_host, host * g.per_host + h.sockets_used):
        s = socket_row(g, i)
        if s.waiting != 0 and s.neighbour == row:
            s.waiting = 0
            s.failed = failed
            timers.make_ready(g, i, s)


@inner()
def learn(g: StackGlobals, host: int, hi: int, lo: int, mac: int, ask: bool) -> None:
    """A neighbour's MAC was told. `ask`: enter it if it is new."""
    row = _entry(g, host, hi, lo) if ask else _find(g, host, hi, lo)
    if row < 0:
        return
    n = neighbour_row(g, row)
    if n.state == layout.NEIGHBOUR_STATIC:
        return
    if n.mac != mac or n.state != layout.NEIGHBOUR_KNOWN:
        n.mac = mac
        n.state = layout.NEIGHBOUR_KNOWN
        n.version += 1
        _wake(g, host, row, _NONE)


@inner()
def _put_arp(g: StackGlobals, host: int, operation: int, to: int, target_mac: int, target: int) -> None:
    h = host_row(g, host)
    frame = rings.room(g, h, host)
    if frame == 0:
        return
    put_ethernet(frame, to, h.mac, TYPE_ARP)
    arp = frame + ETHERNET_BYTES
    store32be(arp, (1 << 16) | 0x0800)
    store16be(arp + 4, 0x0604)
    store16be(arp + 6, operation)
    store48(arp + 8, h.mac)
    store32be(arp + 14, h.v4_lo)
    store48(arp + 18, target_mac)
    store32be(arp + 24, target)
    rings.push(g, h, host, ETHERNET_BYTES + _ARP_BYTES, ETHERNET_BYTES + _ARP_BYTES)


@inner()
def on_arp(g: StackGlobals, host: int, arp: int, here: int) -> bool:
    """An ARP packet came in; False if it is none of Ethernet and IPv4."""
    if here < _ARP_BYTES or load32be(arp) != (1 << 16) | 0x0800 or load16be(arp + 4) != 0x0604:
        return False
    h = host_row(g, host)
    operation = load16be(arp + 6)
    sender, mac, target = MAPPED | load32be(arp + 14), load48(arp + 8), MAPPED | load32be(arp + 24)
    mine = h.v4_lo != 0 and target == h.v4_lo
    if sender != MAPPED:  # 0.0.0.0 is a probe (RFC 5227)
        learn(g, host, _NONE, sender, mac, mine)
    if mine and operation == _REQUEST:
        h.arp_answered += 1
        _put_arp(g, host, _REPLY, mac, mac, sender)
    return True


# -- neighbour discovery ---------------------------------------------------------------------------------


@inner()
def _put_discovery(
    g: StackGlobals, host: int, to_mac: int, d_hi: int, d_lo: int, kind: int, flags: int, hi: int, lo: int
) -> None:
    """A solicitation or advertisement for the target `hi`, `lo`, with our link-layer address."""
    h = host_row(g, host)
    frame = rings.room(g, h, host)
    if frame == 0:
        return
    put_ethernet(frame, to_mac, h.mac, TYPE_IPV6)
    ip = frame + ETHERNET_BYTES
    length = int64(32)
    put_ipv6(ip, _NONE, length, _ICMP6, _HOPS, h.v6_hi, h.v6_lo, d_hi, d_lo)
    icmp = ip + IPV6_BYTES
    store32be(icmp, kind << 24)
    store32be(icmp + 4, flags)
    store64be(icmp + 8, hi)
    store64be(icmp + 16, lo)
    store16be(icmp + 24, 0x0101 if kind == _SOLICITATION else 0x0201)
    store48(icmp + 26, h.mac)
    total = pseudo_sum(h.v6_hi, h.v6_lo, d_hi, d_lo, _ICMP6, length)
    store16be(icmp + 2, ~fold(total + sum_bytes(icmp, length)))
    rings.push(g, h, host, ETHERNET_BYTES + IPV6_BYTES + length, ETHERNET_BYTES + IPV6_BYTES + length)


@inner()
def _solicit(g: StackGlobals, host: int, n: NeighbourRecord) -> None:
    """Send a solicitation to the solicited-node address ff02::1:ffxx:xxxx."""
    low = n.lo & 0xFFFFFF
    d_lo = (int64(1) << 32) | 0xFF000000 | low
    mac = int64(0x3333FF000000) | low
    _put_discovery(g, host, mac, SOLICITED_HI, d_lo, int64(_SOLICITATION), _NONE, n.hi, n.lo)


@inner()
def on_discovery(g: StackGlobals, host: int, f: ParsedFrame, kind: int) -> None:
    """A solicitation or an advertisement came in, its checksum is right. Its hop limit must be 255 (7.1)."""
    if f.ttl != 255 or f.here < 24:
        return
    h = host_row(g, host)
    hi, lo = load64be(f.at + 8), load64be(f.at + 16)
    mac = f.source_mac
    if f.here >= 32 and load8(f.at + 25) == 1 and load8(f.at + 24) in (1, 2):
        mac = load48(f.at + 26)
    if kind == _ADVERTISEMENT:
        learn(g, host, hi, lo, mac, False)
        return
    mine = (hi == h.v6_hi and lo == h.v6_lo) or (hi == h.ll_hi and lo == h.ll_lo)
    if not mine:
        return
    h.arp_answered += 1
    if f.src_hi | f.src_lo == 0:  # duplicate address detection: to all nodes
        all_nodes = int64(0x333300000001)
        _put_discovery(g, host, all_nodes, SOLICITED_HI, int64(1), int64(_ADVERTISEMENT), int64(0x20000000), hi, lo)
        return
    learn(g, host, f.src_hi, f.src_lo, mac, True)
    _put_discovery(g, host, mac, f.src_hi, f.src_lo, int64(_ADVERTISEMENT), _SOLICITED | _OVERRIDE, hi, lo)
