# SPDX-License-Identifier: Apache-2.0
"""The errors that a user may see: a sentence that names what was wrong, where, and what would be right."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from detour.base.places import PACKAGE


class DetourError(Exception):
    """Wrong input or a missing part. The CLI prints its text on one line and exits with `exit_code`."""

    exit_code = 2


class WriteError(DetourError):
    """A result cannot be written: no room, no permission, a closed output."""

    exit_code = 1


@contextmanager
def told_of(place: str) -> Iterator[None]:
    """Put the place in front of the message of any `DetourError` raised inside: `FILE, line 3: ...`."""
    try:
        yield
    except DetourError as error:
        raise DetourError(f"{place}: {error}") from None


def error_of(text: str, exit_code: int) -> DetourError:
    """The error that another process has told."""
    return (WriteError if exit_code == WriteError.exit_code else DetourError)(text)


class InternalError(Exception):
    """A mistake of detour's own, whatever the input was: its text says where, its cause is what was raised there.

    Nobody's input is to blame, so it is no `DetourError`. The CLI prints its text on one line and exits with 70."""

    @classmethod
    def of(cls, doing: str, error: BaseException) -> InternalError:
        """For an exception that nobody expected while detour did something."""
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
        where = ""
        if ours:
            name = Path(ours[-1].filename).relative_to(PACKAGE.parent)
            where = f" in {name}:{ours[-1].lineno} ({ours[-1].name})"
        text = " ".join(str(error).split())[:300]
        return cls(f"internal error of detour while {doing}{where}: {type(error).__name__}: {text}")
