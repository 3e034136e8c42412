# SPDX-License-Identifier: Apache-2.0
"""The rule for steady state, and fairness."""

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.times import US
from detour.experiments.measure import Rule, jain

RULE = Rule(tolerance=0.02, windows=4)


@pytest.mark.parametrize(
    ("means", "steady"),
    [
        ([100, 100, 100, 100], True),
        ([99, 101, 100, 100], True),
        ([100, 100, 100, 104], False),  # the last one is away from the others
        ([98.5, 99.5, 100.5, 101.5], False),  # all are near their mean, but it rises
        ([101.5, 98.5, 101.5, 98.5], True),  # as far apart, without a trend
        ([0, 0, 0, 0], False),
    ],
)
def test_steady(means: list[float], steady: bool) -> None:
    assert RULE.is_steady(np.array(means, float)) is steady


def test_rules_that_cannot_work() -> None:
    with pytest.raises(DetourError, match="two windows or more"):
        Rule(windows=1)
    with pytest.raises(DetourError, match="shorter than the 4 windows of 200 us"):
        Rule(most_ps=500 * US)


def test_jain() -> None:
    assert jain(np.array([5, 5, 5, 5])) == 1
    assert jain(np.array([1, 0, 0, 0])) == pytest.approx(0.25)
    assert jain(np.array([1.0, 3.0])) == pytest.approx(16 / 20)
