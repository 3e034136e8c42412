# SPDX-License-Identifier: Apache-2.0
"""Notices when native code is compiled for longer than people wait without asking what is going on.

Whatever is compiled on a first use is compiled somewhere deep in a planner or a loop, which knows neither that nor whom
to tell. Numba announces what it compiles; what it loads from the cache it does not.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from numba.core import event

from detour.base.progress import COMPILING, Once

SLOW_S = 1.0
TEXT = "compiling native code, once on this machine (`detour warm` does it for all commands)"


class Compiling(event.Listener):
    """Says so as soon as a second has been spent in all."""

    def __init__(self, notice: Once = COMPILING, slow_s: float = SLOW_S) -> None:
        self._notice, self._slow_s = notice, slow_s
        self._depth, self._spent, self._began = 0, 0.0, 0.0
        self._timer: threading.Timer | None = None

    def on_start(self, _: Any) -> None:
        self._depth += 1
        if self._depth > 1 or self._notice.said:
            return
        self._began = time.monotonic()
        self._timer = threading.Timer(max(self._slow_s - self._spent, 0.0), self._notice.say, (TEXT,))
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, _: Any) -> None:
        self._depth -= 1
        if not self._depth and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._began


event.register("numba:compile", Compiling())
