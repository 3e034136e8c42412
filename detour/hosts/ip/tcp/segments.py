# SPDX-License-Identifier: Apache-2.0
"""Segments on the wire: header and options (RFC 9293, 3.1 and 3.2; RFC 7323, 2 and 3; RFC 2018, 2 and 3)."""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import load8, load16be, load32be, store16be, store32be
from detour.hosts.frames.checksum import fold, sum_bytes
from detour.hosts.frames.headers import ETHERNET_BYTES, pseudo_sum
from detour.hosts.ip import rings
from detour.hosts.ip.frames import DONT_FRAGMENT, put_answer, put_headers
from detour.hosts.ip.layout import HEADERS_BYTES, PROTO_TCP, ParsedFrame, SocketRecord, StackGlobals, host_row
from detour.hosts.ip.pattern import pattern_sum, put_pattern
from detour.hosts.ip.tcp.layout import ACK, ECE, FIN, RST, SYN, ConnRecord, range_of

TCP_BYTES = int64(20)
_TCP = int64(PROTO_TCP)
_LOW = int64(0xFFFFFFFF)
_END, _NOP, _MSS, _SCALE, _SACK_OK, _SACK, _TIMES = 0, 1, 2, 3, 4, 5, 8
_MOST_BLOCKS, _MOST_BLOCKS_TIMES = 4, 3
_TICK_OF_TIMESTAMPS = 1_000_000_000
_ECT = int64(2)
_DEFAULT_MSS = 536
_NONE = int64(0)


@inner()
def timestamp(c: ConnRecord, now: int) -> int:
    """The timestamp clock: a tick a millisecond (RFC 7323, 5.4), beginning anywhere."""
    return (now // _TICK_OF_TIMESTAMPS + c.iss) & _LOW


@inner()
def window_of(c: ConnRecord) -> int:
    """Return the window to offer the peer: the free part of the buffer; its edge never moves back (RFC 9293, 3.8.6)."""
    edge = max(c.rcv_edge, c.rcv_nxt + max(c.rcv_buffer - c.held, 0))
    shift = c.shift_in
    window = min((edge - c.rcv_nxt) >> shift, 65_535)
    c.rcv_edge = max(c.rcv_edge, c.rcv_nxt + (window << shift))
    return window


@inner()
def put_syn(g: StackGlobals, s: SocketRecord, c: ConnRecord, i: int, frame: int, flags: int, now: int) -> int:
    """A SYN or SYN-ACK with the options that we want or may have."""
    at = put_headers(s, g.headers + i * HEADERS_BYTES, frame, s.tos, TCP_BYTES + 20)
    answer = flags & ACK
    c.rcv_edge = max(c.rcv_edge, 1 + min(c.rcv_buffer, 65_535))
    _put_fixed(s, at, c.iss, c.irs + c.rcv_nxt if answer else 0, TCP_BYTES + 20, flags, min(c.rcv_buffer, 65_535))
    o = at + TCP_BYTES
    store32be(o, (_MSS << 24) | (4 << 16) | c.mss_limit)
    sack = c.sack_ok if answer else c.sack
    store16be(o + 4, (_SACK_OK << 8) | 2 if sack else (_NOP << 8) | _NOP)
    if c.ts_ok if answer else c.timestamps:
        store16be(o + 6, (_TIMES << 8) | 10)
        store32be(o + 8, timestamp(c, now))
        store32be(o + 12, c.ts_echo if answer else 0)
    else:
        store16be(o + 6, (_NOP << 8) | _NOP)
        store32be(o + 8, 0x01010101)
        store32be(o + 12, 0x01010101)
    scaled = not answer or c.scale_ok != 0
    store32be(o + 16, (_NOP << 24) | (_SCALE << 16) | (3 << 8) | c.shift_in if scaled else int64(0x01010101))
    _finish(s, at, TCP_BYTES + 20, TCP_BYTES + 20, _NONE)
    length = at - frame + TCP_BYTES + 20
    return (length << 32) | length


@inner()
def _put_fixed(s: SocketRecord, at: int, seq: int, ack: int, header: int, flags: int, window: int) -> None:
    store16be(at, s.lport)
    store16be(at + 2, s.rport)
    store32be(at + 4, seq & _LOW)
    store32be(at + 8, ack & _LOW)
    store16be(at + 12, (header << 10) | flags)
    store16be(at + 14, window)
    store32be(at + 16, 0)


@inner()
def _finish(s: SocketRecord, at: int, header: int, length: int, payload: int) -> None:
    """The checksum; `payload`: the sum of what is behind the header."""
    store16be(at + 16, ~fold(s.l4_sum + length + sum_bytes(at + 4, header - 4) + payload))


@inner()
def _put_options(g: StackGlobals, c: ConnRecord, i: int, o: int, sacks: bool, now: int) -> int:
    """Timestamps and SACK blocks; returns their length, a multiple of four."""
    size = int64(0)
    if c.ts_ok != 0:
        store32be(o, (_NOP << 24) | (_NOP << 16) | (_TIMES << 8) | 10)
        store32be(o + 4, timestamp(c, now))
        store32be(o + 8, c.ts_echo)
        size = int64(12)
    if sacks and c.sack_ok != 0 and (c.ranges > 0 or c.dup_right > 0):
        blocks = _put_blocks(g, c, i, o + size + 4, _MOST_BLOCKS_TIMES if c.ts_ok != 0 else _MOST_BLOCKS)
        store32be(o + size, (_NOP << 24) | (_NOP << 16) | (_SACK << 8) | (2 + 8 * blocks))
        size += 4 + 8 * blocks
    return size


@inner()
def _put_block(c: ConnRecord, o: int, left: int, right: int) -> None:
    store32be(o, (c.irs + left) & _LOW)
    store32be(o + 4, (c.irs + right) & _LOW)


@inner()
def _put_blocks(g: StackGlobals, c: ConnRecord, i: int, o: int, most: int) -> int:
    """A duplicate first (RFC 2883), then the range that changed last, then those that did before (RFC 2018, 4)."""
    count = int64(0)
    if c.dup_right > 0:
        _put_block(c, o, c.dup_left, c.dup_right)
        count += 1
        c.dup_right = 0
    told0, told1, told2 = int64(-1), int64(-1), int64(-1)
    for turn in range(3 + c.ranges):
        if count >= most or turn >= 3 + _MOST_BLOCKS:
            break
        k = _recent(g, c, i, turn)
        if k >= 0 and k != told0 and k != told1 and k != told2:
            r = range_of(g, i, k)
            _put_block(c, o + 8 * count, r.left, r.right)
            count += 1
            told2, told1, told0 = told1, told0, k
    return count


@inner()
def _recent(g: StackGlobals, c: ConnRecord, i: int, turn: int) -> int:
    """The range in which the `turn`-th newest arrival lies, -1: none; from the fourth turn on ranges from the first."""
    if turn >= 3:
        return turn - 3 if turn - 3 < c.ranges else -1
    point = c.recent0 if turn == 0 else (c.recent1 if turn == 1 else c.recent2)
    for k in range(c.ranges):
        r = range_of(g, i, k)
        if r.left <= point < r.right:
            return k
    return -1


@inner()
def put_segment(
    g: StackGlobals,
    s: SocketRecord,
    c: ConnRecord,
    i: int,
    frame: int,
    start: int,
    length: int,
    flags: int,
    ect: bool,
    now: int,
) -> int:
    """A segment with `length` bytes of the stream from offset `start` on, or an acknowledgement."""
    # The options decide how long the packet is, so its IP header is written last but where it is must be known.
    ip_bytes = ETHERNET_BYTES + s.ip_bytes
    o = frame + ip_bytes + TCP_BYTES
    header = TCP_BYTES + _put_options(g, c, i, o, length == 0, now)
    tos = (s.tos & 0xFC) | (_ECT if ect and c.ecn_ok != 0 else 0)
    at = put_headers(s, g.headers + i * HEADERS_BYTES, frame, tos, header + length)
    if c.echo != 0 and c.ecn_ok != 0:
        flags |= ECE
    _put_fixed(s, at, c.iss + start, c.irs + c.rcv_nxt, header, flags | ACK, window_of(c))
    payload, stored = int64(0), header
    if length > 0 and g.elide == 0:
        put_pattern(g, at + header, start - 1, length)
        payload = pattern_sum(g, start - 1, length)
        stored += length
    _finish(s, at, header, header + length, payload)
    c.tx_segments += 1
    return ((at - frame + stored) << 32) | (at - frame + header + length)


# -- what came in ----------------------------------------------------------------------------------------


@inner()
def parse_options(p: ConnRecord, at: int, header: int, syn: bool) -> None:
    """Fill in what the options say; of a SYN also what the peer can do."""
    p.ts_there = 0
    p.blocks = 0
    if syn:
        p.peer_mss = _DEFAULT_MSS
        p.peer_shift = -1
        p.peer_sack = 0
    o, end = at + TCP_BYTES, at + header
    while o < end:
        kind = load8(o)
        if kind == _END:
            return
        if kind == _NOP:
            o += 1
            continue
        size = load8(o + 1) if o + 1 < end else 0
        if size < 2 or o + size > end:
            return
        if kind == _TIMES and size == 10:
            p.ts_there = 1
            p.ts_value = load32be(o + 2)
            p.ts_reply = load32be(o + 6)
        elif kind == _SACK:
            p.blocks = (size - 2) >> 3
            p.blocks_at = o + 2
        elif syn and kind == _MSS and size == 4:
            p.peer_mss = load16be(o + 2)
        elif syn and kind == _SCALE and size == 3:
            p.peer_shift = min(load8(o + 2), 14)
        elif syn and kind == _SACK_OK:
            p.peer_sack = 1
        o += size


@inner()
def refuse(g: StackGlobals, host: int, f: ParsedFrame) -> None:
    """A RST in answer to a segment that is for no connection (RFC 9293, 3.10.7.1)."""
    h = host_row(g, host)
    if f.flags & RST or ((f.dst_hi >> 56) & 0xFF) == 0xFF:
        return
    out = rings.room(g, h, host)
    if out == 0:
        return
    at = put_answer(out, h, f, _TCP, TCP_BYTES, DONT_FRAGMENT)
    store16be(at, f.dport)
    store16be(at + 2, f.sport)
    extra = f.length - f.header + (1 if f.flags & SYN else 0) + (1 if f.flags & FIN else 0)
    store32be(at + 4, f.ack if f.flags & ACK else 0)
    store32be(at + 8, 0 if f.flags & ACK else (f.seq + extra) & _LOW)
    store16be(at + 12, (TCP_BYTES << 10) | (RST if f.flags & ACK else RST | ACK))
    store16be(at + 14, 0)
    store32be(at + 16, 0)
    total = pseudo_sum(f.src_hi, f.src_lo, f.dst_hi, f.dst_lo, _TCP, TCP_BYTES)
    store16be(at + 16, ~fold(total + sum_bytes(at, TCP_BYTES)))
    rings.push(g, h, host, at + TCP_BYTES - out, at + TCP_BYTES - out)
