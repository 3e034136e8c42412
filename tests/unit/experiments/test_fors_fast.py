# SPDX-License-Identifier: Apache-2.0
"""FAST: bytes are levelled inside machines, machines meet in pairs, and everything ends where it should."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.cli import main
from detour.control.fors import FatTree, parse_fabric, random_failures
from detour.control.fors.files import drawn_sizes
from detour.control.fors.lp_bound import lp_bound
from detour.experiments.fors.rivals import compare, phase_bytes, rival_schemes
from detour.experiments.fors.rivals_fast import Levelled, ScaleUp, between_machines, fast, inside_bytes, machines_bound
from detour.fabric.traffic.phased import PhasedMessages
from detour.fabric.traffic.pinned import Tuning

FABRIC = parse_fabric("ft:m0=6,m1=3")
NINE = ScaleUp(3, Fraction(9))


@pytest.mark.parametrize("skew", ["uniform", "zipf:1.2", "moe:1"])
def test_servers_of_a_machine_send_alike_and_bytes_keep_their_destination(skew: str) -> None:
    sizes = drawn_sizes(FABRIC.servers, skew, 50_000, 1)
    level = Levelled.of(sizes, NINE)
    machine = np.arange(FABRIC.servers) // 3
    # For each destination a machine holds what its servers had for it, and everybody's share is even to a byte.
    per_machine = np.zeros((6, FABRIC.servers), np.int64)
    np.add.at(per_machine, machine, level.held - between_machines(sizes, 3))
    assert not per_machine.any()
    assert (np.ptp(level.share.reshape(6, 3, 6), axis=1) <= 1).all()
    # Who has given and got so much has that much less and more.
    assert (level.moved.sum(axis=0) - level.moved.sum(axis=1) == (level.held - between_machines(sizes, 3)).sum(1)).all()
    assert not level.moved[machine[:, None] != machine[None, :]].any()
    assert (skew == "uniform") != level.moved.any()


@pytest.mark.parametrize("skew", ["uniform", "zipf:1.2", "moe:1"])
@pytest.mark.parametrize("failures", [0, 4])
def test_phases_join_machines_in_pairs_and_send_everything(skew: str, failures: int) -> None:
    fabric = random_failures(FABRIC, failures, 1)
    level = Levelled.of(drawn_sizes(fabric.servers, skew, 50_000, 1), NINE)
    result = fast(fabric, level, 10_000)
    assert result.size is not None
    sent = np.zeros_like(level.held)
    np.add.at(sent, (result.src, result.dst), result.size)
    assert (sent == level.peers()).all()
    assert (result.src % 3 == result.dst % 3).all()
    for number in range(result.phases):
        mine = result.phase == number
        pairs = set(zip((result.src[mine] // 3).tolist(), (result.dst[mine] // 3).tolist(), strict=True))
        assert len(pairs) == len({s for s, _ in pairs}) == len({d for _, d in pairs})


def test_what_is_inside_machines_by_hand() -> None:
    """Two machines of two servers: 0 has 800 bytes for 2 and 400 for 3, 1 nothing; 2 has 60 for its fellow 3."""
    sizes = np.zeros((4, 4), np.int64)
    sizes[0, 2], sizes[0, 3], sizes[2, 3] = 800, 400, 60
    fabric, two = parse_fabric("ft:m0=2,m1=2"), ScaleUp(2, Fraction(2))
    level = Levelled.of(sizes, two)
    assert level.moved.tolist() == [[0, 600, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert level.held.tolist() == [[0, 0, 200, 400], [0, 0, 600, 0], [0] * 4, [0] * 4]
    messages = fast(fabric, level, 0)
    work = level.work(messages)
    # 600 bytes at twice the speed before, 60 beside the first phase, what 2 and 3 got for each other after the last.
    assert (messages.phases, work.before, work.during.tolist(), work.after) == (1, 300, [30], 300)
    assert work.whole(phase_bytes(fabric, messages)) == 300 + 600 + 300
    assert machines_bound(fabric, sizes, two) == 600
    assert inside_bytes(sizes, two) == 30
    assert machines_bound(fabric, sizes, ScaleUp(2, Fraction(1, 20))) == 1200
    halves = PhasedMessages(
        np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([2, 3, 2, 3]), np.full(4, 0), np.full(4, 300)
    )
    work = level.work(halves)
    assert (work.during.tolist(), work.after) == ([30, 150], 150)


def test_nobody_beats_the_bound_and_balancing_helps_who_is_skewed() -> None:
    sizes, fabric = drawn_sizes(FABRIC.servers, "moe:1", 50_000, 1), random_failures(FABRIC, 3, 1)
    fast_inside = ScaleUp(3, Fraction(10_000))
    ideal = {
        row.scheme: row.ideal for row in compare(FABRIC, sizes, [0], "", Tuning(), scale_up=NINE, measure=False).rows
    }
    assert min(ideal.values()) >= 1
    assert list(ideal) == ["fors", "mcf", "birkhoff", "fast", "fast-fors", "minhop", "ecmp", "ecmp-spray", "spray"]
    assert max(ideal["fast"], ideal["fast-fors"]) < 1.15 < 1.5 < min(ideal["fors"], ideal["mcf"], ideal["birkhoff"])
    # With links failed who knows of them is ahead, and a network inside that is very fast leaves phases alone.
    broken = compare(fabric, sizes, [0], "", Tuning(), scale_up=fast_inside, measure=False).rows
    ideal = {row.scheme: row.ideal for row in broken}
    assert 1 <= ideal["fast-fors"] < ideal["fast"]
    slow = compare(FABRIC, sizes, [0], "", Tuning(), scale_up=ScaleUp(3, Fraction(1, 2)), measure=False).rows
    assert {row.scheme: row.ideal for row in slow}["fast"] > 2


def test_the_bound_is_that_of_links_where_machines_are_idle() -> None:
    fabric = parse_fabric("ft:m0=2,m1=3,hosts=4", "0:0")
    sizes = drawn_sizes(12, "uniform", 1000, 1)
    away = between_machines(sizes, 2)
    assert machines_bound(fabric, sizes, ScaleUp(2, Fraction(9))) == lp_bound(fabric, away).links == 32_000


def test_what_is_inside_a_machine_is_not_on_the_fabric_for_anybody() -> None:
    sizes = drawn_sizes(FABRIC.servers, "uniform", 30_000, 1)
    for way in rival_schemes(FABRIC, sizes, Tuning(), NINE):
        assert (way.messages.src // 3 != way.messages.dst // 3).all()
        assert way.inside is not None
        assert len(way.inside.during) == way.planned.phases


def test_measured_in_virtual_time(run_json: Callable[..., Any]) -> None:
    options = [
        "--topo",
        "ft:m0=4,m1=2",
        "--scale-up",
        "2:9/2",
        "--skew",
        "moe:1",
        "--message",
        "50k",
        "--failures",
        "1",
    ]
    result = run_json("fors", "rivals", *options)
    assert result["scale_up"] == "2:9/2"
    assert all(row["delivered"] and row["measured"] > row["ideal"] >= 1 for row in result["rows"])
    rows = {row["scheme"]: row for row in result["rows"]}
    assert rows["fast"]["measured"] < rows["birkhoff"]["measured"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--scale-up", "4"], "--scale-up '4' is not SERVERS:SPEED"),
        (["--scale-up", "2:0"], "--scale-up '2:0' is not SERVERS:SPEED"),
        (["--scale-up", "2:1/0"], "--scale-up '2:1/0' is not SERVERS:SPEED"),
        (["--scale-up", "1:9"], "a machine needs at least 2 servers"),
        (["--scale-up", "3:9"], "FT(2;4,4): a leaf's servers cannot form machines of 3 servers"),
        (["--scale-up", "2:9", "--topo", "fat-tree:k=4"], "--scale-up is for two levels"),
        (["--scale-up", "4:9", "--topo", "ft:m0=4,m1=1"], "no server sends to another machine of 4 servers"),
    ],
)
def test_refusals(options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fors", "rivals", "--ideal", *options]) == 2
    assert text in capsys.readouterr().err.splitlines()[-1]


def test_a_group_makes_no_machines() -> None:
    with pytest.raises(DetourError, match="cannot form machines"):
        ScaleUp(2, Fraction(9)).machines(FatTree(2, 2, group=(0, 1, 2)))
