# SPDX-License-Identifier: Apache-2.0
"""`inner`: for functions that only this stack's native code calls; its six entries are kept in the cache with them.

None of them allocates, so none needs Numba's reference counts. Constants passed as arguments are typed
(`np.int64(...)`) where Numba would otherwise compile the callee once per constant.
"""

from __future__ import annotations

from functools import partial

from detour.base.jit import njit

inner = partial(njit, _nrt=False, cache=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
entry = partial(njit, _nrt=False)
