# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables of `Hosts`, as records: `qp_row(hs, i).snd_nxt`.

In Python these functions index the NumPy arrays. In native code a `Hosts` is one number, the address of a
list of the tables' addresses, and a row is a pointer: no reference counting, and no array is passed from function to
function (passing all of them made every call cost 150 ns and doubled the time to compile).
Rows exist as long as the `Hosts` object does.
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import WHEN_COMPILING, as_record


def cfg_row(hs: Any) -> Any:
    """Parameters and sizes."""
    return as_record(hs.cfg[0])


def frame_row(hs: Any) -> Any:
    """What the parser found in the last frame."""
    return as_record(hs.frame[0])


def host_row(hs: Any, host: int) -> Any:
    """A host."""
    return as_record(hs.host[host])


def qp_row(hs: Any, i: int) -> Any:
    """A queue pair."""
    return as_record(hs.qp[i])


def cq_row(hs: Any, cq: int) -> Any:
    """A completion queue."""
    return as_record(hs.cq[cq])


def mr_row(hs: Any, index: int) -> Any:
    """A memory region."""
    return as_record(hs.mr[index])


def slot_row(hs: Any, i: int, index: int) -> Any:
    """A packet of QP `i` that was sent."""
    return as_record(hs.slot[i, index])


def arrival_row(hs: Any, i: int, index: int) -> Any:
    """A packet of QP `i` that arrived early."""
    return as_record(hs.arrival[i, index])


def wqe_row(hs: Any, i: int, index: int) -> Any:
    """A work request of QP `i`."""
    return as_record(hs.wqe[i, index])


def candidate_row(hs: Any, i: int, place: int) -> Any:
    """A candidate path of QP `i`."""
    return as_record(hs.candidate[i, place])


def region_row(hs: Any, host: int, place: int) -> Any:
    """What a host knows of a group."""
    return as_record(hs.region[host, place])


def late_row(hs: Any, host: int, place: int) -> Any:
    """A class of lateness of a host."""
    return as_record(hs.late[host, place])


def cqe_row(hs: Any, cq: int, index: int) -> Any:
    """An entry of a completion queue."""
    return as_record(hs.cqe[cq, index])


def ctl_row(hs: Any, host: int, index: int) -> Any:
    """An entry of a host's control ring."""
    return as_record(hs.ctl[host, index])


def ptm_row(hs: Any, host: int, index: int) -> Any:
    """An entry of a host's ring of PTMs."""
    return as_record(hs.ptm[host, index])


def heap_row(hs: Any, host: int, place: int) -> Any:
    """A place in a host's heap of deadlines."""
    return as_record(hs.heap[host, place])


def source_row(hs: Any, host: int) -> Any:
    """A host's open-loop source."""
    return as_record(hs.source[host])


def task_row(hs: Any, task: int) -> Any:
    """A task."""
    return as_record(hs.task[task])


def successor_row(hs: Any, index: int) -> Any:
    """A dependency."""
    return as_record(hs.successor[index])


def lane_row(hs: Any, lane: int) -> Any:
    """A connection for messages of tasks."""
    return as_record(hs.lane[lane])


def unit_row(hs: Any, unit: int) -> Any:
    """A unit of a host that computes."""
    return as_record(hs.unit[unit])


def agenda_row(hs: Any, place: int) -> Any:
    """A place in the agenda of all hosts."""
    return as_record(hs.agenda[place])


def memory_to_frame(hs: Any, buf: Any, at: int, address: int, size: int) -> None:
    """Copies `size` bytes of the arena to `buf[at:]`."""
    buf[at : at + size] = hs.memory[address : address + size]


def frame_to_memory(hs: Any, address: int, buf: Any, at: int, size: int) -> None:
    """Copies `size` bytes of `buf[at:]` to the arena."""
    hs.memory[address : address + size] = buf[at : at + size]


def publish() -> None:
    """Everything written before is visible to other threads before what is written from now on."""


WHEN_COMPILING.append("detour.hosts.rows_native")
