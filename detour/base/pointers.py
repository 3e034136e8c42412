# SPDX-License-Identifier: Apache-2.0
"""Records at addresses, for native code that is given numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

import numpy as np

from detour.base.jit import Fields, inner, intrinsic
from detour.base.memory import load64
from detour.base.structs import NativeRecord, offsets

_S = TypeVar("_S", bound=NativeRecord)
_T = TypeVar("_T", bound=NativeRecord)


@overload
def record_by_address(kind: type[_S]) -> Callable[[int, int], _S]: ...
@overload
def record_by_address(kind: np.dtype[Any]) -> Callable[[int, int], Any]: ...
def record_by_address(kind: type[NativeRecord] | np.dtype[Any]) -> Callable[[int, int], Any]:
    """A function `at(base, index)`: row `index` of the table of that kind that begins at address `base`."""
    dtype = kind if isinstance(kind, np.dtype) else kind.dtype
    size = dtype.itemsize

    def python(base: int, index: int) -> Any:
        raw: Any = (ctypes.c_char * size).from_address(int(base) + int(index) * size)
        return Fields(np.frombuffer(raw, dtype=dtype)[0])

    @intrinsic(python)
    def at() -> Any:
        from detour.base.native import numba_private

        return numba_private.record_at(dtype)

    return at


def _python_address(record: object) -> int:
    row = object.__getattribute__(record, "_record") if isinstance(record, Fields) else cast("Any", record)
    return row.__array_interface__["data"][0]


@intrinsic(_python_address)
def record_address() -> Any:
    """`record_address(record)`: where a record is."""
    from detour.base.native import numba_private

    return numba_private.record_address()


def row_of_table(tables: type[_T], kind: type[_S], name: str) -> Callable[[_T, int], _S]:
    """A function `row(g, index)`: a row of the table whose address is the field `name` of the record `g`."""
    row_at, field = record_by_address(kind), offsets(tables)[name]

    @inner(forceinline=True)
    def row(g: _T, index: int) -> _S:
        return row_at(load64(record_address(g) + field), index)

    return row
