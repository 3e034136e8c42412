# SPDX-License-Identifier: Apache-2.0
"""The stack's memory: one kind of record per table. Times are picoseconds.

Python owns the arrays (`memory.Memory`) and writes their addresses into the one record of globals. Nothing that is
written is shared between hosts, so the event loop may execute them in any order.

An address is two words, `hi` and `lo`: an IPv6 address, or an IPv4 address mapped into IPv6 (::ffff:a.b.c.d).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from detour.base.heap import HeapEntry
from detour.base.jit import int64
from detour.base.pointers import record_by_address, row_of_table
from detour.base.structs import Int64, NativeRecord, names
from detour.base.times import MAX_TIME as MAX_TIME
from detour.hosts.scheduling import ScheduledHost

LONGEST_FRAME: Final = 9_216
"""bytes of the longest frame"""
HEADERS_BYTES: Final = 64
"""room for a socket's Ethernet and IP header"""
PERIOD: Final = 8_191
"""bytes after which the pattern of payloads begins again: a prime, so that no shift by segments goes unnoticed"""

# Kinds of sockets.
SOCKET_FREE: Final = 0
UDP_FLOW: Final = 1  # sends
UDP_PORT: Final = 2  # receives from everybody
UDP_PEER: Final = 3  # what an UDP_PORT has received from one sender
ECHO: Final = 4  # ping
RAW: Final = 5  # frames from outside
RESOLVER: Final = 6  # timer of a host's neighbours
TCP_SOCKET: Final = 7
TCP_LISTENER: Final = 8

# States of a neighbour.
NEIGHBOUR_FREE: Final = 0
NEIGHBOUR_ASKED: Final = 1
NEIGHBOUR_KNOWN: Final = 2
NEIGHBOUR_STATIC: Final = 3
NEIGHBOUR_FAILED: Final = 4

PROTO_ICMP: Final = 1
PROTO_TCP: Final = 6
PROTO_UDP: Final = 17
PROTO_ICMP6: Final = 58

# Spacing of the packets of a flow.
CONSTANT: Final = 0
POISSON: Final = 1
ON_OFF: Final = 2  # exponential times of sending and of silence

UDP_MAGIC: Final = int64(0x64744F50)
UDP_HEAD: Final = 24
"""bytes at the beginning of a payload of ours: magic number and flow (4 bytes each), sequence number and time (8)"""
ECHO_HEAD: Final = 16
"""the same of an echo request: magic number and 4 bytes of 0, time"""

BUCKETS: Final = 512
"""of a histogram of delays: eight an octave, from 1 ps on (`udp.bucket`)"""


# Several fields a line, as in C.
# fmt: off
class StackGlobals(NativeRecord, lines=True):
    """The state that native functions are given: addresses and sizes of tables, and single values."""

    hosts: Int64; neighbours: Int64; sockets: Int64; headers: Int64
    flows: Int64; peers: Int64; echoes: Int64; raws: Int64
    heaps: Int64; demux: Int64; outbox: Int64; boxes: Int64; inbox: Int64; inboxes: Int64; frames: Int64
    conns: Int64; segments: Int64; ranges: Int64; cc_rows: Int64
    n_hosts: Int64; per_host: Int64; n_neighbours: Int64; demux_size: Int64
    out_depth: Int64; in_depth: Int64; box_bytes: Int64
    elide: Int64; pattern: Int64; sums: Int64
    jitter_ps: Int64


class IpHostRecord(ScheduledHost, lines=True):
    """A host."""

    # addresses (family absent: hi and lo 0), prefix lengths, gateways (0: none), link-local address
    v4_lo: Int64; v4_mask: Int64; v4_gateway: Int64; v6_hi: Int64; v6_lo: Int64; v6_mask_hi: Int64
    v6_mask_lo: Int64; v6_gateway_hi: Int64; v6_gateway_lo: Int64; ll_hi: Int64; ll_lo: Int64; ttl: Int64; mtu: Int64
    # rings of frames: to send (answers), to be read by Python
    out_head: Int64; out_tail: Int64; in_head: Int64; in_tail: Int64; sniff: Int64
    sockets_used: Int64; neighbours_used: Int64; next_port: Int64; error_next: Int64
    # counters
    rx_frames: Int64; rx_bytes: Int64; tx_frames: Int64; tx_bytes: Int64; rx_other_mac: Int64
    rx_other_address: Int64; rx_malformed: Int64; rx_bad_checksum: Int64; rx_fragments: Int64; rx_unknown: Int64
    rx_no_port: Int64; rx_echo_requests: Int64; rx_errors: Int64; out_drops: Int64; in_drops: Int64
    no_sockets: Int64; unresolved: Int64; arp_sent: Int64; arp_answered: Int64


class ParsedFrame(NativeRecord, lines=True):
    """The parser's result: addresses, protocol, where its header begins and how long it is with its payload. `here`:
    how much of `length` is stored; the rest is zeros."""

    src_hi: Int64; src_lo: Int64; dst_hi: Int64; dst_lo: Int64; v6: Int64; tos: Int64
    ttl: Int64; proto: Int64; at: Int64; length: Int64; here: Int64; sport: Int64
    dport: Int64; source_mac: Int64; start: Int64; stored: Int64; wire: Int64
    # of a TCP segment: bytes of its header, and what that says
    header: Int64; seq: Int64; ack: Int64; flags: Int64


class NeighbourRecord(NativeRecord, lines=True):
    """A host's knowledge of an address on its link."""

    hi: Int64; lo: Int64; mac: Int64; state: Int64; version: Int64; tries: Int64; when: Int64


class SocketRecord(NativeRecord, lines=True):
    """A socket."""

    kind: Int64; host: Int64; proto: Int64; lport: Int64; rport: Int64
    l_hi: Int64; l_lo: Int64; r_hi: Int64; r_lo: Int64; v6: Int64
    # deadline; place in the heap (-1: none) and its key there; whether it is in the round of those that may send
    due: Int64; heap_pos: Int64; heap_key: Int64; active: Int64; active_next: Int64
    # next hop, and the state of it that its headers were written for (0: none yet); whether it waits for it
    neighbour: Int64; version: Int64; waiting: Int64
    # headers: bytes, sum of the IP header and of the pseudo header without lengths, TOS or traffic class
    ip_bytes: Int64; ip_sum: Int64; l4_sum: Int64; tos: Int64; ttl: Int64
    flow_id: Int64; error: Int64; closed: Int64; failed: Int64


class UdpFlowRecord(NativeRecord, lines=True):
    """A UDP flow. `rest`: what of a division was left over; `shift_ps`: how late it is by jitter; `sizes`: table of
    `SizeRecord`, 0: all have `fixed_size`."""

    mode: Int64; rate_bps: Int64; interval_ps: Int64; rest: Int64; next_ps: Int64; stop_ps: Int64
    left: Int64; fixed_size: Int64; sizes: Int64; n_sizes: Int64; size: Int64
    on_ps: Int64; off_ps: Int64; until_ps: Int64; shift_ps: Int64
    tx_packets: Int64; tx_bytes: Int64; first_ps: Int64; last_ps: Int64; unreachable: Int64


class SizeRecord(NativeRecord):
    """A packet has so many bytes if a number from 0 to 2**31 - 1 is below the first."""

    below: Int64; bytes: Int64


class PeerRecord(NativeRecord, lines=True):
    """Counters of packets that a port has received from one sender."""

    rx_packets: Int64; rx_bytes: Int64; rx_ce: Int64; first_ps: Int64; last_ps: Int64
    # packets with our header: the next number that is expected, numbers passed over, late ones, by how much at most
    measured: Int64; expected: Int64; gaps: Int64; reordered: Int64
    displaced: Int64; corrupt: Int64; duplicates: Int64
    delay_sum: Int64; delay_min: Int64; delay_max: Int64; last_delay: Int64; jitter: Int64
    # a record for each packet (`SampleRecord`), if wanted, and how many a sender that is new to a port may have
    samples: Int64; room: Int64; taken: Int64; share: Int64
    histogram: Int64; histograms: Int64


class SampleRecord(NativeRecord, lines=True):
    """A packet that a port has received."""

    time_ps: Int64; sent_ps: Int64; seq: Int64; bytes: Int64; ce: Int64


class EchoRecord(NativeRecord, lines=True):
    """A ping. `rtts`: table of `int64`, a round trip for each request, 0: no answer."""

    ident: Int64; next_seq: Int64; count: Int64; interval_ps: Int64
    next_ps: Int64; size: Int64; tx_packets: Int64; rx_packets: Int64
    rtts: Int64; room: Int64; rtt_sum: Int64; rtt_min: Int64; rtt_max: Int64; errors: Int64
    error_kind: Int64; error_hi: Int64; error_lo: Int64; duplicates: Int64; corrupt: Int64


class RawRecord(NativeRecord, lines=True):
    """Frames one after another at `frames`, each from offset k to k + 1 of `offsets`, due at `base_ps` + `times[k]`."""

    frames: Int64; offsets: Int64; times: Int64; count: Int64; next_one: Int64
    repeat: Int64; interval_ps: Int64; base_ps: Int64; tx_packets: Int64; tx_bytes: Int64


class BoxRecord(NativeRecord):
    """A frame in a ring; its bytes are in a table beside."""

    stored: Int64; wire: Int64; time: Int64
# fmt: on

IP_HOST_COUNTERS: Final = names(IpHostRecord)[names(IpHostRecord).index("rx_frames") :]

_Row = TypeVar("_Row", bound=NativeRecord)


def table(kind: type[_Row], name: str) -> Callable[[StackGlobals, int], _Row]:
    """A function of `g` and an index: `host_row(g, host).mac`."""
    return row_of_table(StackGlobals, kind, name)


globals_at = record_by_address(StackGlobals)
size_at = record_by_address(SizeRecord)
sample_at = record_by_address(SampleRecord)
heap_at = record_by_address(HeapEntry)
host_row = table(IpHostRecord, "hosts")
frame_row = table(ParsedFrame, "frames")
neighbour_row = table(NeighbourRecord, "neighbours")
socket_row = table(SocketRecord, "sockets")
flow_row = table(UdpFlowRecord, "flows")
peer_row = table(PeerRecord, "peers")
echo_row = table(EchoRecord, "echoes")
raw_row = table(RawRecord, "raws")
outbox_row = table(BoxRecord, "outbox")
inbox_row = table(BoxRecord, "inbox")
