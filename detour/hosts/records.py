# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables of `hosts.state.Hosts`, each declared once (`base.structs`).

Times are ps unless a comment says otherwise, delays ticks. Numbers are `Int64` unless memory counts, as in the tables
with a row per packet in flight. Indices that mean "none" are `NIL`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from detour.base.arrays import CACHE_LINE
from detour.base.structs import Float64, Int16, Int32, Int64, NativeRecord, UInt8, UInt16, UInt32
from detour.hosts.config import HOST_NUMBERS, HostConfig
from detour.hosts.scheduling import ScheduledHost


class Sizes(NativeRecord):
    """The table sizes that `make_hosts` chose."""

    arena_bytes: Int64
    n_qps: Int64
    n_mrs: Int64
    window: Int64
    sq_depth: Int64
    cq_depth: Int64
    control_depth: Int64
    qpn_mask: Int64
    mr_mask: Int64
    leased: Int64  # connections of tasks that have QPs only while they carry something (`leases`); 0: none


class _Options(NativeRecord):
    """`HostConfig` as native code has it; truth values are numbers."""

    dtype = np.dtype([(name, np.int64) for name in HOST_NUMBERS])


if TYPE_CHECKING:

    class Config(HostConfig, Sizes):
        """Parameters and sizes, one row."""
else:

    class Config(_Options):
        """Parameters and sizes, one row."""

        __annotations__ = Sizes.__annotations__


def _with_room(kind: type[NativeRecord], size: int) -> tuple[np.dtype[Any], int]:
    """The type of a row of whole cache lines with room for so many bytes behind its fields, and where that begins, at a
    line. The lines are an odd number, or the same part of every row would fall to the same few sets of a cache."""
    plain: Any = kind.dtype
    begin = -(-plain.itemsize // CACHE_LINE) * CACHE_LINE
    layout: Any = {
        "names": list(plain.names),
        "formats": [plain[name] for name in plain.names],
        "offsets": [plain.fields[name][1] for name in plain.names],
        "itemsize": -(-(begin + size) // CACHE_LINE) * CACHE_LINE | CACHE_LINE,
    }
    return np.dtype(layout), begin


class RingEnds(NativeRecord):
    """Numbers of the oldest entry of a ring and of the next one, neither yet brought to its length."""

    head: Int64
    tail: Int64


class RdmaHost(ScheduledHost, lines=True):
    """A host. Its first three lines are what packets touch."""

    addr_hi: Int64  # IPv6 address
    addr_lo: Int64
    gateway: Int64  # MAC to which it sends all frames
    ctl: RingEnds  # control messages
    ptm: RingEnds  # PTMs
    open_loop: Int64  # 1: an open-loop source (`openloop`)
    events_when: Int64  # when the first one of its events is due (MAX_TIME: never)
    rx_payload: Int64  # bytes that arrived for the first time: the sum of its QPs' st_rx_bytes
    rx_frames: Int64
    rx_bytes: Int64
    tx_frames: Int64
    tx_bytes: Int64
    rx_malformed: Int64
    rx_not_mine: Int64
    rx_bad_checksum: Int64
    rx_bad_icrc: Int64
    rx_unknown_qp: Int64
    rx_wrong_state: Int64
    rx_out_of_window: Int64
    control_dropped: Int64
    ptm_answered: Int64
    rx_old_connection: Int64
    usid_hi: Int64  # address as the last uSID of a list (0: none)
    usid_lo: Int64
    # Tasks (`event_queue`): where its part of the table of events begins, entries there
    events_at: Int64
    events_size: Int64
    tasks_left: Int64  # tasks of its less those that were over here: the sum of all hosts is what is not over


_HOST = RdmaHost.dtype.names or ()
HOST_COUNTERS = _HOST[_HOST.index("rx_frames") : _HOST.index("usid_hi")]


class Sender(NativeRecord):
    """A queue pair as congestion control (`hosts.cc`) sees it."""

    inflight: Int64  # packets
    next_txn: Int64  # place of the next transmission in the order of all
    epoch: Int64  # counts its paths
    srtt: Int64
    cwnd: Float64  # packets
    cwnd_initial: Float64
    ssthresh: Float64
    pace_next: Int64  # earliest time of the next packet
    cc_timer: Int64  # when on_timer wants to be called
    cc_row: Int64  # address of what it has of its algorithm (`plugins`)


class QueuePair(Sender):
    """A queue pair. Behind its fields there is room for those of its congestion control, path scheme and transport."""

    CC_BYTES: ClassVar[int] = 200
    PATH_BYTES: ClassVar[int] = 152
    TRANSPORT_BYTES: ClassVar[int] = 64
    CC_AT: ClassVar[int] = 0

    # -- requester, what packets and answers touch: sequence numbers, counters of the work queue (index = counter mod
    # depth)
    snd_una: Int64
    snd_nxt: Int64
    snd_end: Int64
    sq_una: Int64
    sq_nxt: Int64
    sq_end: Int64
    nak_seq: Int64  # of a remote access error, and the end of what was sent before it
    # transmissions in order: in flight (first, first of this epoch, last), lost
    flight_head: Int64
    flight_tail: Int64
    epoch_head: Int64
    n_lost: Int64
    # round trips and timeouts
    rttvar: Int64
    rtt_peak: Int64  # the longest recent one
    rtt_epoch: Int64
    last_progress: Int64
    last_sent: Int64
    retries: Int64
    epoch_rtos: Int64
    tail_probe: Int64
    newest_sent: Int64  # when the newest packet that has arrived was sent
    mark_wait: Int64  # least delay of a marked packet of this path (-1: none was)
    # paths
    path_row: Int64  # address of what it has of its path scheme (`plugins`), 0: nobody chooses
    sprays: Int64  # every packet has a path of its own
    path_timer: Int64  # when on_timer of the scheme wants to be called
    cand: Int64  # the current one
    delay: Int64  # its queuing delay (-1: not known yet)
    # scheduling and deadlines
    active: Int64
    active_next: Int64
    heap_pos: Int64
    heap_key: Int64
    telemetry: Int64
    flow_label: Int64  # of data packets
    cc_told: Int64  # congestion control wants to know of each packet what its answer says
    # counters
    st_packets: Int64
    st_spurious: Int64
    st_ecn_marked: Int64
    st_delay_samples: Int64
    st_delay_sum: Int64
    st_delay_min: Int64
    st_delay_max: Int64
    transport_row: Int64  # address of what it has of its transport (`plugins`)
    # rarely used, up to the end of the line: of losses and silence
    nak_end: Int64
    lost_head: Int64  # transmissions that are lost, in order (first, last)
    lost_tail: Int64
    probes: Int64  # of the tail since `last_progress`
    retry_ps: Int64  # time without progress before the QP fails (0: the hosts' parameter)

    # -- of both sides, a line
    qpn: Int64  # its number on the wire, 0 while the row is free
    host: Int64
    state: Int64
    rate_based: Int64  # congestion control limits its rate, and receivers send CNPs
    selective: Int64  # packets may come in any order, and ACKs say which have arrived
    peer_qpn: Int64  # number and address of the peer
    peer_hi: Int64
    peer_lo: Int64

    # -- responder, what packets touch: two lines
    pd: Int64
    rcv_nxt: Int64
    rcv_top: Int64  # the packet behind the newest one
    rcv_refused: Int64
    rcv_early: Int64
    rcv_msn: Int64
    rcv_length: Int64
    rcv_nak: Int64  # the gap was reported
    st_rx_packets: Int64
    st_rx_bytes: Int64  # in place
    st_rx_ecn_marked: Int64
    st_rx_delay_sum: Int64  # of data packets in queues, with `HostConfig.monitor`
    st_rx_delay_samples: Int64
    st_rx_delivered: Int64  # bytes in order
    answers: Int64  # ACKs, CNPs and PTMs of it that wait to be sent

    # -- rarely used, `generation` in the responder's last line
    generation: Int64  # how often the row was used before (`verbs.device.qp_numbers`)
    send_cq: Int64
    recv_cq: Int64
    in_order: Int64  # the receiver drops what comes early (not `selective`, without reordering)
    tasks_of: Int64  # 1 and the lane whose messages it receives; of a lease, too, whose messages it sends; 0: none

    # -- requester
    # round trips and timeouts
    left_rto: Int64  # of the paths that were left
    quiet_since: Int64  # its begin if `retries` is not 0
    # losses (`loss_classification`)
    reorder_ps: Int64  # how late packets may be
    reorder_left: Int64  # round trips with losses for which `reorder_ps` holds
    reorder_round: Int64  # the transmission that ends such a one
    # paths
    watches: Int64  # a path that alone is silent is left (`blackhole`)
    n_cand: Int64
    n_short: Int64  # how many of the candidates are shortest paths, if packets are sprayed (they come first)
    ptm_seq: Int64
    detours_known: Int64  # spraying: something is known of detours
    # a silent path (`blackhole`): since when it was when others were asked, the first PTM then, who answered best,
    # whether this path did
    asked_since: Int64
    asked_first: Int64
    asked_best: Int64
    asked_lives: Int64
    # spraying (`multipath`): when to look for silent paths, last tail-loss probe, and the candidate that the next one
    # takes, from 1 on (0: any)
    blackhole_due: Int64
    probe_at: Int64
    probe_by: Int64
    st_bytes: Int64
    st_retransmitted: Int64
    st_lost: Int64
    st_rtos: Int64
    st_tail_probes: Int64
    st_reroutes: Int64
    st_ptms: Int64
    st_ptrs: Int64
    st_cnps: Int64
    st_naks: Int64
    st_first_done_ps: Int64  # times of the first and the last completion; 0: none yet
    st_last_done_ps: Int64
    st_answers_dropped: Int64  # ACKs, NAKs, CNPs and PTRs that cannot be answers to what was sent (`ack_validation`)
    st_failovers: Int64  # paths left because they alone were silent

    # -- responder
    rcv_held: Int64  # bytes that came early
    cnp_next: Int64  # time from which a CNP may go
    st_rx_duplicates: Int64
    st_rx_refused: Int64
    st_rx_not_ready: Int64
    st_rx_early_dropped: Int64
    st_rx_naks: Int64
    st_rx_cnps: Int64
    st_rx_held_peak: Int64
    st_rx_held_bytes_peak: Int64


QueuePair.dtype, QueuePair.CC_AT = _with_room(
    QueuePair, QueuePair.CC_BYTES + QueuePair.PATH_BYTES + QueuePair.TRANSPORT_BYTES
)
QP_COUNTERS = tuple(name for name in QueuePair.dtype.names or () if name.startswith("st_"))


class PsnSlot(NativeRecord, align=True):
    """A packet between snd_una and snd_nxt; index = sequence number mod window."""

    sent: Int64  # time of the last transmission
    first: Int64  # time of the first one if all were on the same path, else NIL
    txn: Int64  # its place in the QP's order of transmissions
    epoch: Int32  # path epoch in which it was sent
    next: Int16  # neighbours in the list of its state
    prev: Int16
    wqe: UInt16  # index in the send queue
    size: UInt16  # bytes of payload
    count: UInt8  # transmissions before the last one
    state: UInt8  # SLOT_...
    cand: UInt8  # path it was sent on
    before: UInt8  # and the one before that; NO_CANDIDATE: one of another list


class Arrival(NativeRecord, align=True):
    """A packet that arrived out of order; index = sequence number mod window."""

    flags: UInt8  # ARRIVED...
    length: UInt16
    imm: UInt32


class WorkRequest(NativeRecord):
    """A posted work request."""

    wr_id: Int64  # number of a task with WQE_TASK
    first: Int64  # its first sequence number
    packets: Int64
    local: Int64
    remote: Int64
    rkey: Int64
    length: Int64
    flags: Int64  # WQE_...
    imm: Int64
    posted: Int64  # when


class Candidate(NativeRecord):
    """A candidate path."""

    sport: Int64  # UDP source port
    dst_hi: Int64  # uSID list as address (0: plain)
    dst_lo: Int64
    final_hi: Int64
    delay: Int64  # last known one (-1: none)
    packets: Int64
    # failures of the path in a row, until when they count (`ask_next`), what speaks for it since (`health`)
    silent: Int64
    trust: Int32
    weight: Int16  # of a set: share of packets; how often in a row it was retired as soon as it had been restored
    strikes: Int16
    # so far what every packet needs, a line
    asked: Int64
    answered: Int64
    better: Int32  # probes in a row that found it better than the current path; `paths.pathset` and `swap` say theirs
    flying: Int32  # spraying: packets in flight on it
    # spraying: packets in flight on it (first, last), when the newest of those that have arrived was sent and how long
    # its round trip was (0: none has)
    head: Int64
    tail: Int64
    newest: Int64
    rtt: Int64
    ask_next: Int64
    credit: Int64  # of a set: weights earned less those paid for packets


class CompletionQueue(NativeRecord):
    """A completion queue."""

    used: Int64
    host: Int64
    head: Int64
    tail: Int64
    reserved: Int64


class CompletionEntry(NativeRecord):
    """A completion; when its request was posted and completed."""

    wr_id: Int64
    status: Int64
    opcode: Int64
    length: Int64
    imm: Int64
    qpn: Int64
    flags: Int64
    posted: Int64
    done: Int64


class MemoryRegion(NativeRecord, lines=True):
    """A memory region."""

    used: Int64
    host: Int64
    pd: Int64
    base: Int64
    length: Int64
    access: Int64
    key: Int64
    registrations: Int64  # these two are for its keys (`verbs.device.next_key`) and outlive it
    variation: Int64


class ControlMessage(NativeRecord):
    """A control message that waits to be sent."""

    kind: Int64
    qp: Int64
    psn: Int64
    count: Int64
    ce: Int64
    has_delay: Int64
    delay: Int64
    syndrome: Int64
    dst_hi: Int64
    dst_lo: Int64
    final_hi: Int64
    sport: Int64
    qpn: Int64
    cand: Int64
    hops: Int64


class ReceivedFrame(NativeRecord):
    """The parser's result for the frame that just came in."""

    src_hi: Int64
    src_lo: Int64
    dst_hi: Int64
    dst_lo: Int64
    ce: Int64
    sport: Int64
    has_delay: Int64
    delay: Int64
    qpn: Int64
    psn: Int64
    opcode: Int64
    solicited: Int64
    count: Int64
    va: Int64
    rkey: Int64
    dma_length: Int64
    imm: Int64
    payload: Int64
    length: Int64
    syndrome: Int64
    msn: Int64
    trigger: Int64
    base: Int64
    bitmap: Int64
    reflected: Int64
    cand: Int64
    end: Int64
    ack_request: Int64
    hops: Int64
    trimmed: Int64  # a switch has cut the payload off
    proto: Int64  # behind the IPv6 header and its options


class OpenLoopSource(NativeRecord):
    """A host's open-loop source."""

    slot_ps: Int64
    probability: Int64  # of a packet in a slot, scaled to 2**31
    next_ps: Int64  # when the next one is generated
    frame_bytes: Int64
    # destinations: `targets` hosts from `first` on, of `hosts` in all, without the one at place `own`
    first: Int64
    targets: Int64
    own: Int64
    hosts: Int64
    uniform: Int64  # probability of any other host instead, scaled to 2**31
    # what was sent and what came in; sums over packets: generation to delivery, transmission to delivery, switches
    tx_packets: Int64
    tx_bytes: Int64
    rx_packets: Int64
    rx_bytes: Int64
    rx_latency_ps: Int64
    rx_network_ps: Int64
    rx_switches: Int64


class Task(NativeRecord):
    """A task (`fabric.workloads`)."""

    host: Int64
    bytes: Int64  # of its message (0: none)
    start: Int64  # not before
    compute: Int64  # after how much computing, by which unit (NIL: one of its own)
    unit: Int64
    due: Int64  # work of the unit at which it is that task's turn, or its computation is over
    slows: Int64  # `TASK_FIELDS`
    lane: Int64  # lanes of its two hosts: the first one that it may take, and how many
    lanes: Int64
    open: Int64  # what it still waits for
    first: Int64  # who waits for it: a range of the table of successors
    last: Int64
    state: Int64  # TASK_...
    on: Int64  # its lane, and the next one that waits for the lane
    next: Int64
    ready: Int64  # -1: not yet: nothing is waited for; begun; message handed over; over; acknowledged
    began: Int64
    sent: Int64
    done: Int64
    acked: Int64


class Successor(NativeRecord):
    """A dependency: who waits, and for what (ON_...)."""

    task: Int32
    on: Int32


class Region(NativeRecord):
    """A host's knowledge of a group that it sends to (`paths.crowd`)."""

    owner: Int64  # the group + 1 (0: none)
    open: Int64  # packets sent by shortest paths without news of them, when the last one was
    open_time: Int64
    begun: Int64  # connections that begun so, and the last one's peer
    peer: Int64


class Late(NativeRecord):
    """A class of lateness: data packets that came in. Class 0: in order; k: 2^(k-1) to 2^k - 1 packets behind the
    newest one that had arrived."""

    packets: Int64


class TaskLane(NativeRecord):
    """A connection that takes messages of tasks."""

    qp: Int32  # its sender and its receiver; NIL: it has none now (`leases`, which alone know the receiver)
    receiver: Int32
    rkey: UInt32  # key of the receiver's memory
    turn: Int32  # in the first lane of two hosts: who is next
    head: Int32  # tasks that found its send queue full: first, last, how many
    tail: Int32
    waiting: Int32
    # of leases: its hosts; of earlier QPs the next sequence numbers, messages, and sums of counters
    source: Int32
    destination: Int32
    path_set: Int32  # 1 and the number of its set of uSID lists; 0: it goes by a plain address
    node: Int32  # last uSID of its lists
    posted: Int32
    completed: Int32
    packets: UInt32
    retransmitted: UInt32
    rx_packets: UInt32
    rx_duplicates: UInt32
    rx_ecn_marked: UInt32
    rx_held_peak: UInt32
    rx_delay_samples: UInt32
    rx_delay_sum: Int64
    rx_bytes: Int64
    snd_nxt: Int64
    rcv_nxt: Int64
    ptm_seq: Int64


class LanePort(NativeRecord):
    """A candidate source port of a lane."""

    sport: UInt16


class LeasedSet(NativeRecord):
    """A set of uSID lists that lanes share: paths between the switches of their hosts."""

    n_cand: Int32
    n_short: Int32


class LeasedList(NativeRecord):
    """A candidate of a set: a uSID list without the last uSID, which comes `shift` bits up."""

    dst_hi: Int64
    dst_lo: Int64
    shift: Int32
    weight: Int32


class Lease(NativeRecord):
    """QPs that lanes share (`leases`). Rows 0 and 1 of the table of QPs are copied for a sender and a receiver."""

    taken: Int64  # rows of the table that were ever taken
    lists: Int64  # candidates of a set of uSID lists; 0: there are no sets
    window: Float64  # packets that a connection begins with


class RowPool(NativeRecord):
    """A thread's own free rows of the table of QPs: the first one, linked by `active_next`; 0: none."""

    free: Int64


class Unit(NativeRecord):
    """A unit of a host that computes one thing at a time. Its work is the time for which it has computed or could have
    done, at full rate; it takes more than that while communication kernels run."""

    busy_until: Int64  # work after all tasks that are booked
    work: Int64  # at a time
    at: Int64
    slowed: Int64  # share of its rate that is missing, in 65,536ths
    kernels: Int64  # that run
