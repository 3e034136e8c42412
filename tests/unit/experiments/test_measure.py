# SPDX-License-Identifier: Apache-2.0
"""Times of runs, and fairness."""

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.experiments.running import INTERVALS, RunTimes, jain


def test_a_run_has_as_many_intervals_whatever_its_time() -> None:
    for time_us in (300, 1_600, 24_000):
        assert RunTimes(virtual_us=time_us).interval_ps * INTERVALS == pytest.approx(time_us * 1_000_000, abs=INTERVALS)


@pytest.mark.parametrize(
    ("times", "rule"), [({"virtual_us": 299}, "too short"), ({"virtual_us": 999, "tolerance": 1.0}, "no fraction")]
)
def test_runs_that_cannot_be_judged(times: dict, rule: str) -> None:
    with pytest.raises(DetourError, match=rule):
        RunTimes(**times)


def test_jain() -> None:
    assert jain(np.array([5, 5, 5, 5])) == 1
    assert jain(np.array([1, 0, 0, 0])) == pytest.approx(0.25)
    assert jain(np.array([1.0, 3.0])) == pytest.approx(16 / 20)
