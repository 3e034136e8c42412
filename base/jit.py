# SPDX-License-Identifier: Apache-2.0
"""`njit` with the settings that all native code of detour shares.

What is compiled is cached on disk, in a folder named after a digest of every source file that may be inlined: a change
in one of them starts a fresh one. Planners have a folder of their own, so that work on topologies and control does not
compile the event loop and the transports anew. Within a folder each function is found by a fingerprint of all that
it was compiled from (`detour.base.native`), so what is replaced at run time takes effect.

`NUMBA_DISABLE_JIT=1` runs everything as plain Python, for debugging.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import numba
import numpy as np

from detour.base import compiling  # noqa: F401  # notices what is compiled from now on
from detour.base.cache import Cache, cache_dir
from detour.base.native import register
from detour.base.places import modules

# What native code of a room may inline: itself and the rooms that it imports from (docs/architecture.md).
_PLANNING = ("base", "topo", "control")
_RUNNING = ("base", "hosts", "engine")


@cache
def _source_digest(rooms: tuple[str, ...]) -> str:
    digest = hashlib.sha256(f"numba {numba.__version__}".encode())
    for path in modules(*rooms):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _top() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else cache_dir()


@cache
def native_cache(planning: bool = False) -> Cache:
    """Where native code of this state of the sources is kept."""
    return Cache("numba", _source_digest(_PLANNING if planning else _RUNNING), top=_top)


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
    planning = function.__module__.startswith(("detour.topo.", "detour.control."))
    return register(made, native_cache(planning) if stored else None)
