# SPDX-License-Identifier: Apache-2.0
"""The first use on a machine compiles the event loop, which takes a while; later ones load it from the cache.

Harnesses start many switches at once. One of them compiles, the others wait for it; a marker in the cache's folder,
named after a digest of the sources, says that it is done.
"""

from __future__ import annotations

import fcntl
import hashlib
from functools import cache
from pathlib import Path

from detour.base.cache import without
from detour.base.jit import NATIVE_CACHE
from detour.base.places import modules
from detour.base.progress import COMPILING, Progress, silent
from detour.engine.clock import Virtual
from detour.engine.loop import entry
from detour.engine.network import Network


@cache
def _digest() -> str:
    """Of the sources."""
    sources = modules("base", "hosts", "engine")
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sources)).hexdigest()


def _marker() -> Path | None:
    """The file that says that native code of these sources is cached; None: there is nowhere to cache it."""
    try:
        return NATIVE_CACHE.folder().ready() / f"loop-{_digest()[:16]}"
    except OSError as error:
        without(error)
        return None


def warm() -> None:
    """Makes use of every compiled function of the loop, so that all of them are in the cache."""
    with Network(Virtual(), packets=64) as network:
        network.add_switch(1)
        network.attach_sink((1, 1), lambda frame, time_ps: None)
        network.inject((1, 1), bytes(64))
        network.run(1_000_000)
        network.set_link((1, 1), False)
        loop = network._memory.globals  # pyright: ignore[reportPrivateUsage]
        entry.flush_switch(loop, 0)
        entry.schedule(loop, 0, 0)


def ensure(progress: Progress) -> None:
    """Compiles what is not in the cache: alone on this machine, telling so if it takes more than a second."""
    if progress is not silent:
        COMPILING.progress = progress
    marker = _marker()
    if marker is None or marker.exists():
        return
    try:
        with (marker.parent / "loop-compiling").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not marker.exists():
                warm()
                marker.touch()
    except OSError as error:  # a full disk: every process compiles for itself
        without(error)
