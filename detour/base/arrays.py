# SPDX-License-Identifier: Apache-2.0
"""Types of arrays that planners and hosts hand each other, and the processor's cache line.

Types with a number at the end are those of arrays that native code is given (`parts`): of so many dimensions,
C-contiguous.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int32Array: TypeAlias = NDArray[np.int32]
Int64Array: TypeAlias = NDArray[np.int64]
UInt8Array: TypeAlias = NDArray[np.uint8]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IndexArray: TypeAlias = NDArray[np.intp]

Bools1 = Annotated[NDArray[np.bool_], 1]
Bools2 = Annotated[NDArray[np.bool_], 2]
Bools3 = Annotated[NDArray[np.bool_], 3]
Bools4 = Annotated[NDArray[np.bool_], 4]
Bools5 = Annotated[NDArray[np.bool_], 5]
UInt8s1 = Annotated[NDArray[np.uint8], 1]
UInt8s2 = Annotated[NDArray[np.uint8], 2]
UInt8s4 = Annotated[NDArray[np.uint8], 4]
Int16s1 = Annotated[NDArray[np.int16], 1]
Int16s2 = Annotated[NDArray[np.int16], 2]
Int16s3 = Annotated[NDArray[np.int16], 3]
Int32s1 = Annotated[NDArray[np.int32], 1]
Int32s2 = Annotated[NDArray[np.int32], 2]
Int32s3 = Annotated[NDArray[np.int32], 3]
Int32s4 = Annotated[NDArray[np.int32], 4]
Int32s5 = Annotated[NDArray[np.int32], 5]
Int64s1 = Annotated[NDArray[np.int64], 1]
Int64s2 = Annotated[NDArray[np.int64], 2]
Int64s3 = Annotated[NDArray[np.int64], 3]
Floats1 = Annotated[NDArray[np.float64], 1]
Floats2 = Annotated[NDArray[np.float64], 2]

CACHE_LINE = 64
"""Bytes. Tables that every packet touches have rows of whole lines."""


def zeros(shape: int | tuple[int, ...], dtype: Any = np.uint8) -> NDArray[Any]:
    """Like `np.zeros`, but beginning at a cache line, which large arrays of NumPy's do not. Memory of the system is not
    there until it is touched."""
    size = (shape if isinstance(shape, int) else prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE
    return raw[first : first + size].view(dtype).reshape(shape)
