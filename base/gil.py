# SPDX-License-Identifier: Apache-2.0
"""How long a thread keeps the interpreter, in a process that serves clients."""

from __future__ import annotations

import sys

_TURN_S = 0.0005


def take_short_turns() -> None:
    """Threads that compute let others have the interpreter ten times as often as by default.

    An event loop waits for a whole turn of each of them before it goes on, and gRPC accepts one call for each time
    that it goes round.
    """
    sys.setswitchinterval(min(_TURN_S, sys.getswitchinterval()))
