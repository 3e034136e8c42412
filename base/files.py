# SPDX-License-Identifier: Apache-2.0
"""Result files: a file gets its name when it is complete. What fails on the way leaves what was there before."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from detour.base.errors import DetourError, WriteError

_WRONG_PATH = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG,
    errno.ELOOP, errno.ENXIO,
)  # fmt: skip


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the file system become one that names the file: `DetourError` where something else should have been
    asked for, otherwise `WriteError`."""
    try:
        yield
    except OSError as error:
        kind = DetourError if error.errno in _WRONG_PATH else WriteError
        raise kind(f"{path} cannot be written: {error.strerror or error}") from None


class NewFile:
    """A file under construction. End it by `keep` or `discard`.

    Raises:
        DetourError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target, self._spare = path, None
        with naming(path):
            # Devices and pipes have no earlier content, and may not be replaced.
            if os.fspath(path).startswith(("/dev/", "/proc/")) or (path.exists() and not path.is_file()):
                self.file: BinaryIO = path.open("wb")
                return
            self._target = Path(os.path.realpath(path))
            if self._target.exists() and not os.access(self._target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self._spare = self._target.with_name(f".detour-{os.urandom(8).hex()}")
            self.file = self._spare.open("xb")
            if self._target.exists():
                os.fchmod(self.file.fileno(), stat.S_IMODE(self._target.stat().st_mode))

    def keep(self) -> None:
        """It is complete.

        Raises:
            WriteError: the rest of it cannot be written; it is discarded.
        """
        try:
            with naming(self.path):
                self.file.close()
                if self._spare is not None:
                    os.replace(self._spare, self._target)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """It is not wanted. May be called twice."""
        with suppress(OSError):
            self.file.close()
        if self._spare is not None:
            with suppress(OSError):
                self._spare.unlink()


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file of bytes that is kept if nothing is raised inside.

    Raises:
        DetourError: it cannot be written.
    """
    made = NewFile(path)
    try:
        with naming(path):
            yield made.file
    except BaseException:
        made.discard()
        raise
    made.keep()


@contextmanager
def new_text(path: Path) -> Iterator[TextIO]:
    """The same for text in UTF-8, with line ends as they are written."""
    with new_file(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        yield text
        text.detach()


def write_file(path: Path, content: str | bytes) -> None:
    """Writes a whole file.

    Raises:
        DetourError: it cannot be written.
    """
    with new_file(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())
