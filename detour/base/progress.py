# SPDX-License-Identifier: Apache-2.0
"""Progress reports of long work."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""is told what happens now"""


def silent(_: str) -> None:
    """Tell nobody."""


class Once:
    """Something that people are told at most once in a process, by whichever part of it is the first to know."""

    def __init__(self) -> None:
        self.progress: Progress = silent
        self.reported = False

    def say(self, text: str) -> None:
        """Tell, unless that has been done."""
        if not self.reported:
            self.reported = True
            self.progress(text)

    def hush(self) -> None:
        """Somebody tells it in other words."""
        self.reported = True


COMPILING = Once()
"""that native code is being compiled, which takes long the first time"""
