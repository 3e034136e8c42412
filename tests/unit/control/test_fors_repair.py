# SPDX-License-Identifier: Apache-2.0
"""What is left of an exchange on any fat-tree: no link and no server twice, and little above the bound."""

import numpy as np
import pytest

from detour.control.fors import parse_fabric, random_failures, solve
from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE, TreePaths
from detour.control.fors.repair import GONE, repaired

Columns = tuple[np.ndarray, ...]
SPECS = [
    "fat-tree:k=4",
    "ft3:pods=3,leaves=2,aggs=3,cores=2,hosts=3",
    "ft:m0=2,m1=4,hosts=4,cables=2",
    "ft:m0=3,m1=4,hosts=6,cables=2,speed=1/2",
    "ft:m0=3,m1=4,hosts=4,speed=3/2",
]


def rest_of(tree: FatTree, after: int) -> Columns:
    plan = solve(tree)
    left = plan.phase >= after
    return tuple(np.asarray(one)[left].astype(np.int64) for one in (plan.phase, plan.src, plan.dst, plan.paths()))


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


def fewest(tree: FatTree, src: np.ndarray, dst: np.ndarray) -> int:
    """Phases that servers and gates need, by counting."""
    often = tree.at_once
    most = max(-(-int(np.bincount(end).max()) // often) for end in (src, dst))
    gates, room = TreePaths(tree).gates(src // tree.hosts, dst // tree.hosts)
    load = np.bincount(gates[gates >= 0], minlength=len(room))
    return max(most, int((-(-load // np.maximum(room, 1))).max()))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_left_is_planned_without_contention(spec: str, seed: int) -> None:
    before = random_failures(parse_fabric(spec), seed, seed)
    after = random_failures(before, 1 + seed % 2, 50 + seed)
    phase, src, dst, path = rest_of(before, 3)
    found, now = repaired(after, phase, src, dst, path)
    check(after, src, dst, found, now)
    assert (found != GONE).all()
    assert set(found.tolist()) == set(range(int(found.max()) + 1))
    assert int(found.max()) + 1 <= 1.25 * max(fewest(after, src, dst), len(np.unique(phase))) + 1


def test_nothing_moves_where_nothing_broke() -> None:
    tree = FatTree(2, 4, hosts=4, cables=2)
    phase, src, dst, path = rest_of(tree, 2)
    found, now = repaired(tree, phase, src, dst, path)
    assert (now == path).all()
    assert (found == phase - 2).all()


def test_what_nothing_joins_any_more_is_given_up() -> None:
    tree = parse_fabric("fat-tree:k=4")
    phase, src, dst, path = rest_of(tree, 0)
    cut = tree.with_failed([(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)])
    found, now = repaired(cut, phase, src, dst, path)
    check(cut, src, dst, found, now)
    pods = src // 4, dst // 4
    parted = (np.minimum(*pods) == 0) & (np.maximum(*pods) == 1)
    assert ((found == GONE) == parted).all()
