# SPDX-License-Identifier: Apache-2.0
"""Records that Python and native code share, declared once: a class whose annotated fields are a row of a table.

    class Node(NativeRecord):
        first: Int64
        pending: Int64

`Node.dtype` is NumPy's type of a row, for tables; `pointers.at_address(Node)` gives native code a row at an address.
Type checkers see `row.first` as an `int`, or an error where there is no such field. No instance of `Node` is ever made:
in native code a row is a pointer, in Python with `NUMBA_DISABLE_JIT=1` it is a `jit.Fields`.
"""

from __future__ import annotations

from inspect import get_annotations
from typing import Annotated, Any, ClassVar, get_origin

import numpy as np

from detour.base.arrays import CACHE_LINE

Int16 = Annotated[int, np.int16]
Int32 = Annotated[int, np.int32]
Int64 = Annotated[int, np.int64]
UInt8 = Annotated[int, np.uint8]
UInt16 = Annotated[int, np.uint16]
UInt32 = Annotated[int, np.uint32]
Float64 = Annotated[float, np.float64]


class NativeRecord:
    """A kind of row: its own fields behind those of the class that it extends, without gaps.

    `align=True`: with gaps as in C, for fields of unequal size. `lines=True`: filled up to whole lines of the
    processor's cache, for tables that every packet touches; fields that are needed together stand first.
    """

    dtype: ClassVar[np.dtype[Any]] = np.dtype([])

    def __init_subclass__(cls, align: bool = False, lines: bool = False) -> None:
        before: Any = cls.dtype  # of the class that it extends
        formats = {name: before[name] for name in before.names or ()}
        for name, kind in get_annotations(cls, eval_str=True).items():
            if get_origin(kind) is not ClassVar:
                formats[name] = row_type(kind)
        layout: Any = {"names": list(formats), "formats": list(formats.values())}
        made: Any = np.dtype(layout, align=align)
        if lines:
            layout["offsets"] = [made.fields[name][1] for name in made.names]
            layout["itemsize"] = -(-made.itemsize // CACHE_LINE) * CACHE_LINE
            made = np.dtype(layout)
        cls.dtype = made


def row_type(kind: Any) -> Any:
    """NumPy's type of what is annotated: a number, a row, or a table of either."""
    inside: Any = getattr(kind, "__metadata__", (kind,))[0]
    return getattr(inside, "dtype", inside) if issubclass(inside, NativeRecord) else np.dtype(inside)


def names(kind: type[NativeRecord]) -> tuple[str, ...]:
    """The fields of a row, in order."""
    return kind.dtype.names or ()


def offsets(kind: type[NativeRecord]) -> dict[str, int]:
    """Return where in a row each of its fields begins, in order."""
    fields: Any = kind.dtype.fields or {}
    return {name: fields[name][1] for name in names(kind)}
