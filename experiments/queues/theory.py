# SPDX-License-Identifier: Apache-2.0
"""What queueing theory says of one server: mean waiting times, and shares.

L. Kleinrock, Queueing Systems, volume 1 (Wiley 1975): Pollaczek and Khinchine's formula, section 5.6; priorities
without preemption (A. Cobham 1954) in volume 2, section 3.3. Times are in whatever unit services have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TrafficClass:
    """Poisson arrivals `rate` in a unit of time, whose service takes `mean`, and its square `square`, on average."""

    rate: float
    mean: float
    square: float

    @property
    def load(self) -> float:
        """What part of the server it takes."""
        return self.rate * self.mean


def fixed(load: float, service: float) -> TrafficClass:
    """Services that all take the same: the D of M/D/1."""
    return TrafficClass(load / service, service, service**2)


def exponential(load: float, service: float) -> TrafficClass:
    """Services of exponential length: the second M of M/M/1."""
    return TrafficClass(load / service, service, 2 * service**2)


def waits(classes: Sequence[TrafficClass]) -> list[float]:
    """Mean wait of each class, the first of lowest priority, none of which interrupts a service.

    Of one class alone it is that of M/G/1: rate * square / (2 (1 - load))."""
    residual = sum(each.rate * each.square for each in classes) / 2
    found, above = [0.0] * len(classes), 0.0
    for number in range(len(classes) - 1, -1, -1):
        with_it = above + classes[number].load
        found[number] = residual / ((1 - above) * (1 - with_it))
        above = with_it
    return found
