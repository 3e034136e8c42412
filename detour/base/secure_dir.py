# SPDX-License-Identifier: Apache-2.0
"""Folders that belong to their user alone, and files in them that are believed only if their digest is right.

What lies in the cache is run (object files, an environment with programs), so nobody else may be able to
write there, whatever the umask was when it was made. A folder is checked through its descriptor, and files are opened
relative to that, so that it cannot be exchanged between the check and the use.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from detour.base.files import Replacement

_DIGEST = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class UnsafeFolder(OSError):
    """A folder that others may have written to; the text says which and why."""


def make_folders(path: Path) -> None:
    """`mkdir -p`, but every folder that it makes has mode 0700."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def _check(descriptor: int, path: str) -> None:
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        raise UnsafeFolder(f"{path} belongs to user {status.st_uid}, not to you ({os.geteuid()})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFolder(f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):04o}; chmod go-w)")


class Folder:
    """`top/part/part...`, made when something is written. From `top` on, all of it must belong to the user alone; what
    is above `top` is made where it is missing. `top` may be a link, what is below may not.

    All methods raise `OSError` if the folder cannot be used (`UnsafeFolder` if it must not).
    """

    def __init__(self, top: Path, *parts: str) -> None:
        self.top = top
        self.parts = parts
        self.path = top.joinpath(*parts)

    def open(self, make: bool) -> int:
        """A descriptor of the folder."""
        if make:
            make_folders(self.top)
        at = os.open(self.top, _FOLDER)
        try:
            path = str(self.top)
            _check(at, path)
            for part in self.parts:
                path = f"{path}/{part}"
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=at)
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = below
                _check(at, path)
        except BaseException:
            os.close(at)
            raise
        return at

    def ready(self) -> Path:
        """The folder's path, after it was made and checked."""
        os.close(self.open(make=True))
        return self.path

    def read(self, name: str) -> bytes | None:
        """A file's content; None if it is not there or damaged (then it is removed)."""
        try:
            at = self.open(make=False)
        except FileNotFoundError:
            return None
        try:
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=at)
            except FileNotFoundError:
                return None
            with os.fdopen(descriptor, "rb") as file:
                stored = file.read()
                with suppress(OSError):
                    os.utime(file.fileno())  # it was used
            if len(stored) > _DIGEST and hashlib.sha256(stored[_DIGEST:]).digest() == stored[:_DIGEST]:
                return stored[_DIGEST:]
            with suppress(OSError):
                os.unlink(name, dir_fd=at)
            return None
        finally:
            os.close(at)

    def write(self, name: str, data: bytes) -> None:
        """Put a file there, wholly or not at all; several processes may do so at once."""
        at = self.open(make=True)
        try:
            with Replacement(Path(name), 0o600, at) as file:
                file.write(hashlib.sha256(data).digest())
                file.write(data)
        finally:
            os.close(at)

    def prune(self, before: float) -> None:
        """Remove files that were last read or written before that time (seconds since 1970)."""
        at = self.open(make=True)
        try:
            for name in os.listdir(at):
                with suppress(OSError):  # somebody else removes it
                    if os.stat(name, dir_fd=at, follow_symlinks=False).st_mtime < before:
                        os.unlink(name, dir_fd=at)
        finally:
            os.close(at)
