# SPDX-License-Identifier: Apache-2.0
"""FORS on three levels: plans are right, as few phases as an integer programme needs, and the verifier sees faults."""

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.cli import main
from detour.control.fors import loads
from detour.control.fors.fabric import FatTree, random_failures
from detour.control.fors.files import read, write
from detour.control.fors.loads import LeafDemand, least_phases, whole
from detour.control.fors.plan import ForsPlan
from detour.control.fors.solve import proven_bound, solve
from detour.control.fors.texts import parse_fabric
from detour.control.fors.verify import problems
from detour.topo.clos import fat_tree
from tests.unit.control.fors_oracle import feasible

TINY = [
    FatTree.three_levels(2, 2, 1, 1, 1),
    FatTree.three_levels(2, 2, 2, 1, 1),
    FatTree.three_levels(3, 1, 2, 1, 1, failed=frozenset({(0, 0, 0)})),
    FatTree.three_levels(2, 2, 2, 1, 1, failed=frozenset({(0, 0)})),
    FatTree.three_levels(2, 2, 2, 2, 1, failed=frozenset({(3, 1), (0, 0, 0), (1, 1, 1)})),
    FatTree.three_levels(2, 1, 2, 1, 2, failed=frozenset({(0, 1, 0)})),
    FatTree.three_levels(3, 1, 2, 2, 1, failed=frozenset({(0, 0), (1, 1, 0), (2, 1, 0)})),
]


@pytest.mark.parametrize("fabric", TINY, ids=lambda fabric: f"{fabric.name} {fabric.failed_names()}")
def test_no_plan_has_fewer_phases(fabric):
    """The oracle knows servers, phases and links, and nothing of planes or loads."""
    plan = solve(fabric)
    assert problems(plan) == []
    assert feasible(fabric, plan.phases)
    assert not feasible(fabric, plan.lower_bound - 1)
    assert plan.optimal == (plan.phases == plan.lower_bound)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 8])
def test_every_connected_fabric_gets_a_plan(count):
    for seed in range(4):
        for bare in (
            parse_fabric("fat-tree:k=4"),
            FatTree.three_levels(3, 3, 2, 2, 2),
            FatTree.three_levels(2, 3, 3, 1, 1),
        ):
            fabric = random_failures(bare, min(count, 4 if bare.cores == 1 else count), seed)
            plan = solve(fabric)
            assert problems(plan) == []
            assert plan.lower_bound <= plan.phases <= 1.15 * plan.lower_bound
            assert plan.phases == len(np.unique(plan.phase))


def test_bounds_that_can_be_counted():
    """15 messages of a server; a leaf with one of two links sends 2 * 14 over it; a pod with one of four links to cores
    8 servers' less 4 of its own: 4 * 12."""
    bare = parse_fabric("fat-tree:k=4")
    assert proven_bound(bare) == 15
    assert proven_bound(bare.with_failed([(3, 1)])) == 28
    three = [(2, 0, 0), (2, 0, 1), (2, 1, 0)]
    assert proven_bound(bare.with_failed(three)) == 48
    assert solve(bare.with_failed(three)).optimal
    # A plane that one pod has lost and a plane that another has: what they have for each other finds none of two.
    parted = bare.with_failed([(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)])
    assert parted.unreachable() == [(u, v) for u in (0, 1) for v in (2, 3)]
    with pytest.raises(DetourError, match="no way up and down is left for leaves 0 and 2, 0 and 3, 1 and 2, 1 and 3"):
        solve(parted)
    plan = solve(parted, skip_unreachable=True)
    assert problems(plan) == []
    assert len(plan.phase) == 240 - 2 * 4 * 4


def test_the_fabric_is_that_of_the_topology():
    """Aggregation switch j of every pod and the cores of plane j, as `topo.clos.fat_tree` joins them."""
    fabric, topology = parse_fabric("fat-tree:k=6,blocking=2"), fat_tree(6, 2)
    assert (fabric.servers, fabric.pods) == (len(topology.hosts), topology.groups)
    for link in topology.links:
        if link.kind != "global":
            continue
        lower, core = topology.switches[link.a[0]], topology.switches[link.b[0]]
        assert (lower.position - fabric.leaves) == core.position // fabric.cores
    assert sum(link.kind == "global" for link in topology.links) == fabric.high.size


def _plan() -> ForsPlan:
    return solve(parse_fabric("fat-tree:k=4", "0:0,1/1:0"))


def _changed(plan: ForsPlan, row: int, **values: int) -> ForsPlan:
    columns = {}
    for name, value in values.items():
        columns[name] = getattr(plan, name).copy()
        columns[name][row] = value
    return replace(plan, **columns)


def test_the_verifier_sees_faults():
    plan = _plan()
    core = plan.core
    assert core is not None
    across = int(np.flatnonzero(core >= 0)[0])
    inside = int(np.flatnonzero(plan.spine < 0)[0])
    in_pod = int(np.flatnonzero((plan.spine >= 0) & (core < 0))[0])
    from_leaf_0 = int(np.flatnonzero((plan.src < 2) & (core >= 0))[0])
    from_pod_1 = int(np.flatnonzero((plan.src // 4 == 1) & (core >= 0) & (plan.spine == 1))[0])
    faults = {
        "instead of 1": _changed(plan, across, dst=plan.src[across]),
        "without a plane": _changed(plan, across, spine=-1, core=-1),
        "without a core": _changed(plan, across, core=-1),
        "but has core 0": _changed(plan, in_pod, core=0),
        "but has plane 1": _changed(plan, inside, spine=1),
        "uses the failed link 0:0": _changed(plan, from_leaf_0, spine=0),
        "uses the failed link 1/1:0": _changed(plan, from_pod_1, core=0),
        "sends 2 times": _changed(plan, 1, src=plan.src[0], phase=plan.phase[0]),
        "is used 2 times (up)": _changed(plan, across, phase=_taken(plan, across)),
        "core 2 is not in -1..1": _changed(plan, across, core=2),
        "are called parted, and have a way": replace(plan, unreachable=((0, 1),)),
    }
    assert problems(plan) == []
    for text, wrong in faults.items():
        complaints = problems(wrong, most=500)
        assert any(text in line for line in complaints), (text, complaints[:3])


def _taken(plan: ForsPlan, row: int) -> int:
    """A phase in which another flow has the row's link between leaf and plane."""
    same = (plan.src // 2 == plan.src[row] // 2) & (plan.spine == plan.spine[row]) & (plan.phase != plan.phase[row])
    return int(plan.phase[np.flatnonzero(same)[0]])


def test_files_and_the_command(tmp_path, capsys, run_json):
    options = ["--topo", "ft3:pods=3,leaves=2,aggs=2,cores=2", "--random-failures", "2", "--seed", "3"]
    file = tmp_path / "plan.csv"
    made = run_json("fors", "schedule", *options, "--out", str(file))
    seen = run_json("fors", "verify", *options, str(file))
    assert {made[key] == seen[key] for key in ("phases", "bound", "failed", "flows", "optimal", "gap")} == {True}
    assert made["servers"] == 12
    assert len(made["failed"]) == 2
    assert main(["fors", "verify", *options[:2], "--fail", "0:0", str(file)]) == 1
    assert "uses the failed link 0:" in capsys.readouterr().out
    assert main(["fors", "route", *options]) == 0
    assert "optimal" in capsys.readouterr().out
    plan = _plan()
    write(plan, file)
    again = read(plan.fabric, file)
    assert again.phases == plan.phases
    assert all((getattr(again, name) == getattr(plan, name)).all() for name in ("phase", "src", "dst", "spine", "core"))


@pytest.mark.parametrize(
    ("fabric", "phases"),
    [
        (FatTree.three_levels(1, 1, 1, 1, 1), 0),
        (FatTree.three_levels(2, 2, 1, 1, 1, group=(3,)), 0),
        (FatTree.three_levels(1, 3, 2, 1, 2), 5),
        (FatTree.three_levels(3, 1, 1, 1, 1), 2),
        (FatTree.three_levels(2, 2, 2, 2, 2, population=(2, 0, 1, 0), group=(0, 4)), 1),
    ],
)
def test_the_smallest_fabrics(fabric, phases):
    plan = solve(fabric)
    assert problems(plan) == []
    assert (plan.phases, plan.optimal) == (phases, True)
    with pytest.raises(DetourError, match="has no servers"):
        solve(FatTree.three_levels(2, 2, 2, 2, 2, population=(0, 0, 0, 0)))


def test_groups_and_populations_of_three_levels():
    bare = FatTree.three_levels(3, 2, 2, 2, 3, population=(3, 1, 0, 2, 3, 3), group=(0, 2, 3, 9, 10, 12, 15, 16))
    for seed in range(6):
        fabric = random_failures(bare, seed, seed)
        plan = solve(fabric)
        assert problems(plan) == []
        assert set(plan.src.tolist()) == set(fabric.group)
        assert plan.phases <= plan.lower_bound + 1
    wrong = replace(plan, fabric=replace(plan.fabric, group=(0, 2, 3, 9, 10, 12, 15)))
    assert any("is a place without server that takes part" in line for line in problems(wrong, most=500))


def test_rounding_meets_links_where_the_programme_is_large(monkeypatch):
    """As beyond `_MANY_PATHS`: rounded flows are whole, all there, and no link has more than phases."""
    monkeypatch.setattr(loads, "_MANY_PATHS", 0)
    for seed in range(4):
        fabric = random_failures(FatTree.three_levels(3, 4, 4, 4, 4), 3 + seed, seed)
        plan = solve(fabric)
        assert problems(plan) == []
        assert plan.phases <= 1.02 * plan.lower_bound
        demand = LeafDemand(fabric)
        bound, near = least_phases(demand)
        assert near is not None
        assert bound == max(loads.counting_bound(fabric), ceil(loads.fluid_bound(demand)))
        rounded = whole(demand, bound, near)
        assert rounded is not None
        rounded = rounded[:, 0]
        pair, plane = demand.paths.T
        assert (np.bincount(pair, rounded) == demand.flows).all()
        load = np.zeros(fabric.alive.shape)
        for end in demand.pairs[pair].T:
            np.add.at(load, (end, plane), rounded)
        assert load.max() <= bound


def test_a_plan_is_kept_when_one_more_link_fails(tmp_path, refused, run_json):
    options = ["--topo", "ft3:pods=3,leaves=2,aggs=3,cores=3,hosts=2", "--fail", "0:0"]
    file, later = tmp_path / "plan.csv", tmp_path / "later.csv"
    before = run_json("fors", "route", *options, "--out", str(file))
    options[-1] += ",2/1:0"
    report = run_json("fors", "route", *options, "--keep", str(file), "--out", str(later))
    assert (report["method"], report["anew"], report["verified"]) == ("incremental", False, True)
    assert 0 < report["moved"] < report["flows"] // 4
    assert report["phases"] <= before["phases"] + 1
    assert main(["fors", "verify", *options, str(later)]) == 0
    assert "is not a plan for" in refused("fors", "route", *options, "--keep", str(file), "--group", "0-3")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--topo", "ft3:pods=2,leaves=2,aggs=2"], "cores"),
        (["--topo", "fat-tree:k=3"], "k must be an even number"),
        (["--topo", "ft3:pods=0,leaves=2,aggs=2,cores=2"], "pods=0 is not in 1..64"),
        (["--topo", "fat-tree:k=64"], "65536 servers exceed the limit of 4096"),
        (["--topo", "fat-tree:k=4", "--fail", "0-1"], "'0-1' is not leaf:agg, like 3:1, or pod/agg:core"),
        (["--topo", "fat-tree:k=4", "--fail", "8:0"], "has no link 8:0 (leaf 0..7, agg 0..1)"),
        (["--topo", "fat-tree:k=4", "--fail", "0/0:2"], "has no link 0/0:2 (pod 0..3, agg 0..1, core 0..1)"),
        (["--topo", "fat-tree:k=4", "--fail", "0:*"], "no way up and down is left for leaves 0 and 1"),
        (["--topo", "fat-tree:k=4", "--random-failures", "99"], "32 working links; 99 cannot fail"),
        (["--topo", "fat-tree:k=4", "--random-failures", "30"], "links can fail before two leaves are disconnected"),
        (["--topo", "fat-tree:k=4", "--group", "0,16"], "has no server 16"),
        (["--topo", "fat-tree:k=4", "--population", "2,2"], "the population is not 8 numbers in 0..2"),
        (["--topo", "fat-tree:k=4", "--skew", "zipf:1"], "--skew is for fat-trees of two levels"),
        (["--topo", "fat-tree:k=4", "--algorithm", "xor"], "--algorithm xor is for fat-trees of two levels"),
    ],
)
def test_refusals_of_three_levels(options, text, refused):
    assert text in refused("fors", "schedule", *options)


@pytest.mark.parametrize(("wrong", "text"), [({"pods": 2}, "need cores"), ({"cores": 1, "cables": 2}, "one of")])
def test_what_no_tree_is(wrong, text):
    with pytest.raises(DetourError, match=text):
        replace(FatTree(2, 2), population=(), **wrong)
