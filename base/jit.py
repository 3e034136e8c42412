# SPDX-License-Identifier: Apache-2.0
"""`njit` with the settings that all native code of detour shares.

What is compiled is cached on disk. Each function is found by a fingerprint of all that it was compiled from
(`detour.base.native`), so an edit compiles what it reaches, and what is replaced at run time takes effect.

`NUMBA_DISABLE_JIT=1` runs everything as plain Python, for debugging.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numba
import numpy as np

from detour.base import compiling, linking  # noqa: F401  # notices what is compiled from now on
from detour.base.cache import Cache, cache_dir
from detour.base.native import register

linking.install()


def _top() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else cache_dir()


NATIVE_CACHE = Cache("numba", top=_top)
"""where native code is kept"""


class Fields:
    """A record of an array with its fields as attributes, as native code has it, for native functions that run as
    Python.

    NumPy's own, `np.record`, finds its methods before fields that are called like them (`size`, `flags`, `round`).
    """

    __slots__ = ("_record",)

    def __init__(self, record: np.void) -> None:
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name: str) -> Any:
        return as_record(self._record[name])

    def __setattr__(self, name: str, value: Any) -> None:
        self._record[name] = value


def as_record(value: Any) -> Any:
    """A record of an array as `Fields`; anything else as it is."""
    return Fields(value) if isinstance(value, np.void) else value


def _with_records(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*arguments: Any) -> Any:
        return function(*map(as_record, arguments))

    return called


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit`, cached on disk (`cache=False`: not), without the GIL, with integer semantics that do not raise on
    overflow."""
    if function is None:
        return partial(njit, **options)
    settings = {"nogil": True, "boundscheck": False, "error_model": "numpy"} | options
    stored = settings.pop("cache", True)
    made = numba.njit(function, **settings)
    if made is function:  # NUMBA_DISABLE_JIT
        return _with_records(function)
    return register(made, NATIVE_CACHE if stored else None)


entry = partial(njit, _nrt=False)
"""for functions that are called from Python or by address, and allocate nothing: without Numba's reference counts,
which cost more than all else that a packet does"""

inner = partial(njit, _nrt=False, cache=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""the same for functions that only native functions call, cached as part of whom they serve: without wrappers, which
are a third of the time to compile. Calling one from Python crashes the process unless `NUMBA_DISABLE_JIT=1` is set.
Constants as arguments are written `np.int64(...)` where Numba would otherwise compile the callee once per constant."""
