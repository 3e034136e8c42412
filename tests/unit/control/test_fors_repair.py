# SPDX-License-Identifier: Apache-2.0
"""What is left of an exchange, by `repaired` on any fat-tree and by `residual` with one cable from leaf to spine: no
link and no server twice, and little above the bound."""

from collections.abc import Callable

import numpy as np
import pytest

from detour.control.fors import FatTree, ForsPlan, parse_fabric, random_failures, solve
from detour.control.fors.baselines import ftree, linear_shift
from detour.control.fors.paths import INSIDE, TreePaths
from detour.control.fors.repair import GONE, repaired
from detour.control.fors.residual import residual

Columns = tuple[np.ndarray, ...]
SPECS = [
    "fat-tree:k=4", "ft3:pods=3,leaves=2,aggs=3,cores=2,hosts=3", "ft:m0=2,m1=4,hosts=4,cables=2",
    "ft:m0=3,m1=4,hosts=6,cables=2,speed=1/2", "ft:m0=3,m1=4,hosts=4,speed=3/2",
]  # fmt: skip


def rest_of(plan: ForsPlan, after: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    left = plan.phase >= after
    phase, src, dst, paths = (
        np.asarray(one)[left].astype(np.int64) for one in (plan.phase, plan.src, plan.dst, plan.paths())
    )
    return phase, src, dst, paths


def check(tree: FatTree, src: np.ndarray, dst: np.ndarray, phase: np.ndarray, path: np.ndarray) -> None:
    """Counts links and servers anew, flow by flow."""
    paths = TreePaths(tree)
    up = dict(zip(paths.links, paths.working().tolist(), strict=True))
    often = tree.at_once
    used: dict[tuple, int] = {}
    for k in np.flatnonzero(phase != GONE).tolist():
        a, b = int(src[k]) // tree.hosts, int(dst[k]) // tree.hosts
        assert (path[k] == INSIDE) == (a == b)
        crossed = paths.crossed(*(np.array([one]) for one in (a, b, int(path[k]))))[0]
        half = len(crossed) // 2
        for turn, number in enumerate(crossed.tolist()):
            if number >= 0:
                assert up[paths.links[number]]
                key = (int(phase[k]), turn < half, number)
                used[key] = used.get(key, 0) + 1
                assert used[key] <= paths.lanes
        for key in ((int(phase[k]), "out", int(src[k])), (int(phase[k]), "in", int(dst[k]))):
            used[key] = used.get(key, 0) + 1
            assert used[key] <= often
    assert set(phase[phase != GONE].tolist()) == set(range(int(phase.max()) + 1))


def fewest(tree: FatTree, src: np.ndarray, dst: np.ndarray) -> int:
    """Phases that servers and gates need, by counting."""
    often = tree.at_once
    most = max(-(-int(np.bincount(end).max()) // often) for end in (src, dst))
    gates, room = TreePaths(tree).gates(src // tree.hosts, dst // tree.hosts)
    load = np.bincount(gates[gates >= 0], minlength=len(room))
    return max(most, int((-(-load // np.maximum(room, 1))).max()))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_left_is_planned_without_contention(spec, seed):
    before = random_failures(parse_fabric(spec), seed, seed)
    after = random_failures(before, 1 + seed % 2, 50 + seed)
    phase, src, dst, path = rest_of(solve(before), 3)
    new, now = repaired(after, phase, src, dst, path)
    check(after, src, dst, new, now)
    assert (new != GONE).all()
    assert int(new.max()) + 1 <= 1.25 * max(fewest(after, src, dst), len(np.unique(phase))) + 1


def planner_of(tree: FatTree) -> Callable[..., Columns]:
    return repaired if tree.cores or not tree.single else residual


@pytest.mark.parametrize("tree", [FatTree(2, 4, hosts=4, cables=2), FatTree(4, 4)])
def test_nothing_moves_where_nothing_broke(tree):
    phase, src, dst, path = rest_of(solve(tree), 2)
    new, now = planner_of(tree)(tree, phase, src, dst, path)
    assert (now == path).all()
    assert (new == phase - 2).all()


@pytest.mark.parametrize(
    ("tree", "failed", "size"),
    [
        (parse_fabric("fat-tree:k=4"), [(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)], 4),
        (FatTree(2, 3), [(0, 0), (1, 1)], 2),
    ],
)
def test_what_nothing_joins_any_more_is_given_up(tree, failed, size):
    """Parts 0 and 1 of `size` servers each, pods or leaves."""
    phase, src, dst, path = rest_of(solve(tree), 0)
    cut = tree.with_failed(failed)
    new, now = planner_of(tree)(cut, phase, src, dst, path)
    check(cut, src, dst, new, now)
    ends = src // size, dst // size
    parted = (np.minimum(*ends) == 0) & (np.maximum(*ends) == 1)
    assert ((new == GONE) == parted).all()


@pytest.mark.parametrize(
    ("failed", "extra"),
    [
        ({(0, 0)}, 0.1), ({(0, 0), (3, 2)}, 0.1), ({(0, 0), (0, 1)}, 0.1),
        ({(leaf, 2) for leaf in range(6)}, 0.1), ({(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)}, 0.5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shift", [False, True])
def test_what_is_left_takes_few_phases_more_than_counting_allows(failed, extra, shift):
    before = FatTree(6, 6)
    plan = ftree(before, linear_shift(before)) if shift else solve(before)
    flows = rest_of(plan, 13)
    after = before.with_failed(failed)
    phase, spine = residual(after, *flows)
    check(after, *flows[1:3], phase, spine)
    assert phase.max() + 1 <= fewest(after, *flows[1:3]) * (1 + extra) + 1


def test_with_links_to_spare_no_flow_changes_its_phase():
    before = FatTree(6, 4)  # floor(6/4) = 1 link of every leaf is free in every phase
    flows = rest_of(solve(before), 5)
    phase, spine = residual(before.with_failed({(1, 3)}), *flows)
    assert (phase == flows[0] - flows[0].min()).all()
    assert 0 < (spine != flows[3]).sum() < len(flows[0]) / 4


def test_nothing_left_is_no_phase():
    none = np.zeros(0, np.int32)
    assert [len(column) for column in residual(FatTree(2, 2), none, none, none, none)] == [0, 0]
