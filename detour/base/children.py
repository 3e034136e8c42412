# SPDX-License-Identifier: Apache-2.0
"""Child processes that end with their parent, however that ends (Linux: prctl(2), PR_SET_PDEATHSIG).

The kernel tells a child of nothing that happened before the child asked. A parent that is killed right after it has
started the child would leave it behind, so who has asked looks whether the parent is still there.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_UNLESS_ORPHAN = '[ "$PPID" = "$0" ] && exec "$@"'


def ending_with_parent(command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` and is killed when the thread of this process that starts it ends. Nothing
    runs if that has happened already. Needs `setpriv` (util-linux)."""
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", _UNLESS_ORPHAN, str(os.getpid()), *command]


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the thread of `parent` (a process id) that started it ends; end at once if
    it has. On other systems than Linux only the latter."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
