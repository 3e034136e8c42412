# SPDX-License-Identifier: Apache-2.0
"""Path placement: colouring, bounds, ECMP as the data plane does it, repair, and the command."""

import itertools
import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour import cli
from detour.base.errors import DetourError
from detour.control.placement import ecmp
from detour.control.placement.exact import every_path
from detour.control.placement.jobs import FlowSet, flows_of, read_jobs
from detour.control.placement.network import PlacementNetwork, collisions, loads
from detour.control.placement.place import balanced, place
from detour.control.placement.placement import Placement, lower_bound
from detour.control.placement.repair import repair
from detour.control.placement.report import compare
from detour.control.planner import plan
from detour.control.routes.hashes import PATHS, crc_table, pick_member
from detour.control.verifier.trace import Tracer
from detour.topo import Topology, parse_failure, parse_topology
from detour.topo.failures import Failure
from detour.topo.paths import shortest_paths
from tests.native import from_python

LEAVES = "leaf-spine:leaves=4,spines=3,hosts=3"
FIGURE_1 = [["h0", "h9"], ["h1", "h10"], ["h3", "h11"]]


def job(collective: str, **more: Any) -> dict[str, Any]:
    return {"collective": collective} | ({"hosts": "all"} if "pairs" not in more else {}) | more


def flows(topology: str, *jobs: dict[str, Any]) -> FlowSet:
    named = [{"name": f"job{i}"} | each for i, each in enumerate(jobs)]
    return flows_of({"jobs": named}, parse_topology(topology))


def placed(topology: str, *jobs: dict[str, Any], down: tuple[str, ...] = ()) -> Placement:
    network = parse_topology(topology)
    return place(network, flows(topology, *jobs), frozenset(parse_failure(network, name) for name in down))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=60), st.integers(1, 7), st.integers(0, 2**20))
def test_a_colouring_is_balanced_at_every_vertex(edges, colours, seed):
    ends = np.array(edges, np.int32).reshape(-1, 2)
    ends = np.random.default_rng(seed).permutation(ends)
    balance = balanced(ends[:, 0].copy(), ends[:, 1].copy(), colours)
    for side, vertices in ((0, 5), (1, 7)):
        for vertex in range(vertices):
            used = np.bincount(balance[ends[:, side] == vertex], minlength=colours)
            assert used.max() - used.min() <= 1
            assert len(used) == colours


def least(topology: str, pairs: FlowSet) -> int:
    """Fewest collisions of all placements there are."""
    network = PlacementNetwork(parse_topology(topology))
    ends = zip(network.edge_of[pairs.source].tolist(), network.edge_of[pairs.target].tolist(), strict=True)
    counts = []
    for paths in itertools.product(*(shortest_paths(network.topology, a, b) for a, b in ends)):
        path_rows = np.full((len(paths), 5), -1, np.int32)
        for row, path in enumerate(paths):
            path_rows[row, : len(path)] = path
        counts.append(collisions(loads(network, path_rows)))
    return min(counts)


@pytest.mark.parametrize(
    ("topology", "pairs"),
    [
        (
            "leaf-spine:leaves=3,spines=2,hosts=3",
            [["h0", "h3"], ["h1", "h4"], ["h2", "h6"], ["h3", "h7"], ["h4", "h0"]],
        ),
        (LEAVES, [*FIGURE_1, ["h4", "h9"]]),
        ("fat-tree:k=4", [["h0", "h4"], ["h1", "h5"], ["h2", "h8"], ["h4", "h0"], ["h6", "h1"]]),
    ],
)
def test_colouring_reaches_what_trying_everything_finds(topology, pairs):
    placement = placed(topology, job("point-to-point", pairs=pairs))
    assert placement.collisions == placement.lower_bound == least(topology, placement.flows)


SIZES = {
    64: ("leaf-spine:leaves=8,spines=8,hosts=8", "leaf-spine:leaves=8,spines=4,hosts=8"),
    128: ("fat-tree:k=8",),
    256: ("leaf-spine:leaves=16,spines=16,hosts=16", "fat-tree:k=8,blocking=2"),
    1024: ("leaf-spine:leaves=32,spines=32,hosts=32", "fat-tree:k=16"),
}
JOBS = {
    "ring": [job("ring-all-reduce")],
    "shuffled rings": [job("ring-all-reduce", shuffle=1, connections=3), job("reduce-scatter", shuffle=2)],
    "tree": [job("tree", shuffle=4)],
    "all-to-all": [job("all-to-all")],
    "mixed": [job("all-to-all", hosts="h0-h40", shuffle=3), job("all-gather", shuffle=5), job("tree")],
}


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("topology", [name for names in SIZES.values() for name in names])
def test_collisions_are_within_five_percent_of_the_bound(topology, kind):
    placement = placed(topology, *JOBS[kind])
    assert len(placement.network.topology.hosts) in SIZES
    assert placement.lower_bound <= placement.collisions <= 1.05 * placement.lower_bound
    if placement.network.tiers == 2:
        assert placement.collisions == placement.lower_bound


def test_figure_1():
    topology = parse_topology(LEAVES)
    placement, report = compare(topology, flows(LEAVES, job("point-to-point", pairs=FIGURE_1)))
    assert (report.collisions, report.lower_bound) == (0, 0)
    assert report.ecmp_worst == 4  # the number that the paper shows in Fig. 1a
    assert len({placement.path(flow)[1] for flow in range(3)}) == 3


def test_a_single_leaf_has_no_spines_to_choose_from():
    placement = placed("leaf-spine:leaves=1,spines=1,hosts=8", job("ring-all-reduce"))
    assert [placement.path(flow) for flow in range(8)] == [(0,)] * 8


@pytest.mark.parametrize("topology", [LEAVES, "fat-tree:k=4"])
def test_usids_lead_along_the_path_through_the_tables(topology):
    network = parse_topology(topology)
    tracer = Tracer(plan(network), network)
    placement = placed(topology, job("all-to-all"))
    for flow in range(0, len(placement.flows), 7):
        a, b = (network.hosts[ends[flow]] for ends in (placement.flows.source, placement.flows.target))
        way = tracer.trace(a, b, usids=placement.usids(flow))
        assert way.delivered
        assert way.switches == placement.path(flow)


@pytest.mark.parametrize(("topology", "down"), [(LEAVES, ()), ("fat-tree:k=4", ()), ("fat-tree:k=4", ("s16", "s0-s3"))])
def test_ecmp_is_what_the_tables_do(topology, down):
    network = parse_topology(topology)
    failures = frozenset(parse_failure(network, name) for name in down)
    tracer = Tracer(plan(network, failures=failures), network, failures)
    live, pairs = PlacementNetwork(network, failures), flows(topology, job("ring-all-reduce", shuffle=2))
    ports = np.random.default_rng([9, len(pairs)]).integers(0, PATHS, len(pairs), dtype=np.int32)
    expected = np.zeros(live.links, np.int64)
    for flow, port in enumerate(ports.tolist()):
        a, b = (network.hosts[ends[flow]] for ends in (pairs.source, pairs.target))
        for one, other in itertools.pairwise(tracer.trace(a, b, port).switches):
            expected[live.link[one, other]] += 1
    assert ecmp.hash_ports(live, pairs, 9)[0].tolist() == expected.tolist()


def test_the_native_hash_is_the_one_of_the_data_plane():
    pick, table = from_python(ecmp.pick), np.array(crc_table(), np.uint16)
    numbers = np.random.default_rng(5).integers(0, PATHS, (200, 2))
    for path, node in numbers.tolist():
        for size in (1, 3, 8, 64):
            assert pick(table, path, node + 1, size) == pick_member(path, node + 1, size)


@pytest.mark.parametrize(
    ("topology", "down"),
    [(LEAVES, ("s4",)), (LEAVES, ("s0-s4", "s1-s5")), ("fat-tree:k=4", ("s16",)), ("fat-tree:k=4", ("s2", "s4-s7"))],
)
def test_damaged_networks_are_used_as_far_as_they_go(topology, down):
    placement = placed(topology, job("ring-all-reduce", shuffle=7), down=down)
    assert loads(placement.network, placement.path_rows).sum() == sum(
        len(placement.path(flow)) - 1 for flow in range(len(placement.flows))
    )
    again = ecmp.hashed(placement.network, placement.flows, 20, lambda text: None)
    assert placement.lower_bound <= placement.collisions <= again.mean


def test_the_solver_proves_what_the_bound_cannot():
    # h0 and h1 both must pass s4 in the end: two of the three spines have lost a leaf.
    placement = placed(LEAVES, job("point-to-point", pairs=[["h0", "h9"], ["h1", "h10"]]), down=("s3-s5", "s3-s6"))
    assert (placement.method, placement.collisions, placement.lower_bound) == ("solver", 2, 1)


def least_busy(network: PlacementNetwork, flows: FlowSet) -> int:
    """What the busiest link carries at least, of all placements there are; great flows first, in integers."""
    ends = zip(network.edge_of[flows.source].tolist(), network.edge_of[flows.target].tolist(), strict=True)
    ways = [
        [[int(network.link[a, b]) for a, b in itertools.pairwise(path)] for path in every_path(network, *pair)]
        for pair in ends
    ]
    order, load = sorted(zip(flows.size.tolist(), ways, strict=True), key=lambda each: -each[0]), [0] * network.links
    best = sum(flows.size.tolist())

    def search(place: int, busiest: int) -> None:
        nonlocal best
        if busiest >= best:
            return
        if place == len(order):
            best = busiest
            return
        size, some = order[place]
        for links in some:
            for link in links:
                load[link] += size
            search(place + 1, max([busiest] + [load[link] for link in links]))
            for link in links:
                load[link] -= size

    search(0, 0)
    return best


@pytest.mark.parametrize("sizes", [(1, 2, 3, 10**9, 10**9 + 1, 2 * 10**9), (10**9, 3 * 10**9)], ids=["mixed", "even"])
def test_a_solver_proves_no_more_than_it_can(sizes):
    """Beside a flow of 10^9 bytes a solver does not see a single one; multiples of 10^9 it counts."""
    topology, solved, gaps = parse_topology("leaf-spine:leaves=4,spines=3,hosts=4"), 0, []
    failures = frozenset(parse_failure(topology, name) for name in ("s0-s4", "s1-s5", "s2-s6"))
    for seed in range(80):
        draw = random.Random(seed)
        pairs = np.array([draw.sample(range(16), 2) for _ in range(draw.randrange(6, 12))], np.int32)
        size = np.array([draw.choice(sizes) for _ in pairs], np.int64)
        flows = FlowSet(pairs[:, 0].copy(), pairs[:, 1].copy(), np.zeros(len(pairs), np.int32), ("a",), {}, size)
        placement = place(topology, flows, failures)
        right = least_busy(placement.network, flows)
        assert placement.bound <= right <= placement.busiest <= right * (1 + 3e-6)
        solved += placement.method == "solver"
        gaps.append(placement.busiest / placement.bound - 1)
    assert solved > 3
    if len(sizes) > 2:
        assert 0 < max(gaps) < 2e-5, "not proven, and how good it is"
    else:
        assert max(gaps) == 0


def test_bytes_that_cannot_be_added_up_exactly_are_refused():
    with pytest.raises(DetourError, match="flows carry 9900000000000000 bytes in all; the maximum is 9007199254740992"):
        placed("leaf-spine:leaves=2,spines=2,hosts=128", job("all-to-all", hosts="h0-h99", bytes=10**12, shuffle=1))


def test_an_all_to_all_of_2048_hosts_can_be_placed():
    assert len(flows("fat-tree:k=24", job("all-to-all", hosts="h0-h2047"))) == 2048 * 2047
    with pytest.raises(DetourError, match="4196352 flows; expected at most 4194304"):
        flows("fat-tree:k=24", job("all-to-all", hosts="h0-h2048"))


@pytest.mark.parametrize("topology", ["leaf-spine:leaves=8,spines=4,hosts=4", "fat-tree:k=4"])
def test_a_failed_spine_moves_only_the_flows_that_used_it(topology):
    before = placed(topology, job("ring-all-reduce", shuffle=1), job("tree", shuffle=2))
    network = before.network.topology
    spine = next(s.index for s in reversed(network.switches) if s.tier == max(t.tier for t in network.switches))
    repaired = repair(before, frozenset({parse_failure(network, f"s{spine}")}))
    after, moved = repaired.placement, repaired.moved
    assert repaired.lost.tolist() == []
    used = {flow for flow in range(len(before.flows)) if spine in before.path(flow)}
    others = set(moved.tolist()) - used
    assert used
    assert used <= set(moved.tolist())
    # Others exchange their ways only where that makes the busiest link less busy.
    assert not others or (topology == "fat-tree:k=4" and after.busiest == after.bound)
    for flow in range(len(before.flows)):
        assert spine not in after.path(flow)
        assert (after.path(flow) == before.path(flow)) == (flow not in moved)
    assert after.collisions >= after.lower_bound == lower_bound(after.network, after.flows.source, after.flows.target)
    assert after.collisions <= 1.5 * place(network, before.flows, after.network.failures).collisions
    assert repair(after, after.network.failures).moved.tolist() == [], "nobody moves without need"
    healed = repair(after, frozenset())
    assert set(healed.moved.tolist()) <= set(moved.tolist())
    assert healed.placement.collisions == before.collisions


def random_links(network: Topology, count: int, seed: int) -> frozenset[Failure]:
    links = [link.index for link in network.links if link.kind != "host"]
    return frozenset(Failure("link", link) for link in random.Random(seed).sample(links, count))


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("kind", ["ring", "shuffled rings", "tree", "mixed"])
def test_damage_costs_neither_optimality_nor_time(kind, count):
    network = parse_topology("fat-tree:k=16")
    demand = flows("fat-tree:k=16", *JOBS[kind])
    down = random_links(network, count, count)
    before = place(network, demand)
    place(network, demand, down)  # loads native code
    begin = time.process_time()
    anew = place(network, demand, down)
    placing, begin = time.process_time() - begin, time.process_time()
    repaired = repair(before, down)
    repairing = time.process_time() - begin
    assert placing < 5
    assert repairing < 0.2
    for placement in (anew, repaired.placement):
        assert placement.bound <= placement.busiest <= placement.bound + 1
        assert loads(placement.network, placement.path_rows).sum() == (placement.path_rows >= 0).sum() - len(demand)
    assert anew.collisions <= repaired.placement.collisions <= 1.05 * anew.collisions + 3 * len(repaired.moved)
    healed = repair(repaired.placement, frozenset())
    assert healed.placement.busiest == healed.placement.bound
    assert healed.placement.collisions <= before.collisions


def test_what_was_placed_on_a_damaged_network_uses_what_comes_back():
    network = parse_topology("fat-tree:k=8")
    demand = flows("fat-tree:k=8", *JOBS["shuffled rings"])
    damaged = place(network, demand, random_links(network, 40, 3))
    healed = repair(damaged, frozenset()).placement
    assert healed.collisions == healed.lower_bound < damaged.collisions
    assert healed.busiest == healed.bound < damaged.busiest


def test_flows_that_somebody_moved_stay_when_something_heals():
    before = placed(LEAVES, job("point-to-point", pairs=FIGURE_1))
    spine = next(s for s in (4, 5, 6) if s != before.path(0)[1])
    path_rows = before.path_rows.copy()
    path_rows[0, 1] = spine
    moved = replace(before, path_rows=path_rows, rerouted=frozenset({0}))
    other = next(s for s in (4, 5, 6) if s != spine)
    broken = repair(moved, frozenset({parse_failure(before.network.topology, f"s{other}")})).placement
    assert repair(broken, frozenset()).placement.path(0)[1] == spine


THREE_JOBS = [
    job("ring-all-reduce", shuffle=1, connections=4, bytes=64_000_000),
    job("all-to-all", hosts="h0-h63", shuffle=2, bytes=3_000_000),
    job("tree", shuffle=3, bytes=17_000_000),
]


@pytest.mark.parametrize("topology", ["leaf-spine:leaves=16,spines=8,hosts=8", "fat-tree:k=8"])
def test_the_busiest_link_is_the_one_with_most_bytes(topology):
    placement = placed(topology, *THREE_JOBS)
    counted = place(placement.network.topology, replace(placement.flows, bytes=None))
    carried = loads(counted.network, counted.path_rows, placement.flows.size).max()
    assert placement.flows.unit == "bytes"
    assert placement.busiest == loads(placement.network, placement.path_rows, placement.flows.size).max()
    assert placement.bound <= placement.busiest <= 1.005 * placement.bound
    assert carried > 1.03 * placement.busiest


@pytest.mark.parametrize("detours", [False, True])
@pytest.mark.parametrize("topology", ["d1", "jellyfish:n=30,s=10,hosts=5", "fcplus:n=24,s=10,hosts=4"])
def test_dragonflies_and_expanders(topology, detours):
    network = parse_topology(topology)
    tracer = Tracer(plan(network), network)
    placement = place(network, flows(topology, job("ring-all-reduce", shuffle=1)), detours=detours)
    chance = ecmp.hashed(placement.network, placement.flows, 20, lambda text: None)
    assert placement.bound <= placement.busiest <= min(chance.busiest) - detours
    assert placement.busiest <= placement.bound + detours
    longer = 0
    for flow in range(len(placement.flows)):
        a, b = (network.hosts[ends[flow]] for ends in (placement.flows.source, placement.flows.target))
        way = tracer.trace(a, b, usids=placement.usids(flow))
        assert way.delivered
        assert way.switches == placement.path(flow)
        longer += way.switches not in set(shortest_paths(network, a.switch, b.switch))
    assert (longer > 0) == detours


def test_pinned_flows_stay_and_others_keep_away():
    pairs = [{"from": "h0", "to": "h9", "path": ["s0", "s5", "s3"]}, ["h1", "h10"], ["h2", "h11"]]
    placement = placed(LEAVES, job("point-to-point", pairs=pairs))
    assert placement.path(0) == (0, 5, 3)
    assert placement.collisions == 0
    down = frozenset({parse_failure(placement.network.topology, "s5")})
    repaired = repair(placement, down)
    assert repaired.lost.tolist() == [0]
    assert repaired.placement.path(0) == ()
    assert repair(repaired.placement, frozenset()).moved.tolist() == [0]
    with pytest.raises(DetourError, match=r"job0: h0 to h9: its pinned path is down"):
        placed(LEAVES, job("point-to-point", pairs=pairs), down=("s5",))


def test_flows_that_are_cut_off_come_back():
    before = placed(LEAVES, job("ring-all-reduce", shuffle=1))
    cut = repair(before, frozenset({parse_failure(before.network.topology, "s0")}))
    ends = before.network.edge_of[before.flows.source], before.network.edge_of[before.flows.target]
    assert cut.lost.tolist() == np.flatnonzero((ends[0] == 0) | (ends[1] == 0)).tolist()
    assert cut.moved.tolist() == []
    assert cut.placement.collisions == cut.placement.lower_bound == 0
    back = repair(cut.placement, frozenset())
    assert back.moved.tolist() == cut.lost.tolist()
    assert back.placement.collisions == 0


def test_pairs_without_a_path_are_named():
    with pytest.raises(DetourError, match=r"job0: h0 to h9: there is no path between them \(and 1 more\)"):
        placed(LEAVES, job("point-to-point", pairs=FIGURE_1), down=("s0",))
    with pytest.raises(DetourError, match=r"h0 to h9: there is no path between them$"):
        placed(LEAVES, job("point-to-point", pairs=FIGURE_1), down=("h9",))


def test_the_command_prints_and_writes(tmp_path, capsys, run_json):
    jobs, out = tmp_path / "jobs.json", tmp_path / "out.json"
    jobs.write_text(json.dumps({"jobs": [job("ring-all-reduce", shuffle=3)]}))
    report = run_json("place", str(jobs), "--topo", LEAVES, "--out", str(out), "--seeds", "10")
    assert {"flows", "collisions", "lower_bound", "ecmp_mean", "ecmp_worst", "seconds"} <= set(report)
    assert (report["flows"], report["collisions"], report["lower_bound"]) == (12, 0, 0)
    assert report["ecmp_worst"] >= report["ecmp_mean"] > 0
    for key, total in (("collisions", report["collisions"]), ("ecmp_collisions_mean", report["ecmp_mean"])):
        assert sum(link[key] for link in report["links"]) == pytest.approx(total, abs=0.5)
    assert all(link["ecmp_collisions_worst"] >= link["ecmp_collisions_mean"] for link in report["links"])
    rows = json.loads(out.read_text())["assignments"]
    assert report["assignments"] == rows
    assert len(rows) == 12
    assert all(rows[0][key] for key in ("job", "source", "target", "path", "usids"))
    assert cli.main(["place", str(jobs), "--topo", LEAVES, "--seeds", "3"]) == 0
    assert "collisions: 0 (no placement can have less than 0)" in capsys.readouterr().out


def test_the_command_on_damaged_networks_and_with_bytes(tmp_path, run_json):
    def report(*arguments: str) -> dict[str, Any]:
        return run_json("place", str(jobs), *arguments, "--seeds", "2")

    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"jobs": [job("ring-all-reduce", shuffle=3)]}))
    placement = report("--topo", "fat-tree:k=4", "--fail", "s0-s2,s16-s6", "--fail", "s4-s7")
    assert (placement["busiest"], placement["bound"], placement["unit"], placement["moved"]) == (2, 2, "flows", None)
    assert placement["seconds"] < 10
    used = {hop for row in placement["assignments"] for hop in itertools.pairwise(row["path"])}
    assert not used & {("s0", "s2"), ("s2", "s0"), ("s16", "s6"), ("s6", "s16"), ("s4", "s7"), ("s7", "s4")}
    assert report("--topo", "fat-tree:k=4", "--fail", "s0-s2", "--repair")["moved"] > 0
    d1 = report("--topo", "dragonfly:p=2,a=4,h=1")
    assert report("--topo", "dragonfly:p=2,a=4,h=1", "--detours")["busiest"] < d1["busiest"]
    jobs.write_text(json.dumps({"jobs": [job("ring-all-reduce", shuffle=3, bytes=7000)]}))
    placement = report("--topo", LEAVES, "--fail", "s0-s4,s0-s5")
    assert (placement["busiest"], placement["bound"], placement["unit"]) == (14000, 14000, "bytes")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jobs: [", "line 1"),
        ("jobs:\n- collective: tree\n  hosts: all\n  hosts: h0-h3", "line 2: `hosts` appears twice"),
        ('{"jobs": [{"collective": "tree", "hosts": "all", "hosts": "h0-h3"}]}', "`hosts` appears twice"),
        ("{", "line 1: "),
        ("", "no list `jobs`"),
        ("jobs: 3", "no list `jobs`"),
        ("jobs: []", "no list `jobs`"),
        ("jobs: [3]", "job number 1 is not a mapping"),
        ("{jobs: [{collective: tree, hosts: all}], more: 1}", "unknown key `more`"),
        ("{schema: 1.0.2-chakra.0.0.4, nodes: []}", "an execution trace of PyTorch; chakra_converter makes"),
        ("jobs: [{collective: gossip, hosts: all}]", "there is no collective 'gossip'; allowed: ring-all-reduce"),
        ("jobs: [{collective: [tree], hosts: all}]", "there is no collective"),
        ("jobs: [{collective: tree}]", "job job0: tree needs `hosts`"),
        ("jobs: [{collective: tree, hosts: all, size: 3}]", "unknown key `size`"),
        ("jobs: [{collective: tree, hosts: h0}]", "at least two hosts"),
        ("jobs: [{collective: tree, hosts: 7}]", "expected a list of names"),
        ("jobs: [{collective: tree, hosts: [h0, h99]}]", "host 'h99'"),
        ("jobs: [{collective: tree, hosts: [h0, h3-h1]}]", "runs backwards"),
        ("jobs: [{collective: tree, hosts: [h0, h1, h0]}]", "h0 appears twice"),
        ("jobs: [{collective: tree, hosts: all, connections: 0}]", "connections is 0"),
        ("jobs: [{collective: tree, hosts: all, connections: yes}]", "connections is True"),
        ("jobs: [{collective: tree, hosts: all, bytes: 0}]", "job job0: bytes is 0"),
        (
            "jobs: [{collective: tree, hosts: all, bytes: 3}, {collective: tree, hosts: all}]",
            "job job1: there is no `byt",
        ),
        ("jobs: [{collective: tree, hosts: all, shuffle: x}]", "shuffle is 'x'"),
        ("jobs: [{collective: tree, hosts: all, name: 3}]", "its name must be a string"),
        ("jobs: [{collective: tree, hosts: all, name: a}, {collective: tree, hosts: all, name: a}]", "appears twice"),
        ("jobs: [{collective: point-to-point, pairs: []}]", "not a list of pairs"),
        ("jobs: [{collective: point-to-point, pairs: [[h0]]}]", "is not a pair"),
        ("jobs: [{collective: point-to-point, pairs: [[h0, h0]]}]", "send to itself"),
        ("jobs: [{collective: point-to-point, pairs: [{from: h0, to: h9, path: [s0, s1, s3]}]}]", "not neighbours"),
        ("jobs: [{collective: point-to-point, pairs: [{from: h0, to: h9, path: [s1, s4, s3]}]}]", "begins at s0"),
        (
            "jobs: [{collective: point-to-point, pairs: [{from: h0, to: h9, path: [s0, s4, s1, s5, s2, s6, s3]}]}]",
            "needs 7 uSIDs, at most 6",
        ),
    ],
)
def test_malformed_job_files_end_with_one_line(text, reason, tmp_path, capsys):
    file, out = tmp_path / "jobs.yaml", tmp_path / "out.json"
    file.write_text(text)
    assert cli.main(["place", str(file), "--topo", LEAVES, "--out", str(out)]) == 2
    printed = capsys.readouterr()
    assert reason in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""
    assert not out.exists()


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[3] / "docs" / "jobs").glob("*.yaml")), ids=lambda f: f.stem
)
def test_the_examples_say_with_which_command_they_work(file):
    command = next((line.split() for line in file.read_text().splitlines() if line.startswith("# detour place")), None)
    topology = parse_topology(command[-1] if command else LEAVES)
    assert len(read_jobs(file, topology)) > 0


def test_other_refusals(tmp_path, refused):
    file = tmp_path / "jobs.yaml"
    for arguments, reason in (
        ([str(file), "--topo", LEAVES], "No such file"),
        ([str(file)], "needs --topo"),
        ([str(file), "--apply", "--topo", LEAVES], "--apply, which uses the running fabric"),
        ([str(file), "--apply", "--detours"], "--detours is for --topo"),
        ([str(file), "--topo", LEAVES, "--repair"], "--repair needs --fail"),
        ([str(file), "--topo", LEAVES, "--fail", "s0-s4,s77"], "s77"),
    ):
        assert reason in refused("place", *arguments)
    file.write_bytes(b"\xff\xfe\x00")
    assert "this is not UTF-8 text" in refused("place", str(file), "--topo", LEAVES)


@pytest.mark.parametrize("option", ["--reroute", "--watch"])
def test_what_is_for_a_running_fabric_is_not_ignored(tmp_path, refused, option):
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps([job("tree")]))
    assert f"{option} is for the fabric that is up: it needs --apply" in refused(
        "place", str(jobs), "--topo", LEAVES, option
    )
