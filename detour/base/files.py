# SPDX-License-Identifier: Apache-2.0
"""Files that people name: what they hold, and results. A result gets its name when it is complete; what fails on the
way leaves what was there before."""

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


def read_bytes(path: Path) -> bytes:
    """Read a file. Raises `DetourError`: it cannot be read."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a zero byte in its name
        raise DetourError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def read_text(path: Path) -> str:
    r"""Read a text file, with line ends as `\n`. Raises `DetourError`: it cannot be read, or is not text."""
    try:
        return read_bytes(path).decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise DetourError(f"{path}: this is not UTF-8 text") from None


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the file system become one that names the file: `DetourError` where something else should have been
    asked for, otherwise `WriteError`."""
    try:
        yield
    except OSError as error:
        kind = DetourError if error.errno in _WRONG_PATH else WriteError
        raise kind(f"{path} cannot be written: {error.strerror or error}") from None


class Replacement:
    """A file under construction that takes a name when it is complete. End it by `keep` or `discard`; `with` keeps it
    if nothing is raised inside."""

    file: BinaryIO

    def __init__(self, target: Path, mode: int = 0o666, at: int | None = None) -> None:
        """`at`: the descriptor of a folder in which `target` is a name."""
        self._target, self._at = target, at
        self._spare: Path | None = target.with_name(f".detour-{os.urandom(8).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.file = os.fdopen(os.open(self._spare, flags, mode, dir_fd=at), "wb")

    def keep(self) -> None:
        """Put the complete file in its place; discard it if that fails."""
        try:
            self.file.close()
            if self._spare is not None:
                os.replace(self._spare, self._target, src_dir_fd=self._at, dst_dir_fd=self._at)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Throw the new content away. May be called twice."""
        with suppress(OSError):
            self.file.close()
        if self._spare is not None:
            with suppress(OSError):
                os.unlink(self._spare, dir_fd=self._at)

    def __enter__(self) -> BinaryIO:
        return self.file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.keep() if kind is None else self.discard()


class NewFile(Replacement):
    """One at a path that somebody has given. Raises `DetourError`: it cannot be made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with naming(path):
            # Devices and pipes have no earlier content, and may not be replaced.
            if os.fspath(path).startswith(("/dev/", "/proc/")) or (path.exists() and not path.is_file()):
                self._spare, self.file = None, path.open("wb")
                return
            target = Path(os.path.realpath(path))
            if target.exists() and not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            super().__init__(target)
            if target.exists():
                os.fchmod(self.file.fileno(), stat.S_IMODE(target.stat().st_mode))

    def keep(self) -> None:
        with naming(self.path):
            super().keep()


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file of bytes that is kept if nothing is raised inside. Raises `DetourError`: it cannot be written."""
    with NewFile(path) as file, naming(path):
        yield file


@contextmanager
def new_text(path: Path) -> Iterator[TextIO]:
    """The same for text in UTF-8, with line ends as they are written."""
    with new_file(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        yield text
        text.detach()


def write_file(path: Path, content: str | bytes) -> None:
    """Write a whole file. Raises `DetourError`: it cannot be written."""
    with new_file(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())
