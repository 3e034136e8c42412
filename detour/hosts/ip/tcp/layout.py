# SPDX-License-Identifier: Apache-2.0
"""The state of a connection. Times are picoseconds.

Sequence numbers are 64-bit offsets: the SYN is 0, byte k of the stream is 1 + k, the FIN follows the last byte. On the
wire they are the low 32 bits behind the initial number. Data in flight are segments, numbered as they were first sent.
"""

from __future__ import annotations

from typing import Final

from detour.base.jit import inner
from detour.base.pointers import record_by_address
from detour.base.structs import Float64, Int32, Int64, NativeRecord
from detour.hosts.ip.layout import StackGlobals, table
from detour.hosts.records import Sender

CLOSED: Final = 0
LISTEN: Final = 1
SYN_SENT: Final = 2
SYN_RECEIVED: Final = 3
ESTABLISHED: Final = 4
FIN_WAIT_1: Final = 5
FIN_WAIT_2: Final = 6
CLOSE_WAIT: Final = 7
CLOSING: Final = 8
LAST_ACK: Final = 9
TIME_WAIT: Final = 10
STATES: Final = (
    "closed", "listen", "syn-sent", "syn-received", "established", "fin-wait-1", "fin-wait-2", "close-wait",
    "closing", "last-ack", "time-wait",
)  # fmt: skip

# Why a connection ended before its time.
NO_ERROR: Final = 0
RESET: Final = 1
TIMED_OUT: Final = 2
END_REFUSED: Final = 3
UNREACHABLE: Final = 4
ERRORS: Final = ("", "reset", "timed out", "refused", "no route")

FIN, SYN, RST, PSH, ACK, ECE, CWR = 1, 2, 4, 8, 16, 64, 128

FLIGHT: Final = 0
SEGMENT_LOST: Final = 1
SACKED: Final = 2

RANGES: Final = 256
"""of data that came early"""
SEEN: Final = 4
"""blocks of SACK options that were gone through, in the table behind those ranges"""
CC_BYTES: Final = 512
"""of what an algorithm has of a connection"""
FEW_SEGMENTS: Final = 8
"""of a connection that was accepted: it sends nothing but its FIN"""
UNLIMITED: Final = 1 << 60
"""the end of a stream that has none yet"""


# Several fields a line, as in C.
# fmt: off
class ConnRecord(Sender):
    """A connection."""

    state: Int64; iss: Int64; irs: Int64; snd_una: Int64; snd_nxt: Int64; snd_end: Int64
    fin: Int64; snd_edge: Int64; last_window: Int64; shift_out: Int64; shift_in: Int64; mss: Int64
    # receiver: what is expected next, the edge that was offered, bytes that came early and in how many ranges
    rcv_nxt: Int64; rcv_edge: Int64; held: Int64; ranges: Int64; recent0: Int64
    recent1: Int64; recent2: Int64; fin_at: Int64; dup_left: Int64; dup_right: Int64
    ts_ok: Int64; sack_ok: Int64; ecn_ok: Int64; scale_ok: Int64; ts_recent: Int64; ts_echo: Int64
    # what the options of the segment that just came in say
    ts_there: Int64; ts_value: Int64; ts_reply: Int64; blocks: Int64
    blocks_at: Int64; peer_mss: Int64; peer_shift: Int64; peer_sack: Int64
    # what is to be sent beside data, and when at the latest
    want_syn: Int64; want_ack: Int64; unacked: Int64; delack_due: Int64; quick: Int64
    # ECN: echo until CWR, or what the last packet was (RFC 8257); send CWR, and when it may be wanted again
    echo: Int64; want_cwr: Int64; cwr_point: Int64
    # segments in flight; lists in order of transmission, and of those that are lost
    segs: Int64; seg_una: Int64; seg_nxt: Int64; flight_head: Int64; flight_tail: Int64
    lost_head: Int64; lost_tail: Int64; n_lost: Int64; n_sacked: Int64
    # round trips and timeouts
    rttvar: Int64; rto: Int64; backoff: Int64; retries: Int64; rto_due: Int64
    probe_due: Int64; reorder_due: Int64; wait_due: Int64; min_rtt: Int64; last_sent: Int64
    # tail loss probe: one is to be sent; the end of what it was sent for, and whether it was sent before (RFC 8985)
    want_probe: Int64; probe_end: Int64; probe_again: Int64; probe_txn: Int64
    # proportional rate reduction, in segments: what the last ACK delivered, RFC 9937's RecoverFS, prr_delivered and
    # prr_out, and up to where prr_out may rise
    delivered: Int64; recover_fs: Int64; prr_delivered: Int64; prr_out: Int64; prr_limit: Int64
    pace_wait: Int64
    # what was delivered last in order of transmission: when it was sent, its place and round trip (RFC 8985)
    rack_sent: Int64; rack_txn: Int64; rack_rtt: Int64; rack_end: Int64; reordering: Int64; recover: Int64
    # RFC 6675: the three highest segments that were SACKed, and from where on none is marked lost yet
    high1: Int64; high2: Int64; high3: Int64; scanned: Int64; seen_next: Int64
    # peers without SACK: duplicate ACKs
    dupacks: Int64
    listener: Int64; stop_ps: Int64; error: Int64
    # of listeners for connections that they accept, which take all of it; see `hosts.ip.tcp.config`
    ring: Int64; mss_limit: Int64; rcv_buffer: Int64; sack: Int64; timestamps: Int64; ecn: Int64
    accurate_ecn: Int64; rack: Int64; pacing: Int64; delack_ps: Int64; min_rto_ps: Int64; max_rto_ps: Int64
    initial_rto_ps: Int64; max_retries: Int64; initial_window: Int64; check: Int64; cc_table: Int64; tick_ps: Int64
    time_wait_ps: Int64; trace_room: Int64; trace_apart_ps: Int64
    # counters
    tx_segments: Int64; tx_bytes: Int64; retransmitted: Int64; rtos: Int64; lost: Int64; spurious: Int64
    probes: Int64; rx_segments: Int64; rx_bytes: Int64; rx_duplicates: Int64; rx_early: Int64; rx_ce: Int64
    rx_dropped: Int64; ece_acks: Int64; acks_sent: Int64; corrupt: Int64; dup_sacks: Int64; established_ps: Int64
    first_byte_ps: Int64; last_byte_ps: Int64; acked_ps: Int64; closed_ps: Int64
    trace: Int64; trace_taken: Int64; trace_next: Int64


class SegmentRecord(NativeRecord):
    """A piece of the stream that was sent."""

    start: Int64; end: Int64; sent: Int64
    txn: Int64  # its place in the order of transmissions
    next: Int32; prev: Int32  # neighbours in the list of its state, by place in the ring
    state: Int32
    count: Int32  # transmissions before the last one


class RangeRecord(NativeRecord):
    """Data that came early."""

    left: Int64; right: Int64


class PointRecord(NativeRecord):
    """A point of a connection's curve; `acked`: bytes."""

    time_ps: Int64; cwnd: Float64; ssthresh: Float64; inflight: Int64; srtt_ps: Int64; acked: Int64
# fmt: on

conn_row = table(ConnRecord, "conns")
_segment_at = record_by_address(SegmentRecord)
_range_at = record_by_address(RangeRecord)
point_at = record_by_address(PointRecord)
_RANGE_BYTES = RangeRecord.dtype.itemsize
_ROOM = RANGES + SEEN


@inner()
def slot(g: StackGlobals, i: int, place: int) -> SegmentRecord:
    """A segment of connection `i`, by its place in the ring."""
    return _segment_at(conn_row(g, i).segs, place)


@inner()
def segment(g: StackGlobals, i: int, number: int) -> SegmentRecord:
    """A segment of connection `i`, by its number."""
    c = conn_row(g, i)
    return _segment_at(c.segs, number & (c.ring - 1))


@inner()
def range_of(g: StackGlobals, i: int, k: int) -> RangeRecord:
    """A range of data that came early."""
    return _range_at(g.ranges + i * _ROOM * _RANGE_BYTES, k)
