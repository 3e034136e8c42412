# SPDX-License-Identifier: Apache-2.0
"""State of all hosts of a process: tables of records that Python and native code share.

A field is written `hs.qp[i]["snd_nxt"]` in Python, `qp_row(hs, i).snd_nxt` in native code (`rows.py`), where a
record is a reference. Numbers are `int64` unless memory counts, as in the tables with a row per packet in flight.
Packets are numbered with 64 bits inside; the PSN on the wire is the low 24 (`wire.py`). Indices that mean "none"
are `NIL`.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from detour.base.arrays import CACHE_LINE
from detour.base.errors import DetourError
from detour.base.jit import COMPILED
from detour.base.times import MAX_TIME as MAX_TIME
from detour.hosts.cc import CC_FIELDS
from detour.hosts.config import CONFIG, HostConfig
from detour.hosts.frames.addresses import to_words
from detour.topo.address import GATEWAY_MAC

NIL = -1
NO_CANDIDATE = 255
"""in a byte"""

# QP states and work completion statuses have the numbers of libibverbs.
QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_ERR = 0, 1, 2, 3, 6
WC_SUCCESS, WC_LOC_PROT_ERR, WC_WR_FLUSH_ERR = 0, 4, 5
WC_REM_INV_REQ_ERR, WC_REM_ACCESS_ERR, WC_REM_OP_ERR, WC_RETRY_EXC_ERR = 9, 10, 11, 12
WC_RDMA_WRITE, WC_RECV_RDMA_WITH_IMM = 1, 129
WC_WITH_IMM = 2
ACCESS_LOCAL_WRITE, ACCESS_REMOTE_WRITE = 1, 2
TR_LERP, TR_GBN = 0, 1
"""transports of a QP: selective repeat, go-back-N"""
MODE_FIXED, MODE_AUTO, MODE_REACT, MODE_BEND = 0, 1, 2, 3
MODE_SPRAY, MODE_OBLIVIOUS, MODE_REPS, MODE_SWAP, MODE_SCOUT, MODE_RECYCLE = 4, 5, 6, 7, 8, 9
"""who chooses paths (`hosts.paths`): nobody, probes (`paths`), what comes back (`reroute`, `bend`); from MODE_SPRAY on
every packet has a path of its own (`spray`, `spritz`)"""

FIRST_QPN = 0x100
"""number of QP 0 of the arrays on the wire, the first time; lower ones are special in InfiniBand"""

_I = np.int64
_F = np.float64


def _ints(names: str) -> list[tuple[str, Any]]:
    return [(name, _I) for name in names.split()]


HOST_COUNTERS = (
    "rx_frames rx_bytes tx_frames tx_bytes rx_malformed rx_not_mine rx_bad_checksum rx_bad_icrc "
    "rx_unknown_qp rx_wrong_state rx_out_of_window control_dropped ptm_answered rx_old_connection"
)
RING = np.dtype(_ints("head tail"))
"""numbers of the oldest entry of a ring and of the next one, neither yet brought to its length"""
HOST = np.dtype(
    [
        # IPv6 address, address as the last uSID of a list (0: none), MACs
        *_ints("addr_hi addr_lo usid_hi usid_lo mac gateway rng "),
        # round robin over QPs with data to send
        *_ints("active_head active_tail "),
        # ring of control messages
        ("ctl", RING),
        # heap of deadlines and the first one's key
        *_ints("heap_size heap_first "),
        # ring of PTMs
        ("ptm", RING),
        # mask of priorities that must not be sent; time of the last call, ps; 1: an open-loop source (`openloop.py`)
        *_ints("paused now open_loop "),
        # tasks (`agenda.py`): where its part of the agenda begins, entries there, when the first one is due (MAX_TIME:
        # never), tasks of its that are not over
        *_ints("agenda_at agenda_size agenda_when tasks_left "),
        *_ints(HOST_COUNTERS),
        *_ints("unused"),  # else a row has 256 bytes, a power of two (`_apart`)
    ]
)
"""one row a host"""

QP_COUNTERS = (
    # requester
    "st_bytes st_packets st_retransmitted st_lost st_spurious st_ecn_marked st_rtos st_tail_probes "
    "st_reroutes st_ptms st_ptrs st_delay_samples st_delay_sum st_delay_min st_delay_max st_cnps st_naks "
    # times (ps) of the first and the last completion; 0: none yet
    "st_first_done_ps st_last_done_ps "
    # responder (delivered: bytes in order, whereas rx_bytes are in place; delay: of data packets in queues, ticks, with
    # `HostConfig.monitor`); first what every packet changes, so that it shares cache lines
    "st_rx_packets st_rx_bytes st_rx_ecn_marked st_rx_delay_sum st_rx_delay_samples st_rx_delivered st_rx_duplicates "
    "st_rx_refused st_rx_not_ready st_rx_early_dropped st_rx_naks st_rx_cnps st_rx_held_peak st_rx_held_bytes_peak "
    # requester again: ACKs, NAKs, CNPs and PTRs that cannot be answers to what was sent (`answers`)
    "st_answers_dropped "
    # and paths left because they alone were silent
    "st_failovers"
)
QP_RECORD = np.dtype(
    _ints(
        # qpn: its number on the wire, 0 while the row is free; in_order: the receiver drops what comes early (go-back-N
        # without reordering); flow_label: of data packets
        "qpn host state pd send_cq recv_cq telemetry flow_label transport in_order "
        # connection: number, address and uSID address of the peer
        "peer_qpn peer_hi peer_lo "
        # requester: sequence numbers; work queue counters (index = counter mod depth)
        "snd_una snd_nxt snd_end sq_una sq_nxt sq_end nak_seq "
        # transmissions in order: in flight (first, first of this epoch, last), lost (first, last)
        "flight_head flight_tail epoch_head lost_head lost_tail inflight n_lost next_txn epoch "
        # round trip (rtt_peak: the longest recent one) and timeouts (left_rto: of the paths that were left); `probes`
        # of the tail since then; when the newest packet that has arrived was sent, and how late packets may be
        "srtt rttvar rtt_peak rtt_epoch left_rto last_progress last_sent retries epoch_rtos tail_probe probes "
        "newest_sent reorder_ps "
        # path: candidates, the current one, its queuing delay in ticks (-1: not known yet); the least delay of the
        # window that fills and of the one before it, packets in the former
        "mode n_cand cand delay low low_before low_count since_ptm rr_next ptm_seq "
        # probing round: 0 none, 1 before the first PTR, 2 until three times its round trip
        "probed round round_first round_start round_deadline round_open round_done "
        # NIC rerouting: bad answers in a row, losses seen, least delay (ticks), until when nothing is judged, last move
        "react_bad react_lost react_base react_hold react_moved "
        # leaving paths by their marks (`bend`): answers and marked ones of this round, congested rounds in a row, the
        # transmission that ends the round
        "bend_answers bend_marks bend_rounds bend_end "
        # responder
        # (rcv_top: the packet behind the newest one; rcv_nak: the gap was reported; rcv_held: bytes that came early;
        # cnp_next: time from which a CNP may go)
        "rcv_nxt rcv_top rcv_refused rcv_early rcv_msn rcv_length rcv_nak rcv_held cnp_next "
        # scheduling and deadlines
        "active active_next heap_pos heap_key "
    )
    + CC_FIELDS
    + _ints(QP_COUNTERS)
    + _ints(
        # end of what was sent before a remote access error; how often the row was used before (`qp_numbers`)
        "nak_end generation "
        # time without progress before the QP fails (0: the hosts' parameter), its begin if `retries` is not 0
        "retry_ps quiet_since "
        # losses (`evidence`): least delay of a marked packet of this path (ticks; -1: none was), round trips with
        # losses for which `reorder_ps` holds, the transmission that ends such a one
        "mark_wait reorder_left reorder_round "
        # a silent path (`silence`): since when it was when others were asked, the first PTM then, who answered best,
        # whether this path did
        "asked_since asked_first asked_best asked_lives "
        # spraying (`spray`, `multipath`): how many candidates are shortest paths (they come first), paths that answered
        # and have not been used again (a byte each, the oldest in the lowest) and how many, what waits on shortest
        # paths (ticks; -1: not known) as of when (ps), mean of detours, when to look for silent paths (ps), mean of
        # shortest paths, what part of answers came by them (65536: all)
        "n_short tokens n_tokens short_wait short_time detour_wait silence_due short_mean short_share "
        # parts of packets that links of shortest paths and of detours lose (`spray`), last tail-loss probe (ps) and the
        # candidate that the next one takes, from 1 on (0: any)
        "short_loss detour_loss probe_at probe_by "
        # Spritz: packets since a path was drawn whatever was known, marks of remembered paths
        "spritz_sent spritz_marked "
        # tasks: the peer's row and 1 if it sends messages of tasks, else 0
        "tasks_of "
        # congestion control that is plugged in: address of what the QP has of it (`cc.own`)
        "cc_own "
    )
)
"""one row a queue pair"""

PSN_SLOT = np.dtype(
    [
        ("sent", _I),  # time of the last transmission, ps
        ("first", _I),  # time of the first one if all were on the same path, else NIL
        ("txn", _I),  # its place in the QP's order of transmissions
        ("epoch", np.int32),  # path epoch in which it was sent
        ("next", np.int16),  # neighbours in the list of its state
        ("prev", np.int16),
        ("wqe", np.uint16),  # index in the send queue
        ("size", np.uint16),  # bytes of payload
        ("count", np.uint8),  # transmissions before the last one
        ("state", np.uint8),
        ("cand", np.uint8),  # path it was sent on
        ("before", np.uint8),  # and the one before that; NO_CANDIDATE: one of another list
    ],
    align=True,
)
"""one row a packet between snd_una and snd_nxt; index = sequence number mod window"""
SLOT_FREE, SLOT_FLIGHT, SLOT_LOST, SLOT_ACKED = 0, 1, 2, 3

ARRIVAL = np.dtype([("flags", np.uint8), ("length", np.uint16), ("imm", np.uint32)], align=True)
"""one row a packet that arrived out of order; index = sequence number mod window"""
ARRIVED, ARRIVED_LAST, ARRIVED_IMM = 1, 2, 4

WQE = np.dtype(_ints("wr_id first packets local remote rkey length flags imm posted"))
"""one row a posted work request; `posted`: when, ps"""
WQE_SIGNALED, WQE_IMM, WQE_TASK = 1, 2, 4
"""WQE_TASK: `wr_id` is the number of a task"""

CANDIDATE = np.dtype(
    _ints(
        "sport dst_hi dst_lo final_hi delay packets asked answered better "
        # spraying: packets in flight on it (first, last), when the newest of those that have arrived was sent and how
        # long its round trip was (0: none has)
        "head tail newest rtt "
        # failures of the path in a row, until when they count, what speaks for it since (`health`)
        "silent ask_next trust"
    )
)
"""one row a candidate path: UDP source port, uSID list as address (0: plain), last known delay (-1: none),
`better`: probes in a row that found it better than the current path"""

CQ_RECORD = np.dtype(_ints("used host head tail reserved"))
CQE = np.dtype(_ints("wr_id status opcode length imm qpn flags posted done"))
"""one row a completion; when its request was posted and completed, ps"""
MR_RECORD = np.dtype(_ints("used host pd base length access key registrations variation"))
"""one row a memory region; the last two are for its keys (`next_key`) and outlive it"""

CTL = np.dtype(_ints("kind qp psn count ce has_delay delay syndrome dst_hi dst_lo final_hi sport qpn cand hops"))
"""one row a control message that waits to be sent"""

FRAME = np.dtype(
    _ints(
        "src_hi src_lo dst_hi dst_lo ce sport has_delay delay qpn psn opcode solicited count "
        "va rkey dma_length imm payload length syndrome msn trigger base bitmap reflected cand end ack_request hops"
    )
)
"""what the parser found in the frame that just came in"""


SOURCE = np.dtype(
    _ints(
        # a packet a slot with this probability (scaled to 2**31), when the next one is generated
        "slot_ps probability next_ps frame_bytes "
        # destinations: `targets` hosts from `first` on, of `hosts` in all, without the one at place `own`
        "first targets own hosts "
        # what was sent and what came in; sums over packets: generation to delivery, transmission to delivery, switches
        "tx_packets tx_bytes rx_packets rx_bytes rx_latency_ps rx_network_ps rx_switches"
    )
)
"""one row a host: its open-loop source"""

TASK = np.dtype(
    _ints(
        # at which host, with a message of how many bytes (0: none); not before, and after how much computing by which
        # unit (NIL: one of its own)
        "host bytes start compute unit "
        # lanes of its two hosts: the first one that it may take, and how many
        "lane lanes "
        # what it still waits for; who waits for it: a range of the table of successors
        "open first last "
        # its state, its lane, the next one that waits for the lane
        "state on next "
        # ps, -1: not yet: nothing is waited for; begun; message handed over; over; acknowledged
        "ready began sent done acked"
    )
)
"""one row a task (`fabric.workloads`)"""
TASK_OPEN, TASK_READY, TASK_BOOKED, TASK_COMPUTING, TASK_QUEUED, TASK_SENT, TASK_OVER, TASK_FAILED = range(8)

SUCCESSOR = np.dtype([("task", np.int32), ("on", np.int32)])
"""one row a dependency: who waits, and for what"""
ON_BEGIN, ON_DONE, ON_ACKED = 0, 1, 2

REGION = np.dtype(
    _ints(
        "owner short_wait short_time detour_wait detour_time asked "
        # packets sent by shortest paths without news of them, when the last one was, connections that begun so, and the
        # last one's peer
        "open open_time begun peer"
    )
)
"""one row a host and group that it sends to (`paths.memory`): the group + 1 (0: none); what a packet waited on a
shortest path (ticks, -1: not known) and when (ps); the same of detours; when one was asked for that"""
REGIONS = 64
"""rows of a host; groups with the same number modulo this share one"""

LATE = np.dtype(_ints("packets"))
"""one row a host and class of lateness: data packets that came in; class 0: in order; k: 2^(k-1) to 2^k - 1 packets
behind the newest one that had arrived"""
LATE_CLASSES = 16

LANE = np.dtype(_ints("qp rkey head tail waiting turn"))
"""one row a connection that takes messages of tasks: its sender, the key of the receiver's memory, tasks that found its
send queue full (first, last, how many), and, in the first lane of two hosts, who is next"""

UNIT = np.dtype(_ints("busy_until"))
"""one row a unit of a host that computes one thing at a time"""

AGENDA = np.dtype(_ints("when task"))
"""one row a task that something is to happen to at a time; a heap a host"""

HEAP = np.dtype([("qp", np.int32)])
"""one row a place in a host's heap of deadlines"""

TABLES = {
    "cfg": CONFIG,
    "frame": FRAME,
    "host": HOST,
    "qp": QP_RECORD,
    "cq": CQ_RECORD,
    "mr": MR_RECORD,
    "slot": PSN_SLOT,
    "arrival": ARRIVAL,
    "wqe": WQE,
    "candidate": CANDIDATE,
    "cqe": CQE,
    "ctl": CTL,
    "ptm": CTL,
    "heap": HEAP,
    "source": SOURCE,
    "task": TASK,
    "successor": SUCCESSOR,
    "lane": LANE,
    "unit": UNIT,
    "agenda": AGENDA,
    "region": REGION,
    "late": LATE,
    "memory": np.dtype(np.uint8),
}
"""all tables with the types of their rows"""


_SCATTERED = ("wqe", "cqe", "ctl", "ptm")
"""rings: little of each one's memory is ever touched"""


def _apart(columns: int, itemsize: int) -> int:
    """Entries of a row of a table with a row a host or QP, with what is left free at its end.

    Rows of a power of two would begin in the same few sets of the processor's cache, and beginnings are used most.
    With entries of an even number of cache lines nothing can be done about it.
    """
    if itemsize % (2 * CACHE_LINE) == 0:
        return columns
    while columns * itemsize >= CACHE_LINE and columns * itemsize // CACHE_LINE % 2 == 0:
        columns += 1
    return columns


def _table(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A zeroed table."""
    dtype = TABLES[name]
    make = _scattered if name in _SCATTERED else np.zeros
    if len(shape) == 1:
        return make(shape, dtype)
    return make((shape[0], _apart(shape[1], dtype.itemsize)), dtype)[:, : shape[1]]


def _scattered(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """`np.zeros` without huge pages, which would be cleared as a whole for the few bytes at the beginning of a ring."""
    size = int(np.prod(shape)) * dtype.itemsize
    if size < mmap.PAGESIZE:
        return np.zeros(shape, dtype)
    memory = mmap.mmap(-1, size)
    with suppress(AttributeError, OSError):  # not on every system
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype).reshape(shape)


class Handle(NamedTuple):
    """What native code has of `Hosts`."""

    listing: int
    """address of a list of int64: the tables' addresses in order of `TABLES`, then their lengths of a row"""


INTERPRETED: dict[int, Hosts] = {}
"""by listing, where native code runs as Python"""


class Hosts(Handle):
    """All state: for Python an attribute per table, for Numba a named tuple of one address (`rows.py`).

    `memory` is the arena that memory regions are ranges of (empty if payload is elided)."""

    cfg: Any
    frame: Any
    host: Any
    qp: Any
    cq: Any
    mr: Any
    slot: Any
    arrival: Any
    wqe: Any
    candidate: Any
    cqe: Any
    ctl: Any
    ptm: Any
    heap: Any
    source: Any
    task: Any
    successor: Any
    lane: Any
    unit: Any
    agenda: Any
    region: Any
    late: Any
    memory: Any

    def __new__(cls, shapes: dict[str, tuple[int, ...]]) -> Hosts:
        """Zeroed tables of these shapes."""
        tables = {name: _table(name, shapes[name]) for name in TABLES}
        listing = np.array(
            [table.ctypes.data for table in tables.values()]
            + [table.strides[0] // table.itemsize for table in tables.values()],
            np.int64,
        )
        self = super().__new__(cls, listing.ctypes.data)
        self.__dict__.update(tables, _keep=listing)
        if not COMPILED:
            INTERPRETED[self.listing] = self
        return self

    def replace(self, name: str, table: np.ndarray) -> None:
        """Another table of the same type, contiguous, of one dimension; only while nothing runs."""
        assert table.dtype == TABLES[name]
        assert table.ndim == 1
        assert table.flags.c_contiguous
        self.__dict__[name] = table
        self.__dict__["_keep"][list(TABLES).index(name)] = table.ctypes.data


def set_host(
    hs: Hosts,
    host: int,
    address: str,
    *,
    usid: str | int | None = None,
    mac: int | None = None,
    gateway: int = GATEWAY_MAC,
) -> None:
    """Gives a host its addresses. `usid`: the one it has at the end of a uSID list; `mac`: 48 bits.
    `gateway`: where it sends all frames."""
    h = hs.host[host]
    h["addr_hi"], h["addr_lo"] = to_words(address)
    h["usid_hi"], h["usid_lo"] = to_words(usid) if usid else (0, 0)
    h["mac"] = 0x02_00_00_00_00_00 | host if mac is None else mac
    h["gateway"] = gateway


def qp_numbers(hs: Hosts, rows: Any) -> Any:
    """Numbers on the wire of rows of the table of QPs: the row in the low bits, its generation above. So a frame of an
    earlier connection names a QP that is none any more, at either end (docs/transports.md)."""
    return FIRST_QPN + rows + hs.qp["generation"][rows] * (hs.cfg[0]["qpn_mask"] + 1)


def generations(hs: Hosts) -> int:
    """How many numbers a row of the table of QPs has. 0xFFFFFF, the multicast QP, is none of them."""
    return ((1 << 24) - 2 * FIRST_QPN) // (int(hs.cfg[0]["qpn_mask"]) + 1)


def next_key(hs: Hosts, index: int, draw: int) -> int:
    """Key of the next registration in row `index` of the table of memory regions; `draw` is 0 to 255. 32 bits: the
    number of registrations, the row, a byte that is random at first. No key comes again before all others of the row
    have been used, at least 512."""
    r = hs.mr[index]
    if r["registrations"] == 0:
        r["variation"] = draw
    bits = int(hs.cfg[0]["mr_mask"]).bit_length()
    count, high = int(r["registrations"]), 24 - bits
    r["registrations"] += 1
    low = (int(r["variation"]) + (count >> high)) & 0xFF
    return (count & ((1 << high) - 1)) << (8 + bits) | index << 8 | low


def _check_sizes(n_hosts: int, max_candidates: int, elided: bool, sizes: dict[str, int]) -> None:
    """Raises `DetourError` for the first size that is out of bounds."""
    for name, value in (("n_hosts", n_hosts), ("n_qps", sizes["n_qps"]), ("n_mrs", sizes["n_mrs"])):
        if not 1 <= value <= 1 << 23:
            raise DetourError(f"{name} is {value}; it must be 1 to 2**23")
    for name, limit in (("window", 1 << 14), ("sq_depth", 1 << 16), ("cq_depth", 1 << 16), ("control_depth", 1 << 16)):
        value = sizes[name]
        if value < 1 or value & (value - 1) or value > limit:
            raise DetourError(f"{name} is {value}; it must be a power of two and at most {limit}")
    if not 1 <= max_candidates <= 255:
        raise DetourError(f"max_candidates is {max_candidates}; it must be 1 to 255")
    if not 0 <= sizes["arena_bytes"] <= (1 << 62 if elided else 1 << 40):
        raise DetourError(f"arena_bytes is {sizes['arena_bytes']}; it must be 0 to 2**40 (2**62 if payload is elided)")


def make_hosts(
    n_hosts: int,
    n_qps: int,
    arena_bytes: int = 1 << 24,
    *,
    config: HostConfig | None = None,
    seed: int = 0,
    n_cqs: int = 0,
    n_mrs: int = 0,
    window: int = 1024,
    sq_depth: int = 64,
    cq_depth: int = 4096,
    max_candidates: int = 64,
    control_depth: int = 1024,
    qps_per_host: int = 0,
) -> Hosts:
    """Arrays for `n_hosts` hosts with `n_qps` queue pairs in all and an arena of `arena_bytes`.

    `window`: packets a QP may have in flight (power of two, at most 16384). `n_cqs`, `n_mrs`, `qps_per_host`:
    0 means four a host, eight a host, and any number. Pages not used cost no memory, so be generous."""
    config = config or HostConfig()
    n_cqs, n_mrs = n_cqs or 4 * n_hosts, n_mrs or 8 * n_hosts
    sizes = {
        "arena_bytes": arena_bytes,
        "n_qps": n_qps,
        "n_mrs": n_mrs,
        "window": window,
        "sq_depth": sq_depth,
        "cq_depth": cq_depth,
        "control_depth": control_depth,
    }
    _check_sizes(n_hosts, max_candidates, config.elide_payload, sizes)
    shapes: dict[str, tuple[int, ...]] = {"cfg": (1,), "frame": (1,), "host": (n_hosts,), "qp": (n_qps,)}
    shapes |= {"cq": (n_cqs,), "mr": (n_mrs,), "slot": (n_qps, window), "arrival": (n_qps, window)}
    shapes |= {"wqe": (n_qps, sq_depth), "candidate": (n_qps, max_candidates), "cqe": (n_cqs, cq_depth)}
    shapes |= {"ctl": (n_hosts, control_depth), "ptm": (n_hosts, control_depth)}
    shapes |= {"heap": (n_hosts, min(n_qps, qps_per_host or n_qps)), "source": (n_hosts,)}
    shapes |= {"task": (1,), "successor": (1,), "lane": (1,), "unit": (1,), "agenda": (1,)}
    shapes |= {"region": (n_hosts, REGIONS), "late": (n_hosts, LATE_CLASSES)}
    shapes |= {"memory": (0 if config.elide_payload else arena_bytes,)}
    hs = Hosts(shapes)
    for name, value in sizes.items():
        hs.cfg[0][name] = value
    hs.cfg[0]["qpn_mask"] = (1 << (n_qps - 1).bit_length()) - 1
    hs.cfg[0]["mr_mask"] = (1 << (n_mrs - 1).bit_length()) - 1
    for field in fields(HostConfig):
        hs.cfg[0][field.name] = getattr(config, field.name)
    hs.host["active_head"] = NIL
    hs.host["active_tail"] = NIL
    hs.host["agenda_when"] = MAX_TIME
    hs.qp["heap_pos"] = NIL
    hs.host["rng"] = np.random.SeedSequence(seed).generate_state(n_hosts, np.uint64).view(np.int64) | 1
    return hs
