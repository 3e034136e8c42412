# SPDX-License-Identifier: Apache-2.0
"""Reads frames into the record `hs.frame[0]`.

Everything that a sender could get wrong is checked before a field is used: lengths of every header, addresses,
checksums. The layout is described in `wire`.
"""

from __future__ import annotations

from detour.base.dataplane import HOP_LIMIT, TRIMMED_DSCP
from detour.base.jit import inner, int64
from detour.base.memory import load8, load16be, load32, load32be, load64be
from detour.hosts.frames import wire
from detour.hosts.frames.headers import TYPE_IPV6
from detour.hosts.frames.sizes import AETH, BTH, ETHERNET, ICRC, IMMDT, IPV6, PROBE, RETH, SACK, UDP
from detour.hosts.frames.wire import icrc, udp_checksum
from detour.hosts.records import ReceivedFrame
from detour.hosts.rows import cfg_row, frame_row, host_row
from detour.hosts.state import Handle

IS_DATA, IS_ACK, IS_PTM, IS_PTR, IS_CNP = 1, 2, 3, 4, 5
MALFORMED, NOT_MINE, BAD_CHECKSUM, BAD_ICRC = -1, -2, -3, -4


@inner
def dissect(hs: Handle, host: int, frame: int, length: int) -> int:
    """Fill `frame_row(hs)` from the frame; return what it is (`IS_...`) or what is wrong with it (below 0). `host` <
    0 accepts any destination address."""
    f = frame_row(hs)
    bad = _addresses(hs, host, f, frame, length)
    if bad < 0:
        return bad
    udp = _decapsulated(hs, host, f, _extensions(f, frame + ETHERNET + IPV6))
    if udp < 0 or udp + UDP > f.end:
        return MALFORMED
    size = load16be(udp + 4)
    if udp + size <= f.end:
        f.trimmed = 0  # of its class, but whole
    if size < UDP or (udp + size != f.end and not f.trimmed):
        return MALFORMED
    roce = load16be(udp + 2) == wire.PORT_ROCE
    if not roce and load16be(udp + 2) != wire.PORT_PROBE:
        return NOT_MINE
    if f.trimmed:  # sums cover what is gone
        f.sport = load16be(udp)
        whole = roce and udp + UDP + BTH + RETH + IMMDT <= f.end
        return _roce(f, udp + UDP, size - UDP) if whole and _is_data(udp + UDP) else MALFORMED
    if not cfg_row(hs).elide_payload:
        if load16be(udp + 6) == 0 or udp_checksum(udp, size, f.src_hi, f.src_lo, f.dst_hi, f.dst_lo):
            return BAD_CHECKSUM
        if roce and not _icrc_holds(f, udp, size):
            return BAD_ICRC
    f.sport = load16be(udp)
    return _roce(f, udp + UDP, size - UDP) if roce else _probe(f, udp + UDP, size - UDP)


@inner
def _is_data(bth: int) -> bool:
    opcode = load8(bth)
    return opcode == wire.OP_WRITE_ONLY or opcode == wire.OP_WRITE_ONLY_IMM


@inner
def _addresses(hs: Handle, host: int, f: ReceivedFrame, frame: int, length: int) -> int:
    if length < ETHERNET + IPV6 or load16be(frame + 12) != TYPE_IPV6:
        return MALFORMED
    ip = frame + ETHERNET
    first = load32be(ip)
    if first >> 28 != 6:
        return MALFORMED
    f.end = ip + IPV6 + load16be(ip + 4)
    if f.end > frame + length:
        return MALFORMED
    f.ce = 1 if (first >> 20) & 3 == wire.CE else 0
    f.trimmed = 1 if (first >> 22) & 0x3F == TRIMMED_DSCP else 0
    f.hops = max(HOP_LIMIT - load8(ip + 7), 0)
    f.src_hi = load64be(ip + 8)
    f.src_lo = load64be(ip + 16)
    f.dst_hi = load64be(ip + 24)
    f.dst_lo = load64be(ip + 32)
    if host < 0:
        return 0
    h = host_row(hs, host)
    if f.dst_hi == h.addr_hi and f.dst_lo == h.addr_lo:
        return 0
    return 0 if _is_led(hs, host, f) else NOT_MINE


@inner
def _extensions(f: ReceivedFrame, at: int) -> int:
    """Look for the Transit Measurement option; return where UDP, or an inner IPv6 packet, begin, below 0 if none
    does. `f.proto`: which it is."""
    f.has_delay = 0
    f.delay = 0
    f.proto = load8(at - IPV6 + 6)
    if f.proto == wire.NH_UDP or f.proto == wire.NH_IPV6:
        return at
    if f.proto != wire.NH_HOP_BY_HOP or at + 8 > f.end:
        return MALFORMED
    after = at + 8 * (load8(at + 1) + 1)
    f.proto = load8(at)
    if after > f.end or (f.proto != wire.NH_UDP and f.proto != wire.NH_IPV6):
        return MALFORMED
    i = at + 2
    while i < after:
        if load8(i) == 0:  # Pad1
            i += 1
            continue
        if i + 2 > after or i + 2 + load8(i + 1) > after:
            return MALFORMED
        if load8(i) == wire.OPTION_TRANSIT and load8(i + 1) == 4:
            f.has_delay = 1
            f.delay = load32be(i + 2)
        i += 2 + load8(i + 1)
    return after


@inner
def _is_led(hs: Handle, host: int, f: ReceivedFrame) -> bool:
    """Return whether a uSID list has led the frame to this host."""
    if host < 0:
        return True
    h = host_row(hs, host)
    return h.usid_hi != 0 and f.dst_hi == h.usid_hi and f.dst_lo == h.usid_lo


@inner
def _decapsulated(hs: Handle, host: int, f: ReceivedFrame, at: int) -> int:
    """Take an outer header off that led to this host's uSID, and its addresses; return where UDP begins."""
    if at < 0 or f.proto == wire.NH_UDP:
        return at
    if at + IPV6 > f.end or at + IPV6 + load16be(at + 4) != f.end:
        return MALFORMED
    if load8(at) >> 4 != 6 or load8(at + 6) != wire.NH_UDP or not _is_led(hs, host, f):
        return MALFORMED
    f.src_hi = load64be(at + 8)
    f.src_lo = load64be(at + 16)
    f.dst_hi = load64be(at + 24)
    f.dst_lo = load64be(at + 32)
    if host >= 0:
        h = host_row(hs, host)
        if f.dst_hi != h.addr_hi or f.dst_lo != h.addr_lo:
            return MALFORMED
    return at + IPV6


@inner
def _icrc_holds(f: ReceivedFrame, udp: int, size: int) -> bool:
    if size < UDP + BTH + ICRC:
        return False
    crc = icrc(udp, size, f.src_hi, f.src_lo, f.dst_hi, f.dst_lo)
    return crc == load32(udp + size - ICRC) & 0xFFFFFFFF


@inner
def _roce(f: ReceivedFrame, at: int, size: int) -> int:
    """BTH at `at`; `size` bytes follow UDP."""
    if size < BTH + ICRC or load8(at + 1) & 0x0F or load16be(at + 2) != 0xFFFF:
        return MALFORMED
    f.opcode = load8(at)
    f.solicited = load8(at + 1) >> 7
    pad = (load8(at + 1) >> 4) & 3
    f.qpn = load32be(at + 4) & 0xFFFFFF
    low = load32be(at + 8)
    f.ack_request = low >> 31
    f.count = (low >> 24) & 0x7F
    f.psn = low & 0xFFFFFF
    body = size - BTH - ICRC
    if f.opcode == wire.OP_WRITE_ONLY or f.opcode == wire.OP_WRITE_ONLY_IMM:
        return _write(f, at + BTH, body, pad)
    if f.opcode == wire.OP_ACK:
        return _ack(f, at + BTH, body)
    return IS_CNP if f.opcode == wire.OP_CNP and body == wire.CNP_RESERVED else MALFORMED


@inner
def _write(f: ReceivedFrame, at: int, body: int, pad: int) -> int:
    with_imm = f.opcode == wire.OP_WRITE_ONLY_IMM
    headers = RETH + IMMDT if with_imm else RETH
    if body < headers + pad:
        return MALFORMED
    f.va = load64be(at)
    f.rkey = load32be(at + 8)
    f.dma_length = load32be(at + 12)
    if with_imm and not f.solicited:  # an immediate ends its message
        return MALFORMED
    f.imm = load32be(at + RETH) if with_imm else 0
    f.payload = at + headers
    f.length = body - headers - pad
    return IS_DATA if f.dma_length == f.length else MALFORMED


@inner
def _ack(f: ReceivedFrame, at: int, body: int) -> int:
    if body != AETH + SACK:
        return MALFORMED
    f.syndrome = load8(at)
    f.msn = load32be(at) & 0xFFFFFF
    at += AETH
    flags = load8(at)
    if not flags & wire.SACK_VERSION:
        return MALFORMED
    f.has_delay = 1 if flags & wire.SACK_DELAY else 0
    f.ce = 1 if flags & wire.SACK_CE else 0
    f.hops = (int64(flags) >> wire.SACK_HOPS) & wire.MAX_HOPS_SAID
    f.trigger = load32be(at) & 0xFFFFFF
    f.count = load8(at + 4)
    f.base = load32be(at + 4) & 0xFFFFFF
    f.delay = load32be(at + 8)
    f.bitmap = load64be(at + 12)
    return IS_ACK


@inner
def _probe(f: ReceivedFrame, at: int, size: int) -> int:
    if size != PROBE or load32be(at) >> 8 != (wire.PROBE_MAGIC << 8) | wire.PROBE_VERSION:
        return MALFORMED
    kind = load8(at + 3)
    f.qpn = load32be(at + 4)
    f.psn = load32be(at + 8)
    f.reflected = load32be(at + 12)
    f.cand = load16be(at + 16)
    if kind == wire.PTM:
        return IS_PTM
    return IS_PTR if kind == wire.PTR else MALFORMED
