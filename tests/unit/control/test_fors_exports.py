# SPDX-License-Identifier: Apache-2.0
"""Plans for OpenSM, ibsim and MSCCL: read again here, every flow goes where the plan sends it."""

import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.control.fors import FatTree, ForsPlan, solve
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


def tables(fabric: FatTree) -> tuple[dict[str, dict[int, int]], dict[str, int]]:
    """Ports by switch and LID, and base LIDs by name, as OpenSM's loader takes them from the lines."""
    found: dict[str, dict[int, int]] = {}
    base: dict[str, int] = {}
    guids = {guid: name for name, guid in made_up_guids(fabric).items()}
    table: dict[int, int] = {}
    for line in forwarding_tables(fabric, made_up_guids(fabric)):
        if line.startswith("Unicast lids"):
            header = re.search(r" guid 0x([0-9a-f]{16}) ", line)
            assert header
            table = found.setdefault(guids[int(header[1], 16)], {})
            continue
        entry = re.fullmatch(r"0x([0-9a-f]{4}) (\d{3}) : \(.* portguid 0x([0-9a-f]{16}): '(\w+)'\)", line)
        assert entry
        lid, name = int(entry[1], 16), guids[int(entry[3], 16)]
        assert name == entry[4]
        assert lid not in table
        table[lid] = int(entry[2])
        base[name] = min(base.get(name, lid), lid)
    return found, base


@pytest.mark.parametrize("fabric", FABRICS)
def test_forwarding_tables_take_every_flow_over_the_spine_that_its_path_bits_name(fabric: FatTree) -> None:
    ports, base = tables(fabric)
    plan, alive, m0 = solve(fabric), fabric.alive, fabric.spines
    for src, dst, spine in zip(plan.src.tolist(), plan.dst.tolist(), plan.spine.tolist(), strict=True):
        lid = base[f"server{dst}"] + max(spine, 0)
        port = ports[f"leaf{src // m0}"][lid]
        if spine != INSIDE:
            assert port == m0 + 1 + spine
            assert ports[f"spine{spine}"][lid] == dst // m0 + 1
            port = ports[f"leaf{dst // m0}"][lid]
        assert port == dst % m0 + 1
    # Whatever path bits somebody chooses, no leaf sends to a spine that does not lead on.
    for server in np.flatnonzero(fabric.present()).tolist():
        for leaf in set(range(fabric.leaves)) - {server // m0}:
            for choice in range(1 << path_bits(fabric)):
                spine = ports[f"leaf{leaf}"][base[f"server{server}"] + choice] - m0 - 1
                assert alive[leaf, spine]
                assert ports[f"spine{spine}"][base[f"server{server}"] + choice] == server // m0 + 1


@pytest.mark.parametrize("fabric", CABLES)
def test_forwarding_tables_take_every_flow_over_its_cables(fabric: FatTree) -> None:
    ports, base = tables(fabric)
    plan, hosts = solve(fabric), fabric.hosts
    assert plan.cables is not None
    bits = plan.paths()
    for row, (src, dst, spine) in enumerate(
        zip(plan.src.tolist(), plan.dst.tolist(), plan.spine.tolist(), strict=True)
    ):
        lid = base[f"server{dst}"] + max(int(bits[row]), 0)
        port = ports[f"leaf{src // hosts}"][lid]
        if spine != INSIDE:
            up, down = plan.cables[:, row].tolist()
            assert port == hosts + 1 + spine * fabric.cables + up
            assert ports[f"spine{spine}"][lid] == dst // hosts * fabric.cables + down + 1
            port = ports[f"leaf{dst // hosts}"][lid]
        assert port == dst % hosts + 1
    working = fabric.working
    for server in np.flatnonzero(fabric.present()).tolist():
        for leaf in set(range(fabric.leaves)) - {server // hosts}:
            for choice in range(1 << path_bits(fabric)):
                lid = base[f"server{server}"] + choice
                spine, up = divmod(ports[f"leaf{leaf}"][lid] - hosts - 1, fabric.cables)
                assert working[leaf, spine, up]
                far, down = divmod(ports[f"spine{spine}"][lid] - 1, fabric.cables)
                assert far == server // hosts
                assert working[far, spine, down]


def test_lids_are_distinct_and_the_servers_are_aligned() -> None:
    fabric = FABRICS[1]
    _, base = tables(fabric)
    step = 1 << path_bits(fabric)
    servers = sorted(lid for name, lid in base.items() if name.startswith("server"))
    switches = sorted(lid for name, lid in base.items() if not name.startswith("server"))
    assert all(lid % step == 0 for lid in servers)
    assert len(set(servers)) == fabric.servers
    assert len(set(switches)) == fabric.leaves + fabric.spines
    assert switches[0] > 0
    assert switches[-1] < servers[0]


@pytest.mark.parametrize("fabric", FABRICS + CABLES)
def test_the_simulated_fabric_has_every_working_link_at_both_ends(fabric: FatTree) -> None:
    links, name = set(), ""
    for line in simulated(fabric, made_up_guids(fabric)):
        if node := re.fullmatch(r'(Switch|Ca)\t\d+ "(\w+)"', line):
            name = node[2]
        elif end := re.fullmatch(r'\[(\d+)\]\t"(\w+)"\[(\d+)\]', line):
            links.add(((name, int(end[1])), (end[2], int(end[3]))))
    assert all((there, here) in links for here, there in links)
    assert len(links) == 2 * int(fabric.working.sum() + fabric.present().sum())
    count = fabric.cables
    for leaf, spine, cable in np.argwhere(fabric.working).tolist():
        up, down = fabric.hosts + 1 + spine * count + cable, leaf * count + cable + 1
        assert ((f"leaf{leaf}", up), (f"spine{spine}", down)) in links


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
    "fabric", [FABRICS[0], FABRICS[2], FatTree(2, 3, population=(2, 1, 2)), FatTree(1, 1), FatTree(8, 5), *CABLES]
)
def test_an_msccl_algorithm_delivers_every_part_in_each_ranks_order(fabric: FatTree) -> None:
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


def test_json_has_ranks_and_spines() -> None:
    plan = solve(FABRICS[2])
    found = json.loads(schedule_json(plan))
    assert (found["servers"], found["failed"], found["fabric"]) == ([0, 1, 3, 7, 8, 11], ["1:1"], "FT(2;3,4)")
    rows = [
        (phase, found["servers"][one["src"]], found["servers"][one["dst"]], one["spine"])
        for phase, flows in enumerate(found["phases"])
        for one in flows
    ]
    spines = [None if spine == INSIDE else spine for spine in plan.spine.tolist()]
    assert sorted(rows, key=str) == sorted(
        zip(plan.phase.tolist(), plan.src.tolist(), plan.dst.tolist(), spines, strict=True), key=str
    )


def test_json_has_cables() -> None:
    plan = solve(CABLES[0])
    assert plan.cables is not None
    found = json.loads(schedule_json(plan))
    assert found["failed"] == ["0:0:0", "1:1:1"]
    inside = [plan.spine == INSIDE] * 2
    wanted = np.where(inside, -1, plan.cables)
    flows = [one for flows in found["phases"] for one in flows]
    ways = [[-1 if one[way] is None else one[way] for one in flows] for way in ("up", "down")]
    assert ways == wanted.tolist()


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(DetourError, match="names 128 ways"):
        path_bits(FatTree(40, 2, cables=2))
    with pytest.raises(DetourError, match="an LMC of 7 names 128 spines, not 129"):
        path_bits(FatTree(129, 2))
    with pytest.raises(DetourError, match="128 LIDs for each of 11400 servers"):
        path_bits(FatTree(114, 100))
    with pytest.raises(DetourError, match="254 ports at most"):
        path_bits(FatTree(2, 255))
    with pytest.raises(DetourError, match="216 thread blocks a rank"):
        list(msccl(solve(FatTree(15, 15))))
    with pytest.raises(DetourError, match="leaves out leaves"):
        list(msccl(solve(FatTree(2, 3, frozenset({(0, 0), (1, 1)})), skip_unreachable=True)))


def test_guids_from_a_file(tmp_path: Path) -> None:
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
