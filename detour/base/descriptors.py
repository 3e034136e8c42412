# SPDX-License-Identifier: Apache-2.0
"""File descriptors: that there are enough before anything starts, and a few for the day when there are none left."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

from detour.base.errors import DetourError

PROCESS = 64
"""what a process with gRPC, event loops and the control socket takes (22 of them at rest), with room to spare"""

_ENOUGH = 1 << 16

EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""errors of `accept` that pass when somebody lets go of something"""


def require(needed: int, what: str) -> None:
    """Raise the soft limit of open files as far as it may be raised (and is of use), which must be `needed` at least.

    gRPC ends the process when it gets no descriptor, so nobody could say why later. Raises `DetourError`: it is lower;
    `what` says for what it does not suffice.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = max(needed, _ENOUGH) if hard == resource.RLIM_INFINITY else min(hard, max(needed, _ENOUGH))
    if soft != resource.RLIM_INFINITY and soft < raised:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft != resource.RLIM_INFINITY and soft < needed:
        raise DetourError(f"{what} needs {needed} open files, the limit is {soft}: raise it with ulimit -n")


class Reserve:
    """Descriptors that are held back, so that a server can answer somebody when all others are taken."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._fds: list[int] = []
        self.refill()

    def release(self) -> bool:
        """Let one go; False if there is none."""
        if not self._fds:
            return False
        os.close(self._fds.pop())
        return True

    def refill(self) -> None:
        """Hold back as many again as can be had."""
        with suppress(OSError):
            while len(self._fds) < self._count:
                self._fds.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        """Let all go."""
        while self.release():
            pass
