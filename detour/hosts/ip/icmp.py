# SPDX-License-Identifier: Apache-2.0
"""ICMP (RFC 792) and ICMPv6 (RFC 4443): echo requests and replies, and errors.

A request carries a magic number and the time at which it was sent, so a reply says how long its round trip was.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import (
    load8,
    load16be,
    load32be,
    load64,
    load64be,
    move_bytes,
    set_bytes,
    store8,
    store16be,
    store32be,
    store64,
    store64be,
)
from detour.base.times import MS
from detour.hosts.frames.checksum import fold, sum_bytes, words
from detour.hosts.frames.headers import (
    ETHERNET_BYTES,
    IPV4_BYTES,
    IPV6_BYTES,
    TYPE_IPV4,
    TYPE_IPV6,
    pseudo_sum,
    put_ethernet,
)
from detour.hosts.ip import demux, layout, neighbours, rings, timers
from detour.hosts.ip.frames import checked, put_answer, put_headers
from detour.hosts.ip.layout import IpHostRecord, ParsedFrame, SocketRecord, StackGlobals, echo_row, host_row, socket_row
from detour.hosts.ip.pattern import is_pattern, pattern_sum, put_pattern

_ECHO_REPLY, _UNREACHABLE, _ECHO, _EXCEEDED = 0, 3, 8, 11
_UNREACHABLE6, _TOO_BIG6, _EXCEEDED6, _PROBLEM6, _ECHO6, _ECHO_REPLY6 = 1, 2, 3, 4, 128, 129
_SOLICITATION, _ADVERTISEMENT = 135, 136
_ICMP_BYTES = int64(8)
_ICMP, _ICMP6, _NONE = int64(layout.PROTO_ICMP), int64(layout.PROTO_ICMP6), int64(0)
_NO_PORT, _NO_PORT6 = int64(0x0303), int64(0x0104)
_ERROR_PAYLOAD = 548
"""Bytes of the packet in question that an error carries at most (RFC 1812, 4.3.2.3: 576 bytes in all)."""
_ERRORS_APART_PS = 1 * MS
"""Least time between two errors of a host (RFC 1122, 3.2.2, and RFC 4443, 2.4, want them limited)."""


@inner()
def receive(g: StackGlobals, host: int, f: ParsedFrame, frame: int, now: int) -> bool:
    """A message came in; False if its checksum is wrong."""
    h = host_row(g, host)
    if f.here < _ICMP_BYTES:
        h.rx_malformed += 1
        return True
    if f.v6 != 0:
        if not checked(f):
            return False
    elif sum_bytes(f.at, f.here) != 0xFFFF:
        return False
    kind = load8(f.at)
    if kind == (_ECHO6 if f.v6 != 0 else _ECHO):
        _answer(g, host, h, f, frame)
    elif kind == (_ECHO_REPLY6 if f.v6 != 0 else _ECHO_REPLY):
        _on_reply(g, host, f, now)
    elif f.v6 != 0 and kind in (_SOLICITATION, _ADVERTISEMENT):
        neighbours.on_discovery(g, host, f, kind)
    elif kind in (_UNREACHABLE6, _TOO_BIG6, _EXCEEDED6, _PROBLEM6) if f.v6 != 0 else kind in (_UNREACHABLE, _EXCEEDED):
        _on_error(g, host, h, f, kind)
    else:
        h.rx_unknown += 1
    return True


@inner()
def _answer(g: StackGlobals, host: int, h: IpHostRecord, f: ParsedFrame, frame: int) -> None:
    """An echo request: the same goes back, addresses exchanged. It goes to the MAC from which it came."""
    h.rx_echo_requests += 1
    if f.start != frame or ((f.dst_hi >> 56) & 0xFF) == 0xFF:
        return
    out = rings.room(g, h, host)
    if out == 0:
        return
    ip = out + ETHERNET_BYTES
    stored = min(f.stored, g.box_bytes)
    move_bytes(out, frame, stored)
    at = out + (f.at - frame)
    put_ethernet(out, f.source_mac, h.mac, TYPE_IPV6 if f.v6 != 0 else TYPE_IPV4)
    if f.v6 != 0:
        store8(ip + 7, h.ttl)
        _exchange(ip + 8, int64(16))
        change = _ECHO_REPLY6 - _ECHO6
        store8(at, _ECHO_REPLY6)
    else:
        store8(ip + 8, h.ttl)
        _exchange(ip + 12, int64(4))
        store16be(ip + 10, 0)
        store16be(ip + 10, ~sum_bytes(ip, (load8(ip) & 0xF) << 2))
        change = _ECHO_REPLY - _ECHO
        store8(at, _ECHO_REPLY)
    # RFC 1624: the sum changes by what the type has changed.
    store16be(at + 2, ~fold((~load16be(at + 2) & 0xFFFF) + 0xFFFF + (change << 8)))
    rings.push(g, h, host, stored, f.wire)


@inner()
def _exchange(at: int, size: int) -> None:
    """Source and destination address change places."""
    for k in range(size):
        byte = load8(at + k)
        store8(at + k, load8(at + size + k))
        store8(at + size + k, byte)


@inner()
def _on_reply(g: StackGlobals, host: int, f: ParsedFrame, now: int) -> None:
    ident, seq = load16be(f.at + 4), load16be(f.at + 6)
    i = demux.find(g, host, f.proto, ident, f.src_hi, f.src_lo, int64(0))
    if i < 0:
        host_row(g, host).rx_no_port += 1
        return
    e = echo_row(g, i)
    payload = f.at + _ICMP_BYTES
    if (
        f.length < _ICMP_BYTES + layout.ECHO_HEAD
        or f.here < _ICMP_BYTES + layout.ECHO_HEAD
        or load32be(payload) != layout.UDP_MAGIC
    ):
        e.rx_packets += 1
        return
    number = e.next_seq - ((e.next_seq - seq) & 0xFFFF)
    if number < 0 or number >= e.next_seq:
        return
    rest = f.here - _ICMP_BYTES - layout.ECHO_HEAD
    if g.elide == 0 and not is_pattern(g, payload + layout.ECHO_HEAD, number, rest):
        e.corrupt += 1
        return
    rtt = max(now - load64be(payload + 8), 1)
    if number < e.room:
        if load64(e.rtts + 8 * number) != 0:
            e.duplicates += 1
            return
        store64(e.rtts + 8 * number, rtt)
    e.rx_packets += 1
    e.rtt_sum += rtt
    e.rtt_min = rtt if e.rtt_min == 0 else min(e.rtt_min, rtt)
    e.rtt_max = max(e.rtt_max, rtt)


@inner()
def _on_error(g: StackGlobals, host: int, h: IpHostRecord, f: ParsedFrame, kind: int) -> None:
    """Tell the socket whose packet it is about. (TCP takes none of them as the end: RFC 5461.)"""
    h.rx_errors += 1
    ip = f.at + _ICMP_BYTES
    here = f.here - _ICMP_BYTES
    size = IPV6_BYTES if f.v6 != 0 else IPV4_BYTES
    if here < size + 8:
        return
    if f.v6 != 0:
        proto, d_hi, d_lo = load8(ip + 6), load64be(ip + 24), load64be(ip + 32)
    else:
        size = (load8(ip) & 0xF) << 2
        proto, d_hi, d_lo = load8(ip + 9), int64(0), (int64(0xFFFF) << 32) | load32be(ip + 16)
    if here < size + 8:
        return
    lport, rport = load16be(ip + size), load16be(ip + size + 2)
    if proto in (layout.PROTO_ICMP, layout.PROTO_ICMP6):
        lport, rport = load16be(ip + size + 4), int64(0)
    i = demux.find(g, host, proto, lport, d_hi, d_lo, rport)
    if i < 0:
        return
    s = socket_row(g, i)
    s.error = (kind << 8) | load8(f.at + 1)
    if proto != layout.PROTO_UDP and proto != layout.PROTO_TCP:
        e = echo_row(g, i)
        e.errors += 1
        e.error_kind = s.error
        e.error_hi = f.src_hi
        e.error_lo = f.src_lo


@inner()
def port_unreachable(g: StackGlobals, host: int, f: ParsedFrame, ip: int) -> None:
    """Tell the sender of a packet that nobody takes it."""
    h = host_row(g, host)
    h.rx_no_port += 1
    multicast = (f.dst_hi >> 56) & 0xFF == 0xFF or (f.v6 == 0 and f.dst_lo != h.v4_lo)
    if multicast or h.now < h.error_next:
        return
    out = rings.room(g, h, host)
    if out == 0:
        return
    h.error_next = h.now + _ERRORS_APART_PS
    quoted = min(f.at - ip + f.here, _ERROR_PAYLOAD)
    length = _ICMP_BYTES + quoted
    at = put_answer(out, h, f, _ICMP6 if f.v6 != 0 else _ICMP, length, _NONE)
    store32be(at, (_NO_PORT6 if f.v6 != 0 else _NO_PORT) << 16)
    store32be(at + 4, 0)
    move_bytes(at + _ICMP_BYTES, ip, quoted)
    total = pseudo_sum(f.src_hi, f.src_lo, f.dst_hi, f.dst_lo, _ICMP6, length) if f.v6 != 0 else _NONE
    store16be(at + 2, ~fold(total + sum_bytes(at, length)))
    rings.push(g, h, host, at - out + length, at - out + length)


# -- ping ------------------------------------------------------------------------------------------------


@inner()
def write(g: StackGlobals, i: int, frame: int, now: int) -> int:
    """The next request; returns bytes stored << 32 | on the wire, 0: none goes now."""
    s, e = socket_row(g, i), echo_row(g, i)
    if e.next_seq >= e.count or now < e.next_ps:
        return 0
    if s.failed == 0 and not neighbours.reachable(g, s, i) and s.failed == 0:
        return 0
    number = e.next_seq
    e.next_seq += 1
    e.next_ps = now + e.interval_ps
    if e.next_seq < e.count:
        timers.set_due(g, i, s, e.next_ps)
    e.tx_packets += 1
    if s.failed != 0:
        s.failed = 0
        return 0
    return _put_request(g, s, i, frame, e.size, e.ident, number, now)


@inner()
def _put_request(
    g: StackGlobals, s: SocketRecord, i: int, frame: int, size: int, ident: int, number: int, now: int
) -> int:
    length = _ICMP_BYTES + size
    at = put_headers(s, g.headers + i * layout.HEADERS_BYTES, frame, s.tos, length)
    store32be(at, (_ECHO6 if s.v6 != 0 else _ECHO) << 24)
    store16be(at + 4, ident)
    store16be(at + 6, number)
    written = min(size, layout.ECHO_HEAD)
    payload = at + _ICMP_BYTES
    set_bytes(payload, 0, layout.ECHO_HEAD)
    if size >= layout.ECHO_HEAD:
        store32be(payload, layout.UDP_MAGIC)
        store64be(payload + 8, now)
    total = sum_bytes(at, _ICMP_BYTES + written)
    rest = size - written
    stored = at - frame + _ICMP_BYTES + written
    if rest > 0 and g.elide == 0:
        put_pattern(g, payload + layout.ECHO_HEAD, number, rest)
        total += pattern_sum(g, number, rest)
        stored += rest
    if s.v6 != 0:
        total += words(s.l_hi) + words(s.l_lo) + words(s.r_hi) + words(s.r_lo) + layout.PROTO_ICMP6 + length
    store16be(at + 2, ~fold(total))
    return (stored << 32) | (at - frame + length)
