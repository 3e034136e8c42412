# SPDX-License-Identifier: Apache-2.0
"""Step times over load: equal draws, what a run says, and what is made of runs."""

from __future__ import annotations

from dataclasses import replace

from detour.experiments.placement import steps


def test_schemes_get_the_same_draws() -> None:
    points = steps.select("quick")
    cases = [{(one.planes, one.jobs, one.failing, one.seed) for one in points if one.scheme == scheme}
             for scheme in steps.DEFAULT_SCHEMES]  # fmt: skip
    assert cases[0] == cases[1] == cases[2]
    assert len(points) == 3 * len(cases[0]) == 3 * 3 * 2 * 4


def test_a_failing_link_costs_a_placed_step_the_time_of_the_controller() -> None:
    point = steps.RingPoint(planes=1, jobs=2, failing=False, scheme="placed", seed=1)
    whole, broken = steps.run(point), steps.run(replace(point, failing=True))
    assert whole.load == 0.5
    assert whole.step_us is not None
    assert broken.step_us is not None
    assert whole.ideal_us < whole.step_us < 1.5 * whole.ideal_us
    assert broken.step_us > whole.step_us + 900 or broken.recover_us == 0


def test_means_and_the_longest_of_all_draws() -> None:
    run = steps.RingRun(planes=1, failing=False, load=0.25, scheme="ecmp", step_us=100.0, longest_us=100.0,
                        ideal_us=50.0, recover_us=None, retransmitted=0.0, finished=1.0)  # fmt: skip
    found = steps.collect([run, replace(run, step_us=300.0, longest_us=300.0)])
    assert [(one.step_us, one.longest_us, one.finished) for one in found.steps] == [(200.0, 300.0, 1.0)]
    (shown,) = steps.tables(found)
    assert "4.00" in shown.cells(True)[0]
