# SPDX-License-Identifier: Apache-2.0
"""`njit` with the settings that all native code of detour shares.

Numba decides whether a cached function is stale by the time stamp of that function's own file; it does not
see that a function which was inlined from another file changed. So the cache lives in a folder named after
a digest of every source file that may be inlined: a change in one of them starts a fresh one. Planners have a folder of
their own, so that work on topologies and control does not compile the event loop and the transports anew.

`NUMBA_DISABLE_JIT=1` runs everything as plain Python, for debugging.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba

# What native code of a room may inline: itself and the rooms that it imports from (docs/architecture.md).
_PLANNING = ("base", "topo", "control")
_RUNNING = ("base", "hosts", "engine")


def cache_dir() -> Path:
    """Folder for what detour may rebuild at any time (`$XDG_CACHE_HOME/detour`, else `~/.cache/detour`)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "detour"


@cache
def _source_digest(rooms: tuple[str, ...]) -> str:
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256(f"numba {numba.__version__}".encode())
    for room in rooms:
        for path in sorted((package / room).rglob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _folder(rooms: tuple[str, ...]) -> str:
    return os.environ.get("NUMBA_CACHE_DIR") or str(cache_dir() / "numba" / _source_digest(rooms))


numba.config.CACHE_DIR = _folder(_RUNNING)  # type: ignore[attr-defined]


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit`, cached on disk, without the GIL, with integer semantics that do not raise on overflow."""
    if function is None:
        return partial(njit, **options)
    settings = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"} | options
    running = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if function.__module__.startswith(("detour.topo.", "detour.control.")):
        numba.config.CACHE_DIR = _folder(_PLANNING)  # type: ignore[attr-defined]
    try:  # Numba looks at the folder when it decorates
        return numba.njit(function, **settings)
    finally:
        numba.config.CACHE_DIR = running  # type: ignore[attr-defined]
