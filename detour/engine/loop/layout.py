# SPDX-License-Identifier: Apache-2.0
"""The loop's memory: one kind of record per table. Times are picoseconds.

Python owns the arrays (`memory.Memory`) and writes their addresses into the one record of globals; compiled code
gets that record and reaches everything else through `native.*_at(address, index)`. So a function of the loop
has one or two arguments however many tables there are, and an array may move between two slices.
"""

from __future__ import annotations

from typing import Final

from detour.base.arrays import CACHE_LINE as CACHE_LINE
from detour.base.jit import int64
from detour.base.structs import Int16, Int32, Int64, NativeRecord, names, offsets
from detour.base.times import MAX_TIME as MAX_TIME

HEADROOM: Final = 256
"""Free bytes in front of an arriving frame, for headers that switches on its way add."""

GROWTH_BYTES: Final = 512
"""Headers that a packet may gain beyond the longest frame, as in simple_switch."""

TAG_BYTES: Final = 8
SPARE_BYTES: Final = 128
"""Both of these in a fabric whose hosts elide payload: memory that is not touched is what makes it fast. In front there
is room for a VLAN tag; where a switch adds headers, what is behind them moves."""

SCRATCH_BYTES: Final = 1 << 16
"""Room for the headers that one deparser writes, and for a digest."""

SYSTEM_BYTES: Final = 4096
"""Room for structures that system calls read and write; the offsets in it follow."""
AT_TIMESPEC: Final = 0
AT_TIMEOUT: Final = 16
AT_COUNTER: Final = 48
AT_EPOLL_CHANGE: Final = 3072
AT_POLLFD: Final = 3136
AT_EPOLL_EVENTS: Final = 64
EPOLL_EVENTS: Final = 64

CLASS_PFC: Final = int64(255)
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
UP_PACKET_IN: Final = int64(1)
UP_DIGEST: Final = int64(2)
UP_SINK: Final = int64(3)
UP_RECEIVED: Final = int64(4)  # captures
UP_SENT: Final = int64(5)

# Why run_slice returned.
REACHED: Final = 0  # loop time is `until`
WOKEN: Final = 1  # Python asked for it
DRAIN: Final = 2  # there are records for Python
BUDGET: Final = 3  # enough events for one slice
POOL_EMPTY: Final = 4  # a worker has run out of packets

JITTER_SHIFT: Final = 8

ENTITY_BITS: Final = 24
ENTITY_MASK: Final = (1 << ENTITY_BITS) - 1

IO_UNIX: Final = 0
IO_PACKET: Final = 1
IO_TAP: Final = 2

MSGHDR_BYTES: Final = 256
"""Room for a socket's `struct msghdr`, at these offsets its `struct iovec` and its control buffer."""
AT_IOVEC: Final = 64
AT_CONTROL: Final = 96
CONTROL_BYTES: Final = 128

MOST_RINGS: Final = 64
"""Packet sockets with a ring: each takes memory of the kernel, and time when the loop goes to sleep."""

RING_SLOTS: Final = 4096
"""Places of a packet socket's ring. When they are full the kernel drops what comes."""

RING_SLOT_BYTES: Final = 2048
"""Of each, of which 66 are its header. Longer frames come by the socket."""

BACKLOG: Final = 1024
"""Frames that wait for a socket that does not take them now."""

BACKLOG_NS: Final = 200_000_000
"""How long they wait before they are dropped and counted."""

INBOX: Final = 4096
"""Frames of one socket that may wait in the loop; more stay in the kernel."""

CARD_RING: Final = 32
"""Longest frames' worth of bytes that are read before their link has time for them: what a network card would hold. So
it is the kernel's queue that grows, and who sends hears of it."""


# Several fields a line, as in C.
# fmt: off
class LoopGlobals(NativeRecord, lines=True):
    """The loop's state: addresses and sizes of tables, and single values."""

    # tables
    slots: Int64; phvs: Int64; heap: Int64; entities: Int64; channels: Int64
    ports: Int64; queues: Int64; switches: Int64; port_map: Int64; nics: Int64; ios: Int64
    nodes: Int64
    scratch: Int64; up: Int64; taken: Int64; system: Int64
    # sizes
    phv_stride: Int64; byte_stride: Int64; frame_bytes: Int64; headroom: Int64; stored: Int64
    slot_lines: Int64; slots_end: Int64; phvs_end: Int64; up_size: Int64; taken_size: Int64; ios_count: Int64
    # packet pool: a slot is followed by its frame, so its number counts lines of the cache and the next one's is by
    # `slot_lines` higher; free slots are a list, slots from `fresh` on were never used
    free: Int64; fresh: Int64; used: Int64; used_peak: Int64; pool_drops: Int64; phv_free: Int64; phv_fresh: Int64
    # events
    node_count: Int64; lookahead_ps: Int64; now: Int64; events: Int64
    tie_seed: Int64  # of the order of events of the same time, 0: the order that stored results were computed with
    # clock
    tick_ps: Int64; real_time: Int64; epoch_ns: Int64; slip_ps: Int64
    max_lag_ps: Int64; lag_ps: Int64; lag_peak_ps: Int64
    # talk with Python
    wake: Int64; epoll: Int64; wake_fd: Int64; up_used: Int64; up_drops: Int64
    taken_used: Int64; taken_drops: Int64; capturing: Int64; inline_upcalls: Int64
    # sockets
    watched: Int64; rings: Int64  # sockets in the epoll; those with a ring are not
    epoll_ready: Int64  # whether sleep ended because the epoll has something
    backlog: Int64; polled_ns: Int64; polled_frames: Int64; held: Int64
    gathering: Int64  # whether frames wait until all of a batch are there, and the first of the sockets that have some
    gathered: Int64
    # links
    overhead_bytes: Int64
    # windows (`windows`): 2 if nodes of two sides take turns, else 1; up to when those have run that are sent frames,
    # and when the first one arrives that was sent in this window; which nodes of each side are this worker's
    sides: Int64; known_until: Int64; first_arrival: Int64
    window_end: Int64  # what is prefetched in a window is needed before that; MAX_TIME: there are no windows
    begin_0: Int64; end_0: Int64; begin_1: Int64; end_1: Int64
    measured: Int64  # whether nodes' time is
    # workers (`mail`): which one this is, of how many; their tables; slots of its own
    worker: Int64; workers: Int64; progress: Int64; mailboxes: Int64; barrier: Int64
    slots_own: Int64; slots_share: Int64
    round: Int64; waited_ns: Int64  # barriers passed, and time at them


class SlotRecord(NativeRecord, lines=True):
    """A packet. The rest of its line of the processor's cache belongs to its frame, which is behind it: with a line
    more that is all that most switches need."""

    start: Int64  # where the frame begins, counted from the pool's first byte
    time: Int64  # when it arrives (on a channel), may leave at the earliest (in a queue), began to wait (a socket; ns)
    next: Int32  # in whatever list it is, -1 at the end
    length: Int32  # bytes stored
    wire: Int32  # bytes on the wire: more than `length` when payload is elided
    port: Int32  # where it goes next (TO_INGRESS), which port it leaves by (in a queue), its class (on other channels)
    origin: Int32  # queue of the port and class by which it came into the switch (its account there), -1: none
    phv: Int32  # its PHV, -1: none


SLOT_BYTES: Final = offsets(SlotRecord)["phv"] + 4
"""What a slot's fields take; its frame's memory begins behind them."""


class NodeRecord(NativeRecord, lines=True):
    """A heap of its own: `pending` entries of the table `heap` from `first` on, whose `who` is a `heap.tie`."""

    first: Int64; pending: Int64; side: Int64
    switch: Int64  # one of it, -1: there is none
    events: Int64; cost_ns: Int64  # executed so far in windows, and the time that took if it is measured


class ProgressRecord(NativeRecord, lines=True):
    """A worker's report at a barrier; there are two of each, since one may be written while the other is read."""

    next_time: Int64  # of the first event on the side whose turn it is, or of the first frame that arrives there
    other_time: Int64  # of the other side's
    events: Int64  # executed in this slice
    free: Int64  # slots that it could take
    stop: Int64  # 1: Python asks for the loop; 2: this worker has no more packets


class MailboxRecord(NativeRecord, lines=True):
    """Frames from one worker to another, in the order in which they were sent: `count` of `room` rows at `mails`."""

    mails: Int64; count: Int64; room: Int64


class MailRecord(NativeRecord):
    """A frame that enters a channel, to arrive at the time in its slot; `channel` -1: a list of free slots instead."""

    channel: Int64; slot: Int64


class EntityRecord(NativeRecord):
    """An entity that may have an event pending; each has at most one.

    16 bytes, four to a cache line: a sift writes `position` of every entity that it passes, in no order."""

    position: Int32  # in the heap of its node, -1: no event
    index: Int32; node: Int32
    kind: Int16
    stamp: Int16  # changes whenever its event does


class ChannelRecord(NativeRecord, lines=True):
    """A sequence of frames with rising times: a link in flight, or frames waiting to come in."""

    # the receiver's line of the cache; `jitter`: by how much a frame is late at most without being overtaken, ps a byte
    # times 2 ** JITTER_SHIFT (on links of hosts only, which belong to one worker)
    entity: Int64; head: Int64; tail: Int64; count: Int64; kind: Int64; index: Int64; jitter: Int64; random: Int64
    # the sender's
    rate_bps: Int64; delay_ps: Int64; up: Int64; faulty: Int64; packets: Int64; bytes: Int64; busy_ps: Int64
    mailbox: Int64  # number of the receiver's worker + 1 if that is another one than the sender's, else 0
    loss: Int64; corrupt: Int64; duplicate: Int64; late: Int64  # probabilities scaled to 2**32
    late_ps: Int64  # by how much a late frame is behind at most
    lost: Int64; corrupted: Int64; duplicated: Int64; cut: Int64


class PortRecord(NativeRecord, lines=True):
    """A port of a switch."""

    entity: Int64; switch: Int64; number: Int64; channel: Int64; queues: Int64
    priorities: Int64; busy_until: Int64; waiting: Int64
    used: Int64  # bit p: the queue of priority p has had packets
    filled: Int64  # bit p: the queue of priority p has packets
    paused: Int64  # bit p: the other end does not want priority p now (PFC)
    signal: Int64  # the other end must hear about classes that this port has paused or resumed
    mirror: Int64  # address of a 32-bit cell that always holds `waiting`, 0: none
    managed: Int64  # 0: strict priority, no rates; else 1, and bit p + 1: the queue of priority p has part in the round
    rx_packets: Int64; rx_bytes: Int64
    # so far what every packet needs, two lines of the cache
    mirror_input: Int64  # of one that holds the bytes that came in by it in lossless classes and wait in the switch
    mirror_paused: Int64  # of one that holds `paused`
    egress_drops: Int64; pauses_sent: Int64; pauses_received: Int64; paused_since: Int64; paused_ps: Int64
    turn: Int64  # whose turn it is in the round: twice its priority, and 1 if it has been given its quantum


class QueueRecord(NativeRecord, lines=True):
    """A queue of a port."""

    head: Int64; tail: Int64; packets: Int64; bytes: Int64; limit_packets: Int64
    limit_bytes: Int64; peak_packets: Int64; peak_bytes: Int64
    interval_ps: Int64; last_ps: Int64; drops: Int64; drop_bytes: Int64
    # the other direction: what came in by this port in this class and waits somewhere in the switch
    port: Int64; lossless: Int64; in_bytes: Int64; in_headroom: Int64; in_paused: Int64
    # what only a managed port looks at (detour.engine.traffic_manager)
    rate_pps: Int64; rate_bps: Int64; last_bytes: Int64; quantum: Int64; deficit: Int64


class SwitchRecord(NativeRecord, lines=True):
    """A switch."""

    device_id: Int64; ready: Int64; parse: Int64; ingress: Int64; egress: Int64; deparse: Int64
    piped: Int64  # whether its pipeline takes time (`pipe_ps`) or so many packets a second (`pipe_gap_ps`)
    egress_parse: Int64  # PSA's second parser; 0: the architecture has none
    ingress_deparse: Int64; digest: Int64; state: Int64; phv_size: Int64
    drop_port: Int64; void_port: Int64; input_channel: Int64; input_limit: Int64
    recirculate_ps: Int64; groups: Int64; sessions: Int64; replicas: Int64
    wants_packet_in: Int64; wants_digest: Int64
    prefetch: Int64; prefetched: Int64  # the native function, and the end of the window in which it was called last
    # port numbers are below this, but for the controller's; and the like for its ports
    numbers: Int64; ports_prefetched: Int64
    # packet memory (detour.engine.buffers): `buffer_bytes` 0 means no limit but those of the queues
    buffer_bytes: Int64; buffer_used: Int64; buffer_peak: Int64; alpha: Int64
    shared_bytes: Int64; shared_used: Int64; lossless: Int64; headroom: Int64
    reserve: Int64; xoff_shift: Int64; xon_offset: Int64
    preserve: Int64; pipe_ps: Int64; pipe_gap_ps: Int64; pipe_free_ps: Int64; pipe_pps: Int64
    # offsets in the PHV (`compiler.program.queue_places`), 0: none
    trim_to: Int64; trim_priority: Int64; trimmed: Int64; queue_rank: Int64
    # counters
    packets: Int64; parser_errors: Int64; faults: Int64; ingress_drops: Int64
    egress_drops: Int64; no_pipeline_drops: Int64; no_port_drops: Int64
    priority_drops: Int64; queue_drops: Int64; pool_drops: Int64
    header_drops: Int64; pipeline_drops: Int64; input_drops: Int64
    unknown_groups: Int64; unknown_sessions: Int64; empty_groups: Int64
    multicast_copies: Int64; clones: Int64; resubmits: Int64; recirculations: Int64; digests: Int64; digest_drops: Int64
    packet_ins: Int64; packet_in_drops: Int64; buffer_drops: Int64; headroom_drops: Int64; empty_drops: Int64
    trims: Int64


class NicRecord(NativeRecord, lines=True):
    """The network interface of a host."""

    host: Int32; channel: Int32; entity: Int32; timer: Int32
    stack: Int64  # address of a `hosts.stacks.StackRecord`
    busy_until: Int64
    rx_packets: Int64; rx_bytes: Int64; tx_packets: Int64; tx_bytes: Int64
    # so far what every packet needs, a line of the cache
    pool_waits: Int64; paused: Int64; pauses: Int64


class IoRecord(NativeRecord):
    """A socket or an interface of Linux."""

    fd: Int64; send_fd: Int64; family: Int64; port: Int64; channel: Int64; address: Int64
    address_length: Int64; message: Int64; head: Int64; tail: Int64; count: Int64
    ring: Int64; ring_at: Int64  # address of the ring that the kernel fills, 0: none; the place that is read next
    gathered: Int64  # the next socket that has gathered frames + 1, 0: none
    tag: Int64  # of the frame that was read last: type and VLAN tag that the kernel keeps beside it, 0: none
    rx_packets: Int64; rx_drops: Int64; rx_errors: Int64; rx_failing: Int64
    tx_packets: Int64; tx_drops: Int64; tx_no_peer: Int64; tx_retries: Int64
    longest: Int64  # bytes of the longest frame that may come in, 0: whatever there is memory for
    rx_oversized: Int64
    free_at: Int64  # when a sender at the rate of the channel may send again
    held: Int64  # whether it is not being watched, because as much as may wait has been read


class UpcallRecord(NativeRecord):
    """Head of a record for Python; `length` bytes follow, padded to eight. `size` counts all of it."""

    size: Int64; kind: Int64; index: Int64; detail: Int64; time: Int64; length: Int64; wire: Int64
# fmt: on

SWITCH_COUNTERS: Final = names(SwitchRecord)[names(SwitchRecord).index("packets") :]
