# SPDX-License-Identifier: Apache-2.0
"""The stack's memory: one NumPy record type per table. Fields are `int64`; times are picoseconds.

Python owns the arrays (`memory.Memory`) and writes their addresses into the one `STACK_GLOBALS` record. Nothing that is
written is shared between hosts, so the event loop may execute them in any order.

An address is two words, `hi` and `lo`: an IPv6 address, or an IPv4 address mapped into IPv6 (::ffff:a.b.c.d).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from detour.base.times import MAX_TIME as MAX_TIME

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

UDP_MAGIC: Any = np.int64(0x64744F50)
UDP_HEAD: Final = 24
"""bytes at the beginning of a payload of ours: magic number and flow (4 bytes each), sequence number and time (8)"""
ECHO_HEAD: Final = 16
"""the same of an echo request: magic number and 4 bytes of 0, time"""


def _table(*fields: str) -> np.dtype:
    """A record type of `int64` fields, filled up to whole cache lines."""
    names = [name for field in fields for name in field.split()]
    size = -(-8 * len(names) // 64) * 64
    offsets = [8 * number for number in range(len(names))]
    return np.dtype({"names": names, "formats": [np.int64] * len(names), "offsets": offsets, "itemsize": size})


STACK_GLOBALS: Final = _table(
    "hosts neighbours sockets headers flows peers echoes raws heaps demux outbox boxes inbox inboxes frames",
    "conns segments ranges cc_rows",
    "n_hosts per_host n_neighbours demux_size out_depth in_depth box_bytes",
    "elide pattern sums",
    "jitter_ps",
)

IP_HOST_COUNTERS: Final = (
    "rx_frames rx_bytes tx_frames tx_bytes rx_other_mac rx_other_address rx_malformed rx_bad_checksum rx_fragments "
    "rx_unknown rx_no_port rx_echo_requests rx_errors out_drops in_drops no_sockets unresolved arp_sent arp_answered"
)

IP_HOST: Final = _table(
    # MAC (48 bits), addresses (family absent: hi and lo 0), prefix lengths, gateways (0: none), link-local address
    "mac v4_lo v4_mask v4_gateway v6_hi v6_lo v6_mask_hi v6_mask_lo v6_gateway_hi v6_gateway_lo ll_hi ll_lo ttl mtu",
    # scheduling: list of sockets that may send, heap of deadlines
    "ready_head ready_tail heap_size heap_first now paused",
    # rings of frames: to send (answers), to be read by Python
    "out_head out_tail in_head in_tail sniff",
    "sockets_used neighbours_used rng next_port error_next",
    IP_HOST_COUNTERS,
)

PARSED_FRAME: Final = _table(
    # what the parser found: addresses, protocol, where its header begins and how long it is with what it carries
    "src_hi src_lo dst_hi dst_lo v6 tos ttl proto at length here sport dport source_mac start stored wire",
)
"""`here`: how much of `length` is stored; what is not is zeros"""

NEIGHBOUR: Final = _table("hi lo mac state version tries when")

SOCKET: Final = _table(
    "kind host proto lport rport l_hi l_lo r_hi r_lo v6",
    # deadline; place in the heap (-1: none) and its key there; whether it is in the list of those that may send
    "due pos key ready next",
    # next hop, and the state of it that its headers were written for (0: none yet); whether it waits for it
    "neighbour version waiting",
    # headers: bytes, sum of the IP header and of the pseudo header without lengths, TOS or traffic class
    "ip_bytes ip_sum l4_sum tos ttl",
    "flow_id error closed failed",
)

UDP_FLOW_RECORD: Final = _table(
    "mode rate_bps interval_ps rest next_ps stop_ps left fixed_size sizes n_sizes size",
    "on_ps off_ps until_ps shift_ps",
    "tx_packets tx_bytes first_ps last_ps unreachable",
)
"""a UDP flow. `rest`: what of a division was left over; `shift_ps`: how late it is by jitter; `sizes`: table of `SIZE`,
0: all have `fixed_size`"""

SIZE: Final = np.dtype([("below", np.int64), ("bytes", np.int64)])
"""a packet has so many bytes if a number from 0 to 2**31 - 1 is below the first"""

BUCKETS: Final = 512
"""of a histogram of delays: eight an octave, from 1 ps on (`udp.bucket`)"""

PEER: Final = _table(
    "rx_packets rx_bytes rx_ce first_ps last_ps",
    # packets with our header: the next number that is expected, numbers passed over, late ones, by how much at most
    "measured expected gaps reordered displaced corrupt duplicates",
    "delay_sum delay_min delay_max last_delay jitter",
    # a record for each packet (`PACKET_SAMPLE`), if wanted
    # and how many a sender that is new to a port may have
    "samples room taken share",
    "histogram histograms",
)
PACKET_SAMPLE: Final = _table("time_ps sent_ps seq bytes ce")

ECHO_RECORD: Final = _table(
    "ident next_seq count interval_ps next_ps size tx_packets rx_packets",
    "rtts room rtt_sum rtt_min rtt_max errors error_kind error_hi error_lo duplicates corrupt",
)
"""`rtts`: table of `int64`, a round trip for each request, 0: no answer"""

RAW_RECORD: Final = _table("frames offsets times count next_one repeat interval_ps base_ps tx_packets tx_bytes")
"""frames one after the other at `frames`, each from offset k to k + 1 of `offsets`, due at `base_ps` + `times[k]`"""

DUE_ENTRY: Final = np.dtype([("time", np.int64), ("socket", np.int64)])
BOX: Final = np.dtype([("stored", np.int64), ("wire", np.int64), ("time", np.int64)])
"""a frame in a ring; its bytes are in a table beside"""
