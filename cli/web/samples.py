# SPDX-License-Identifier: Apache-2.0
"""Samples on their way to those who look: kept for those who come later, handed out to those who are there."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

KEPT_SAMPLES = 600

SampleListener = Callable[[dict[str, Any]], None]


class SampleHub:
    """Methods may be called from several threads."""

    def __init__(self, kept: int | None = KEPT_SAMPLES, first: Iterable[dict[str, Any]] = ()) -> None:
        """`kept`: samples for those who come later; None: all. `first`: those that there are already."""
        self._shared = threading.Lock()
        self._samples: deque[dict[str, Any]] = deque(first, maxlen=kept)
        self._listeners: list[SampleListener] = []

    def listen(self, listener: SampleListener) -> list[dict[str, Any]]:
        """Calls `listener` with every sample from now on, in the thread of who hands it out; returns those before."""
        with self._shared:
            self._listeners.append(listener)
            return list(self._samples)

    def forget(self, listener: SampleListener) -> None:
        """Calls it no more."""
        with self._shared:
            self._listeners.remove(listener)

    def hand_out(self, sample: dict[str, Any]) -> None:
        """A new sample."""
        with self._shared:
            self._samples.append(sample)
        self.tell(sample)

    def tell(self, message: dict[str, Any]) -> None:
        """Something for those who are there, that is no sample."""
        with self._shared:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(message)

    def replace(self, samples: Iterable[dict[str, Any]]) -> None:
        """Those who come later see these instead."""
        with self._shared:
            self._samples = deque(samples, maxlen=self._samples.maxlen)
