# SPDX-License-Identifier: Apache-2.0
"""The loop's memory: one NumPy record type per table. Fields are `int64` but those of `ENTITY`; times are picoseconds.

Python owns the arrays (`memory.Memory`) and writes their addresses into the one `GLOBALS` record; compiled code
gets that record and reaches everything else through `native.*_at(address, index)`. So a function of the loop
has one or two arguments however many tables there are, and an array may move between two slices.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from detour.base.arrays import CACHE_LINE as CACHE_LINE
from detour.base.times import MAX_TIME as MAX_TIME
from detour.engine import phv as fixed

HEADROOM: Final = 256
"""Free bytes in front of an arriving frame, for headers that switches on its way add."""

GROWTH_BYTES: Final = 512
"""Headers that a packet may gain beyond the longest frame, as in simple_switch."""

SPARE_BYTES: Final = 64
"""Both of these in a fabric whose hosts elide payload: memory that is not touched is what makes it fast."""

SCRATCH_BYTES: Final = 1 << 16
"""Room for the headers that one deparser writes, and for a digest."""

SYSTEM_BYTES: Final = 4096
"""Room for structures that system calls read and write; the offsets in it follow."""
AT_TIMESPEC: Final = 0
AT_TIMEOUT: Final = 16
AT_POLLFD: Final = 32
AT_COUNTER: Final = 48
AT_EPOLL_CHANGE: Final = 3072
AT_EPOLL_EVENTS: Final = 64
EPOLL_EVENTS: Final = 64

CLASS_PFC: Any = np.int64(255)
"""Class of a PFC frame on a channel; other frames have 0 to 63, the priority of the queue that they left."""

PFC_BYTES: Final = 64
"""Length of a PFC frame, the shortest of Ethernet, here without its FCS."""

ALPHA_ONE: Final = 1 << 16
"""Scale of a switch's `alpha`."""

PORTS_PER_SWITCH: Final = 512
"""v1model's port numbers have nine bits."""

UNLIMITED_PS: Final = 1_000
"""A link without a rate takes one frame a nanosecond, so that no loop of packets can make time stand still."""

# What the event of an entity means.
ON_CHANNEL: Final = 0  # the first frame of a channel arrives
ON_PORT: Final = 1  # a port may send its next frame
ON_NIC: Final = 2  # a host's uplink may send its next frame
ON_TIMER: Final = 3  # a host's deadline

# Where the frames of a channel go.
TO_NOWHERE: Final = 0
TO_PORT: Final = 1  # index: port
TO_HOST: Final = 2  # index: nic
TO_INPUT: Final = 3  # index: switch; resubmitted and recirculated packets
TO_IO: Final = 4  # index: io
TO_CPU: Final = 5  # index: port
TO_SINK: Final = 6  # index: port
TO_INGRESS: Final = 7  # each frame names its port (frames from Python and from sockets)

# Kinds of records that the loop leaves for Python. Typed, because Numba compiles a function once per plain constant
# that it is called with.
UP_PACKET_IN: Any = np.int64(1)
UP_DIGEST: Any = np.int64(2)
UP_SINK: Any = np.int64(3)
UP_RECEIVED: Any = np.int64(4)  # captures
UP_SENT: Any = np.int64(5)

# Why run_slice returned.
REACHED: Final = 0  # loop time is `until`
WOKEN: Final = 1  # Python asked for it
DRAIN: Final = 2  # there are records for Python
BUDGET: Final = 3  # enough events for one slice


def _table(*fields: str) -> np.dtype:
    """A record type of `int64` fields."""
    return np.dtype([(name, np.int64) for name in fields])


def _lines(*fields: str) -> np.dtype:
    """The same, filled up to whole lines of the cache: of a table that every packet touches, what it needs first."""
    size = -(-8 * len(fields) // CACHE_LINE) * CACHE_LINE
    offsets = [8 * number for number in range(len(fields))]
    return np.dtype({"names": list(fields), "formats": [np.int64] * len(fields), "offsets": offsets, "itemsize": size})


GLOBALS: Final = _table(
    # tables
    "slots", "phvs", "bytes", "heap", "entities", "channels", "ports", "queues", "switches", "port_map", "nics", "ios",
    "nodes",
    "scratch", "up", "taken", "system",
    # sizes
    "phv_stride", "byte_stride", "frame_bytes", "headroom", "stored", "capacity", "up_size", "taken_size", "ios_count",
    # packet pool: free slots are a list, slots from `fresh` on were never used
    "free", "fresh", "used", "used_peak", "pool_drops", "phv_free", "phv_fresh",
    # events
    "node_count", "lookahead_ps", "now", "events",
    "tie_seed",  # of the order of events of the same time, 0: the order that stored results were computed with
    # clock
    "tick_ps", "real_time", "epoch_ns", "slip_ps", "max_lag_ps", "lag_ps", "lag_peak_ps",
    # talk with Python
    "wake", "epoll", "wake_fd", "up_used", "up_drops", "taken_used", "taken_drops", "capturing", "inline_upcalls",
    # sockets
    "backlog", "polled_ns", "held",
    # links
    "overhead_bytes",
)  # fmt: skip

SLOT: Final = _table(
    # 64 bytes: one line of the processor's cache
    "next",  # in whatever list it is, -1 at the end
    "start",  # where the frame begins, counted from the pool's first byte
    "length",  # bytes stored
    "wire",  # bytes on the wire: more than `length` when payload is elided
    "time",  # when it arrives (on a channel), may leave at the earliest (in a queue), began to wait (for a socket; ns)
    "port",  # where it goes next (TO_INGRESS), which port it leaves by (in a queue), its class (on other channels)
    "origin",  # queue of the port and class by which it came into the switch (its account there), -1: none
    "phv",  # its PHV, -1: none
)

HEAP_ENTRY: Final = _table("time", "tie")
"""A pending event; `tie` orders those of the same time and holds the entity in its low `ENTITY_BITS` (`heap.tie`)."""

JITTER_SHIFT: Final = 8

ENTITY_BITS: Final = 24
ENTITY_MASK: Final = (1 << ENTITY_BITS) - 1

NODE: Final = _table("first", "pending")
"""A heap of its own: `pending` entries of the table `heap` from `first` on."""

# 16 bytes, four to a cache line: a sift writes `position` of every entity that it passes, in no order.
ENTITY: Final = np.dtype(
    [
        ("position", np.int32),  # in the heap of its node, -1: no event
        ("index", np.int32),
        ("node", np.int32),
        ("kind", np.int16),
        ("stamp", np.int16),  # changes whenever its event does
    ]
)
"""Who may have an event pending; each has at most one."""

CHANNEL_RECORD: Final = _lines(
    # a sequence of frames with rising times: a link in flight, or frames waiting to come in
    "entity", "head", "tail", "count", "kind", "index", "rate_bps", "delay_ps",
    "up", "faulty", "packets", "bytes", "busy_ps",
    "loss", "corrupt", "duplicate", "late", "random",  # probabilities scaled to 2**32
    "late_ps",  # by how much a late frame is behind at most
    "lost", "corrupted", "duplicated", "cut",
    "jitter",  # by how much a frame is late at most without being overtaken: ps a byte, times 2 ** JITTER_SHIFT
)  # fmt: skip

PORT: Final = _lines(
    "entity", "switch", "number", "channel", "queues", "priorities", "busy_until", "waiting",
    "used",  # bit p: the queue of priority p has had packets
    "filled",  # bit p: the queue of priority p has packets
    "paused",  # bit p: the other end does not want priority p now (PFC)
    "signal",  # the other end must hear about classes that this port has paused or resumed
    "mirror",  # address of a 32-bit cell that always holds `waiting`, 0: none
    "managed",  # 0: strict priority and no rates; else 1, and bit p + 1: the queue of priority p has part in the round
    "rx_packets", "rx_bytes",
    # so far what every packet needs, two lines of the cache
    "mirror_input",  # of one that holds the bytes that came in by it in lossless classes and wait in the switch
    "mirror_paused",  # of one that holds `paused`
    "egress_drops", "pauses_sent", "pauses_received", "paused_since", "paused_ps",
    "turn",  # whose turn it is in the round: twice its priority, and 1 if it has been given its quantum
)  # fmt: skip

QUEUE: Final = _lines(
    "head", "tail", "packets", "bytes", "limit_packets", "limit_bytes", "peak_packets", "peak_bytes",
    "interval_ps", "last_ps", "drops", "drop_bytes",
    # the other direction: what came in by this port in this class and waits somewhere in the switch
    "port", "lossless", "in_bytes", "in_headroom", "in_paused",
    # what only a managed port looks at (detour.engine.traffic_manager)
    "rate_pps", "rate_bps", "last_bytes", "quantum", "deficit",
)  # fmt: skip

SWITCH: Final = _lines(
    "device_id", "ready", "parse", "ingress", "egress", "deparse",
    "piped",  # whether its pipeline takes time (`pipe_ps`) or so many packets a second (`pipe_gap_ps`)
    "digest", "state", "phv_size",
    "drop_port", "void_port", "input_channel", "input_limit", "recirculate_ps", "groups", "sessions", "replicas",
    "wants_packet_in", "wants_digest",
    "prefetch", "prefetched",  # the native function, and the end of the window in which it was called last
    "numbers", "ports_prefetched",  # port numbers from 0 to below this, and the like for its ports
    # packet memory (detour.engine.buffers): `buffer_bytes` 0 means no limit but those of the queues
    "buffer_bytes", "buffer_used", "buffer_peak", "alpha", "shared_bytes", "shared_used", "lossless", "headroom",
    "reserve", "xoff_shift", "xon_offset",
    "preserve", "pipe_ps", "pipe_gap_ps", "pipe_free_ps", "pipe_pps",
    # counters
    "packets", "parser_errors", "faults", "ingress_drops", "egress_drops", "no_pipeline_drops", "no_port_drops",
    "priority_drops", "queue_drops", "pool_drops", "header_drops", "pipeline_drops", "input_drops",
    "unknown_groups", "unknown_sessions", "empty_groups",
    "multicast_copies", "clones", "resubmits", "recirculations", "digests", "digest_drops",
    "packet_ins", "packet_in_drops", "buffer_drops", "headroom_drops", "empty_drops",
)  # fmt: skip

SWITCH_COUNTERS: Final = tuple(SWITCH.names or ())[(SWITCH.names or ()).index("packets") :]

NIC: Final = _lines(
    "host", "channel", "entity", "timer", "busy_until", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes",
    "pool_waits", "paused", "pauses",
    "stack",  # address of a `hosts.stacks.STACK`
)  # fmt: skip

IO: Final = _table(
    "fd", "family", "port", "channel", "address", "address_length", "message", "head", "tail", "count",
    "rx_packets", "rx_drops", "rx_errors", "rx_failing", "tx_packets", "tx_drops", "tx_no_peer", "tx_retries",
    "longest",  # bytes of the longest frame that may come in, 0: whatever there is memory for
    "rx_oversized",
    "free_at",  # when a sender at the rate of the channel may send again
    "held",  # whether it is not being watched, because as much as may wait has been read
)  # fmt: skip

IO_UNIX: Final = 0
IO_PACKET: Final = 1
IO_TAP: Final = 2

MSGHDR_BYTES: Final = 256
"""Room for a socket's `struct msghdr`, at these offsets its `struct iovec` and its control buffer."""
AT_IOVEC: Final = 64
AT_CONTROL: Final = 96
CONTROL_BYTES: Final = 128

BACKLOG: Final = 1024
"""Frames that wait for a socket that does not take them now."""

BACKLOG_NS: Final = 200_000_000
"""How long they wait before they are dropped and counted."""

INBOX: Final = 4096
"""Frames of one socket that may wait in the loop; more stay in the kernel."""

CARD_RING: Final = 32
"""Longest frames' worth of bytes that are read before their link has time for them: what a network card would hold. So
it is the kernel's queue that grows, and who sends hears of it."""

UPCALL: Final = _table("size", "kind", "index", "detail", "time", "length", "wire")
"""Head of a record for Python; `length` bytes follow, padded to eight. `size` counts all of it."""


def _fixed_phv() -> np.dtype:
    """The fixed part of the PHV as a record (64-bit fields signed: Numba turns int64 + uint64 into a float)."""
    wide = {"INGRESS_GLOBAL_TIMESTAMP", "EGRESS_GLOBAL_TIMESTAMP", "PAYLOAD_PTR"}
    names = [
        "INGRESS_PORT", "EGRESS_SPEC", "EGRESS_PORT", "INSTANCE_TYPE", "PACKET_LENGTH", "ENQ_TIMESTAMP", "ENQ_QDEPTH",
        "DEQ_TIMEDELTA", "DEQ_QDEPTH", "MCAST_GRP", "EGRESS_RID", "CHECKSUM_ERROR", "PARSER_ERROR", "PRIORITY",
        "INGRESS_GLOBAL_TIMESTAMP", "EGRESS_GLOBAL_TIMESTAMP", "PAYLOAD_OFFSET", "TRUNCATE", "CLONE_SESSION",
        "CLONE_FIELDS", "RESUBMIT", "RECIRCULATE", "DIGEST_LIST", "EXITED", "PAYLOAD_PTR", "PAYLOAD_LEN", "ERROR",
        "LENGTH_REGISTER", "INGRESS_LENGTH",
    ]  # fmt: skip
    return np.dtype(
        {
            "names": [name.lower() for name in names],
            "formats": [np.int64 if name in wide else np.uint32 for name in names],
            "offsets": [getattr(fixed, name) for name in names],
            "itemsize": fixed.FIXED_SIZE,
        }
    )


FIXED_PHV: Final = _fixed_phv()
