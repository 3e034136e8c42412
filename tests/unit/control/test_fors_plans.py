# SPDX-License-Identifier: Apache-2.0
"""FORS: plans are right and have as few phases as there can be; who says otherwise is found out."""

import random
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from math import ceil

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.control.fors import FatTree, ForsPlan, files, parse_fabric, random_failures, solve
from detour.control.fors.incremental import reroute
from detour.control.fors.loads import LeafDemand, counting_bound, dealt_out, fluid_bound, fractional, whole
from detour.control.fors.paths import INSIDE
from detour.control.fors.phase_assignment import phases_of
from detour.control.fors.solve import exact_plan, paper_phases, proven_bound
from detour.control.fors.verify import problems
from tests.unit.control.fors_oracle import feasible

DAQ = "ft:m0=20,m1=18"
SW_0_5_11 = "0:0,0:1,0:2,5:3,5:4,5:5,11:6,11:7,11:8"
# docs/facts.md, "FORS: errors in the paper": Algorithm 1 claims 9 and 36 phases.
COUNTEREXAMPLES = [("ft:m0=3,m1=3", "0:0,1:0,2:1", 18), ("ft:m0=6,m1=6", "1:0,2:0,3:0,4:0,5:0,0:3", 45)]


EXACT = "exact/integer-programme"
PLANS = [
    # Scenarios of the paper.
    (DAQ, None, 359, 360, EXACT),
    (DAQ, "0:0", 359, 360, EXACT),
    (DAQ, "0:0,5:1,11:2", 359, 360, EXACT),
    (DAQ, "0:0,0:1", 378, 378, "algorithm-1/algorithm-2"),
    (DAQ, "*:0,*:1", 378, 378, "algorithm-1/algorithm-2"),
    (DAQ, "0:0,0:1,5:2,5:3,11:4,11:5", 378, 378, "algorithm-1/recolouring"),
    (DAQ, SW_0_5_11, 400, 400, "algorithm-1/recolouring"),
    (DAQ, "*:0,*:1,*:4,*:5", 425, 425, "algorithm-1/algorithm-2"),
    # The paper counts a server's own part as a message that takes a phase.
    ("ft:m0=4,m1=4", None, 15, 16, EXACT),
    ("ft:m0=4,m1=4", "0:0", 16, 16, "closed-form/algorithm-2"),
    ("ft:m0=4,m1=3", "0:0", 11, 12, EXACT),
    ("ft:m0=3,m1=3", None, 8, 9, EXACT),
    ("ft:m0=1,m1=1", None, 0, 1, EXACT),
    ("ft:m0=6,m1=1", "0:*", 5, 6, EXACT),
    ("ft:m0=4,m1=5", "0:0,0:1", 32, 32, "algorithm-1/algorithm-2"),
    *((topo, fail, phases, phases, EXACT) for topo, fail, phases in COUNTEREXAMPLES),
    # A leaf's 8 * 40 flows over four uplinks; without one of them over three.
    ("ft:m0=4,m1=6,hosts=8", None, 80, 80, EXACT),
    ("ft:m0=4,m1=6,hosts=8", "0:0", 107, 107, EXACT),
    ("ft:m0=2,m1=6,hosts=8,cables=2", "0:0:1", 107, 107, EXACT),
    ("ft:m0=2,m1=6,hosts=8,cables=2", "0:0:0,1:0:1", 107, 107, EXACT),
    # All of a spine's cables at one leaf: what goes there has the other spine only.
    ("ft:m0=2,m1=6,hosts=8,cables=2", "0:0", 160, 160, EXACT),
    ("ft:m0=4,m1=6,hosts=8,speed=2", None, 47, 48, EXACT),
    ("ft:m0=4,m1=6,hosts=8,speed=1/2", None, 80, 80, EXACT),
    ("ft:m0=4,m1=6,hosts=4,speed=1/2", None, 20, 20, EXACT),
]


@pytest.mark.parametrize(("topo", "fail", "phases", "paper", "method"), PLANS)
def test_plans_have_as_few_phases_as_can_be(topo, fail, phases, paper, method):
    plan = solve(parse_fabric(topo, fail))
    assert problems(plan) == []
    assert (plan.phases, plan.lower_bound, plan.optimal, plan.method) == (phases, phases, True, method)
    assert paper_phases(plan.fabric, plan.phases) == paper
    assert plan.flows == plan.fabric.slots * (plan.fabric.slots - 1)


@pytest.mark.parametrize("failures", [1, 2, 5, 10, 20, 40, 70, 100, 140, 180])
def test_random_failures_of_the_daq_network(failures):
    plan = solve(random_failures(parse_fabric(DAQ), failures, seed=failures))
    assert problems(plan) == []
    assert plan.phases == plan.lower_bound == proven_bound(plan.fabric)
    assert plan.optimal


@pytest.mark.parametrize("failures", [0, 1, 9, 60])
def test_the_exact_way_agrees_with_the_closed_forms(failures):
    fabric = random_failures(parse_fabric(DAQ), failures, seed=failures)
    plan = exact_plan(fabric, ())
    assert problems(plan) == []
    assert plan.phases == plan.lower_bound == solve(fabric).phases


def tiny(rng: random.Random) -> FatTree:
    spines, leaves = rng.choice([(2, 2), (2, 3), (3, 2), (3, 3), (2, 4)])
    return FatTree(spines, leaves, population=tuple(rng.randint(max(1, spines - 1), spines) for _ in range(leaves)))


def tiny_with_other_cables(rng: random.Random) -> FatTree:
    """More servers than spines, parallel cables, and slower and faster ones."""
    spines, leaves, hosts = rng.choice([(1, 2, 2), (2, 2, 3), (1, 3, 2), (2, 3, 2), (1, 2, 3), (2, 2, 2)])
    speed = Fraction(*rng.choice([(1, 1), (1, 2), (2, 1), (2, 3), (3, 2)]))
    return FatTree(spines, leaves, hosts=hosts, cables=rng.randint(1, 2), speed=speed)


@pytest.mark.parametrize("draw", [tiny, tiny_with_other_cables])
def test_as_few_phases_as_there_can_be(draw):
    """Against an integer programme of the whole problem: our phases are enough, one less is not."""
    rng = random.Random(f"fors {draw.__name__}")
    checked = 0
    while checked < 25:
        fabric = draw(rng)
        links = [(u, c) for u in range(fabric.leaves) for c in range(fabric.uplinks) if rng.random() < 0.25]
        fabric = fabric.with_failed(links)
        if fabric.unreachable():
            continue
        plan = solve(fabric)
        assert problems(plan) == []
        assert plan.optimal
        assert feasible(fabric, plan.phases), fabric
        assert not feasible(fabric, plan.phases - 1), fabric
        checked += 1


def test_what_is_wrong_with_a_cable_is_found():
    plan = solve(parse_fabric("ft:m0=2,m1=4,hosts=4,cables=2"))
    assert problems(plan) == []
    assert "names no cables" in problems(replace(plan, cables=None))[0]
    assert plan.cables is not None
    row = int(np.flatnonzero(plan.spine != INSIDE)[0])
    for value, text in ((2, "up 2 is not in 0..1"), (1 - plan.cables[0, row], "is used more than once (up)")):
        cables = plan.cables.copy()
        cables[0, row] = value
        assert any(text in line for line in problems(replace(plan, cables=cables)))
    link = int(plan.src[row]) // 4, int(plan.uplink(0)[row])
    broken = replace(plan, fabric=plan.fabric.with_failed([link]))
    assert f"uses the failed link {plan.fabric.link_name(link)}" in problems(broken)[0]
    # Twice as fast: two flows of a cable are right, three are not.
    fast = solve(parse_fabric("ft:m0=1,m1=2,hosts=3,speed=2"))
    assert (fast.phases, problems(fast)) == (5, [])
    crowded = replace(fast, phase=np.zeros_like(fast.phase))
    assert any("is used more than 2 times" in line for line in problems(crowded, most=100))


def test_more_failures_of_parallel_cables_are_planned_anew():
    plan = solve(parse_fabric("ft:m0=2,m1=4,hosts=4,cables=2"))
    change = reroute(plan, plan.fabric.with_failed({(0, 0)}))
    assert change.anew
    assert (change.plan.phases, problems(change.plan)) == (16, [])


def test_some_servers_only():
    fabric = parse_fabric(DAQ, SW_0_5_11, servers=326)
    plan = solve(fabric)
    assert problems(plan) == []
    # 19 servers, each with 307 outside its leaf, over 17 links.
    assert plan.phases == plan.lower_bound == -(-19 * 307 // 17)
    assert plan.flows == 326 * 325
    empty = solve(FatTree(4, 4, frozenset({(0, 0), (0, 1), (0, 2), (0, 3)}), (0, 4, 1, 3)))
    assert (empty.phases, problems(empty)) == (7, [])


def test_a_group_of_servers():
    """One of six leaves takes part wholly, three partly: a leaf's 6 * 9 flows over its links, a server's 14 others."""
    group = (*range(6), 7, 8, 12, 13, 14, 15, 20, 21, 22)
    whole = FatTree(6, 6, group=group)
    plan = solve(whole)
    assert (plan.phases, plan.optimal, problems(plan)) == (14, True, [])
    assert set(plan.src.tolist()) == set(group)
    some = solve(whole.with_failed({(0, 0), (0, 1), (0, 2)}))
    assert (some.phases, some.optimal, problems(some)) == (18, True, [])
    other = replace(plan, fabric=FatTree(6, 6, group=(0, *group[1:-1], 23)))
    assert "takes part" in problems(other)[0]
    with pytest.raises(DetourError, match="another fabric"):
        reroute(plan, other.fabric)


def test_single_servers_and_leaves():
    for fabric in (FatTree(1, 1), FatTree(1, 5), FatTree(5, 1), FatTree(4, 3, population=(1, 0, 0))):
        plan = solve(fabric)
        assert (plan.phases, problems(plan), plan.optimal) == (fabric.servers - 1, [], True)
    with pytest.raises(DetourError, match="no servers"):
        solve(FatTree(2, 2, population=(0, 0)))


def test_leaves_that_nothing_joins():
    fabric = parse_fabric("ft:m0=4,m1=4", "0:0,0:1,1:2,1:3,3:*")
    with pytest.raises(DetourError, match="no common spine is left for leaves 0 and 1, 0 and 3, 1 and 3, 2 and 3"):
        solve(fabric)
    plan = solve(fabric, skip_unreachable=True)
    assert plan.unreachable == ((0, 1), (0, 3), (1, 3), (2, 3))
    assert problems(plan) == []
    assert plan.flows == 4 * 12 + 2 * 2 * 16
    assert (plan.phases, plan.optimal) == (11, True)  # a server of leaf 2 has 11 peers
    assert paper_phases(fabric, plan.phases) == 12


def test_the_lower_bound_needs_no_tolerance():
    for topo, fail, phases in COUNTEREXAMPLES:
        fabric = parse_fabric(topo, fail)
        demand = LeafDemand(fabric)
        assert ceil(fluid_bound(demand)) == phases
        assert counting_bound(fabric) < phases
        assert fractional(demand, phases - 1) is None
        assert whole(demand, phases - 1, None) is None


def test_solutions_unlike_their_transpose():
    """Three leaves that pairwise share one spine more than they need: odd flows, which no symmetric x can halve."""
    from detour.control.fors.loads import _Programme

    fabric = parse_fabric("ft:m0=6,m1=6", "1:0,2:0,3:0,4:0,5:0,0:3")
    demand = LeafDemand(fabric)
    model = _Programme(demand, 45, integer=True, directed=True)
    assert model.run() == "optimal"
    forth, back = model.integers().reshape(2, -1)
    one, other = demand.ends()
    for flows in (forth, back):
        assert (np.bincount(demand.paths[:, 0], flows) == demand.flows).all()
    links = len(demand.room)
    up = np.bincount(one, forth, links) + np.bincount(other, back, links)
    down = np.bincount(other, forth, links) + np.bincount(one, back, links)
    assert max(up.max(), down.max()) <= 45


def test_flows_are_dealt_out_where_the_solver_gives_up(monkeypatch):
    """A plan all the same, not called optimal unless its bound is met."""
    monkeypatch.setattr(import_module("detour.control.fors.solve"), "whole", lambda *_: None)
    for topo, fail, phases in COUNTEREXAMPLES:
        plan = solve(parse_fabric(topo, fail))
        assert problems(plan) == []
        assert plan.phases >= plan.lower_bound == phases
        assert plan.optimal == (plan.phases == phases)
    demand = LeafDemand(parse_fabric("ft:m0=3,m1=3", "0:0"))
    flows = dealt_out(demand)
    for way in flows.T:
        assert (np.bincount(demand.paths[:, 0], way) == demand.flows).all()
    # Nine flows each way over two spines.
    assert flows[demand.paths[:, 0] == 0].sum(axis=1).tolist() == [10, 8]


def test_flows_that_do_not_fit():
    one = np.zeros(3, np.int32)
    with pytest.raises(DetourError, match="do not fit into 2 phases"):
        phases_of(2, one, one + 1, one, np.array([2, 2]), 2)
    with pytest.raises(DetourError, match="do not fit into 2 phases"):
        phases_of(2, one, one, one - 1, np.array([1, 1]), 2)


def faults(plan: ForsPlan) -> dict[str, ForsPlan]:
    """Plans with one thing wrong each, and what is to be said of it."""
    outside = np.flatnonzero(plan.spine >= 0)
    inside = np.flatnonzero(plan.spine == INSIDE)
    a, b = outside[0], outside[-1]
    leaf = plan.src // plan.fabric.spines
    twin = next(k for k in outside[1:] if leaf[k] == leaf[a] and plan.phase[k] == plan.phase[a])

    def change(column: str, row: int | np.integer, value: int) -> ForsPlan:
        values = getattr(plan, column).copy()
        values[row] = value
        return replace(plan, **{column: values})

    def rows(keep: np.ndarray) -> ForsPlan:
        columns = {name: getattr(plan, name)[keep] for name in ("phase", "src", "dst", "spine")}
        return replace(plan, **columns)

    everything = np.arange(plan.flows)
    failed_leaf, failed_spine = sorted(plan.fabric.failed)[0]
    over_failed = next(k for k in outside if leaf[k] == failed_leaf)
    return {
        "is there 0 times": rows(everything[everything != b]), "is there 2 times": rows(np.append(everything, a)),
        "instead of 0": change("dst", a, int(plan.src[a])),
        "sends more than once": change("phase", b, int(plan.phase[plan.src == plan.src[b]][0])),
        "receives more than once": change("phase", b, int(plan.phase[plan.dst == plan.dst[b]][0])),
        "is used more than once (up)": change("spine", a, int(plan.spine[twin])),
        "uses the failed link": change("spine", over_failed, failed_spine),
        "leaves its leaf without a spine": change("spine", a, INSIDE),
        "stays in its leaf, but has spine": change("spine", int(inside[0]), 1),
        "spine 9 is not in": change("spine", a, 9), "phase -1 is not in": change("phase", a, -1),
        "src 99 is not in": change("src", a, 99), "3 values for": replace(plan, dst=plan.dst[:3]),
        "are called unreachable, but share": replace(plan, unreachable=((0, 1),)),
    }  # fmt: skip


@pytest.mark.parametrize("fault", faults(solve(FatTree(4, 5, frozenset({(1, 2)})))))
def test_the_verifier_finds_every_fault(fault):
    plan = solve(FatTree(4, 5, frozenset({(1, 2)})))
    assert problems(plan) == []
    assert any(fault in text for text in problems(faults(plan)[fault], most=10_000))


def test_links_down_are_checked_as_well():
    """Two flows to one leaf over one spine, from different leaves: only the way down is shared."""
    plan = solve(FatTree(5, 4))
    leaf = plan.src // 5, plan.dst // 5
    first = int(np.flatnonzero(plan.spine >= 0)[0])
    other = next(
        k
        for k in np.flatnonzero((plan.spine >= 0) & (plan.phase == plan.phase[first]) & (leaf[1] == leaf[1][first]))
        if leaf[0][k] != leaf[0][first]
    )
    spine = plan.spine.copy()
    spine[other] = spine[first]
    assert any("(down)" in text for text in problems(replace(plan, spine=spine)))


def test_servers_that_are_not_there():
    plan = solve(FatTree(3, 3))
    partial = FatTree(3, 3, population=(3, 3, 2))
    assert (
        problems(replace(plan, fabric=partial)) == ["row 14: dst 8 is a place without server"]
        or "place without" in (problems(replace(plan, fabric=partial))[0])
    )


@pytest.mark.parametrize("seed", range(8))
def test_one_more_failure_moves_few_flows(seed):
    rng = random.Random(f"fors one more {seed}")
    fabric = random_failures(parse_fabric(DAQ, servers=326 if seed % 4 == 3 else None), 6 + 15 * seed, seed)
    plan = solve(fabric)
    links = [(u, c) for u in range(18) for c in range(20) if (u, c) not in fabric.failed]
    rng.shuffle(links)
    after = next(
        worse
        for worse in (fabric.with_failed([link]) for link in links)
        if worse.reduction == fabric.reduction and not worse.unreachable() and proven_bound(worse) == plan.phases
    )
    change = reroute(plan, after)
    assert problems(change.plan) == []
    assert change.plan.fabric == after
    assert not change.anew
    assert (change.plan.phases, change.plan.optimal) == (plan.phases, True)
    same = (change.plan.phase == plan.phase) & (change.plan.spine == plan.spine)
    assert change.moved == np.count_nonzero(~same) <= 0.05 * plan.flows


def test_failures_that_need_more_phases():
    plan = solve(FatTree(6, 5))
    change = reroute(plan, plan.fabric.with_failed({(0, 0), (0, 1), (0, 2)}))
    assert change.anew
    assert change.moved > 0
    assert (change.plan.phases, problems(change.plan)) == (48, [])
    with pytest.raises(DetourError, match="no common spine"):
        reroute(plan, plan.fabric.with_failed((0, c) for c in range(6)))
    with pytest.raises(DetourError, match="another fabric"):
        reroute(plan, FatTree(6, 4))


def test_a_flow_without_spine_in_its_phase_goes_to_another_phase():
    """FT(2;2,3): leaves 0 and 1 keep spine 1 only, so two flows between them cannot share a phase any more."""
    fabric = FatTree(3, 3)
    plan = solve(fabric)
    for link in ((0, 0), (1, 1), (2, 2)):
        change = reroute(plan, fabric.with_failed({link}))
        assert problems(change.plan) == []


def test_files(tmp_path):
    plan = solve(parse_fabric("ft:m0=4,m1=5", "1:2"))
    path = tmp_path / "plan.csv"
    files.write(plan, path)
    lines = path.read_text().splitlines()
    assert lines[0] == "phase,src,dst,spine"
    assert len(lines) == 1 + 20 * 19
    assert sum(line.endswith(",") for line in lines) == 20 * 3
    again = files.read(plan.fabric, path)
    assert problems(again) == []
    for name in ("phase", "src", "dst", "spine"):
        assert (getattr(again, name) == getattr(plan, name)).all()
    # As spreadsheets write it: other line ends, blanks, an empty line, quotes.
    loose = "\r\n".join(["phase, src, dst, spine", *lines[1:], ""]).replace(",1\r", ', "1"\r')
    path.write_bytes(loose.encode())
    assert problems(files.read(plan.fabric, path)) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1: '' is not 'phase,src,dst,spine'"),
        ("a,b\n", "line 1: 'a,b'"),
        ("phase,src,dst,spine\n0,1,2\n", "line 2: '0,1,2' is not phase,src,dst,spine"),
        ("phase,src,dst,spine\n0,1,2,\n0,1,x,3\n", "line 3"),
        ("phase,src,dst,spine\n0,1,-2,3\n", "line 2"),
        ("phase,src,dst,spine\n0,,2,3\n", "line 2"),
        ("phase,src,dst,spine\n0,1,2,99999999999\n", "line 2"),
    ],
)
def test_files_that_are_no_plans(tmp_path, text, error):
    path = tmp_path / "plan.csv"
    path.write_text(text)
    with pytest.raises(DetourError, match=error):
        files.read(FatTree(2, 2), path)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DetourError, match="No such file"):
        files.read(FatTree(2, 2), tmp_path / "none.csv")
    with pytest.raises(DetourError, match="No such file"):
        files.write(solve(FatTree(2, 2)), tmp_path / "none" / "plan.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DetourError, match="this is not UTF-8 text"):
        files.read(FatTree(2, 2), tmp_path / "binary.csv")
