# SPDX-License-Identifier: Apache-2.0
"""Tests for steady runs, and the terms of a fair comparison: one rule for all experiments.

"The throughput is measured when all connections are active and congestion control is stable" (non-shortest-path paper,
section IV). All schemes run for the same virtual time. Of a run there is a series of rates, one an interval, and

* the warm-up is found, not set: batches of five intervals are cut off at the front, half of the run at most, until the
  standard error of the mean of the rest is least (MSER-5: White, "An effective truncation heuristic for bias reduction
  in simulation output", Simulation 69(6), 1997);
* what remains must have no trend, which a tolerance on neighbouring windows does not show: a climb of one percent a
  window passes that for ever. Three tests, each of which a ramp fails, whether it is steep or slow:
  the means of the two halves differ by `tolerance` at most; so does the straight line through the batches (least
  squares) from its begin to its end; and if that line rises or falls for certain (two standard errors, of the means of
  ten groups, since neighbouring batches are alike), it may not promise more than `tolerance` in another run as long.

What is reported is the mean behind the warm-up; of a run that is not steady, that of its second half. Every table says
which runs were not steady. `spread` is the sample standard deviation over draws, of which a comparison has `DRAWS`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BATCH_INTERVALS = 5
"""intervals of a batch (MSER-5)"""
LEAST_BATCHES = 20
"""below that no run is called steady"""
TOLERANCE = 0.01
DRAWS = 5
"""of a comparison, at least"""
_DRAWS_OF = {"quick": 1, "normal": DRAWS, "full": 2 * DRAWS}
_GROUPS = 10
_CERTAIN = 2.0
"""standard errors"""


@dataclass(frozen=True)
class Judgement:
    """The judgement of a series of rates. `begin`: intervals before those that count; `mean`: of the rates that
    count."""

    begin: int
    mean: float
    steady: bool


def judge(rates: Sequence[float], tolerance: float = TOLERANCE) -> Judgement:
    """Return whether rates in equal intervals have become steady. Raises `ValueError`: there are none."""
    if not rates:
        raise ValueError("a run without intervals has no rate")
    count = len(rates) // BATCH_INTERVALS
    if count < LEAST_BATCHES:
        half = len(rates) // 2
        return Judgement(half, statistics.fmean(rates[half:]), False)
    batches = np.asarray(rates[-count * BATCH_INTERVALS :], float).reshape(count, BATCH_INTERVALS).mean(axis=1)
    # At most half of the batches go: those behind which the standard error of the mean is least.
    rest = range(len(batches) // 2 + 1)
    cut = min(rest, key=lambda cut: float(batches[cut:].var()) / (len(batches) - cut))
    kept = batches[cut:]
    steady = kept.mean() > 0 and _is_level(kept, count, tolerance)
    if not steady:
        kept = batches[count // 2 :]
    return Judgement(len(rates) - len(kept) * BATCH_INTERVALS, float(kept.mean()), bool(steady))


def _is_level(kept: np.ndarray, count: int, tolerance: float) -> bool:
    """The three tests. `count`: batches of the whole run."""
    allowed = tolerance * float(kept.mean())
    half = len(kept) // 2
    if abs(float(kept[-half:].mean()) - float(kept[:half].mean())) > allowed:
        return False
    slope = _slope(kept)
    if abs(slope) * (len(kept) - 1) > allowed:
        return False
    certain = max(abs(slope) - _CERTAIN * _slope_error(kept), 0.0)
    return certain * count <= allowed


def _slope(values: np.ndarray) -> float:
    """Return the slope of the line of least squares, per batch."""
    x = np.arange(len(values)) - (len(values) - 1) / 2
    return float(x @ values / (x @ x))


def _slope_error(values: np.ndarray) -> float:
    """Standard error of the slope a batch, from means of `_GROUPS` groups of batches."""
    size = len(values) // _GROUPS
    groups = values[len(values) - size * _GROUPS :].reshape(_GROUPS, size).mean(axis=1)
    x = np.arange(_GROUPS) - (_GROUPS - 1) / 2
    left = groups - groups.mean() - _slope(groups) * x
    return math.sqrt(float(left @ left) / (_GROUPS - 2) / float(x @ x)) / size


def draws_of(extent: str) -> int:
    """Return the number of draws of a comparison, in a reproduction of an extent (`quick`, `normal` or `full`)."""
    return _DRAWS_OF[extent]


def spread(values: Sequence[float], digits: int | None = None) -> float | None:
    """Sample standard deviation over draws, rounded to so many digits if said; None of a single one."""
    if len(values) < 2:
        return None
    deviation = statistics.stdev(values)
    return deviation if digits is None else round(deviation, digits)
