# SPDX-License-Identifier: Apache-2.0
"""Records at addresses, for native code that is given numbers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from detour.base.jit import Fields, intrinsic


def record_by_address(dtype: np.dtype) -> Any:
    """A function `at(base, index)`: element `index` of the table of `dtype` that begins at address `base`."""
    size = dtype.itemsize

    @intrinsic(lambda base, index: _python_record(dtype, int(base) + int(index) * size))
    def at() -> Any:
        import numba
        from llvmlite import ir
        from numba import types
        from numba.extending import intrinsic

        record = numba.from_dtype(dtype)

        @intrinsic
        def at(typing_context: Any, base: Any, index: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                address = builder.add(args[0], builder.mul(args[1], ir.Constant(ir.IntType(64), size)))
                return builder.inttoptr(address, context.get_value_type(record))

            return record(types.int64, types.int64), codegen

        return at

    return at


@intrinsic(lambda record: record)
def record_address() -> Any:
    """`record_address(record)`: where a record is."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def address(typing_context: Any, record: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ptrtoint(args[0], ir.IntType(64))

        return types.int64(record), codegen

    return address


def _python_record(dtype: np.dtype, address: int) -> Any:
    raw: Any = (ctypes.c_char * dtype.itemsize).from_address(address)
    return Fields(np.frombuffer(raw, dtype=dtype)[0])
