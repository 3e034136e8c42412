# SPDX-License-Identifier: Apache-2.0
"""`inner`: for native functions that only native functions call.

Numba makes two wrappers for every function it compiles, one to call it from Python and one from C; they cost a
third of the compile time. Functions marked `inner` have none, and calling one from Python crashes the process
unless `NUMBA_DISABLE_JIT=1` is set. Constants passed as arguments are written `np.int64(...)` where Numba would
otherwise compile the callee once per constant.
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import njit


def inner(function: Any) -> Any:
    """Compiles `function` for native callers only."""
    return njit(cache=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
