# SPDX-License-Identifier: Apache-2.0
"""Reads frames into the record `hs.frame[0]`.

Everything that a sender could get wrong is checked before a field is used: lengths of every header, addresses,
checksums. The layout is described in `wire.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.dataplane import HOP_LIMIT
from detour.base.jit import inner
from detour.hosts.frames.octets import load16, load32, load64
from detour.hosts.frames.sizes import (
    AETH,
    BTH,
    ETHERNET,
    ICRC,
    IMMDT,
    IPV6,
    PROBE,
    RETH,
    SACK,
    UDP,
)
from detour.hosts.frames.wire import (
    CE,
    CNP_RESERVED,
    ETHERTYPE_IPV6,
    MAX_HOPS_SAID,
    NH_HOP_BY_HOP,
    NH_UDP,
    OP_ACK,
    OP_CNP,
    OP_WRITE_ONLY,
    OP_WRITE_ONLY_IMM,
    OPTION_TRANSIT,
    PORT_PROBE,
    PORT_ROCE,
    PROBE_MAGIC,
    PROBE_VERSION,
    PTM,
    PTR,
    SACK_CE,
    SACK_DELAY,
    SACK_HOPS,
    SACK_VERSION,
    icrc,
    udp_checksum,
)
from detour.hosts.rows import cfg_row, frame_row, host_row

IS_DATA, IS_ACK, IS_PTM, IS_PTR, IS_CNP = 1, 2, 3, 4, 5
MALFORMED, NOT_MINE, BAD_CHECKSUM, BAD_ICRC = -1, -2, -3, -4


@inner
def dissect(hs: Any, host: int, buf: Any, o: int, length: int) -> int:
    """Fills `frame_row(hs)` from the frame; returns what it is (`IS_...`) or what is wrong with it (below 0).

    `host` < 0 accepts any destination address."""
    f = frame_row(hs)
    bad = _addresses(hs, host, f, buf, o, length)
    if bad < 0:
        return bad
    udp: Any = _extensions(f, buf, o + ETHERNET + IPV6)
    if udp < 0 or udp + UDP > f.end:
        return MALFORMED
    size = load16(buf, udp + 4)
    if size < UDP or udp + size != f.end:
        return MALFORMED
    roce = load16(buf, udp + 2) == PORT_ROCE
    if not roce and load16(buf, udp + 2) != PORT_PROBE:
        return NOT_MINE
    if not cfg_row(hs).elide_payload:
        if load16(buf, udp + 6) == 0 or udp_checksum(buf, udp, size, f.src_hi, f.src_lo, f.dst_hi, f.dst_lo):
            return BAD_CHECKSUM
        if roce and not _icrc_holds(f, buf, udp, size):
            return BAD_ICRC
    f.sport = load16(buf, udp)
    return _roce(f, buf, udp + UDP, size - UDP) if roce else _probe(f, buf, udp + UDP, size - UDP)


@inner
def _addresses(hs: Any, host: int, f: Any, buf: Any, o: int, length: int) -> int:
    if length < ETHERNET + IPV6 or load16(buf, o + 12) != ETHERTYPE_IPV6:
        return MALFORMED
    ip = o + ETHERNET
    first = load32(buf, ip)
    if first >> 28 != 6:
        return MALFORMED
    f.end = ip + IPV6 + load16(buf, ip + 4)
    if f.end > o + length:
        return MALFORMED
    f.ce = 1 if (first >> 20) & 3 == CE else 0
    f.hops = max(HOP_LIMIT - np.int64(buf[ip + 7]), 0)
    f.src_hi = load64(buf, ip + 8)
    f.src_lo = load64(buf, ip + 16)
    f.dst_hi = load64(buf, ip + 24)
    f.dst_lo = load64(buf, ip + 32)
    if host < 0:
        return 0
    h = host_row(hs, host)
    if f.dst_hi == h.addr_hi and f.dst_lo == h.addr_lo:
        return 0
    listed = h.usid_hi != 0 and f.dst_hi == h.usid_hi and f.dst_lo == h.usid_lo
    return 0 if listed else NOT_MINE


@inner
def _extensions(f: Any, buf: Any, at: int) -> Any:
    """Looks for the Transit Measurement option; returns where UDP begins, below 0 if it does not."""
    f.has_delay = 0
    f.delay = 0
    following = buf[at - IPV6 + 6]
    if following == NH_UDP:
        return at
    if following != NH_HOP_BY_HOP or at + 8 > f.end:
        return MALFORMED
    after = at + 8 * (np.int64(buf[at + 1]) + 1)
    if after > f.end or buf[at] != NH_UDP:
        return MALFORMED
    i: Any = at + 2
    while i < after:
        if buf[i] == 0:  # Pad1
            i += 1
            continue
        if i + 2 > after or i + 2 + np.int64(buf[i + 1]) > after:
            return MALFORMED
        if buf[i] == OPTION_TRANSIT and buf[i + 1] == 4:
            f.has_delay = 1
            f.delay = load32(buf, i + 2)
        i += 2 + np.int64(buf[i + 1])
    return after


@inner
def _icrc_holds(f: Any, buf: Any, udp: int, size: int) -> Any:
    if size < UDP + BTH + ICRC:
        return False
    crc = icrc(buf, udp, size, f.src_hi, f.src_lo, f.dst_hi, f.dst_lo)
    end = udp + size - ICRC
    found = np.int64(buf[end]) | np.int64(buf[end + 1]) << 8 | np.int64(buf[end + 2]) << 16
    return crc == found | np.int64(buf[end + 3]) << 24


@inner
def _roce(f: Any, buf: Any, at: int, size: int) -> int:
    """BTH at `at`; `size` bytes follow UDP."""
    if size < BTH + ICRC or buf[at + 1] & 0x0F or load16(buf, at + 2) != 0xFFFF:
        return MALFORMED
    f.opcode = buf[at]
    f.solicited = buf[at + 1] >> 7
    pad: Any = np.int64(buf[at + 1] >> 4) & 3
    f.qpn = load32(buf, at + 4) & 0xFFFFFF
    low = load32(buf, at + 8)
    f.ack_request = low >> 31
    f.count = (low >> 24) & 0x7F
    f.psn = low & 0xFFFFFF
    body = size - BTH - ICRC
    if f.opcode == OP_WRITE_ONLY or f.opcode == OP_WRITE_ONLY_IMM:
        return _write(f, buf, at + BTH, body, pad)
    if f.opcode == OP_ACK:
        return _ack(f, buf, at + BTH, body)
    return IS_CNP if f.opcode == OP_CNP and body == CNP_RESERVED else MALFORMED


@inner
def _write(f: Any, buf: Any, at: int, body: int, pad: int) -> int:
    with_imm = f.opcode == OP_WRITE_ONLY_IMM
    headers = RETH + IMMDT if with_imm else RETH
    if body < headers + pad:
        return MALFORMED
    f.va = load64(buf, at)
    f.rkey = load32(buf, at + 8)
    f.dma_length = load32(buf, at + 12)
    if with_imm and not f.solicited:  # an immediate ends its message
        return MALFORMED
    f.imm = load32(buf, at + RETH) if with_imm else 0
    f.payload = at + headers
    f.length = body - headers - pad
    return IS_DATA if f.dma_length == f.length else MALFORMED


@inner
def _ack(f: Any, buf: Any, at: int, body: int) -> int:
    if body != AETH + SACK:
        return MALFORMED
    f.syndrome = buf[at]
    f.msn = load32(buf, at) & 0xFFFFFF
    at += AETH
    flags = buf[at]
    if not flags & SACK_VERSION:
        return MALFORMED
    f.has_delay = 1 if flags & SACK_DELAY else 0
    f.ce = 1 if flags & SACK_CE else 0
    f.hops = (np.int64(flags) >> SACK_HOPS) & MAX_HOPS_SAID
    f.trigger = load32(buf, at) & 0xFFFFFF
    f.count = buf[at + 4]
    f.base = load32(buf, at + 4) & 0xFFFFFF
    f.delay = load32(buf, at + 8)
    f.bitmap = load64(buf, at + 12)
    return IS_ACK


@inner
def _probe(f: Any, buf: Any, at: int, size: int) -> int:
    if size != PROBE or load32(buf, at) >> 8 != (PROBE_MAGIC << 8) | PROBE_VERSION:
        return MALFORMED
    kind = buf[at + 3]
    f.qpn = load32(buf, at + 4)
    f.psn = load32(buf, at + 8)
    f.reflected = load32(buf, at + 12)
    f.cand = load16(buf, at + 16)
    if kind == PTM:
        return IS_PTM
    return IS_PTR if kind == PTR else MALFORMED
