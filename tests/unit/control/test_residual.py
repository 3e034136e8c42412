# SPDX-License-Identifier: Apache-2.0
"""Plans for what is left of an exchange: every flow once, no contention, no failed link, few phases."""

import numpy as np
import pytest

from detour.control.fors import FatTree, ForsPlan, solve
from detour.control.fors.baselines import ftree, linear_shift
from detour.control.fors.paths import TreePaths, crowd
from detour.control.fors.residual import Residual, residual


def rest_of(plan: ForsPlan, done: int) -> tuple[np.ndarray, ...]:
    left = plan.phase >= done
    return plan.phase[left], plan.src[left], plan.dst[left], plan.spine[left]


def check(fabric: FatTree, flows: tuple[np.ndarray, ...], found: Residual) -> None:
    _, src, dst, _ = flows
    for end in (src, dst):
        assert len(np.unique(found.phase.astype(np.int64) * fabric.slots + end)) == len(end)
    away = src // fabric.spines != dst // fabric.spines
    assert ((found.spine >= 0) == away).all()
    alive = fabric.alive
    for end in (src, dst):
        assert alive[end[away] // fabric.spines, found.spine[away]].all()
    leaves = src // fabric.hosts, dst // fabric.hosts
    assert crowd(TreePaths(fabric), found.phase, *leaves, found.spine)[1].max() == 1
    assert found.phases == found.phase.max() + 1 >= found.lower_bound


@pytest.mark.parametrize(
    ("failed", "extra"),
    [
        ({(0, 0)}, 0.1),
        ({(0, 0), (3, 2)}, 0.1),
        ({(0, 0), (0, 1)}, 0.1),
        ({(leaf, 2) for leaf in range(6)}, 0.1),
        ({(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)}, 0.5),
    ],
)
@pytest.mark.parametrize("shift", [False, True])
def test_what_is_left_takes_few_phases_more_than_counting_allows(failed: set, extra: float, shift: bool) -> None:
    before = FatTree(6, 6)
    plan = ftree(before, linear_shift(before)) if shift else solve(before)
    flows = rest_of(plan, 13)
    after = before.with_failed(failed)
    found = residual(after, *flows)
    check(after, flows, found)
    assert found.phases <= found.lower_bound * (1 + extra) + 1


def test_with_links_to_spare_no_flow_changes_its_phase() -> None:
    before = FatTree(6, 4)  # floor(6/4) = 1 link of every leaf is free in every phase
    flows = rest_of(solve(before), 5)
    found = residual(before.with_failed({(1, 3)}), *flows)
    assert found.put_off == 0
    assert found.phases == len(np.unique(flows[0]))
    assert 0 < found.moved < len(flows[0]) / 4


def test_without_a_failure_nothing_changes() -> None:
    fabric = FatTree(4, 4)
    flows = rest_of(solve(fabric), 3)
    found = residual(fabric, *flows)
    assert (found.moved, found.put_off) == (0, 0)
    assert (found.spine == flows[3]).all()


def test_pairs_of_leaves_without_common_spine_are_left_out() -> None:
    fabric = FatTree(2, 3)
    flows = rest_of(solve(fabric), 0)
    found = residual(fabric.with_failed({(0, 0), (1, 1)}), *flows)
    leaves = np.stack([flows[1] // 2, flows[2] // 2])
    cut = (leaves == [[0], [1]]).all(axis=0) | (leaves == [[1], [0]]).all(axis=0)
    assert ((found.phase < 0) == cut).all()


def test_nothing_left_is_no_phase() -> None:
    none = np.zeros(0, np.int32)
    assert residual(FatTree(2, 2), none, none, none, none).phases == 0
