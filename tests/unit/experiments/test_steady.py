# SPDX-License-Identifier: Apache-2.0
"""When a run is steady: ramps are rejected however slow, level rates are not, and warm-ups are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.experiments.running import INTERVALS, RunTimes, jain
from detour.experiments.steady import BATCH_INTERVALS, judge, spread

COUNT = 300
TIME = np.linspace(0, 1, COUNT)
Course = Callable[[np.random.Generator], np.ndarray]


def level(noise: float) -> Course:
    return lambda rng: 100 * (1 + noise * rng.standard_normal(COUNT))


def ramp(climb: float, noise: float) -> Course:
    return lambda rng: 100 * (1 + climb * TIME + noise * rng.standard_normal(COUNT))


def rise(constant: float) -> Course:
    return lambda rng: 100 * (1 - np.exp(-TIME / constant)) + rng.standard_normal(COUNT)


def step(at: float, height: float) -> Course:
    return lambda rng: 100 * (1 + height * (at < TIME)) + rng.standard_normal(COUNT)


def steady_fraction(course: Course, draws: int = 100) -> float:
    return sum(judge(course(np.random.default_rng(seed)).tolist()).steady for seed in range(draws)) / draws


@pytest.mark.parametrize("course", [level(0.0), level(0.01), step(0.2, 0.3), rise(0.03)])
def test_level_rates_are_steady(course: Course) -> None:
    assert steady_fraction(course) >= 0.95


@pytest.mark.parametrize(
    "course", [ramp(0.05, 0.01), ramp(0.2, 0.01), ramp(-0.2, 0.03), rise(0.3), step(0.6, 0.1), step(0.8, -0.05)]
)
def test_trends_are_not(course: Course) -> None:
    assert steady_fraction(course) == 0


def test_a_climb_that_passes_a_tolerance_on_neighbouring_windows_is_rejected() -> None:
    """4 windows of 10 intervals at the end, each within 2 % of their mean and their line too: the rule of before."""
    rates = ramp(0.10, 0.002)(np.random.default_rng(1))
    windows = rates[-40:].reshape(4, 10).mean(axis=1)
    assert abs(windows - windows.mean()).max() < 0.02 * windows.mean()
    assert not judge(rates.tolist()).steady


def test_the_warm_up_is_cut_off() -> None:
    rates = [10.0] * 60 + [100.0, 101.0] * 120
    result = judge(rates)
    assert result.steady
    assert result.begin == 60
    assert result.mean == pytest.approx(100.5, abs=0.2)


def test_a_late_step_leaves_its_second_half_and_no_word_of_steadiness() -> None:
    result = judge([10.0] * 200 + [100.0] * 100)
    assert not result.steady
    assert result.begin == 150
    assert result.mean == pytest.approx(70.0)


@pytest.mark.parametrize("count", [1, 7, 99])
def test_few_intervals_are_never_steady(count: int) -> None:
    result = judge([5.0] * count)
    assert not result.steady
    assert result.mean == 5.0


def test_nothing_is_not_steady() -> None:
    assert not judge([0.0] * COUNT).steady
    with pytest.raises(ValueError, match="without intervals"):
        judge([])


def test_the_rest_of_a_batch_goes_at_the_front() -> None:
    result = judge([0.0] * 3 + [5.0] * (20 * BATCH_INTERVALS))
    assert (result.begin, result.mean, result.steady) == (3, 5.0, True)


def test_spread() -> None:
    assert spread([1.0]) is None
    assert spread([1.0, 3.0]) == pytest.approx(2**0.5)


# -- times of runs, and fairness -----------------------------------------------------------------------------


def test_a_run_has_as_many_intervals_whatever_its_time() -> None:
    for time_us in (300, 1_600, 24_000):
        assert RunTimes(virtual_us=time_us).interval_ps * INTERVALS == pytest.approx(time_us * 1_000_000, abs=INTERVALS)


@pytest.mark.parametrize(
    ("times", "rule"),
    [({"virtual_us": 299}, "too short"), ({"virtual_us": 999, "tolerance": 1.0}, "is not a fraction")],
)
def test_runs_that_cannot_be_judged(times: dict, rule: str) -> None:
    with pytest.raises(DetourError, match=rule):
        RunTimes(**times)


def test_jain() -> None:
    assert jain(np.array([5, 5, 5, 5])) == 1
    assert jain(np.array([1, 0, 0, 0])) == pytest.approx(0.25)
    assert jain(np.array([1.0, 3.0])) == pytest.approx(16 / 20)
