# SPDX-License-Identifier: Apache-2.0
"""What a connection has. Times are picoseconds.

Sequence numbers are 64-bit offsets: the SYN is 0, byte k of the stream is 1 + k, the FIN follows the last byte. On the
wire they are the low 32 bits behind the initial number. Data in flight are segments, numbered as they were first sent.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

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

CONN_CONFIG: Final = (
    # of listeners for connections that they accept; see `hosts.ip.tcp.config`
    "ring mss_limit rcv_buffer sack timestamps ecn accurate_ecn rack pacing delack_ps min_rto_ps max_rto_ps "
    "initial_rto_ps max_retries initial_window check cc_table tick_ps time_wait_ps trace_room trace_apart_ps"
)

COUNTERS: Final = (
    "tx_segments tx_bytes retransmitted rtos lost spurious probes rx_segments rx_bytes rx_duplicates rx_early rx_ce "
    "rx_dropped ece_acks acks_sent corrupt dup_sacks established_ps first_byte_ps last_byte_ps acked_ps closed_ps"
)


def _ints(names: str) -> list[tuple[str, Any]]:
    return [(name, np.int64) for name in names.split()]


CONN: Final = np.dtype(
    [
        *_ints("state iss irs snd_una snd_nxt snd_end fin snd_edge last_window shift_out shift_in mss"),
        # receiver: what is expected next, the edge that was offered, bytes that came early and in how many ranges
        *_ints("rcv_nxt rcv_edge held ranges recent0 recent1 recent2 fin_at dup_left dup_right"),
        *_ints("ts_ok sack_ok ecn_ok scale_ok ts_recent ts_echo"),
        # what the options of the segment that just came in say
        *_ints("ts_there ts_value ts_reply blocks blocks_at peer_mss peer_shift peer_sack"),
        # what is to be sent beside data, and when at the latest
        *_ints("want_syn want_ack unacked delack_due quick"),
        # ECN: echo until CWR, or what the last packet was (RFC 8257); send CWR, and when it may be wanted again
        *_ints("echo want_cwr cwr_point"),
        # segments in flight; lists in order of transmission, and of those that are lost
        *_ints("segs seg_una seg_nxt flight_head flight_tail lost_head lost_tail n_lost n_sacked"),
        # what congestion control may read and write (`hosts.cc.own`)
        ("cwnd", np.float64),
        ("cwnd_initial", np.float64),
        ("ssthresh", np.float64),
        *_ints("pace_next cc_timer inflight next_txn epoch srtt cc_own"),
        # round trips and timeouts
        *_ints("rttvar rto backoff retries rto_due probe_due reorder_due wait_due min_rtt last_sent"),
        # tail loss probe: one is to be sent; the end of what it was sent for, and whether it was sent before (RFC 8985)
        *_ints("want_probe probe_end probe_again probe_txn"),
        # proportional rate reduction, in segments: what the last ACK delivered, RFC 9937's RecoverFS, prr_delivered and
        # prr_out, and up to where prr_out may rise
        *_ints("delivered recover_fs prr_delivered prr_out prr_limit"),
        *_ints("pace_wait"),
        # what was delivered last in order of transmission: when it was sent, its place and round trip (RFC 8985)
        *_ints("rack_sent rack_txn rack_rtt rack_end reordering recover"),
        # RFC 6675: the three highest segments that were SACKed, and from where on none is marked lost yet
        *_ints("high1 high2 high3 scanned seen_next"),
        # peers without SACK: duplicate ACKs
        *_ints("dupacks"),
        *_ints("listener stop_ps error"),
        *_ints(CONN_CONFIG),
        *_ints(COUNTERS),
        *_ints("trace trace_taken trace_next"),
    ]
)

SEGMENT: Final = np.dtype(
    [
        ("start", np.int64),
        ("end", np.int64),
        ("sent", np.int64),
        ("txn", np.int64),  # its place in the order of transmissions
        ("next", np.int32),  # neighbours in the list of its state, by place in the ring
        ("prev", np.int32),
        ("state", np.int32),
        ("count", np.int32),  # transmissions before the last one
    ]
)

RANGE: Final = np.dtype([("left", np.int64), ("right", np.int64)])

POINT: Final = np.dtype(
    [
        ("time_ps", np.int64),
        ("cwnd", np.float64),
        ("ssthresh", np.float64),
        ("inflight", np.int64),
        ("srtt_ps", np.int64),
        ("acked", np.int64),
    ]
)
"""a point of a connection's curve; `acked`: bytes"""
