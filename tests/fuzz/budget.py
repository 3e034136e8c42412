# SPDX-License-Identifier: Apache-2.0
"""How long a target runs, and what it raises when it found something."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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

    def rounds(self, done: Callable[[], int]) -> Iterator[int]:
        """The numbers of the rounds; `done`: how many things there were until now."""
        began, number = time.monotonic(), self.first
        while not (self.count and done() >= self.count) and not (
            self.seconds and time.monotonic() - began >= self.seconds
        ):
            yield number
            number += 1
