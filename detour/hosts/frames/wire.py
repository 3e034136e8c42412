# SPDX-License-Identifier: Apache-2.0
"""Frames on the wire: layout and native writers. `dissect` reads them.

    Ethernet 14 | IPv6 40 | Hop-by-Hop with Transit Measurement option 8 | UDP 8 | BTH 12 | ... | ICRC 4

* **Data** (UDP 4791): BTH | RETH 16 | payload, padded to four bytes | ICRC. Every packet is an RDMA WRITE ONLY
  (opcode 0x0a) with a RETH of its own: address and length of *its* payload, so that it can be placed whatever
  arrived before it. The last packet of a message has the solicited-event bit set; if the message carries an
  immediate, its last packet is a WRITE ONLY WITH IMMEDIATE (0x0b, ImmDt 4 after the RETH). The responder thus
  knows where messages end. The acknowledge-request bit asks for an answer; LERP always sets it. The seven
  reserved bits after it count the transmissions of this PSN before this one (0 in a packet that was never
  retransmitted, so such packets are plain RoCEv2); ACKs return the count, which tells the sender *which*
  transmission arrived.
* **ACK** (UDP 4791, one for every data packet): BTH opcode 0x11, PSN = last one received in order | AETH 4
  (syndrome 0x1f, MSN = messages complete in order) | SACK 20 | ICRC. SACK: flags (bit 7: version, always 1;
  bits 6 to 2: switches that the packet passed, by its hop limit, 31 for more; bit 1: delay valid; bit 0: the packet
  was CE marked), PSN 3 of the packet that caused this ACK, its
  transmission count 1, first PSN of the bitmap 3, accumulated forward delay in ticks 4, bitmap 8 (bit i: first
  PSN + i has arrived).
* **NAK**: the same with AETH syndrome 0x62 (remote access error), 0x20 (receiver not ready: no room in the
  completion queue for an immediate), or 0x65 (LERP: the packet came trimmed; a code that IBTA reserves); PSN and the
  SACK's PSN are those of the refused packet. Go-back-N's NAK has syndrome 0x60 (PSN sequence error), its PSN is the
  expected one, the SACK's that of the packet that came early.
* **CNP** (UDP 4791): BTH opcode 0x81 with BECN set, PSN 0 | 16 bytes 0 | ICRC (IBTA annex A17), as control.
* **PTM, PTR** (UDP 4793): magic "DT" 2, version 1 in one byte, type 1 (1 PTM, 2 PTR), requester's QPN 4,
  sequence 4, forward delay in ticks reflected by the PTR 4, candidate 2, reserved 2. PTMs carry the option and
  queue like data (DSCP 0, ECT(0)); PTRs carry it too, for the reverse path, and go as control (DSCP 48).

The flow label of data packets is that of the QP (`QP.set_flow_label`; 0: none), by which switches know a flow that
they are to watch; all other packets have 0. The hop-by-hop header is next header, 0, option type 0x3e, option length 4,
delay in ticks (docs/facts.md, "Transit Measurement option"). The UDP source port selects the path. With a uSID list as
destination address, UDP checksum and ICRC are computed over the address that the receiver will see: the block and the
last uSID (docs/facts.md, "uSID lists and checksums").

With `HostConfig.encapsulates` a packet with a uSID list is not rewritten but encapsulated (H.Encaps.Red, RFC 8986,
5.2): Ethernet | IPv6 to the list | Hop-by-Hop | IPv6 to the peer's address 40 | UDP | ... The list ends at the host,
which takes the outer header off. Sums are those of the inner packet; delay and marks are the outer one's (RFC 6040).
Its flow label, if the QP has none, is the source port's last 13 bits, which switches hash instead of that.

**ICRC** (IBTA annex A17): CRC-32 over 8 bytes 0xff, IPv6, UDP, BTH and the rest, with traffic class, flow label,
hop limit, UDP checksum and the byte with BTH's FECN and BECN as ones, sent least significant byte first.
The annex knows no extension headers. scapy's RoCE layer and Linux' rxe take the 40 bytes before UDP for the IPv6
header; neither can check a frame with another header in between, and Wireshark (4.0) displays the ICRC without
checking (not that of ACKs, as it does not know the SACK). Here the hop-by-hop header is *not there* for the ICRC:
next header is 17, the payload length that of UDP. So a frame without the option validates in scapy as it is, one
with the option after removing those eight bytes, and switches may change the option (and could even remove it)
on the way.
"""

from __future__ import annotations

from detour.base.dataplane import HOP_LIMIT, MAX_FLOW_LABEL
from detour.base.jit import inner, int64
from detour.base.memory import load64, store8, store16be, store32, store32be, store64be, swap64
from detour.hosts.frames.checksum import CRC_START, crc32_update, crc32_word, fold, sum_bytes
from detour.hosts.frames.headers import ETHERNET_BYTES, TYPE_IPV6, pseudo_sum, put_ethernet, put_ipv6
from detour.hosts.frames.sizes import AETH, BTH, ICRC, IMMDT, IPV6, PROBE, RETH, SACK, TRANSIT, UDP
from detour.hosts.records import Candidate, ControlMessage, QueuePair, RdmaHost, WorkRequest
from detour.hosts.rows import cfg_row, host_row, memory_to_frame, qp_row
from detour.hosts.state import WQE_IMM, Handle

CNP_RESERVED = 16
BECN = 0x40
NH_HOP_BY_HOP, NH_UDP, NH_IPV6 = 0, 17, 41
OPTION_TRANSIT = 0x3E
PORT_ROCE, PORT_PROBE = 4791, 4793
OP_ACK, OP_WRITE_ONLY, OP_WRITE_ONLY_IMM, OP_CNP = 0x11, 0x0A, 0x0B, 0x81
SYNDROME_ACK, SYNDROME_RNR, SYNDROME_SEQUENCE, SYNDROME_ACCESS, SYNDROME_TRIMMED = 0x1F, 0x20, 0x60, 0x62, 0x65
PROBE_MAGIC, PROBE_VERSION, PTM, PTR = 0x4454, 1, 1, 2
SACK_VERSION, SACK_DELAY, SACK_CE = 0x80, 2, 1
SACK_HOPS, MAX_HOPS_SAID = 2, 31
"""where hops begin in the flags, and the most that fit"""
SACK_BITS = 64
SACK_BEHIND = 48
"""PSNs before the one that caused an ACK which the bitmap covers: ACKs that were lost lately are made up for"""
DSCP_CONTROL = 48
ECT0, CE = 2, 3
PSN_MASK = 0xFFFFFF
COUNT_MASK = 0x7F

_HOP_BY_HOP, _UDP, _IPV6, _HOPS = int64(NH_HOP_BY_HOP), int64(NH_UDP), int64(NH_IPV6), int64(HOP_LIMIT)
TCLASS_CONTROL = int64(DSCP_CONTROL << 2)


# -- native writers -----------------------------------------------------------------------------------------


@inner
def unwrap(psn: int, near: int) -> int:
    """Sequence number whose low 24 bits are `psn` and that is closest to `near`."""
    return near + (((psn - near + 0x800000) & 0xFFFFFF) - 0x800000)


@inner
def put_ethernet_ipv6(
    frame: int, h: RdmaHost, dst_hi: int, dst_lo: int, tclass: int, label: int, udp_length: int, option: int
) -> int:
    """Ethernet and IPv6 of a packet of host `h`, if `option` with a delay of 0; returns where UDP begins."""
    return _put_outer(frame, h, dst_hi, dst_lo, tclass, label, udp_length, option, _UDP)


@inner
def _put_outer(
    frame: int, h: RdmaHost, dst_hi: int, dst_lo: int, tclass: int, label: int, size: int, option: int, proto: int
) -> int:
    """`size` bytes of protocol `proto` follow; returns where."""
    put_ethernet(frame, h.gateway, h.mac, TYPE_IPV6)
    ip = frame + ETHERNET_BYTES
    length, following = (size + TRANSIT, _HOP_BY_HOP) if option else (size, proto)
    put_ipv6(ip, (tclass << 20) | label, length, following, _HOPS, h.addr_hi, h.addr_lo, dst_hi, dst_lo)
    if not option:
        return ip + IPV6
    store32be(ip + IPV6, (proto << 24) | (OPTION_TRANSIT << 8) | 4)
    store32be(ip + IPV6 + 4, 0)
    return ip + IPV6 + TRANSIT


@inner
def _put_encapsulated(
    frame: int, h: RdmaHost, dst_hi: int, dst_lo: int, q: QueuePair, tclass: int, label: int, size: int, option: int
) -> int:
    """H.Encaps.Red (RFC 8986, 5.2): a packet to the peer of `q` in one to a uSID list; returns where UDP begins."""
    ip = _put_outer(frame, h, dst_hi, dst_lo, tclass, label, size + IPV6, option, _IPV6)
    put_ipv6(ip, tclass << 20, size, _UDP, _HOPS, h.addr_hi, h.addr_lo, q.peer_hi, q.peer_lo)
    return ip + IPV6


@inner
def put_udp(udp: int, sport: int, dport: int, length: int) -> int:
    """UDP header with checksum 0; returns where its payload begins."""
    store16be(udp, sport)
    store16be(udp + 2, dport)
    store16be(udp + 4, length)
    store16be(udp + 6, 0)
    return udp + UDP


@inner
def put_bth(at: int, opcode: int, solicited: int, pad: int, qpn: int, psn: int, low: int) -> int:
    """Base transport header; `low` is the byte with the acknowledge request and the transmission count."""
    store8(at, opcode)
    store8(at + 1, (solicited << 7) | (pad << 4))
    store16be(at + 2, 0xFFFF)
    store32be(at + 4, qpn)
    store32be(at + 8, (low << 24) | (psn & PSN_MASK))
    return at + BTH


@inner
def udp_checksum(udp: int, length: int, src_hi: int, src_lo: int, dst_hi: int, dst_lo: int) -> int:
    """Checksum over pseudo header and UDP (RFC 8200, 8.1): 0 over a correct packet, else what belongs in it."""
    total = pseudo_sum(src_hi, src_lo, dst_hi, dst_lo, _UDP, length) + sum_bytes(udp, length)
    return ~fold(total) & 0xFFFF


@inner
def icrc(udp: int, length: int, src_hi: int, src_lo: int, dst_hi: int, dst_lo: int) -> int:
    """ICRC of the RoCEv2 packet whose UDP header is at `udp`."""
    crc = crc32_word(int64(-1), CRC_START)
    crc = crc32_word(swap64((0x6FFFFFFF << 32) | (length << 16) | (NH_UDP << 8) | 0xFF), crc)
    crc = crc32_word(swap64(src_hi), crc)
    crc = crc32_word(swap64(src_lo), crc)
    crc = crc32_word(swap64(dst_hi), crc)
    crc = crc32_word(swap64(dst_lo), crc)
    crc = crc32_word(load64(udp) | (-1 << 48), crc)
    crc = crc32_word(load64(udp + UDP) | (0xFF << 32), crc)
    return crc32_update(udp + UDP + 8, udp + length - ICRC, crc) ^ CRC_START


@inner
def seal(udp: int, length: int, h: RdmaHost, dst_hi: int, dst_lo: int, roce: int) -> None:
    """Write ICRC (if `roce`) and UDP checksum over the addresses that the receiver will see."""
    if roce:
        crc = icrc(udp, length, h.addr_hi, h.addr_lo, dst_hi, dst_lo)
        store32(udp + length - ICRC, crc)
    checksum = udp_checksum(udp, length, h.addr_hi, h.addr_lo, dst_hi, dst_lo)
    store16be(udp + 6, checksum if checksum else 0xFFFF)


@inner
def write_data(
    hs: Handle, frame: int, q: QueuePair, c: Candidate, w: WorkRequest, seq: int, low: int, packet: int
) -> int:
    """Write packet number `packet` of work request `w` with sequence number `seq`; `low` is the BTH's byte with the
    acknowledge request and the transmission count. `q` is the QP, `c` the candidate path. Return the frame's
    length."""
    cfg = cfg_row(hs)
    h = host_row(hs, q.host)
    start = packet * cfg.payload
    size = min(cfg.payload, w.length - start)
    last = 1 if packet == w.packets - 1 else 0
    with_imm = last if w.flags & WQE_IMM else 0
    pad = -size & 3
    length = UDP + BTH + RETH + (IMMDT if with_imm else 0) + size + pad + ICRC
    listed = c.dst_hi != 0
    dst_hi = c.dst_hi if listed else q.peer_hi
    dst_lo = c.dst_lo if listed else q.peer_lo
    tclass = (cfg.data_dscp << 2) | ECT0
    if listed and cfg.encapsulates:
        label = q.flow_label if q.flow_label else c.sport & MAX_FLOW_LABEL
        udp = _put_encapsulated(frame, h, dst_hi, dst_lo, q, tclass, label, length, q.telemetry)
    else:
        udp = put_ethernet_ipv6(frame, h, dst_hi, dst_lo, tclass, q.flow_label, length, q.telemetry)
    at = put_udp(udp, c.sport, PORT_ROCE, length)
    opcode = OP_WRITE_ONLY_IMM if with_imm else OP_WRITE_ONLY
    at = put_bth(at, opcode, last, pad, q.peer_qpn, seq, low)
    store64be(at, w.remote + start)
    store32be(at + 8, w.rkey)
    store32be(at + 12, size)
    at += RETH
    if with_imm:
        store32be(at, w.imm)
        at += IMMDT
    if not cfg.elide_payload:
        memory_to_frame(hs, at, w.local + start, size)
        for k in range(pad):
            store8(at + size + k, 0)
        plain = not listed or cfg.encapsulates
        seal(udp, length, h, q.peer_hi if plain else c.final_hi, q.peer_lo if plain else 0, int64(1))
    return udp + length - frame


@inner
def _begin_answer(frame: int, h: RdmaHost, q: QueuePair, m: ControlMessage, length: int) -> int:
    """Headers of an answer to the peer of `q`, UDP with `length` bytes included; returns where UDP begins."""
    udp = put_ethernet_ipv6(frame, h, q.peer_hi, q.peer_lo, TCLASS_CONTROL, int64(0), length, int64(0))
    put_udp(udp, m.sport, PORT_ROCE, length)
    return udp


@inner
def _end_answer(hs: Handle, frame: int, h: RdmaHost, q: QueuePair, udp: int, length: int) -> int:
    """ICRC and checksum of an answer, unless payload is elided; returns the frame's length."""
    if not cfg_row(hs).elide_payload:
        seal(udp, length, h, q.peer_hi, q.peer_lo, int64(1))
    return udp + length - frame


@inner
def write_ack(hs: Handle, frame: int, q: QueuePair, m: ControlMessage, cum: int, base: int, bitmap: int) -> int:
    """Write the ACK or NAK of control message `m`: `cum` is the last sequence number received in order (or
    the refused one), `base` and `bitmap` the SACK's. Return the frame's length."""
    h = host_row(hs, q.host)
    length = UDP + BTH + AETH + SACK + ICRC
    udp = _begin_answer(frame, h, q, m, length)
    at = udp + UDP
    at = put_bth(at, OP_ACK, 0, 0, q.peer_qpn, cum, 0)
    store32be(at, (m.syndrome << 24) | (q.rcv_msn & 0xFFFFFF))
    at += AETH
    flags = SACK_VERSION | (SACK_DELAY if m.has_delay else 0) | (SACK_CE if m.ce else 0)
    flags |= min(m.hops, MAX_HOPS_SAID) << SACK_HOPS
    store32be(at, (flags << 24) | (m.psn & PSN_MASK))
    store32be(at + 4, (m.count << 24) | (base & PSN_MASK))
    store32be(at + 8, m.delay)
    store64be(at + 12, bitmap)
    return _end_answer(hs, frame, h, q, udp, length)


@inner
def write_cnp(hs: Handle, frame: int, q: QueuePair, m: ControlMessage) -> int:
    """Write the CNP of control message `m`. Return the frame's length."""
    h = host_row(hs, q.host)
    length = UDP + BTH + CNP_RESERVED + ICRC
    udp = _begin_answer(frame, h, q, m, length)
    at = udp + UDP
    at = put_bth(at, OP_CNP, 0, 0, (BECN << 24) | q.peer_qpn, 0, 0)
    store64be(at, 0)
    store64be(at + 8, 0)
    return _end_answer(hs, frame, h, q, udp, length)


@inner
def write_probe(hs: Handle, frame: int, h: RdmaHost, m: ControlMessage, probe_type: int) -> int:
    """Write the PTM or PTR of control message `m`. Return the frame's length."""
    length = UDP + PROBE
    listed = m.final_hi != 0
    tclass = (cfg_row(hs).data_dscp << 2) | ECT0 if probe_type == PTM else TCLASS_CONTROL
    final_hi, final_lo = (m.final_hi, int64(0)) if listed else (m.dst_hi, m.dst_lo)
    if listed and cfg_row(hs).encapsulates:
        q, label = qp_row(hs, m.qp), m.sport & MAX_FLOW_LABEL
        final_hi, final_lo = q.peer_hi, q.peer_lo
        udp = _put_encapsulated(frame, h, m.dst_hi, m.dst_lo, q, tclass, label, length, int64(1))
    else:
        udp = put_ethernet_ipv6(frame, h, m.dst_hi, m.dst_lo, tclass, int64(0), length, int64(1))
    at = put_udp(udp, m.sport, PORT_PROBE, length)
    store32be(at, (PROBE_MAGIC << 16) | (PROBE_VERSION << 8) | probe_type)
    store32be(at + 4, m.qpn)
    store32be(at + 8, m.psn)
    store32be(at + 12, m.delay)
    store32be(at + 16, m.cand << 16)
    if not cfg_row(hs).elide_payload:
        seal(udp, length, h, final_hi, final_lo, int64(0))
    return udp + length - frame
