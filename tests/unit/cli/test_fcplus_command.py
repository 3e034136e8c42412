# SPDX-License-Identifier: Apache-2.0
"""`detour fcplus`: what it prints."""

import json
from itertools import pairwise

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
def test_json(capsys, options, code, keys):
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
def test_people_read(capsys, options, words):
    out = run(capsys, *options)[1]
    assert all(word in out for word in words)


@pytest.mark.parametrize("priorities", [1, 2, 3, 6])
def test_whatever_fails_nothing_can_deadlock(run_json, priorities):
    chosen = ("--priorities", priorities, "--k", "4", "--fail", "s6-s1,s0-s10,s7-s2")
    report = run_json("fcplus", "prove", *chosen, *SMALL)
    assert report["acyclic"] == [True] * priorities
    assert [report[part]["acyclic"] for part in ("installed", "plain_traffic", "failed")] == [True] * 3
    assert report["failed"]["links"] == ["s0-s10", "s1-s6", "s2-s7"]
    assert (report["plain_traffic"]["lossy"] > 0) == (priorities == 1)
    assert report["failed"]["dependencies"] > report["plain_traffic"]["dependencies"] >= report["dependencies"]


def test_without_layers_nothing_is_proven_that_has_a_cycle(capsys):
    code, out = run(capsys, "prove", "--k", "8", "--priorities", "0", "--json")
    report = json.loads(out)
    assert code == 1
    assert [report[part]["acyclic"] for part in ("installed", "plain_traffic", "failed")] == [False] * 3


def test_routes_go_around_what_is_down(run_json, tmp_path):
    kept = []
    for fail in ((), ("--fail", "s0-s10,s1-s6")):
        file = tmp_path / "paths.csv"
        report = run_json("fcplus", "paths", "--k", "4", "--priorities", "2", "--out", file, *fail, *SMALL)
        kept.append((report["paths"], file.read_text()))
    hops = [{pair for line in text.splitlines()[1:] for pair in links_of(line)} for _, text in kept]
    assert hops[0] - hops[1] >= {("0", "10"), ("10", "0"), ("1", "6"), ("6", "1")}
    assert hops[1] < hops[0]


def links_of(line: str) -> list[tuple[str, str]]:
    switches = line.split(",")[3].split()
    return list(pairwise(switches))


def test_throughput_without_what_is_down_is_less(run_json):
    chosen = ("throughput", "--k", "4", "--priorities", "2", "--pattern", "all-to-all", *SMALL)
    whole, broken = (run_json("fcplus", *chosen, *fail) for fail in ((), ("--fail", "s0-s10,s1-s6")))
    assert broken["theta"] < whole["theta"]
    assert broken["upper_bound"] < whole["upper_bound"]


def test_routings_beside_each_other(capsys, run_json):
    report = run_json("fcplus", "compare", "--k", "4", "--bounds", "1,2", *SMALL)
    assert report.keys() == {"spec", "pattern", "k", "trees", "tagger", "rows"}
    assert [(row["scheme"], row["bound"]) for row in report["rows"]] == [
        ("df-ksp", 1), ("df-ksp", 2), ("ksp-lash", None), ("lash", None), ("dfsssp", None), ("nue", 1), ("nue", 2)
    ]  # fmt: skip
    assert all(row["acyclic"] and row["theta"] > 0 for row in report["rows"])
    out = run(capsys, "compare", "--k", "4", "--routings", "nue,df-ksp")[1]
    assert all(word in out for word in ("nue, 1 given", "df-ksp, 2 given", "with Tagger: "))
    assert "lash" not in out


def test_growth(capsys, run_json):
    report = run_json("fcplus", "grow", "--k", "4", "--add", "2", *SMALL)
    assert report["spec"] == "fcplus:n=12,s=6,v=3,hosts=1,seed=1,grown=2"
    assert [(len(one["rewired"]), one["least"]) for one in report["added"]] == [(3, 3), (3, 3)]
    assert (report["switches"], report["rewired"], report["least"], report["pairs"]) == (14, 6, 6, 14 * 13)
    assert report["acyclic"] == [True]
    assert 0 < report["lengthened"] < 1
    out = run(capsys, "grow", "--k", "4", "--add", "2")[1]
    assert all(word in out for word in ("s12", "s13", "cannot deadlock", "of the old paths"))


def test_a_switch_comes_in_where_another_new_one_has_its_links(capsys):
    topology = ("--topo", "jellyfish:n=12,s=4,hosts=1", "--add", "9", "--priorities", "2", "--k", "2", "--json")
    assert cli.main(["fcplus", "grow", *topology]) == 0
    report = json.loads(capsys.readouterr().out)
    ends = [int(end[1:]) for one in report["added"] for link in one["rewired"] for end in link.split("-")]
    assert max(ends) >= 12
    assert 0 < report["lengthened"] < 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        *(
            ((what, "--fail", fail), reason)
            for what in ("paths", "prove", "throughput")
            for fail, reason in {
                "s0-s1-s2": "links are named by their ends",
                "s3": "only links between switches can fail here",
                "h3": "only links between switches can fail here",
                "s0-s99": "s99",
                "": "is neither a switch",
            }.items()
        ),
        (("compare", "--bounds", "1,x"), "--bounds '1,x' is not whole numbers"),
        (("compare", "--bounds", "9"), "9 priorities"),
        (("compare", "--routings", "ecmp"), "routing 'ecmp'"),
        (("compare", "--gap", "2"), "--gap 2.0"),
        (("grow", "--add", "0"), "--add 0 is less than 1"),
        (("grow", "--fail", "s0-s10"), "--fail does not go with grow"),
    ],
)
def test_what_is_refused(refused, options, reason):
    assert reason in refused("fcplus", *options, *SMALL)
