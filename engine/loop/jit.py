# SPDX-License-Identifier: Apache-2.0
"""`njit` for the loop's functions.

None of them allocates, so none needs Numba's reference counts, which cost more than everything else that a
packet does here (each hop passes the hosts' arrays through several functions). `inner` functions are called by
compiled code only: without wrappers for Python, and cached as part of whom they serve, they compile in half the time.
"""

from __future__ import annotations

from functools import partial

from detour.base.jit import njit

entry = partial(njit, _nrt=False)
inner = partial(njit, _nrt=False, cache=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
