# SPDX-License-Identifier: Apache-2.0
"""Sizes of flows as distributions: published CDF files, and synthetic ones.

A file has two columns, `bytes percent`, as those of HPCC's and conweave's traffic generators (WebSearch, AliStorage,
GoogleRPC, Hadoop): both rise, the last percentage is 100. Between two lines sizes are spread evenly; a first percentage
above 0 is the share of flows of just that size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError, told_of
from detour.base.files import read_text
from detour.base.quantities import number_of
from detour.fabric.workloads.flow_table import MOST_FLOW_BYTES

_PARETO_SHAPE, _PARETO_SPAN = 1.2, 1e4
"""bounded Pareto: flows differ by a factor of up to 10,000"""
_MICE, _MOUSE_SHARE = 0.9, 0.1
"""bimodal: 90 % of flows carry a tenth of the bytes"""
_STEPS = 2048


@dataclass(frozen=True)
class SizeDistribution:
    """Points of a cumulative distribution, piecewise linear: `bytes` (points,), `fraction` (points,) up to 1."""

    name: str
    bytes: NDArray[np.float64]
    fraction: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Bytes of a flow on average."""
        middle = (self.bytes[1:] + self.bytes[:-1]) / 2
        return float(self.fraction[0] * self.bytes[0] + (middle * np.diff(self.fraction)).sum())

    def draw(self, count: int, random: np.random.Generator) -> Int64Array:
        """(count,) sizes of flows, 1 byte at least."""
        drawn = np.interp(random.random(count), self.fraction, self.bytes)
        return np.maximum(1, np.round(drawn)).astype(np.int64)


def read_sizes(file: Path) -> SizeDistribution:
    """The distribution in a file. Raises DetourError if it cannot be read, or a line is malformed: file, line and
    rule."""
    points: list[tuple[float, float]] = []
    last = 0
    for number, line in enumerate(read_text(file).splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        with told_of(f"{file}, line {number}"):
            points.append(_point(words, points))
        last = number
    if len(points) < 2:
        raise DetourError(
            f"{file}: {len(points)} points of a distribution; at least 2 lines `bytes percent` are needed"
        )
    if points[-1][1] != 100:
        hint = "; it seems to count from 0 to 1" if points[-1][1] == 1 else ""
        raise DetourError(f"{file}, line {last}: the last percentage is {points[-1][1]:g}; it must be 100{hint}")
    sizes, percent = np.array(points).T
    return SizeDistribution(file.name, sizes, percent / 100)


def _point(words: list[str], before: list[tuple[float, float]]) -> tuple[float, float]:
    if len(words) != 2:
        raise DetourError(f"{len(words)} columns; expected 2, `bytes percent`")
    try:
        size, percent = number_of(words[0].removesuffix("B")), number_of(words[1])
    except DetourError:
        raise DetourError(f"{' '.join(words)!r:.40} is not two numbers, `bytes percent`") from None
    if not 0 <= size <= MOST_FLOW_BYTES:
        raise DetourError(f"{words[0]} bytes; expected 0 to 2**36")
    if not 0 <= percent <= 100:
        raise DetourError(f"{words[1]} percent; expected 0 to 100")
    if before and (size < before[-1][0] or percent < before[-1][1] or (size, percent) == before[-1]):
        raise DetourError("sizes and percentages must increase from line to line")
    return size, percent


def _quantiles() -> NDArray[np.float64]:
    """Return where synthetic distributions are evaluated, in (0, 1]: finer towards 1, where the large flows are."""
    return 1 - np.geomspace(1, 1e-6, _STEPS)


def fixed(mean: float) -> SizeDistribution:
    """All flows are equal."""
    return SizeDistribution("fixed", np.array([mean, mean]), np.array([0.0, 1.0]))


def exponential(mean: float) -> SizeDistribution:
    """Without memory."""
    u = _quantiles()
    return _scaled("exponential", -np.log1p(-u), u, mean)


def pareto(mean: float) -> SizeDistribution:
    """Bounded Pareto of shape 1.2: few flows carry most bytes."""
    u = _quantiles()
    span = 1 - _PARETO_SPAN**-_PARETO_SHAPE
    return _scaled("pareto", (1 - u * span) ** (-1 / _PARETO_SHAPE), u, mean)


def bimodal(mean: float) -> SizeDistribution:
    """90 % of flows carry a tenth of the bytes, the others the rest."""
    small, large = mean * _MOUSE_SHARE / _MICE, mean * (1 - _MOUSE_SHARE) / (1 - _MICE)
    return SizeDistribution("bimodal", np.array([small, small, large, large]), np.array([0.0, _MICE, _MICE, 1.0]))


def _scaled(name: str, sizes: NDArray[np.float64], u: NDArray[np.float64], mean: float) -> SizeDistribution:
    fraction = np.append(u, 1.0)
    raw = SizeDistribution(name, np.append(sizes, sizes[-1]), fraction)
    return SizeDistribution(name, raw.bytes * (mean / raw.mean), fraction)


SYNTHETIC = {"fixed": fixed, "exponential": exponential, "pareto": pareto, "bimodal": bimodal}
"""by name: a function of the mean"""


def poisson_starts(rate_hz: float, duration_s: float, random: np.random.Generator, most: int) -> NDArray[np.float64]:
    """Arrivals of a Poisson process in seconds, below `duration_s`. Raises DetourError if there would be more than
    `most`."""
    expected = rate_hz * duration_s
    if expected > most:
        raise DetourError(f"{expected:.3g} flows are expected; at most {most} are allowed: reduce time, load or hosts")
    drawn = np.cumsum(random.exponential(1 / rate_hz, math.ceil(expected + 10 * math.sqrt(expected) + 10)))
    return drawn[drawn < duration_s]
