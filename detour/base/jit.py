# SPDX-License-Identifier: Apache-2.0
"""`njit` with the settings that all native code of detour shares.

Numba decides whether a cached function is stale by the time stamp of that function's own file; it does not
see that a function which was inlined from another file changed. So the cache lives in a folder named after
a digest of every source file that may be compiled: a change anywhere starts a fresh one.

`NUMBA_DISABLE_JIT=1` runs everything as plain Python, for debugging.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numba

_ROOMS = ("base", "topo", "hosts", "control", "engine")


def cache_dir() -> Path:
    """Folder for what detour may rebuild at any time (`$XDG_CACHE_HOME/detour`, else `~/.cache/detour`)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "detour"


def _source_digest() -> str:
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256(f"numba {numba.__version__}".encode())
    for room in _ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(cache_dir() / "numba" / _source_digest())  # type: ignore[attr-defined]


def njit(*args: Any, **options: Any) -> Any:
    """`numba.njit`, cached on disk, without the GIL, with integer semantics that do not raise on overflow."""
    settings = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"} | options
    return numba.njit(*args, **settings)
