# SPDX-License-Identifier: Apache-2.0
"""Three levels for OpenSM, ibsim, MSCCL and as JSON: read again here, every flow goes where the plan sends it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.cli import main
from detour.control.fors.collective import msccl
from detour.control.fors.fabric import FatTree, random_failures
from detour.control.fors.solve import solve
from detour.control.fors.subnet import forwarding_tables, made_up_guids, path_bits, read_guids, simulated
from detour.control.fors.texts import parse_fabric

FABRICS = [
    parse_fabric("fat-tree:k=4"),
    random_failures(parse_fabric("fat-tree:k=4"), 6, 3),
    random_failures(FatTree.three_levels(3, 2, 3, 2, 3, population=(3, 2, 0, 1, 3, 3)), 4, 1),
    random_failures(FatTree.three_levels(2, 3, 2, 3, 2, group=(0, 1, 3, 7, 10)), 3, 2),
]
Ports = dict[str, dict[int, int]]


def cables(fabric: FatTree) -> dict[tuple[str, int], tuple[str, int]]:
    """Who is at the other end of each port."""
    found, name = {}, ""
    for line in simulated(fabric, made_up_guids(fabric)):
        if node := re.fullmatch(r'(?:Switch|Ca)\t\d+ "(\w+)"', line):
            name = node[1]
        elif end := re.fullmatch(r'\[(\d+)\]\t"(\w+)"\[(\d+)\]', line):
            found[name, int(end[1])] = (end[2], int(end[3]))
    return found


def tables(fabric: FatTree) -> tuple[Ports, dict[str, int]]:
    """Ports by switch and LID, and base LIDs by name."""
    found: Ports = {}
    base: dict[str, int] = {}
    table: dict[int, int] = {}
    for line in forwarding_tables(fabric, made_up_guids(fabric)):
        if header := re.fullmatch(r"Unicast lids .* guid 0x[0-9a-f]{16} \((\w+)\):", line):
            table = found.setdefault(header[1], {})
            continue
        entry = re.fullmatch(r"0x([0-9a-f]{4}) (\d{3}) : \(.*'(\w+)'\)", line)
        assert entry
        lid = int(entry[1], 16)
        assert lid not in table
        table[lid] = int(entry[2])
        base[entry[3]] = min(base.get(entry[3], lid), lid)
    return found, base


def walk(ports: Ports, joined: dict[tuple[str, int], tuple[str, int]], at: str, lid: int) -> list[str]:
    """Who a packet comes by until somebody is the end of its way; seven switches are more than any way has."""
    seen = [at]
    while at in ports and ports[at][lid] and len(seen) < 8:
        at = joined[at, ports[at][lid]][0]
        seen.append(at)
    return seen


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_tables_lead_every_flow_over_its_plane_and_core_and_nobody_astray(fabric: FatTree) -> None:
    (ports, base), joined, plan = tables(fabric), cables(fabric), solve(fabric)
    core = plan.core
    assert core is not None
    bits = np.where(plan.spine < 0, 0, plan.spine * fabric.cores + np.maximum(core, 0))
    for row, (src, dst) in enumerate(zip(plan.src.tolist(), plan.dst.tolist(), strict=True)):
        u, v = src // fabric.hosts, dst // fabric.hosts
        p, q, j, i = u // fabric.leaves, v // fabric.leaves, int(plan.spine[row]), int(core[row])
        wanted = [f"leaf{u}"]
        wanted += [f"agg{p * fabric.spines + j}"] if j >= 0 else []
        wanted += [f"core{j * fabric.cores + i}", f"agg{q * fabric.spines + j}"] if i >= 0 else []
        wanted += [f"leaf{v}"] if u != v else []
        assert walk(ports, joined, f"leaf{u}", base[f"server{dst}"] + int(bits[row])) == [*wanted, f"server{dst}"]
    for server in np.flatnonzero(fabric.present()).tolist():
        for leaf in range(fabric.all_leaves):
            if not fabric.planes[leaf, server // fabric.hosts].any():
                continue
            for choice in range(1 << path_bits(fabric)):
                seen = walk(ports, joined, f"leaf{leaf}", base[f"server{server}"] + choice)
                assert seen[-1] == f"server{server}"
                assert len(seen) <= 6


@pytest.mark.parametrize("fabric", FABRICS[:2], ids=lambda fabric: str(fabric.failed_names()))
def test_switches_reach_each_other(fabric: FatTree) -> None:
    (ports, base), joined = tables(fabric), cables(fabric)
    assert len(set(base.values())) == len(base)
    for at in ports:
        for to in ports:
            if base[to] in ports[at]:
                assert walk(ports, joined, at, base[to])[-1] == to
    if not fabric.failed_names():
        reached = {(at, to) for at in ports for to in ports if base[to] in ports[at]}
        # Cores are joined by nothing but pods, and one plane's with another pod's other planes by leaves only.
        assert {(at, to) for at in ports if at.startswith("leaf") for to in ports} <= reached


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_the_simulated_fabric_has_every_working_link_at_both_ends(fabric: FatTree) -> None:
    joined = cables(fabric)
    assert all(joined[far] == near for near, far in joined.items())
    assert len(joined) == 2 * int(fabric.alive.sum() + fabric.high.sum() + fabric.present().sum())


def test_too_large_fabrics_and_guids_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(DetourError, match="names 128 planes and cores, not 144"):
        path_bits(FatTree.three_levels(2, 2, 12, 12, 1))
    with pytest.raises(DetourError, match="are more than there are"):
        path_bits(parse_fabric("fat-tree:k=16"))
    names = made_up_guids(FABRICS[0])
    del names["agg5"]
    file = tmp_path / "guids"
    file.write_text("".join(f"{name},{guid:#x}\n" for name, guid in names.items()))
    with pytest.raises(DetourError, match="no GUID for agg5"):
        read_guids(FABRICS[0], file)


def test_msccl_has_every_pair_once_and_json_every_way(tmp_path: Path) -> None:
    plan = solve(FABRICS[3])
    algorithm = ElementTree.fromstring("\n".join(msccl(plan)))
    sent = [
        (int(gpu.attrib["id"]), int(block.attrib["send"]))
        for gpu in algorithm
        for block in gpu
        for step in block
        if step.attrib["type"] == "s"
    ]
    assert sorted(sent) == [(a, b) for a in range(5) for b in range(5) if a != b]
    with pytest.raises(DetourError, match="leaves that nothing joins"):
        list(msccl(replace(plan, unreachable=((0, 1),))))
    csv, out = tmp_path / "plan.csv", tmp_path / "plan.json"
    fabric = ["--topo", "ft3:pods=2,leaves=2,aggs=2,cores=1,hosts=2", "--group", "0,2-5", "--fail", "0:1"]
    assert main(["fors", "route", *fabric, "--out", str(csv)]) == 0
    assert main(["fors", "export", str(csv), *fabric, "--format", "json", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert (found["failed"], found["servers"]) == (["0:1"], [0, 2, 3, 4, 5])
    flows = {(flow["src"], flow["dst"]): (flow["agg"], flow["core"]) for phase in found["phases"] for flow in phase}
    assert len(flows) == 20
    assert flows[0, 1] == (0, None)  # another leaf of the pod
    assert flows[1, 2] == (None, None)  # the same leaf
    assert flows[0, 4] == (0, 0)
    assert main(["fors", "export", str(csv), *fabric[:4], "--format", "opensm", "--out", str(out)]) == 0
    assert main(["fors", "export", str(csv), *fabric[:2], "--format", "msccl", "--out", str(out)]) == 2
