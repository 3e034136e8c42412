# SPDX-License-Identifier: Apache-2.0
"""Plans for OpenSM, ibsim, MSCCL and as JSON: read again here, every flow goes where the plan sends it."""

import json
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from xml.etree import ElementTree

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.cli import main
from detour.control.fors import FatTree, ForsPlan, parse_fabric, random_failures, solve
from detour.control.fors.collective import msccl, schedule_json
from detour.control.fors.paths import INSIDE
from detour.control.fors.subnet import forwarding_tables, made_up_guids, path_bits, read_guids, simulated

FABRICS = [
    FatTree(4, 3, frozenset({(0, 0), (1, 2)})),
    FatTree(5, 4, frozenset({(0, 0), (0, 1), (2, 4), (3, 3)}), (5, 3, 0, 4)),
    FatTree(3, 4, frozenset({(1, 1)}), group=(0, 1, 3, 7, 8, 11)),
    FatTree(1, 2),
]
CABLES = [
    FatTree(2, 3, frozenset({(0, 0), (1, 3)}), hosts=5, cables=2),
    FatTree(3, 3, frozenset({(0, 0), (0, 1), (2, 4)}), hosts=3, cables=2, speed=Fraction(2, 3)),
]
TREES = [
    parse_fabric("fat-tree:k=4"),
    random_failures(parse_fabric("fat-tree:k=4"), 6, 3),
    random_failures(FatTree.three_levels(3, 2, 3, 2, 3, population=(3, 2, 0, 1, 3, 3)), 4, 1),
    random_failures(FatTree.three_levels(2, 3, 2, 3, 2, group=(0, 1, 3, 7, 10)), 3, 2),
]
Ports = dict[str, dict[int, int]]
Joined = dict[tuple[str, int], tuple[str, int]]
everywhere = pytest.mark.parametrize("fabric", FABRICS + CABLES + TREES, ids=lambda fabric: fabric.name)


def cables(fabric: FatTree) -> Joined:
    """Who is at the other end of each port, as ibsim reads it."""
    ends, name = {}, ""
    for line in simulated(fabric, made_up_guids(fabric)):
        if node := re.fullmatch(r'(?:Switch|Ca)\t\d+ "(\w+)"', line):
            name = node[1]
        elif end := re.fullmatch(r'\[(\d+)\]\t"(\w+)"\[(\d+)\]', line):
            ends[name, int(end[1])] = (end[2], int(end[3]))
    return ends


def tables(fabric: FatTree) -> tuple[Ports, dict[str, int]]:
    """Ports by switch and LID, and base LIDs by name, as OpenSM's loader takes them from the lines."""
    ports: Ports = {}
    base: dict[str, int] = {}
    names = {guid: name for name, guid in made_up_guids(fabric).items()}
    table: dict[int, int] = {}
    for line in forwarding_tables(fabric, made_up_guids(fabric)):
        if line.startswith("Unicast lids"):
            header = re.search(r" guid 0x([0-9a-f]{16}) ", line)
            assert header
            table = ports.setdefault(names[int(header[1], 16)], {})
            continue
        entry = re.fullmatch(r"0x([0-9a-f]{4}) (\d{3}) : \(.* portguid 0x([0-9a-f]{16}): '(\w+)'\)", line)
        assert entry
        lid, name = int(entry[1], 16), names[int(entry[3], 16)]
        assert name == entry[4]
        assert lid not in table
        table[lid] = int(entry[2])
        base[name] = min(base.get(name, lid), lid)
    return ports, base


def walk(ports: Ports, joined: Joined, at: str, lid: int) -> tuple[list[tuple[str, int]], str]:
    """The switches and ports that a packet leaves by, and where it ends; eight are more than any path has."""
    hops: list[tuple[str, int]] = []
    while at in ports and ports[at][lid] and len(hops) < 8:
        hops.append((at, ports[at][lid]))
        at = joined[hops[-1]][0]
    return hops, at


@everywhere
def test_tables_lead_every_flow_over_its_path_and_nobody_astray(fabric):
    (ports, base), joined, plan = tables(fabric), cables(fabric), solve(fabric)
    core = np.full(plan.flows, INSIDE) if plan.core is None else plan.core
    up, down = np.zeros((2, plan.flows), np.int64) if plan.cables is None else plan.cables
    bits = plan.spine * fabric.cores + np.maximum(core, 0) if fabric.cores else plan.paths()
    columns = (column.tolist() for column in (plan.src, plan.dst, plan.spine, core, up, down, np.maximum(bits, 0)))
    for src, dst, j, i, k, m, choice in zip(*columns, strict=True):
        u, v = src // fabric.hosts, dst // fabric.hosts
        p, q = u // fabric.leaves, v // fabric.leaves
        over = [(f"leaf{u}", fabric.hosts + 1 + j * fabric.cables + k)]
        over += [(f"agg{p * fabric.spines + j}", fabric.leaves + 1 + i), (f"core{j * fabric.cores + i}", q + 1)] * (
            i >= 0
        )
        over += [
            (f"{'agg' if fabric.cores else 'spine'}{q * fabric.spines + j}", v % fabric.leaves * fabric.cables + m + 1)
        ]
        path = [*(over if j >= 0 else ()), (f"leaf{v}", dst % fabric.hosts + 1)]
        assert walk(ports, joined, f"leaf{u}", base[f"server{dst}"] + choice) == (path, f"server{dst}")
    # Whatever path bits somebody chooses: ports whose link is down are not in `joined`.
    for server in np.flatnonzero(fabric.present()).tolist():
        for leaf in np.flatnonzero(fabric.planes[:, server // fabric.hosts].any(axis=1)).tolist():
            for choice in range(1 << path_bits(fabric)):
                hops, end = walk(ports, joined, f"leaf{leaf}", base[f"server{server}"] + choice)
                assert (end, len(hops) <= 5) == (f"server{server}", True)


@pytest.mark.parametrize("fabric", TREES[:2], ids=lambda fabric: str(fabric.failed_names()))
def test_switches_reach_each_other(fabric):
    (ports, base), joined = tables(fabric), cables(fabric)
    assert len(set(base.values())) == len(base)
    reached = {(at, to) for at in ports for to in ports if base[to] in ports[at]}
    assert all(walk(ports, joined, at, base[to])[1] == to for at, to in reached)
    if not fabric.failed_names():
        # Cores are joined by nothing but pods, and one plane's with another pod's other planes by leaves only.
        assert {(at, to) for at in ports if at.startswith("leaf") for to in ports} <= reached


def test_lids_are_distinct_and_the_servers_are_aligned():
    fabric = FABRICS[1]
    _, base = tables(fabric)
    step = 1 << path_bits(fabric)
    servers = sorted(lid for name, lid in base.items() if name.startswith("server"))
    switches = sorted(lid for name, lid in base.items() if not name.startswith("server"))
    assert all(lid % step == 0 for lid in servers)
    assert len(set(servers)) == fabric.servers
    assert len(set(switches)) == fabric.leaves + fabric.spines
    assert 0 < switches[0] <= switches[-1] < servers[0]


@everywhere
def test_the_simulated_fabric_has_every_working_link_at_both_ends(fabric):
    joined = cables(fabric)
    assert all(joined[far] == near for near, far in joined.items())
    assert len(joined) == 2 * int(fabric.working.sum() + fabric.high.sum() + fabric.present().sum())


def channels_are_those_of_both_ends(root: ElementTree.Element) -> None:
    """And they have as few peers as MSCCL allows."""
    ends: list[set[tuple[int, int, int]]] = [set(), set()]
    for rank, gpu in enumerate(root):
        assert [int(block.get("id", "")) for block in gpu] == list(range(len(gpu)))
        used = [Counter(block.get("chan") for block in gpu if block.get(way) != "-1") for way in ("send", "recv")]
        assert max((most for way in used for most in way.values()), default=0) <= 32
        for block in gpu:
            chan, to, source = (int(block.get(name, "")) for name in ("chan", "send", "recv"))
            assert 0 <= chan < int(root.get("nchannels", ""))
            ends[0] |= {(rank, to, chan)} if to >= 0 else set()
            ends[1] |= {(source, rank, chan)} if source >= 0 else set()
    assert ends[0] == ends[1]


def executed(plan: ForsPlan) -> list[tuple[int, int]]:
    """Runs an algorithm as MSCCL does: blocks in parallel, steps in order, waiting for those they depend on. A message
    is received when it has been sent. Returns (source, target) of all messages in the order of their reception."""
    root = ElementTree.fromstring("\n".join(msccl(plan)))
    gpus = [[list(block) for block in gpu] for gpu in root]
    peers = [[(int(block.get("send", "")), int(block.get("recv", ""))) for block in gpu] for gpu in root]
    channels_are_those_of_both_ends(root)
    done = [[0] * len(gpu) for gpu in gpus]
    out = [[-1] * len(gpus) for _ in gpus]
    sent: set[tuple[int, int]] = set()
    arrived: list[tuple[int, int]] = []
    moved = True
    while moved:
        moved = False
        for rank, gpu in enumerate(gpus):
            for block, steps in enumerate(gpu):
                if done[rank][block] == len(steps):
                    continue
                step = steps[done[rank][block]]
                send, recv = peers[rank][block]
                before, at = int(step.get("depid", "")), int(step.get("deps", ""))
                if before >= 0:
                    assert gpu[before][at].get("hasdep") == "1"
                if before >= 0 and done[rank][before] <= at:
                    continue
                kind, offset = step.get("type"), int(step.get("dstoff", ""))
                if kind == "r" and (recv, rank) not in sent:
                    continue
                if kind == "s":
                    assert (int(step.get("srcoff", "")), offset) == (send, rank)
                    sent.add((rank, send))
                else:
                    assert out[rank][offset] == -1
                    out[rank][offset] = offset
                    if kind == "r":
                        assert offset == recv
                        arrived.append((recv, rank))
                done[rank][block] += 1
                moved = True
    assert all(row == list(range(len(gpus))) for row in out), "somebody waits for ever, or a part is missing"
    return arrived


@pytest.mark.parametrize(
    "fabric",
    [FABRICS[0], FABRICS[2], FatTree(2, 3, population=(2, 1, 2)), FatTree(1, 1), FatTree(8, 5), *CABLES, TREES[3]],
)
def test_an_msccl_algorithm_delivers_every_part_in_each_ranks_order(fabric):
    plan = solve(fabric)
    servers = np.flatnonzero(fabric.taking_part()).tolist()
    phase_of = {
        (servers.index(src), servers.index(dst)): phase
        for phase, src, dst in zip(plan.phase.tolist(), plan.src.tolist(), plan.dst.tolist(), strict=True)
    }
    arrived = executed(plan)
    assert set(arrived) == set(phase_of)
    for rank in range(len(servers)):
        order = [phase_of[pair] for pair in arrived if pair[1] == rank]
        assert order == sorted(order)


def test_json_has_ranks_and_spines():
    plan = solve(FABRICS[2])
    schedule = json.loads(schedule_json(plan))
    assert (schedule["servers"], schedule["failed"], schedule["fabric"]) == ([0, 1, 3, 7, 8, 11], ["1:1"], "FT(2;3,4)")
    rows = [
        (phase, schedule["servers"][one["src"]], schedule["servers"][one["dst"]], one["spine"])
        for phase, flows in enumerate(schedule["phases"])
        for one in flows
    ]
    spines = [None if spine == INSIDE else spine for spine in plan.spine.tolist()]
    assert sorted(rows, key=str) == sorted(
        zip(plan.phase.tolist(), plan.src.tolist(), plan.dst.tolist(), spines, strict=True), key=str
    )


def test_json_has_cables():
    plan = solve(CABLES[0])
    assert plan.cables is not None
    schedule = json.loads(schedule_json(plan))
    assert schedule["failed"] == ["0:0:0", "1:1:1"]
    inside = [plan.spine == INSIDE] * 2
    expected = np.where(inside, -1, plan.cables)
    flows = [one for flows in schedule["phases"] for one in flows]
    ways = [[-1 if one[way] is None else one[way] for one in flows] for way in ("up", "down")]
    assert ways == expected.tolist()


def test_json_of_three_levels_has_aggregation_switches_and_cores(tmp_path):
    csv, out = tmp_path / "plan.csv", tmp_path / "plan.json"
    fabric = ["--topo", "ft3:pods=2,leaves=2,aggs=2,cores=1,hosts=2", "--group", "0,2-5", "--fail", "0:1"]
    assert main(["fors", "route", *fabric, "--out", str(csv)]) == 0
    assert main(["fors", "export", str(csv), *fabric, "--format", "json", "--out", str(out)]) == 0
    schedule = json.loads(out.read_text())
    assert (schedule["failed"], schedule["servers"]) == (["0:1"], [0, 2, 3, 4, 5])
    flows = {(flow["src"], flow["dst"]): (flow["agg"], flow["core"]) for phase in schedule["phases"] for flow in phase}
    assert len(flows) == 20
    assert flows[0, 1] == (0, None)  # another leaf of the pod
    assert flows[1, 2] == (None, None)  # the same leaf
    assert flows[0, 4] == (0, 0)
    assert main(["fors", "export", str(csv), *fabric[:4], "--format", "opensm", "--out", str(out)]) == 0
    assert main(["fors", "export", str(csv), *fabric[:2], "--format", "msccl", "--out", str(out)]) == 2


@pytest.mark.parametrize(
    ("fabric", "text"),
    [
        (FatTree(40, 2, cables=2), "names 128 ways"),
        (FatTree(129, 2), "an LMC of 7 names 128 spines, not 129"),
        (FatTree(114, 100), "128 LIDs for each of 11400 servers are more than there are"),
        (FatTree(2, 255), "254 ports at most"),
        (FatTree.three_levels(2, 2, 12, 12, 1), "names 128 planes and cores, not 144"),
        (parse_fabric("fat-tree:k=16"), "are more than there are"),
    ],
)
def test_fabrics_that_are_too_large(fabric, text):
    with pytest.raises(DetourError, match=text):
        path_bits(fabric)


def test_what_msccl_cannot_have():
    with pytest.raises(DetourError, match="216 thread blocks per rank"):
        list(msccl(solve(FatTree(15, 15))))
    with pytest.raises(DetourError, match="leaves out disconnected leaves"):
        list(msccl(replace(solve(TREES[3]), unreachable=((0, 1),))))


def test_guids_from_a_file(tmp_path):
    fabric, path = FatTree(2, 2, population=(2, 1)), tmp_path / "guids.csv"
    lines = ["leaf0,0x10", "leaf1, 0x11", "", "spine0,20", "spine1,21", "server0,30", "server1,31", "server2,32"]
    path.write_text("\n".join(lines))
    assert read_guids(fabric, path)["leaf1"] == 0x11
    assert "guid 0x0000000000000021 (spine1)" in "\n".join(forwarding_tables(fabric, read_guids(fabric, path)))
    path.write_text("\n".join(lines[:-1]))
    with pytest.raises(DetourError, match="no GUID for server2"):
        read_guids(fabric, path)
    path.write_text("leaf0")
    with pytest.raises(DetourError, match="line 1: 'leaf0' is not name,guid"):
        read_guids(fabric, path)
    with pytest.raises(DetourError, match="No such file"):
        read_guids(fabric, tmp_path / "none")
    names = made_up_guids(TREES[0])
    del names["agg5"]
    path.write_text("".join(f"{name},{guid:#x}\n" for name, guid in names.items()))
    with pytest.raises(DetourError, match="no GUID for agg5"):
        read_guids(TREES[0], path)
