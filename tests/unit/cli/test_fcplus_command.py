# SPDX-License-Identifier: Apache-2.0
"""`detour fcplus`: what it prints."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from detour import cli

SMALL = ("--n", "12", "--s", "6", "--v", "3", "--hosts", "1")
PROVEN = {"acyclic", "channels", "dependencies", "seconds", "installed", "plain_traffic", "failed"}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(["fcplus", *arguments, *SMALL])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "keys"),
    [
        (("build",), 0, {"spec", "switches", "hosts", "links", "layers", "seconds"}),
        (("paths", "--k", "2"), 0, {"pairs", "paths", "k2_mean", "n_p4", "seconds"}),
        (("throughput", "--k", "2"), 0, {"theta", "upper_bound", "gap", "seconds"}),
        (("prove", "--k", "2"), 0, PROVEN),
        (("prove", "--k", "2", "--tagger"), 0, PROVEN | {"tagger_priorities"}),
        (("prove", "--k", "8", "--priorities", "0"), 1, PROVEN | {"tagger_priorities", "cycle"}),
    ],
)
def test_json(capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: int, keys: set[str]) -> None:
    ended, out = run(capsys, *options, "--json")
    assert (ended, json.loads(out).keys()) == (code, keys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("build",), ("fcplus:n=12,s=6,v=3,hosts=1,seed=1", "layers")),
        (("paths", "--k", "2"), ("k2 mean", "mean length")),
        (("throughput", "--k", "2"), ("upper bound", "exact")),
        (("prove", "--k", "8", "--priorities", "0"), ("NO", "a cycle: s", "Tagger needs", "may deadlock")),
        (("prove", "--k", "2"), ("cannot deadlock; ", "leaves the lossless classes")),
        (
            ("prove", "--k", "2", "--fail", "s0-s10"),
            ("down: s0-s10", "whatever fails, however packets are led: cannot"),
        ),
    ],
)
def test_people_read(capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: tuple[str, ...]) -> None:
    out = run(capsys, *options)[1]
    assert all(word in out for word in words)


@pytest.mark.parametrize("priorities", [1, 2, 3, 6])
def test_whatever_fails_nothing_can_deadlock(capsys: pytest.CaptureFixture[str], priorities: int) -> None:
    chosen = ("--priorities", str(priorities), "--k", "4", "--json")
    code, out = run(capsys, "prove", *chosen, "--fail", "s6-s1,s0-s10,s7-s2")
    found = json.loads(out)
    assert code == 0
    assert found["acyclic"] == [True] * priorities
    assert [found[part]["acyclic"] for part in ("installed", "plain_traffic", "failed")] == [True] * 3
    assert found["failed"]["links"] == ["s0-s10", "s1-s6", "s2-s7"]
    assert (found["plain_traffic"]["lossy"] > 0) == (priorities == 1)
    assert found["failed"]["dependencies"] > found["plain_traffic"]["dependencies"] >= found["dependencies"]


def test_without_layers_nothing_is_proven_that_has_a_cycle(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "prove", "--k", "8", "--priorities", "0", "--json")
    found = json.loads(out)
    assert code == 1
    assert [found[part]["acyclic"] for part in ("installed", "plain_traffic", "failed")] == [False] * 3


def test_routes_go_around_what_is_down(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kept = []
    for fail in ((), ("--fail", "s0-s10,s1-s6")):
        file = tmp_path / "paths.csv"
        code, out = run(capsys, "paths", "--k", "4", "--priorities", "2", "--out", str(file), "--json", *fail)
        assert code == 0
        kept.append((json.loads(out)["paths"], file.read_text()))
    hops = [{pair for line in text.splitlines()[1:] for pair in links_of(line)} for _, text in kept]
    assert hops[0] - hops[1] >= {("0", "10"), ("10", "0"), ("1", "6"), ("6", "1")}
    assert hops[1] < hops[0]


def links_of(line: str) -> list[tuple[str, str]]:
    switches = line.split(",")[3].split()
    return list(pairwise(switches))


def test_throughput_without_what_is_down_is_less(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("throughput", "--k", "4", "--priorities", "2", "--pattern", "all-to-all", "--json")
    whole, broken = (json.loads(run(capsys, *chosen, *fail)[1]) for fail in ((), ("--fail", "s0-s10,s1-s6")))
    assert broken["theta"] < whole["theta"]
    assert broken["upper_bound"] < whole["upper_bound"]


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        ("s0-s1-s2", "links are named by their ends"),
        ("s3", "only links between switches can be down here"),
        ("h3", "only links between switches can be down here"),
        ("s0-s99", "s99"),
        ("", "is neither a switch"),
    ],
)
def test_what_cannot_be_down_is_refused(capsys: pytest.CaptureFixture[str], fail: str, words: str) -> None:
    for what in ("paths", "prove", "throughput"):
        assert cli.main(["fcplus", what, *SMALL, "--fail", fail]) == 2
        assert words in capsys.readouterr().err
