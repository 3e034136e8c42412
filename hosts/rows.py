# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables of `Hosts`, as records: `qp_row(hs, i).snd_nxt`.

In Python these functions index the NumPy arrays. In native code a `Hosts` is one number, the address of a list of the
tables' addresses, then of their row lengths, and a row is a pointer: no reference counting, and no array is passed from
function to function (passing all of them made every call cost 150 ns and doubled the time to compile).
Rows exist as long as the `Hosts` object does.
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import COMPILED, as_record, inner, intrinsic
from detour.base.pointers import record_by_address
from detour.base.raw import generated, load64, move_bytes
from detour.hosts.state import TABLES

_native = inner(forceinline=True)


def _row(table: str, indices: int) -> Any:
    """A function of `hs` and so many indices."""
    if not COMPILED:
        return lambda hs, *at: as_record(getattr(hs, table)[at or (0,)])
    record_at = record_by_address(TABLES[table])
    first = 8 * list(TABLES).index(table)
    length = first + 8 * len(TABLES)

    def only(hs: Any) -> Any:
        return record_at(load64(hs.listing + first), 0)

    def one(hs: Any, i: int) -> Any:
        return record_at(load64(hs.listing + first), i)

    def one_of_a_row(hs: Any, i: int, k: int) -> Any:
        return record_at(load64(hs.listing + first), i * load64(hs.listing + length) + k)

    return _native((only, one, one_of_a_row)[indices])


cfg_row = _row("cfg", 0)
"""(hs) parameters and sizes"""
frame_row = _row("frame", 0)
"""(hs) what the parser found in the last frame"""
host_row = _row("host", 1)
"""(hs, host) a host"""
qp_row = _row("qp", 1)
"""(hs, i) a queue pair"""
cq_row = _row("cq", 1)
"""(hs, cq) a completion queue"""
mr_row = _row("mr", 1)
"""(hs, index) a memory region"""
slot_row = _row("slot", 2)
"""(hs, i, index) a packet of QP `i` that was sent"""
arrival_row = _row("arrival", 2)
"""(hs, i, index) a packet of QP `i` that arrived early"""
wqe_row = _row("wqe", 2)
"""(hs, i, index) a work request of QP `i`"""
candidate_row = _row("candidate", 2)
"""(hs, i, place) a candidate path of QP `i`"""
region_row = _row("region", 2)
"""(hs, host, place) what a host knows of a group"""
late_row = _row("late", 2)
"""(hs, host, place) a class of lateness of a host"""
cqe_row = _row("cqe", 2)
"""(hs, cq, index) an entry of a completion queue"""
ctl_row = _row("ctl", 2)
"""(hs, host, index) an entry of a host's control ring"""
ptm_row = _row("ptm", 2)
"""(hs, host, index) an entry of a host's ring of PTMs"""
heap_row = _row("heap", 2)
"""(hs, host, place) a place in a host's heap of deadlines"""
source_row = _row("source", 1)
"""(hs, host) a host's open-loop source"""
task_row = _row("task", 1)
"""(hs, task) a task"""
successor_row = _row("successor", 1)
"""(hs, index) a dependency"""
lane_row = _row("lane", 1)
"""(hs, lane) a connection for messages of tasks"""
unit_row = _row("unit", 1)
"""(hs, unit) a unit of a host that computes"""
agenda_row = _row("agenda", 1)
"""(hs, place) a place in the agenda of all hosts"""


@_native
def memory_to_frame(hs: Any, buf: Any, at: int, address: int, size: int) -> None:
    """Copies `size` bytes of the arena to `buf[at:]`."""
    move_bytes(buf.ctypes.data + at, _memory(hs) + address, size)


@_native
def frame_to_memory(hs: Any, address: int, buf: Any, at: int, size: int) -> None:
    """Copies `size` bytes of `buf[at:]` to the arena."""
    move_bytes(_memory(hs) + address, buf.ctypes.data + at, size)


_MEMORY = 8 * list(TABLES).index("memory")


@_native
def _memory(hs: Any) -> int:
    return load64(hs.listing + _MEMORY)


@intrinsic(lambda: None)
def publish() -> Any:
    """`publish()`: everything written before is visible to other threads before what is written from now on."""
    return generated(0, lambda ir, builder, args: builder.fence("release"), "void")
