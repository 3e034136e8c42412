# SPDX-License-Identifier: Apache-2.0
"""Plans for what is left of an exchange: every flow once, no contention, no failed link, few phases."""

import numpy as np
import pytest

from detour.control.fors import FatTree, ForsPlan, solve
from detour.control.fors.baselines import ftree, linear_shift
from detour.control.fors.paths import TreePaths, crowd
from detour.control.fors.repair import GONE
from detour.control.fors.residual import residual


def rest_of(plan: ForsPlan, done: int) -> tuple[np.ndarray, ...]:
    left = plan.phase >= done
    return plan.phase[left], plan.src[left], plan.dst[left], plan.spine[left]


def counting_bound(fabric: FatTree, src: np.ndarray, dst: np.ndarray) -> int:
    """Phases that flows need at least: a server's messages in and out, a leaf's flows over its links."""
    most = [np.bincount(src).max(), np.bincount(dst).max()]
    a, b = src // fabric.hosts, dst // fabric.hosts
    links = fabric.alive.sum(axis=1)
    most += [np.ceil(np.bincount(leaf[a != b], minlength=fabric.leaves) / links).max() for leaf in (a, b)]
    return int(max(most))


def check(fabric: FatTree, flows: tuple[np.ndarray, ...], phase: np.ndarray, spine: np.ndarray) -> None:
    _, src, dst, _ = flows
    for end in (src, dst):
        assert len(np.unique(phase * fabric.slots + end)) == len(end)
    away = src // fabric.spines != dst // fabric.spines
    assert ((spine >= 0) == away).all()
    alive = fabric.alive
    for end in (src, dst):
        assert alive[end[away] // fabric.spines, spine[away]].all()
    leaves = src // fabric.hosts, dst // fabric.hosts
    assert crowd(TreePaths(fabric), phase, *leaves, spine)[1].max() == 1
    assert set(phase.tolist()) == set(range(phase.max() + 1))


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
    phase, spine = residual(after, *flows)
    check(after, flows, phase, spine)
    assert phase.max() + 1 <= counting_bound(after, flows[1], flows[2]) * (1 + extra) + 1


def test_with_links_to_spare_no_flow_changes_its_phase() -> None:
    before = FatTree(6, 4)  # floor(6/4) = 1 link of every leaf is free in every phase
    flows = rest_of(solve(before), 5)
    phase, spine = residual(before.with_failed({(1, 3)}), *flows)
    assert (phase == flows[0] - flows[0].min()).all()
    assert 0 < (spine != flows[3]).sum() < len(flows[0]) / 4


def test_without_a_failure_nothing_changes() -> None:
    fabric = FatTree(4, 4)
    flows = rest_of(solve(fabric), 3)
    phase, spine = residual(fabric, *flows)
    assert (phase == flows[0] - flows[0].min()).all()
    assert (spine == flows[3]).all()


def test_pairs_of_leaves_without_common_spine_are_left_out() -> None:
    fabric = FatTree(2, 3)
    flows = rest_of(solve(fabric), 0)
    phase, _ = residual(fabric.with_failed({(0, 0), (1, 1)}), *flows)
    leaves = np.stack([flows[1] // 2, flows[2] // 2])
    cut = (leaves == [[0], [1]]).all(axis=0) | (leaves == [[1], [0]]).all(axis=0)
    assert ((phase == GONE) == cut).all()


def test_nothing_left_is_no_phase() -> None:
    none = np.zeros(0, np.int32)
    assert [len(column) for column in residual(FatTree(2, 2), none, none, none, none)] == [0, 0]
