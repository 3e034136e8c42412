# SPDX-License-Identifier: Apache-2.0
"""Messages of unlike size: plans are right, their bounds are those of a programme of another kind, faults are found."""

import random
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from detour.base.errors import DetourError
from detour.control.fors import FatTree, files, parse_fabric, random_failures
from detour.control.fors.files import drawn_sizes, read_sizes
from detour.control.fors.lp_bound import lp_bound
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import UnequalPlan
from detour.control.fors.preemptive import Crossbars, turns
from detour.control.fors.unequal import plan_unequal, read_unequal, unequal_problems

SKEWS = ("uniform", "zipf:0.8", "zipf:1.2", "moe:1")


def drawn(number: int) -> tuple[FatTree, np.ndarray]:
    """A fabric with failures, and sizes, many of them 0 in every other draw."""
    rng = random.Random(f"fors unequal {number}")
    fabric = FatTree(rng.randint(1, 4), rng.randint(1, 4), hosts=rng.randint(1, 4))
    if number % 3 == 0:
        fabric = replace(fabric, cables=rng.randint(1, 3), speed=Fraction(rng.randint(1, 2)), population=())
    links = [(u, c) for u in range(fabric.leaves) for c in range(fabric.uplinks)]
    for link in rng.sample(links, len(links) // 3):
        worse = fabric.with_failed([link])
        fabric = fabric if worse.unreachable() else worse
    if number % 4 == 0:
        fabric = replace(fabric, population=tuple(rng.randint(1, fabric.hosts) for _ in range(fabric.leaves)))
    if number % 5 == 0:
        there = np.flatnonzero(fabric.present()).tolist()
        fabric = replace(fabric, group=tuple(rng.sample(there, rng.randint(1, len(there)))))
    sizes = drawn_sizes(fabric.servers, SKEWS[number % 4], rng.choice([3, 1000, 10**9]), number)
    if number % 2:
        sizes *= np.random.default_rng(number).integers(0, 2, sizes.shape)
    return fabric, sizes


def plainly_right(plan: UnequalPlan) -> bool:
    """What `unequal_problems` checks, in sets and loops."""
    fabric = plan.fabric
    servers = np.flatnonzero(fabric.taking_part()).tolist()
    left = {(s, d): int(plan.sizes[i, j]) for i, s in enumerate(servers) for j, d in enumerate(servers)}
    used: defaultdict[tuple, int] = defaultdict(int)
    for row in range(plan.flows):
        phase, src, dst = (int(column[row]) for column in (plan.phase, plan.src, plan.dst))
        left[src, dst] -= int(plan.sent[row])
        ends = [("out", src), ("in", dst)]
        if src // fabric.hosts != dst // fabric.hosts:
            links = [(end // fabric.hosts, int(plan.uplink(way)[row])) for way, end in enumerate((src, dst))]
            if any(link in fabric.failed or link[1] < 0 for link in links):
                return False
            ends += [(way, *link) for way, link in zip(("up", "down"), links, strict=True)]
        for end in ends:
            used[phase, *end] += 1
            if used[phase, *end] > (fabric.speed.numerator if end[0] in ("up", "down") else 1):
                return False
    return not any(left.values()) and bool((plan.sent > 0).all())


def least_time(fabric: FatTree, sizes: np.ndarray) -> float:
    """The bound by one linear programme over servers' pairs and spines (dual simplex), rates as real numbers."""
    servers = np.flatnonzero(fabric.taking_part())
    alive, room = fabric.alive, fabric.working.sum(axis=2) * fabric.speed.numerator
    lengths, columns, loads = [], [], defaultdict(list)
    for i, j in np.argwhere(sizes > 0).tolist():
        u, v = (int(servers[k]) // fabric.hosts for k in (i, j))
        for c in [-1] if u == v else np.flatnonzero(alive[u] & alive[v]).tolist():
            loads["out", i].append(len(columns))
            loads["in", j].append(len(columns))
            if c >= 0:
                loads["up", u, c].append(len(columns))
                loads["down", v, c].append(len(columns))
            columns.append(len(lengths))
        lengths.append(float(sizes[i, j]))
    if not lengths:
        return 0.0
    unit = max(lengths)
    equal = np.zeros((len(lengths), len(columns) + 1))
    equal[columns, np.arange(len(columns))] = 1
    most = np.zeros((len(loads), len(columns) + 1))
    for row, (name, members) in enumerate(loads.items()):
        most[row, members] = 1
        most[row, -1] = -(room[name[1:]] if name[0] in ("up", "down") else 1)
    solution = linprog(
        np.r_[np.zeros(len(columns)), 1.0], A_ub=most, b_ub=np.zeros(len(loads)), A_eq=equal,
        b_eq=np.array(lengths) / unit, method="highs-ds",
    )  # fmt: skip
    assert solution.status == 0
    return float(solution.fun) * unit


def test_plans_are_right_and_near_a_bound_that_is_one():
    over = []
    for number in range(40):
        fabric, sizes = drawn(number)
        plan = plan_unequal(fabric, sizes)
        assert unequal_problems(plan) == [], (number, fabric)
        assert plainly_right(plan), (number, fabric)
        bound = plan.lower_bound
        assert bound == pytest.approx(least_time(fabric, sizes), rel=1e-6, abs=1.0), (number, fabric)
        assert plan.length >= bound == max(plan.by_servers, plan.by_links)
        assert plan.optimal == (plan.length == bound)
        over.append(plan.length / bound if bound else 1.0)
    # Sizes of a few bytes cannot be divided; the others come within some percent.
    assert np.median(over) < 1.005
    assert np.quantile(over, 0.9) < 1.1


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("topo", ["ft:m0=4,m1=4", "ft:m0=2,m1=3,hosts=4,cables=2", "ft:m0=4,m1=2,hosts=8,speed=2"])
def test_the_busiest_server_is_never_kept_waiting_where_leaves_have_enough_cables(topo, skew):
    """Gonzalez and Sahni: however short phases have to be."""
    fabric = parse_fabric(topo)
    sizes = drawn_sizes(fabric.servers, skew, 100_000, 7)
    leaf = np.arange(fabric.slots) // fabric.hosts
    lanes = np.ones((fabric.leaves, fabric.uplinks * fabric.lanes), bool)
    schedule = turns(sizes, Crossbars(leaf, lanes, np.zeros((fabric.leaves,) * 2)), 0, 0)
    busiest = max(sizes.sum(axis=0).max(), sizes.sum(axis=1).max())
    assert schedule is not None
    assert sum(turn.length for turn in schedule) == busiest


@pytest.mark.parametrize("failures", [0, 1, 3, 5, 9])
@pytest.mark.parametrize("skew", SKEWS)
def test_failures_cost_little_beside_the_bound(failures, skew):
    fabric = random_failures(parse_fabric("ft:m0=6,m1=5"), failures, seed=failures)
    plan = plan_unequal(fabric, drawn_sizes(30, skew, 600_000, 3))
    assert unequal_problems(plan) == []
    assert plan.length < 1.03 * plan.lower_bound


def test_phases_that_cost_something_are_fewer():
    fabric, sizes = parse_fabric("ft:m0=6,m1=6"), drawn_sizes(36, "zipf:1.2", 600_000, 3)
    free, dear = plan_unequal(fabric, sizes), plan_unequal(fabric, sizes, 10**6)
    assert dear.phases < free.phases
    assert dear.length >= free.length
    assert dear.length + dear.phases * 10**6 < free.length + free.phases * 10**6


def test_equal_sizes_get_the_plan_for_equal_sizes():
    plan = plan_unequal(parse_fabric("ft:m0=4,m1=4", "0:0,1:2,2:3"), drawn_sizes(16, "uniform", 5000, 1))
    assert (plan.phases, plan.length, plan.lower_bound) == (16, 80_000, 80_000)
    assert set(plan.sent.tolist()) == {5000}


def test_faults_are_found():
    fabric = parse_fabric("ft:m0=4,m1=4", "0:0")
    plan = plan_unequal(fabric, drawn_sizes(16, "zipf:1", 10_000, 1))
    away = int(np.flatnonzero((plan.spine != INSIDE) & (plan.src < 4))[0])
    less = plan.sent.copy()
    less[away] -= 1
    assert "bytes instead of" in unequal_problems(replace(plan, sent=less))[0]
    none = plan.sent.copy()
    none[away] = 0
    assert f"row {away}: 0 bytes" in unequal_problems(replace(plan, sent=none))
    assert "values for" in unequal_problems(replace(plan, sent=plan.sent[1:]))[0]
    dead = plan.spine.copy()
    dead[away] = 0
    assert "failed link 0:0" in " ".join(unequal_problems(replace(plan, spine=dead)))
    one = replace(plan, phase=np.zeros_like(plan.phase))
    assert "sends more than once" in unequal_problems(one)[0]


def test_leaves_that_nothing_joins_matter_where_they_have_something_to_send():
    fabric = parse_fabric("ft:m0=2,m1=3", "0:0,1:1")
    sizes = drawn_sizes(6, "zipf:1", 1000, 1)
    with pytest.raises(DetourError, match="leaves 0 and 1"):
        plan_unequal(fabric, sizes)
    plan = plan_unequal(fabric, sizes, skip_unreachable=True)
    assert (plan.unreachable, unequal_problems(plan)) == (((0, 1),), [])
    assert plan.sent.sum() == plan.sizes.sum() < sizes.sum()
    sizes[:2, 2:4] = sizes[2:4, :2] = 0
    assert plan_unequal(fabric, sizes).unreachable == ()


def test_what_cannot_be_planned():
    with pytest.raises(DetourError, match="at least as fast as servers' links"):
        plan_unequal(parse_fabric("ft:m0=2,m1=2,speed=1/2"), drawn_sizes(4, "uniform", 10, 1))
    with pytest.raises(DetourError, match="do not fit 4 participating servers"):
        plan_unequal(parse_fabric("ft:m0=2,m1=2"), np.ones((3, 3), np.int64))


def test_plans_go_through_files(tmp_path):
    for topo in ("ft:m0=4,m1=3", "ft:m0=2,m1=3,hosts=4,cables=2"):
        fabric = random_failures(parse_fabric(topo), 2, 1)
        sizes = drawn_sizes(12, "moe:1.5", 10**10, 2)
        plan = plan_unequal(fabric, sizes)
        files.write(plan, tmp_path / "plan.csv")
        read = read_unequal(fabric, tmp_path / "plan.csv", sizes)
        assert unequal_problems(read) == []
        assert (read.length, read.lower_bound) == (plan.length, plan.lower_bound)
    (tmp_path / "plan.csv").write_text("phase,src,dst,spine,up,down,bytes\n0,0,1,,,,\n")
    with pytest.raises(DetourError, match="line 2: '0,0,1,,,,' is not phase,src,dst,spine,up,down,bytes"):
        read_unequal(fabric, tmp_path / "plan.csv", sizes)


def test_sizes_from_files(tmp_path):
    fabric, path = FatTree(2, 2, group=(0, 1, 3)), tmp_path / "sizes"
    path.write_text("src,dst,bytes\n0,3,7\n3, 1 ,8\n1,1,5\n")
    expected = [[0, 0, 7], [0, 0, 0], [0, 8, 0]]
    assert read_sizes(fabric, path).tolist() == expected
    for text in ("[[9,0,7],[0,0,0],[0,8,0]]", '{"sizes": [[0,0,7],[0,0,0],[0,8,0]]}'):
        path.write_text(text)
        assert read_sizes(fabric, path).tolist() == expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("src,dst\n0,1\n", "line 1: 'src,dst' is not 'src,dst,bytes'"),
        ("src,dst,bytes\n0,1\n", "line 2: '0,1' is not src,dst,bytes"),
        ("src,dst,bytes\n0,2,5\n", "line 2: server 2 does not participate"),
        ("src,dst,bytes\n0,1,5\n0,1,5\n", "line 3: 0 -> 1 appears twice"),
        ("src,dst,bytes\n0,1,9999999999999\n", "bytes exceed"),
        ("src,dst,bytes\n0,0,5\n", "no server sends"),
        ("[[0,1],[1,0]]", "is not a list of 3 lists of 3 whole numbers"),
        ("[[0,1,1],[1,0,1],[1,true,0]]", "is not a list of 3 lists"),
        ("[[0,1,1],[1,0,1],[1,-1,0]]", "is not a list of 3 lists"),
        ("[[0,", "Expecting value"),
    ],
)
def test_sizes_that_are_refused(tmp_path, text, rule):
    path = tmp_path / "sizes"
    path.write_text(text)
    with pytest.raises(DetourError) as error:
        read_sizes(FatTree(2, 2, group=(0, 1, 3)), path)
    assert rule in str(error.value)


def test_sizes_that_are_drawn():
    for skew in SKEWS:
        sizes = drawn_sizes(12, skew, 10_000, 5)
        assert (sizes.diagonal() == 0).all()
        assert sizes.sum() == pytest.approx(12 * 11 * 10_000, rel=0.01)
        assert (sizes == drawn_sizes(12, skew, 10_000, 5)).all()
    zipf = np.sort(drawn_sizes(12, "zipf:1", 10_000, 5).ravel())[::-1]
    assert zipf[0] / zipf[9] == pytest.approx(10, rel=0.01)
    into = np.sort(drawn_sizes(200, "moe:1", 10_000, 5).sum(axis=0))[::-1]
    assert into[0] / into[9] == pytest.approx(10, rel=0.15)
    assert (drawn_sizes(12, "zipf:1", 10_000, 5) != drawn_sizes(12, "zipf:1", 10_000, 6)).any()
    for wrong in ("zipf", "zipf:-1", "normal:1", "zipf:1e3"):
        with pytest.raises(DetourError, match="is not uniform, zipf:S or moe:S"):
            drawn_sizes(4, wrong, 10, 1)


def test_the_bound_tells_who_decides():
    sizes = np.zeros((8, 8), np.int64)
    sizes[0, 4:] = 100
    bound = lp_bound(parse_fabric("ft:m0=4,m1=2"), sizes)
    assert (bound.bytes, bound.servers, bound.links) == (400, 400, 100)
    sizes[:4, 4:] = 100
    bound = lp_bound(parse_fabric("ft:m0=4,m1=2", "0:0,1:1,1:2"), sizes)
    # Leaf 0 has three links, leaf 1 two, and one spine is all that they share.
    assert (bound.bytes, bound.servers, bound.links) == (1600, 400, 1600)
