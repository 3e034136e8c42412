# SPDX-License-Identifier: Apache-2.0
"""What Numba makes of `hosts.rows`: in native code a row is a pointer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable
from numba.np import numpy_support

from detour.hosts import rows
from detour.hosts.state import TABLES

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


def _lower_publish(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    builder.fence("release")
    return context.get_dummy_value()


_ROWS = {
    "cfg": 1,
    "frame": 1,
    "host": 2,
    "qp": 2,
    "cq": 2,
    "mr": 2,
    "slot": 3,
    "arrival": 3,
    "wqe": 3,
    "candidate": 3,
    "cqe": 3,
    "ctl": 3,
    "ptm": 3,
    "heap": 3,
    "source": 2,
    "task": 2,
    "successor": 2,
    "lane": 2,
    "unit": 2,
    "agenda": 2,
    "region": 3,
    "late": 3,
}
"""tables with rows, with the number of arguments that name one"""


for table, arguments in _ROWS.items():
    _native_row(getattr(rows, f"{table}_row"), table, arguments)
type_callable(rows.memory_to_frame)(lambda context: lambda hs, buf, at, address, size: types.void)
type_callable(rows.frame_to_memory)(lambda context: lambda hs, address, buf, at, size: types.void)
type_callable(rows.publish)(lambda context: lambda: types.void)
lower_builtin(rows.publish)(_lower_publish)
i = types.Integer
lower_builtin(rows.memory_to_frame, types.BaseNamedTuple, types.Array, i, i, i)(_lower_to_frame)
lower_builtin(rows.frame_to_memory, types.BaseNamedTuple, i, types.Array, i, i)(_lower_to_memory)
