# SPDX-License-Identifier: Apache-2.0
"""IPv4 and IPv6: headers of what sockets send, and what is in a frame that came in.

Packets are sent with "don't fragment" and identification 0 (RFC 6864); fragments are not put together but counted.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import load8, load16be, load32be, load64be, move_bytes, store8, store16be, store32be
from detour.hosts.frames.checksum import fold, sum_bytes
from detour.hosts.frames.headers import (
    ETHERNET_BYTES,
    IPV4_BYTES,
    IPV6_BYTES,
    TYPE_IPV4,
    TYPE_IPV6,
    pseudo_sum,
    put_ethernet,
    put_ipv4,
    put_ipv6,
)
from detour.hosts.ip.layout import IpHostRecord, ParsedFrame, SocketRecord

BROADCAST_MAC = int64(0xFFFFFFFFFFFF)

DONT_FRAGMENT = int64(0x4000)
"""flags of an IPv4 header"""
_NONE = int64(0)

MAPPED = int64(0xFFFF) << 32
"""The upper half of `lo` of an IPv4 address."""

PARSED, BAD_SUM, BAD_FORM, FRAGMENT, UNKNOWN = 0, 1, 2, 3, 4
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _OPTIONS = 0, 43, 44, 60


@inner()
def prepare(s: SocketRecord, headers: int, mac: int, source_mac: int) -> None:
    """Write the headers of a socket's packets, with lengths, traffic class and checksum 0, and their sums."""
    ip = headers + ETHERNET_BYTES
    if s.v6 != 0:
        put_ethernet(headers, mac, source_mac, TYPE_IPV6)
        put_ipv6(ip, _NONE, _NONE, s.proto, s.ttl, s.l_hi, s.l_lo, s.r_hi, s.r_lo)
        s.ip_bytes = IPV6_BYTES
    else:
        put_ethernet(headers, mac, source_mac, TYPE_IPV4)
        s.ip_sum = put_ipv4(ip, _NONE, DONT_FRAGMENT, s.ttl, s.proto, s.l_lo, s.r_lo)
        s.ip_bytes = IPV4_BYTES
    s.l4_sum = fold(pseudo_sum(s.l_hi, s.l_lo, s.r_hi, s.r_lo, s.proto, s.lport) + s.rport)


@inner()
def put_headers(s: SocketRecord, headers: int, frame: int, tos: int, length: int) -> int:
    """Copy a socket's headers for a packet with `length` bytes behind its IP header; return where those begin."""
    ip = frame + ETHERNET_BYTES
    if s.v6 != 0:
        move_bytes(frame, headers, ETHERNET_BYTES + IPV6_BYTES)
        store32be(ip, (6 << 28) | (tos << 20))
        store16be(ip + 4, length)
        return ip + IPV6_BYTES
    move_bytes(frame, headers, ETHERNET_BYTES + IPV4_BYTES)
    total = IPV4_BYTES + length
    store8(ip + 1, tos)
    store16be(ip + 2, total)
    store16be(ip + 10, ~fold(s.ip_sum + tos + total))
    return ip + IPV4_BYTES


@inner()
def put_answer(out: int, h: IpHostRecord, f: ParsedFrame, proto: int, length: int, flags: int) -> int:
    """Headers of an answer to the packet in `f`, with `length` bytes behind the IP header; returns where they begin."""
    ip = out + ETHERNET_BYTES
    if f.v6 != 0:
        put_ethernet(out, f.source_mac, h.mac, TYPE_IPV6)
        put_ipv6(ip, _NONE, length, proto, h.ttl, f.dst_hi, f.dst_lo, f.src_hi, f.src_lo)
        return ip + IPV6_BYTES
    put_ethernet(out, f.source_mac, h.mac, TYPE_IPV4)
    store16be(ip + 10, ~put_ipv4(ip, IPV4_BYTES + length, flags, h.ttl, proto, f.dst_lo, f.src_lo))
    return ip + IPV4_BYTES


@inner()
def parse_ipv4(f: ParsedFrame, ip: int, length: int, here: int) -> int:
    """Parse an IPv4 packet of `length` bytes, `here` of them stored; return `PARSED` or the kind of error."""
    if length < IPV4_BYTES or here < IPV4_BYTES or load8(ip) >> 4 != 4:
        return BAD_FORM
    header = (load8(ip) & 0xF) << 2
    total = load16be(ip + 2)
    if header < IPV4_BYTES or total < header or total > length or here < header:
        return BAD_FORM
    if sum_bytes(ip, header) != 0xFFFF:
        return BAD_SUM
    if load16be(ip + 6) & 0x3FFF:
        return FRAGMENT
    f.v6 = 0
    f.tos = load8(ip + 1)
    f.ttl = load8(ip + 8)
    f.proto = load8(ip + 9)
    f.src_hi = 0
    f.src_lo = MAPPED | load32be(ip + 12)
    f.dst_hi = 0
    f.dst_lo = MAPPED | load32be(ip + 16)
    f.at = ip + header
    f.length = total - header
    f.here = min(here, total) - header
    return PARSED


@inner()
def parse_ipv6(f: ParsedFrame, ip: int, length: int, here: int) -> int:
    """The same of IPv6. Extension headers are passed over; a routing header that is not at its end is not for us."""
    if length < IPV6_BYTES or here < IPV6_BYTES or load8(ip) >> 4 != 6:
        return BAD_FORM
    rest = load16be(ip + 4)
    if IPV6_BYTES + rest > length:
        return BAD_FORM
    f.v6 = 1
    f.tos = (load16be(ip) >> 4) & 0xFF
    f.ttl = load8(ip + 7)
    f.src_hi = load64be(ip + 8)
    f.src_lo = load64be(ip + 16)
    f.dst_hi = load64be(ip + 24)
    f.dst_lo = load64be(ip + 32)
    proto = load8(ip + 6)
    at = ip + IPV6_BYTES
    stored = min(here - IPV6_BYTES, rest)
    while proto in (_HOP_BY_HOP, _ROUTING, _OPTIONS):
        if stored < 8:
            return BAD_FORM
        size = (load8(at + 1) + 1) << 3
        if size > stored or (proto == _ROUTING and load8(at + 3) != 0):
            return BAD_FORM
        proto = load8(at)
        at += size
        stored -= size
        rest -= size
    if proto == _FRAGMENT:
        return FRAGMENT
    f.proto = proto
    f.at = at
    f.length = rest
    f.here = stored
    return PARSED


@inner()
def checked(f: ParsedFrame) -> bool:
    """Return whether the checksum over pseudo header and packet is right (UDP, TCP, ICMPv6). What is not stored is
    zeros."""
    total = pseudo_sum(f.src_hi, f.src_lo, f.dst_hi, f.dst_lo, f.proto, f.length)
    return fold(total + sum_bytes(f.at, f.here)) == 0xFFFF
