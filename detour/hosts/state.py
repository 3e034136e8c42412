# SPDX-License-Identifier: Apache-2.0
"""State of all hosts of a process: tables of records that Python and native code share.

A field is written `hs.qp[i]["snd_nxt"]` in Python, `qp_row(hs, i).snd_nxt` in native code (`rows.py`), where a
record is a reference. What the rows are is in `records`. Packets are numbered with 64 bits inside; the PSN on the wire
is the low 24 (`wire`).
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from contextlib import suppress
from inspect import get_annotations
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import CACHE_LINE, zeros
from detour.base.errors import DetourError
from detour.base.heap import HeapEntry
from detour.base.pointers import record_by_address
from detour.base.structs import NativeRecord, row_type
from detour.base.times import MAX_TIME as MAX_TIME
from detour.hosts import records
from detour.hosts.addresses import to_words
from detour.hosts.config import HOST_NUMBERS, HostConfig
from detour.hosts.plugins import Bound
from detour.hosts.scheduling import NIL as NIL
from detour.topo.address import GATEWAY_MAC

NO_CANDIDATE = 255
"""in a byte"""

# QP states and work completion statuses have the numbers of libibverbs.
QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_ERR = 0, 1, 2, 3, 6
WC_SUCCESS, WC_LOC_PROT_ERR, WC_WR_FLUSH_ERR = 0, 4, 5
WC_REM_INV_REQ_ERR, WC_REM_ACCESS_ERR, WC_REM_OP_ERR, WC_RETRY_EXC_ERR = 9, 10, 11, 12
WC_RDMA_WRITE, WC_RECV_RDMA_WITH_IMM = 1, 129
WC_WITH_IMM = 2
ACCESS_LOCAL_WRITE, ACCESS_REMOTE_WRITE = 1, 2
FIRST_QPN = 0x100
"""number of QP 0 of the arrays on the wire, the first time; lower ones are special in InfiniBand"""

SLOT_FREE, SLOT_FLIGHT, SLOT_LOST, SLOT_ACKED = 0, 1, 2, 3
ARRIVED, ARRIVED_LAST, ARRIVED_IMM = 1, 2, 4
WQE_SIGNALED, WQE_IMM, WQE_TASK = 1, 2, 4
"""WQE_TASK: `wr_id` is the number of a task"""
TASK_OPEN, TASK_READY, TASK_BOOKED, TASK_COMPUTING, TASK_QUEUED, TASK_SENT, TASK_OVER, TASK_FAILED = range(8)
ON_BEGIN, ON_DONE, ON_ACKED = 0, 1, 2
FULL_RATE = 1 << 16
"""of a unit of a host, see `records.Unit`"""
REGIONS = 64
"""groups of which a host knows something; those with the same number modulo this share a row"""
LATE_CLASSES = 16

BY_ENTRY = ("wqe", "cqe", "ctl", "ptm", "heap")
"""rings, and heaps with room for all QPs at every host, of which few entries are ever used: the first ones of all are
side by side, so that they take few pages"""
_MANY_CANDIDATES = 64
"""From here on candidates are by entry, too: where connections have one path, only the first ones are touched."""


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
    dtype = DTYPES[name]
    if name in BY_ENTRY or (name == "candidate" and shape[1] > _MANY_CANDIDATES):
        return _scattered((shape[1], _apart(shape[0], dtype.itemsize)), dtype)[:, : shape[0]].T
    if len(shape) == 1:
        return zeros(shape, dtype)
    return zeros((shape[0], _apart(shape[1], dtype.itemsize)), dtype)[:, : shape[1]]


def _scattered(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """`zeros` without huge pages, which would be cleared as a whole for the few bytes at the beginning of a row."""
    size = int(np.prod(shape)) * dtype.itemsize
    if size < mmap.PAGESIZE:
        return zeros(shape, dtype)
    memory = mmap.mmap(-1, size)
    with suppress(AttributeError, OSError):  # not on every system
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype).reshape(shape)


HostTable = NDArray[Any]
"""of records: their fields have names, which NumPy does not tell type checkers"""


class HostTables:
    """All tables, with the kinds of their rows. `memory` is the arena that memory regions are ranges of (empty if
    payload is elided)."""

    cfg: Annotated[HostTable, records.Config]
    frame: Annotated[HostTable, records.ReceivedFrame]
    host: Annotated[HostTable, records.RdmaHost]
    qp: Annotated[HostTable, records.QueuePair]
    cq: Annotated[HostTable, records.CompletionQueue]
    mr: Annotated[HostTable, records.MemoryRegion]
    slot: Annotated[HostTable, records.PsnSlot]
    arrival: Annotated[HostTable, records.Arrival]
    wqe: Annotated[HostTable, records.WorkRequest]
    candidate: Annotated[HostTable, records.Candidate]
    cqe: Annotated[HostTable, records.CompletionEntry]
    ctl: Annotated[HostTable, records.ControlMessage]
    ptm: Annotated[HostTable, records.ControlMessage]
    heap: Annotated[HostTable, HeapEntry]
    source: Annotated[HostTable, records.OpenLoopSource]
    task: Annotated[HostTable, records.Task]
    successor: Annotated[HostTable, records.Successor]
    lane: Annotated[HostTable, records.TaskLane]
    lane_port: Annotated[HostTable, records.LanePort]
    leased_set: Annotated[HostTable, records.LeasedSet]
    leased_list: Annotated[HostTable, records.LeasedList]
    lease: Annotated[HostTable, records.Lease]
    pool: Annotated[HostTable, records.RowPool]
    unit: Annotated[HostTable, records.Unit]
    events: Annotated[HostTable, HeapEntry]
    region: Annotated[HostTable, records.Region]
    late: Annotated[HostTable, records.Late]
    memory: Annotated[NDArray[np.uint8], np.uint8]


DTYPES = {name: row_type(kind) for name, kind in get_annotations(HostTables, eval_str=True).items()}
"""of the tables' rows"""


class Handle(NativeRecord):
    """The native form of `Hosts`: the tables' addresses, then how many rows each QP, host or queue has of them, or each
    entry of those that are `BY_ENTRY`; of candidates, how many rows behind one the next QP's is, and the QP's next."""

    dtype = np.dtype([(name, np.int64) for name in (*DTYPES, *(f"{name}_length" for name in DTYPES), "candidate_step")])


hosts_at = record_by_address(Handle)


class Hosts(HostTables):
    """All state: for Python an attribute per table, for native code the record `native` at address `listing`."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Zeroed tables of these shapes."""
        self._natives = [np.zeros(1, Handle.dtype)]
        self._frames: list[np.ndarray] = []
        self.native = self._natives[0][0]
        self.listing = self._natives[0].ctypes.data
        self.plugins: list[Bound] = []
        self.plugin_values: Mapping[str, float] = {}
        for name in DTYPES:
            table = _table(name, shapes[name])
            self.native[f"{name}_length"] = max(table.strides) // table.itemsize
            self._enter(name, table)
        for field, stride in zip(("candidate_length", "candidate_step"), self.candidate.strides, strict=True):
            self.native[field] = stride // self.candidate.itemsize

    def _enter(self, name: str, table: np.ndarray) -> None:
        setattr(self, name, table)
        for native in self._natives:
            native[name] = table.ctypes.data

    def listing_of(self, worker: int) -> int:
        """`listing` for another thread: the same tables, but a frame and a pool of its own."""
        while worker >= len(self._natives):
            self._natives.append(self._natives[0].copy())
            for name in ("frame", "pool"):
                self._frames.append(np.zeros(1, DTYPES[name]))
                self._natives[-1][name] = self._frames[-1].ctypes.data
        return self._natives[worker].ctypes.data

    def replace(self, name: str, table: np.ndarray) -> None:
        """Another table of the same type, contiguous, of one dimension; only while nothing runs."""
        assert table.dtype == DTYPES[name]
        assert table.ndim == 1
        assert table.flags.c_contiguous
        self._enter(name, table)


def set_host(hs: Hosts, host: int, address: str, *, usid: str | int | None = None, mac: int | None = None) -> None:
    """Give a host its addresses. `usid`: the one it has at the end of a uSID list; `mac`: 48 bits."""
    h = hs.host[host]
    h["addr_hi"], h["addr_lo"] = to_words(address)
    h["usid_hi"], h["usid_lo"] = to_words(usid) if usid else (0, 0)
    h["mac"] = 0x02_00_00_00_00_00 | host if mac is None else mac
    h["gateway"] = GATEWAY_MAC  # where it sends all frames


def _check_sizes(n_hosts: int, max_candidates: int, elided: bool, sizes: dict[str, int]) -> None:
    """Raise `DetourError` for the first size that is out of bounds."""
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
    shapes |= dict.fromkeys(("task", "successor", "lane", "lane_port", "leased_set", "leased_list"), (1,))
    shapes |= dict.fromkeys(("lease", "pool", "unit", "events"), (1,))
    shapes |= {"region": (n_hosts, REGIONS), "late": (n_hosts, LATE_CLASSES)}
    shapes |= {"memory": (0 if config.elide_payload else arena_bytes,)}
    hs = Hosts(shapes)
    for name, value in sizes.items():
        hs.cfg[0][name] = value
    hs.cfg[0]["qpn_mask"] = (1 << (n_qps - 1).bit_length()) - 1
    hs.cfg[0]["mr_mask"] = (1 << (n_mrs - 1).bit_length()) - 1
    for name in HOST_NUMBERS:
        hs.cfg[0][name] = getattr(config, name)
    hs.plugin_values = config.plugins
    hs.host["active_head"] = NIL
    hs.host["active_tail"] = NIL
    hs.host["events_when"] = MAX_TIME
    hs.qp["heap_pos"] = NIL
    hs.host["rng"] = np.random.SeedSequence(seed).generate_state(n_hosts, np.uint64).view(np.int64) | 1
    return hs
