# SPDX-License-Identifier: Apache-2.0
"""Standard input, output and error of a command, whatever it was started with."""

from __future__ import annotations

import io
import os
import select
import sys
from contextlib import suppress
from typing import Any

from detour.base.errors import WriteError


class _Output(io.FileIO):
    """Standard output. What cannot be written is a `WriteError`; that a reader has gone is a `BrokenPipeError`."""

    def write(self, data: Any) -> int:
        try:
            while (count := super().write(data)) is None:  # it does not block and is full
                select.select([], [self], [])
            return count
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WriteError(f"standard output: {error.strerror}") from None


class _Errors(io.FileIO):
    """Standard error. Of what cannot be written there nobody can be told."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data) or 0
        return len(data)


def open_standard() -> None:
    """Make sure of all three. A closed one is opened, so that no other file gets its number: input has nothing to
    read, output refuses everything, error takes everything."""
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, flags), number)  # the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Errors(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    lines = raw.isatty() or raw.fileno() == 2
    encoding, errors = (before.encoding, before.errors) if before is not None else ("utf-8", "backslashreplace")
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=lines)


def silence_output() -> None:
    """Drop pending standard output, which Python would try to write, with a complaint, when it ends."""
    with suppress(io.UnsupportedOperation):  # it is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
