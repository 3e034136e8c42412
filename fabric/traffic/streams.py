# SPDX-License-Identifier: Apache-2.0
"""Where the bytes of messages come from and where they go: patterns that are checked, and files."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import numpy as np

from detour.base.errors import DetourError
from detour.base.files import NewFile, naming


class Source(Protocol):
    """What a flow sends."""

    def take(self, message: int, limit: int) -> bytes:
        """The bytes of message number `message`, at most `limit`; empty: there is no more."""
        ...

    def close(self) -> None:
        """No more is taken."""
        ...


class Sink(Protocol):
    """What becomes of what a flow receives."""

    def accept(self, message: int, data: bytes) -> bool:
        """Takes message number `message` out of the receiver's memory; whether it is what was sent."""
        ...

    def close(self) -> None:
        """There is no more."""
        ...


def pattern(seed: int, message: int, length: int) -> bytes:
    """Bytes that no other message has: those of a generator keyed by seed and message number."""
    key = np.array([seed, message], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).bytes(length)


class PatternSource:
    """`total` bytes of patterns (None: without end)."""

    def __init__(self, seed: int, total: int | None = None) -> None:
        self.seed = seed
        self._left = total

    def take(self, message: int, limit: int) -> bytes:
        length = limit if self._left is None else min(limit, self._left)
        if self._left is not None:
            self._left -= length
        return pattern(self.seed, message, length) if length else b""

    def add(self, length: int) -> None:
        """So many bytes more."""
        self._left = (self._left or 0) + length

    def close(self) -> None:
        """Nothing to do."""


class PatternSink:
    """Compares every message with its pattern."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def accept(self, message: int, data: bytes) -> bool:
        return data == pattern(self._seed, message, len(data))

    def close(self) -> None:
        """Nothing to do."""


class FileSource:
    """The bytes of a file."""

    def __init__(self, path: Path) -> None:
        """Raises DetourError: it cannot be read."""
        try:
            self._file = path.open("rb")
            self.length = path.stat().st_size
        except OSError as error:
            raise DetourError(f"file {path}: {error.strerror}") from None

    def take(self, message: int, limit: int) -> bytes:
        try:
            data = self._file.read(limit)
        except OSError as error:
            raise DetourError(f"file {self._file.name}: {error.strerror}") from None
        return data

    def close(self) -> None:
        self._file.close()


class FileSink:
    """Checks every message against the file that is sent, and stores it if a path is given: all of it, or nothing."""

    def __init__(self, original: Path, store: Path | None = None) -> None:
        """Raises DetourError: one of the files cannot be opened."""
        with ExitStack() as opened:
            try:
                self._original = opened.enter_context(original.open("rb"))
            except OSError as error:
                raise DetourError(f"file {original}: {error.strerror}") from None
            self._stored = None if store is None else NewFile(store)
            opened.pop_all()

    def accept(self, message: int, data: bytes) -> bool:
        if self._stored is not None:
            with naming(self._stored.path):
                self._stored.file.write(data)
        try:
            return data == self._original.read(len(data))
        except OSError as error:
            raise DetourError(f"a file cannot be compared: {error.strerror}") from None

    def close(self) -> None:
        """Keeps the stored file if as much has come as there was to send. May be called twice. Raises WriteError if the
        rest of it cannot be written."""
        if self._original.closed:
            return
        with self._original:
            complete = not self._original.read(1)
        if self._stored is not None:
            self._stored.keep() if complete else self._stored.discard()
