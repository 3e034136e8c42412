# SPDX-License-Identifier: Apache-2.0
"""FORS: schedules in closed form, Algorithm 1 and 2, and what it is compared with."""

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.control.fors import paper
from detour.control.fors.baselines import SCHEDULES, ftree, linear_shift
from detour.control.fors.fabric import FatTree, random_failures
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import arranged
from detour.control.fors.texts import parse_fabric, spread
from detour.control.fors.verify import problems


def spines_down(spines: int, leaves: int, count: int) -> FatTree:
    return FatTree(spines, leaves, frozenset((g, c) for g in range(leaves) for c in range(count)))


@pytest.mark.parametrize("spines", [2, 3, 4, 5, 6, 8, 9, 12, 13])
def test_reductions_have_schedules_that_algorithm_2_routes(spines):
    for leaves in range(1, 12):
        for reduction in range(spines):
            fabric = spines_down(spines, leaves, reduction)
            flows = paper.schedule(spines, leaves, reduction)
            if flows is None:
                assert paper.phases_needed(spines, leaves, reduction) == spines * leaves - 1
                continue
            assert flows.phases == paper.phases_needed(spines, leaves, reduction)
            spine = paper.algorithm_2(fabric, flows)
            assert spine is not None
            assert problems(arranged(fabric, flows, spine)) == [], (spines, leaves, reduction)


def test_phases_of_the_paper():
    assert [paper.phases_needed(20, 18, f) for f in range(6)] == [359, 359, 378, 400, 425, 454]
    assert paper.phases_needed(6, 6, 2) == 45
    assert paper.phases_needed(3, 3, 1) == 9
    assert [paper.phases_needed(4, 4, f) for f in range(4)] == [15, 16, 24, 48]


def test_figure_4():
    """FT(2;6,6) with f = 2: a server sends in two phases of three, the next one a phase earlier."""
    flows = paper.inter_leaf(6, 6, 2)
    sends = np.zeros((6, flows.phases), bool)
    sends[flows.src[flows.src < 6], flows.phase[flows.src < 6]] = True
    for a in range(6):
        # T(i) = ceil(6 i / 4) = 0, 2, 3, 5, 6, ...: not 1, 4, 7, ...
        assert [p for p in range(6) if sends[a, p]] == [p for p in range(6) if (p + a) % 3 != 1]


def test_no_leaf_has_more_flows_than_links():
    for spines, leaves, reduction in ((20, 18, 3), (20, 18, 2), (7, 5, 4), (6, 6, 1)):
        flows = paper.schedule(spines, leaves, reduction)
        assert flows is not None
        outside = flows.src // spines != flows.dst // spines
        for end in (flows.src, flows.dst):
            count = np.bincount((flows.phase * leaves + end // spines)[outside])
            assert count.max() <= spines - reduction


def test_what_algorithm_1_needs():
    with pytest.raises(DetourError, match=r"0\.\.3 \(f < M0\)"):
        paper.algorithm_1(4, 4, 4)
    assert paper.closed_form(4, 4).phases == 16


def test_algorithm_2_declines_when_too_many_spines_are_impacted():
    fabric = FatTree(4, 4, frozenset({(0, 0), (1, 1), (2, 1), (2, 0)}))
    flows = paper.algorithm_1(4, 4, 2)
    assert paper.algorithm_2(fabric, flows) is not None
    fabric = fabric.with_failed({(3, 2)})
    assert fabric.reduction == 2
    assert paper.algorithm_2(fabric, flows) is None


def test_recolouring_where_algorithm_2_does_not_apply():
    """The paper's hardest scenario, 3F SW0,5,11: nine spines impacted, f = 3."""
    fabric = parse_fabric("ft:m0=20,m1=18", "0:0,0:1,0:2,5:3,5:4,5:5,11:6,11:7,11:8")
    flows = paper.algorithm_1(20, 18, fabric.reduction)
    assert paper.algorithm_2(fabric, flows) is None
    spine = paper.recoloured(fabric, flows)
    assert spine is not None
    assert problems(arranged(fabric, flows, spine)) == []


def test_baselines_on_a_whole_fabric():
    for name, phases in (("linear-shift", 31), ("xor", 31), ("bandwidth-optimal", 32)):
        plan = ftree(FatTree(4, 8), SCHEDULES[name](FatTree(4, 8)))
        assert plan.flows == 32 * 31
        assert (plan.phases, problems(plan)) == (phases, []), name


def test_baselines_do_not_know_of_failures():
    fabric = parse_fabric("ft:m0=4,m1=8", "2:1")
    for make in SCHEDULES.values():
        assert all("failed link 2:1" in text for text in problems(ftree(fabric, make(fabric))))


def test_baselines_with_some_servers_only():
    fabric = FatTree(4, 3, population=(4, 0, 3))
    for name, phases in (("linear-shift", 6), ("xor", 7), ("bandwidth-optimal", 12)):
        flows = SCHEDULES[name](fabric)
        assert flows.phases == phases
        pairs = sorted(zip(flows.src.tolist(), flows.dst.tolist(), strict=True))
        servers = [0, 1, 2, 3, 8, 9, 10]
        assert pairs == [(s, d) for s in servers for d in servers if s != d]
    assert linear_shift(fabric).dst[linear_shift(fabric).src == 3].tolist() == [8, 9, 10, 0, 1, 2]


def test_flows_inside_a_leaf_have_no_spine():
    plan = ftree(FatTree(3, 2), linear_shift(FatTree(3, 2)))
    assert ((plan.spine == INSIDE) == (plan.src // 3 == plan.dst // 3)).all()


def test_fabrics_as_text():
    fabric = parse_fabric("ft:m0=4,m1=3", "0:1, *:3,2:*", 10)
    assert fabric.failed == {(0, 1), (0, 3), (1, 3)} | {(2, c) for c in range(4)}
    assert fabric.population == (4, 3, 3)
    assert (fabric.reduction, fabric.servers, fabric.slots, fabric.name) == (4, 10, 12, "FT(2;4,3)")
    assert fabric.unreachable() == [(0, 2), (1, 2)]
    assert np.flatnonzero(~fabric.present()).tolist() == [7, 11]
    assert spread(FatTree(20, 18), 326) == (19, 19, *(18,) * 16)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("leaf-spine:leaves=2", None), "ft:m0=20,m1=18"), (("ft:m0=4", None), "m1 missing"),
        (("ft:m0=4,m1=0", None), r"m1=0 is not in 1\.\.256"), (("ft:m0=4,m1=3", "3:0"), "no link 3:0"),
        (("ft:m0=4,m1=3", "0:4"), "no link 0:4"), (("ft:m0=4,m1=3", "0"), "'0' is not leaf:spine"),
        (("ft:m0=4,m1=3", "0:1,"), "'' is not leaf:spine"),
        (("ft:m0=4,m1=3", "-1:0"), "'-1:0' is not leaf:spine"),
        (("ft:m0=4,m1=3", None, 13), r"1\.\.12 servers, not for 13"),
    ],
)  # fmt: skip
def test_what_is_no_fabric(arguments, text):
    with pytest.raises(DetourError, match=text):
        parse_fabric(*arguments)


def test_servers_that_take_part():
    fabric = parse_fabric("ft:m0=4,m1=3", "0:1", population=" 4,1, 3", group="9,0-2, 4")
    assert (fabric.population, fabric.group, fabric.servers) == ((4, 1, 3), (0, 1, 2, 4, 9), 5)
    assert fabric.sizes().tolist() == [3, 1, 1]
    assert np.flatnonzero(fabric.taking_part()).tolist() == [0, 1, 2, 4, 9]
    assert fabric.server_numbers()[:, 0].tolist() == [0, 4, 9]
    assert not fabric.full
    assert fabric.with_failed([(2, 0)]).group == fabric.group
    # Leaves whose servers take no part may be cut off, and how many links they have lost does not matter.
    assert parse_fabric("ft:m0=4,m1=3", "0:0,0:1,1:2,1:3", group="4-11").unreachable() == []
    assert parse_fabric("ft:m0=4,m1=3", "0:0,0:1,1:2", group="4-11").reduction == 1


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"population": "4,4"}, r"the population is not 3 numbers in 0\.\.4"),
        ({"population": "4,4,5"}, r"the population is not 3 numbers in 0\.\.4"),
        ({"population": "4,0-2,4"}, "population '4,0-2,4': '0-2' is not a number"),
        ({"population": "4,4,4", "servers": 12}, "one of the two"),
        ({"group": "0,12"}, "no server 12"),
        ({"group": "1,3", "population": "3,3,3"}, "no server 3"),
        ({"group": "0-2,1"}, "names a server twice"),
        ({"group": "3-1"}, "'3-1' is not a number or a range like 0-3"),
        ({"group": ""}, "'' is not a number or a range"),
    ],
)
def test_what_is_no_population_and_no_group(values, text):
    with pytest.raises(DetourError, match=text):
        parse_fabric("ft:m0=4,m1=3", **values)


def test_random_failures():
    fabric = FatTree(20, 18, frozenset({(0, 0)}))
    for count in (0, 1, 50, 179):
        damaged = random_failures(fabric, count, seed=4)
        assert len(damaged.failed) == count + 1
        assert damaged.unreachable() == []
        assert damaged == random_failures(fabric, count, seed=4)
    assert random_failures(fabric, 5, seed=4) != random_failures(fabric, 5, seed=5)
    with pytest.raises(DetourError, match="has 359 working links; 360 cannot fail"):
        random_failures(fabric, 360, seed=1)
    with pytest.raises(DetourError, match="only 2 of 3 links can fail"):
        random_failures(FatTree(2, 2), 3, seed=1)
