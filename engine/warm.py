# SPDX-License-Identifier: Apache-2.0
"""The first use on a machine compiles the event loop, which takes a while; later ones load it from the cache.

Harnesses start many switches at once. One of them compiles, the others wait for it; a marker in the cache's
folder, whose name is a digest of the sources, says that it is done.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

from detour.base.cache import without
from detour.base.jit import native_cache
from detour.base.progress import COMPILING, Progress, silent
from detour.engine.clock import Virtual
from detour.engine.loop import entry
from detour.engine.network import Network


def _folder() -> Path | None:
    """Where native code is cached; None: nowhere that can be written."""
    try:
        return native_cache().folder().ready()
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
    """Compiles what is not in the cache: alone on this machine, after telling so."""
    folder = _folder()
    if folder is None or (folder / "loop-compiled").exists():
        return
    told = False
    try:
        with (folder / "loop-compiling").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (folder / "loop-compiled").exists():
                return
            _tell(progress, "compiling native code, once on this machine; this takes about half a minute")
            told = True
            warm()
            (folder / "loop-compiled").touch()
    except OSError as error:  # a full disk: every process compiles for itself
        without(error)
        if not told:
            _tell(progress, "compiling native code; this takes about half a minute")


def _tell(progress: Progress, text: str) -> None:
    if progress is not silent:
        COMPILING.hush()
    progress(text)
