# SPDX-License-Identifier: Apache-2.0
"""The limits of generating: seconds by the clock, and for each query to z3 a number of z3's own units, which are the
same on every machine."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any

from detour.base.override import Override
from detour.testgen.state import z3

_UNITS = 20_000_000
"""some seconds"""


class Effort:
    """The time that is left of some seconds, which begin now."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds, self._start = seconds, time.monotonic()
        self.share = Override(1.0)
        """of the time, after which what is done now ends"""

    @property
    def taken(self) -> float:
        """The seconds that have passed."""
        return time.monotonic() - self._start

    def is_over(self) -> bool:
        """Whether the time for what is done now has passed."""
        return self.taken >= self.share.value * self._seconds

    def check(self, solver: Any, *literals: Any, units: int = _UNITS) -> Any:
        """z3's answer for a solver's terms before the time has passed."""
        left = self.share.value * self._seconds - self.taken
        if left <= 0:
            return z3.unknown
        solver.set("rlimit", units)
        if left < math.inf:
            solver.set("timeout", math.ceil(1000 * left))
        with suppress(z3.Z3Exception):  # where it ends before a term is in a form that it can go on with
            return solver.check(*literals)
        return z3.unknown
