# SPDX-License-Identifier: Apache-2.0
"""`inner`: native functions that only native functions call (a call from Python crashes, unless NUMBA_DISABLE_JIT=1).

Without the wrappers for Python and C they compile in two thirds of the time.
"""

from __future__ import annotations

from detour.base.jit import njit

inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
