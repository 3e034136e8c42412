# SPDX-License-Identifier: Apache-2.0
"""`detour bench fors`: every goal of the planner is a line, and those that do not depend on the machine are met."""

from typing import Any

from detour.control.fors import parse_fabric
from detour.control.fors.solve import proven_bound
from detour.experiments.bench import fors


def test_goals():
    report = fors.run(sets=8, phases=0)
    goals: Any = report.numbers["goals"]
    assert [set(goal) for goal in goals] == [{"name", "value", "goal", "at_most", "met"}] * 13
    timeless = {goal["name"]: goal for goal in goals if "seconds" not in goal["name"]}
    assert [goal["met"] for goal in timeless.values()] == [True] * 5 + [None]
    assert timeless["random failures: sets with phases = lower bound"]["value"] == 8
    assert timeless["FT(2;6,6), counterexample: phases"]["value"] == 45
    assert timeless["throughput with one failed link, relative to none"]["goal"] == 0.97


def test_one_more_failure_changes_neither_f_nor_phases():
    fabric = parse_fabric("ft:m0=6,m1=5", "0:0,1:1,2:2,2:3")
    after = fors.one_more(fabric, seed=1)
    assert after is not None
    assert len(after.failed - fabric.failed) == 1
    assert (after.reduction, proven_bound(after)) == (2, proven_bound(fabric))
    assert fors.one_more(parse_fabric("ft:m0=6,m1=5", "*:0"), seed=1) is None
