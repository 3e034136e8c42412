# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables of `Hosts`, as records: `qp_row(hs, i).snd_nxt`.

Native code is given one number, the address of a record of the tables' addresses, and a row is a pointer: no reference
counting, and no array is passed from function to function (passing all of them made every call cost 150 ns and doubled
the time to compile). Rows exist as long as the `Hosts` object does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from detour.base.heap import HeapEntry
from detour.base.jit import inner, intrinsic
from detour.base.memory import generated, load64, move_bytes
from detour.base.pointers import record_address, row_of_table
from detour.base.structs import NativeRecord, offsets
from detour.hosts import records
from detour.hosts.state import BY_ENTRY, Handle

_Row = TypeVar("_Row", bound=NativeRecord)

_native = inner(forceinline=True)


def _row(kind: type[_Row], table: str) -> Callable[[Handle, int], _Row]:
    """A function of `hs` and an index."""
    return row_of_table(Handle, kind, table)


def _only(kind: type[_Row], table: str) -> Callable[[Handle], _Row]:
    """A function of `hs`, of a table with one row."""
    row = _row(kind, table)

    def only(hs: Handle) -> _Row:
        return row(hs, 0)

    return _native(only)


def _row_of(kind: type[_Row], table: str) -> Callable[[Handle, int, int], _Row]:
    """A function of `hs`, the index of a QP, host or queue, and one of its rows."""
    row, length = _row(kind, table), offsets(Handle)[f"{table}_length"]

    def row_of(hs: Handle, i: int, k: int) -> _Row:
        return row(hs, i * load64(record_address(hs) + length) + k)

    def entry_of(hs: Handle, i: int, k: int) -> _Row:
        return row(hs, k * load64(record_address(hs) + length) + i)

    return _native(entry_of if table in BY_ENTRY else row_of)


def _row_of_either(kind: type[_Row], table: str) -> Callable[[Handle, int, int], _Row]:
    """The same of a table that is laid out by QP or by entry (`state.BY_ENTRY`), depending on its size."""
    row, length, step = _row(kind, table), offsets(Handle)[f"{table}_length"], offsets(Handle)[f"{table}_step"]

    def row_of(hs: Handle, i: int, k: int) -> _Row:
        at = record_address(hs)
        return row(hs, i * load64(at + length) + k * load64(at + step))

    return _native(row_of)


cfg_row = _only(records.Config, "cfg")
frame_row = _only(records.ReceivedFrame, "frame")
host_row = _row(records.RdmaHost, "host")
qp_row = _row(records.QueuePair, "qp")
cq_row = _row(records.CompletionQueue, "cq")
mr_row = _row(records.MemoryRegion, "mr")
source_row = _row(records.OpenLoopSource, "source")
task_row = _row(records.Task, "task")
successor_row = _row(records.Successor, "successor")
lane_row = _row(records.TaskLane, "lane")
lane_port_row = _row(records.LanePort, "lane_port")
leased_set_row = _row(records.LeasedSet, "leased_set")
leased_list_row = _row(records.LeasedList, "leased_list")
lease_row = _only(records.Lease, "lease")
pool_row = _only(records.RowPool, "pool")
unit_row = _row(records.Unit, "unit")
event_row = _row(HeapEntry, "events")
# of a QP: packets that were sent, or came early, work requests, paths
slot_row = _row_of(records.PsnSlot, "slot")
arrival_row = _row_of(records.Arrival, "arrival")
wqe_row = _row_of(records.WorkRequest, "wqe")
candidate_row = _row_of_either(records.Candidate, "candidate")
# of a host: groups, classes of lateness, entries of its rings, places in its heap
region_row = _row_of(records.Region, "region")
late_row = _row_of(records.Late, "late")
ctl_row = _row_of(records.ControlMessage, "ctl")
ptm_row = _row_of(records.ControlMessage, "ptm")
heap_row = _row_of(HeapEntry, "heap")
# of a completion queue
cqe_row = _row_of(records.CompletionEntry, "cqe")


@_native
def memory_to_frame(hs: Handle, at: int, address: int, size: int) -> None:
    """Copies `size` bytes of the arena to `at`."""
    move_bytes(at, _memory(hs) + address, size)


@_native
def frame_to_memory(hs: Handle, address: int, at: int, size: int) -> None:
    """Copies `size` bytes at `at` to the arena."""
    move_bytes(_memory(hs) + address, at, size)


@_native
def move_in_memory(hs: Handle, to: int, address: int, size: int) -> None:
    """Copies `size` bytes of the arena to another place in it."""
    move_bytes(_memory(hs) + to, _memory(hs) + address, size)


_MEMORY = offsets(Handle)["memory"]


@_native
def _memory(hs: Handle) -> int:
    return load64(record_address(hs) + _MEMORY)


@intrinsic(lambda: None)
def publish() -> Any:
    """`publish()`: everything written before is visible to other threads before what is written from now on."""
    return generated(0, lambda ir, builder, args: builder.fence("release"), "void")
