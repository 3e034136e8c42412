# SPDX-License-Identifier: Apache-2.0
"""The cache folder, which detour may rebuild at any time: `$XDG_CACHE_HOME/detour`, else `~/.cache/detour`.

Nothing depends on it. Where it cannot be used (a full disk, a quota, no home folder, a folder that others can write to)
one line says so and everything goes on without it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from detour.base.secure_dir import Folder

_log = logging.getLogger(__name__)
_said: set[str] = set()
_DAY_S = 86_400


def cache_dir() -> Path:
    """The folder, whether it is there or not. Raises `OSError`: this user has no home."""
    base = os.environ.get("XDG_CACHE_HOME")
    if not base or not os.path.isabs(base):  # a relative one is to be ignored (XDG Base Directory Specification)
        try:
            base = str(Path.home() / ".cache")
        except RuntimeError as error:
            raise OSError(str(error)) from None
    return Path(base) / "detour"


def without(error: OSError, what: str = "the cache") -> None:
    """Say, once in a process, why something is done without the cache."""
    reason = (f"{error.filename}: " if error.filename else "") + error.strerror if error.strerror else str(error)
    if what not in _said:
        _said.add(what)
        _log.warning("detour: going on without %s: %s", what, reason)


class Cache:
    """Named contents below the cache folder, each verified when it is read."""

    def __init__(self, *parts: str, top: Callable[[], Path] = cache_dir) -> None:
        self._parts = parts
        self._top = top

    def folder(self) -> Folder:
        """Return where they are kept."""
        return Folder(self._top(), *self._parts)

    def get(self, name: str) -> bytes | None:
        """Return the stored content; None if it is missing, damaged or cannot be read."""
        try:
            return self.folder().read(name)
        except OSError as error:
            without(error)
            return None

    def put(self, name: str, data: bytes) -> None:
        """Store something if that is possible."""
        try:
            self.folder().write(name, data)
        except OSError as error:
            without(error)

    def prune(self, days: float = 30.0) -> None:
        """Forget what has not been used for so long."""
        try:
            self.folder().prune(time.time() - days * _DAY_S)
        except OSError as error:
            without(error)
