# SPDX-License-Identifier: Apache-2.0
"""How long a target runs, and what it raises when it found something."""

from __future__ import annotations

import time
from dataclasses import dataclass


class Finding(Exception):
    """Something that must not be. The text says what."""


@dataclass(frozen=True)
class Budget:
    """Ends after `count` things or after `seconds`, whichever comes first; 0 = no limit.

    `first` is the number of the first round: a run can be taken up anywhere.
    """

    seconds: float = 0.0
    count: int = 0
    first: int = 0

    def spent(self, done: int, began: float) -> bool:
        """Whether it is over; `began` as of time.monotonic()."""
        return bool((self.count and done >= self.count) or (self.seconds and time.monotonic() - began >= self.seconds))
