# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables of `Hosts`, as records: `qp_row(hs, i).snd_nxt`.

In Python these functions index the NumPy arrays. In native code a `Hosts` is one number, the address of a
list of the tables' addresses, and a row is a pointer: no reference counting, and no array is passed from function to
function (passing all of them made every call cost 150 ns and doubled the time to compile).
Rows exist as long as the `Hosts` object does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable
from numba.np import numpy_support

from detour.base.jit import as_record
from detour.hosts.state import TABLES


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


_INT64 = ir.IntType(64)


def _entry(builder: Any, hs: Any, index: int) -> Any:
    """Number `index` of the list that `hs` points to: addresses of the tables, then their row lengths."""
    listing = builder.inttoptr(builder.extract_value(hs, 0), _INT64.as_pointer())
    return builder.load(builder.gep(listing, [_INT64(index)]))


def _typer(result: Any, arguments: int) -> Callable[..., Any]:
    """What `type_callable` wants: a function that makes one whose parameters are the argument types."""
    if arguments == 1:
        return lambda context: lambda hs: result
    if arguments == 2:
        return lambda context: lambda hs, i: result
    return lambda context: lambda hs, i, k: result


def _native_row(pure: Any, table: str, arguments: int) -> None:
    """Lets compiled callers of `pure` compute the row's address."""
    number = list(TABLES).index(table)
    dtype = TABLES[table]
    record = numpy_support.from_dtype(dtype)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = _INT64(0)
        if arguments > 1:
            index = context.cast(builder, args[1], signature.args[1], types.int64)
        if arguments > 2:
            column = context.cast(builder, args[2], signature.args[2], types.int64)
            length = _entry(builder, args[0], len(TABLES) + number)
            index = builder.add(builder.mul(index, length), column)
        offset = builder.mul(index, _INT64(dtype.itemsize))
        address = builder.add(_entry(builder, args[0], number), offset)
        return builder.inttoptr(address, context.get_value_type(record))

    type_callable(pure)(_typer(record, arguments))
    lower_builtin(pure, types.BaseNamedTuple, *[types.Integer] * (arguments - 1))(lower)


for _pure, _table, _arguments in (
    (cfg_row, "cfg", 1),
    (frame_row, "frame", 1),
    (host_row, "host", 2),
    (qp_row, "qp", 2),
    (cq_row, "cq", 2),
    (mr_row, "mr", 2),
    (slot_row, "slot", 3),
    (arrival_row, "arrival", 3),
    (wqe_row, "wqe", 3),
    (candidate_row, "candidate", 3),
    (cqe_row, "cqe", 3),
    (ctl_row, "ctl", 3),
    (ptm_row, "ptm", 3),
    (heap_row, "heap", 3),
    (source_row, "source", 2),
    (task_row, "task", 2),
    (successor_row, "successor", 2),
    (lane_row, "lane", 2),
    (unit_row, "unit", 2),
    (agenda_row, "agenda", 2),
    (region_row, "region", 3),
    (late_row, "late", 3),
):
    _native_row(_pure, _table, _arguments)


def _pointers(context: Any, builder: Any, hs: Any, address: Any, array_type: Any, array: Any, at: Any) -> Any:
    base = _entry(builder, hs, list(TABLES).index("memory"))
    in_memory = builder.inttoptr(builder.add(base, address), ir.IntType(8).as_pointer())
    return in_memory, builder.gep(context.make_array(array_type)(context, builder, array).data, [at])


def _as_int64(context: Any, builder: Any, signature: Any, args: Any, places: tuple[int, ...]) -> list[Any]:
    return [context.cast(builder, args[p], signature.args[p], types.int64) for p in places]


def _lower_to_frame(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    at, address, size = _as_int64(context, builder, signature, args, (2, 3, 4))
    memory, frame = _pointers(context, builder, args[0], address, signature.args[1], args[1], at)
    cgutils.raw_memcpy(builder, frame, memory, size, 1)
    return context.get_dummy_value()


def _lower_to_memory(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    address, at, size = _as_int64(context, builder, signature, args, (1, 3, 4))
    memory, frame = _pointers(context, builder, args[0], address, signature.args[2], args[2], at)
    cgutils.raw_memcpy(builder, memory, frame, size, 1)
    return context.get_dummy_value()


type_callable(memory_to_frame)(lambda context: lambda hs, buf, at, address, size: types.void)
type_callable(frame_to_memory)(lambda context: lambda hs, address, buf, at, size: types.void)


def _lower_publish(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    builder.fence("release")
    return context.get_dummy_value()


type_callable(publish)(lambda context: lambda: types.void)
lower_builtin(publish)(_lower_publish)
_I = types.Integer
lower_builtin(memory_to_frame, types.BaseNamedTuple, types.Array, _I, _I, _I)(_lower_to_frame)
lower_builtin(frame_to_memory, types.BaseNamedTuple, _I, types.Array, _I, _I)(_lower_to_memory)
