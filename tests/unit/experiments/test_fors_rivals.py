# SPDX-License-Identifier: Apache-2.0
"""FORS beside others: everybody sends the same bytes over links that work, and nobody beats the bound."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from detour.cli import main
from detour.control.fors import FatTree, parse_fabric, random_failures
from detour.control.fors.files import drawn_sizes
from detour.control.fors.lp_bound import lp_bound, spine_shares
from detour.control.fors.paths import INSIDE, TreePaths
from detour.experiments.fors.rival_messages import concurrent_flow
from detour.experiments.fors.rivals import compare, phase_bytes, rival_schemes
from detour.experiments.fors.rivals_tiers import tier_bound
from detour.fabric.traffic.pinned import Tuning

NAMES = ["fors", "mcf", "birkhoff", "minhop", "ecmp", "ecmp-spray", "spray"]
FABRICS = [
    random_failures(parse_fabric("ft:m0=4,m1=4"), 3, 1),
    random_failures(parse_fabric("ft:m0=2,m1=3,hosts=4,cables=2"), 2, 1),
    FatTree(3, 3, group=(0, 1, 3, 4, 5, 8)),
]
THREE_LEVELS = [
    random_failures(parse_fabric("fat-tree:k=4"), 3, 1),
    random_failures(FatTree.three_levels(3, 2, 3, 2, 2, group=(0, 1, 2, 5, 6, 9, 10, 11)), 4, 2),
]


@pytest.mark.parametrize(
    ("fabric", "skew"),
    [*itertools.product(FABRICS, ["uniform", "zipf:1.2"]), *((tree, "uniform") for tree in THREE_LEVELS)],
    ids=lambda one: getattr(one, "name", one),
)
def test_everybody_sends_the_same_bytes_and_nobody_beats_the_bound(fabric: FatTree, skew: str) -> None:
    sizes = drawn_sizes(fabric.servers, skew, 30_000, 1)
    servers = np.flatnonzero(fabric.taking_part())
    bound = tier_bound(fabric, sizes) if fabric.cores else lp_bound(fabric, sizes).bytes
    result = {way.scheme: way.planned for way in rival_schemes(fabric, sizes, Tuning())}
    assert list(result) == NAMES
    for name, messages in result.items():
        sent = np.zeros_like(sizes)
        ranks = np.searchsorted(servers, np.stack([messages.src, messages.dst]))
        assert messages.size is not None
        np.add.at(sent, (ranks[0], ranks[1]), messages.size)
        assert (sent == sizes).all(), name
        leaves = messages.src // fabric.hosts, messages.dst // fabric.hosts
        away = leaves[0] != leaves[1]
        assert ((messages.path == INSIDE) == ~away).all()
        paths = TreePaths(fabric)
        crossed = paths.crossed(*leaves, messages.path)
        assert ((crossed >= 0).any(axis=1) == away).all()
        assert paths.working()[crossed[crossed >= 0]].all()
        assert phase_bytes(fabric, messages).sum() >= bound, name
    # Whole bytes on every way: off by one for each message at most.
    assert phase_bytes(fabric, result["mcf"]).sum() <= bound + sizes.shape[0] ** 2
    assert phase_bytes(fabric, result["fors"]).sum() <= 1.35 * bound


def test_the_share_of_spines_is_the_best_there_is() -> None:
    """Leaves 0 and 1 share spine 0 only; what they send to leaf 2 has to leave it alone."""
    fabric = parse_fabric("ft:m0=3,m1=3", "0:1,1:2")
    sizes = np.ones((9, 9), np.int64) - np.eye(9, dtype=np.int64)
    share = spine_shares(fabric, sizes)
    assert share[0, 1].tolist() == [1, 0, 0]
    assert share[0, 2, 1] == share[1, 2, 2] == 0
    assert share.sum(axis=2)[~np.eye(3, dtype=bool)] == pytest.approx(1)
    assert share[0, 2, 2] == pytest.approx(1)
    messages = concurrent_flow(fabric, sizes * 900)
    assert phase_bytes(fabric, messages).sum() == lp_bound(fabric, sizes * 900).bytes == 8100


def _fits(fabric: FatTree, epochs: int, size: float) -> bool:
    """TE-CCL's linear programme without copies (Liu et al., SIGCOMM 2024); `size` of a message in what a link takes in
    an epoch. Variables are by pair, spine and epoch, since switches keep nothing and every way is as long."""
    alive, rows, pairs = fabric.alive, dict[tuple, list[int]](), dict[tuple, list[int]]()
    servers = range(fabric.servers)
    count = 0
    for s, d, c, t in itertools.product(servers, servers, range(fabric.spines), range(epochs)):
        u, v = s // fabric.hosts, d // fabric.hosts
        if s == d or (c if u == v else not (alive[u, c] and alive[v, c])):
            continue
        pairs.setdefault((s, d), []).append(count)
        for link in [("out", s), ("in", d), *([("up", u, c), ("down", v, c)] if u != v else [])]:
            rows.setdefault((link, t), []).append(count)
        count += 1

    def matrix(of: dict[tuple, list[int]]) -> coo_array:
        at = np.concatenate([np.full(len(columns), k) for k, columns in enumerate(of.values())])
        return coo_array((np.ones(len(at)), (at, np.concatenate(list(of.values())))), shape=(len(of), count))

    whole = np.full(len(pairs), size)
    result = linprog(np.zeros(count), matrix(rows), np.ones(len(rows)), matrix(pairs), whole, method="highs")
    assert result.status in (0, 2)
    return result.status == 0


@pytest.mark.parametrize(("fail", "epochs"), [(None, 4), ("0:0", 5), ("0:0,1:0,2:1", 9)])
def test_time_expansion_adds_nothing_where_all_ways_are_as_long(fail: str | None, epochs: int) -> None:
    """Messages of half an epoch: the least epochs are those of the bound, which `mcf` meets."""
    fabric = parse_fabric("ft:m0=3,m1=3", fail)
    sizes = drawn_sizes(9, "uniform", 1000, 1)
    bound = lp_bound(fabric, sizes).bytes / 2000
    assert epochs == np.ceil(bound)
    assert _fits(fabric, epochs, 0.5)
    assert not _fits(fabric, epochs - 1, 0.5)
    messages = concurrent_flow(fabric, sizes)
    assert phase_bytes(fabric, messages).sum() / 2000 == pytest.approx(bound, rel=0.01)


def test_phases_as_long_as_their_fullest_link() -> None:
    fabric = parse_fabric("ft:m0=4,m1=4", "0:0")
    sizes = drawn_sizes(16, "uniform", 1000, 1)
    result = {way.scheme: way.planned for way in rival_schemes(fabric, sizes, Tuning())}
    assert phase_bytes(fabric, result["fors"]).sum() == 16_000
    assert result["birkhoff"].phases == result["minhop"].phases == 15
    assert 16_000 < phase_bytes(fabric, result["birkhoff"]).sum() <= 30_000


def test_measured_in_virtual_time() -> None:
    fabric = parse_fabric("ft:m0=2,m1=3")
    sizes = drawn_sizes(6, "moe:1", 50_000, 1)
    result = compare(fabric, sizes, [1, 0], "moe:1", Tuning())
    assert [(row.failures, row.scheme) for row in result.rows] == [(n, name) for n in (0, 1) for name in NAMES]
    assert [len(result.failed[n]) for n in (0, 1)] == [0, 1]
    for row in result.rows:
        assert row.delivered
        assert row.measured is not None
        assert row.measured > (1 if row.scheme == "spray" else row.ideal) >= 1
    for n in (0, 1):
        assert next(row for row in result.rows if (row.failures, row.scheme) == (n, "fors")).most_flows_on_a_link == 1


def test_a_page_has_each_table_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Before\n")
    options = ["fors", "rivals", "--topo", "ft:m0=2,m1=3", "--ideal", "--write", str(page), "--failures"]
    for failures in ("0,1", "0", "0,1"):
        assert main([*options, failures]) == 0
    text = page.read_text()
    command = "detour fors rivals --topo ft:m0=2,m1=3 --failures 0,1 --skew uniform --message 600000 --seed 1 --ideal"
    assert text.startswith(f"# Before\n\n<!-- {command} -->\n")
    assert text.count("| f | " + " | ".join(NAMES) + " |") == text.count("<!-- end -->") == 2
    assert text.count("\n| 1 | 1.000 |") == 1
    page.write_text(text.replace("<!-- end -->", ""))
    capsys.readouterr()
    assert "has no <!-- end -->" in refused(*options, "0")


def test_the_command(capsys: pytest.CaptureFixture[str], run_json: Callable[..., Any]) -> None:
    options = ["fors", "rivals", "--topo", "ft:m0=4,m1=3", "--failures", "0,2", "--skew", "zipf:1", "--ideal"]
    result = run_json(*options)
    assert (result["sizes"], result["servers"], len(result["rows"])) == ("zipf:1", 12, 14)
    assert {row["measured"] for row in result["rows"]} == {None}
    assert main(options) == 0
    assert "12 servers, zipf:1 of 600,000 bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--failures", "0,x"], "--failures '0,x' is not whole numbers separated by commas"),
        (["--failures", "99"], "16 working links; 99 cannot fail"),
        (["--topo", "ft:m0=2,m1=2,speed=1/2"], "at least as fast as servers' links"),
        (["--topo", "ft:m0=1,m1=1"], "no server sends"),
    ],
)
def test_refusals(options: list[str], text: str, refused: Callable[..., str]) -> None:
    assert text in refused("fors", "rivals", "--ideal", *options)


def test_three_levels_in_virtual_time(capsys: pytest.CaptureFixture[str], refused: Callable[..., str]) -> None:
    options = ["--topo", "ft3:pods=2,leaves=2,aggs=2,cores=2,hosts=2", "--failures", "1", "--message", "50k", "--json"]
    assert main(["fors", "rivals", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["scheme"] for row in result["rows"]] == NAMES
    assert all(row["delivered"] and row["measured"] > row["ideal"] >= 0.999 for row in result["rows"])
    assert "unequal message sizes are for two levels" in refused(
        "fors", "rivals", *options[:2], "--skew", "zipf:1", "--ideal"
    )
