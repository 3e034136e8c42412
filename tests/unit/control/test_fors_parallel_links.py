# SPDX-License-Identifier: Apache-2.0
"""Plans that are kept when one more cable of several fails: right, in the same phases, and most flows as they were."""

import numpy as np
import pytest

from detour.control.fors import parse_fabric, random_failures, solve
from detour.control.fors.incremental import reroute
from detour.control.fors.verify import problems

TOPOLOGIES = [
    "ft:m0=4,m1=6,hosts=8,cables=2",
    "ft:m0=3,m1=5,hosts=6,cables=2,speed=3/2",
    "ft:m0=2,m1=4,hosts=2,cables=4",
]


@pytest.mark.parametrize("topo", TOPOLOGIES)
def test_one_more_cable(topo):
    kept = 0
    for seed in range(8):
        plan = solve(random_failures(parse_fabric(topo), seed % 4, seed))
        after = random_failures(plan.fabric, 1, seed + 100)
        change = reroute(plan, after)
        assert problems(change.plan) == []
        assert change.plan.fabric == after
        if change.anew:
            continue
        kept += 1
        now = change.plan
        assert now.phases == plan.phases
        same = (now.phase == plan.phase) & (now.src == plan.src) & (now.dst == plan.dst)
        assert same.all()
        assert now.cables is not None
        assert plan.cables is not None
        moved = (now.spine != plan.spine) | (now.cables != plan.cables).any(axis=0)
        ((leaf, uplink),) = after.failed - plan.fabric.failed
        ends = zip((plan.src, plan.dst), (plan.uplink(0), plan.uplink(1)), strict=True)
        used = sum(int(((end // after.hosts == leaf) & (over == uplink)).sum()) for end, over in ends)
        assert used <= change.moved == np.count_nonzero(moved) <= 3 * used
    assert kept >= 3


def test_another_cable_to_the_same_spine_is_enough():
    """Half of the cables are idle: whoever loses one takes the other, and nobody else moves."""
    plan = solve(parse_fabric("ft:m0=2,m1=4,hosts=2,cables=4"))
    change = reroute(plan, plan.fabric.with_failed({(0, 0)}))
    used = ((plan.src // 2 == 0) & (plan.uplink(0) == 0)) | ((plan.dst // 2 == 0) & (plan.uplink(1) == 0))
    assert not change.anew
    assert problems(change.plan) == []
    assert (change.plan.spine == plan.spine).all()
    assert change.moved == np.count_nonzero(used) > 0


def test_where_a_leaf_has_no_room_all_is_planned_anew():
    """Two cables of half a server's rate for four servers: each is busy in every phase."""
    plan = solve(parse_fabric("ft:m0=2,m1=3,hosts=4,speed=1/2"))
    change = reroute(plan, plan.fabric.with_failed({(1, 0)}))
    assert change.anew
    assert change.plan.phases > plan.phases
    assert problems(change.plan) == []
