# SPDX-License-Identifier: Apache-2.0
"""`detour fors run`: what it prints, what it refuses."""

import pytest

from detour.cli import main

SMALL = ("fors", "run", "--topo", "ft:m0=3,m1=3", "--message", "100k")


def test_a_break_in_the_midst_as_json(run_json):
    report = run_json(*SMALL, "--fail", "0:0,1:2", "--fail-at", "20us", "70us", "--plan-time", "10us")
    assert report["exchange"]["delivered"] == report["exchange"]["messages"] == 72
    assert [one["links"] for one in report["detections"]] == [["0:0"], ["1:2"]]
    assert [one["detected_by"] for one in report["detections"]] == ["port", "port"]
    assert len(report["planning_seconds"]) == 2
    assert report["plan_time"] == "given"


def test_hosts_that_are_late_and_planning_as_measured(capsys):
    late = ("--jitter", "0.5us", "--straggler", "3:2us,0:1.5us")
    assert main([*SMALL, *late, "--fail", "0:0", "--fail-at", "20us"]) == 0
    text = capsys.readouterr().out
    assert "of CPU time on this machine, counted as measured" in text
    assert "72 of 72" in text


def test_only_some_servers_take_part(run_json):
    options = ("--population", "3,2,3", "--group", "1-2,4,7", "--routing", "minhop")
    report = run_json(*SMALL, *options)
    assert (report["servers"], report["phases"], report["exchange"]["delivered"]) == (4, 3, 12)


def test_no_flow_crosses_a_spine(run_json):
    report = run_json("fors", "run", "--topo", "ft:m0=6,m1=1", "--fail", "0:*", "--message", "10k")
    assert (report["phases"], report["exchange"]["delivered"]) == (5, 30)


@pytest.mark.parametrize(
    ("topo", "fail", "routing", "phases", "crowd"),
    [
        ("ft:m0=2,m1=3,hosts=4", "0:0", "fors", 32, 1),
        ("ft:m0=2,m1=3,hosts=3,cables=2", "0:0:1,1:0:0", "fors", 8, 1),
        ("ft:m0=2,m1=3,hosts=4,cables=2", None, "ftree", 11, 1),
        ("ft:m0=2,m1=3,hosts=3,cables=2", "0:0:1,1:0:0", "minhop", 8, 2),
        ("ft:m0=2,m1=3,hosts=3,speed=2", None, "fors", 8, 2),
        ("ft:m0=3,m1=3,hosts=3,speed=1/2", None, "fors", 6, 1),
    ],
)
def test_oversubscription_and_parallel_cables(topo, fail, routing, phases, crowd, run_json):
    """The addresses take every message over its own cable: without failures a phase never lasts as long as two."""
    options = ("--topo", topo, *(("--fail", fail) if fail else ()), "--message", "50k", "--routing", routing)
    report = run_json("fors", "run", *options)
    assert (report["phases"], report["most_flows_on_a_link"]["max"]) == (phases, crowd)
    assert report["exchange"]["delivered"] == report["messages"] == report["servers"] * (report["servers"] - 1)
    slow = 2 if "1/2" in topo else 1
    if routing != "minhop":
        assert report["phase_us"]["max"] < slow * 50e3 * 8 / 200e3 + 6


@pytest.mark.parametrize(
    ("topo", "fail", "links"),
    [
        ("fat-tree:k=4", "0:1,2/0:1", ["0:1", "2/0:1"]),
        ("ft:m0=2,m1=3,hosts=4,cables=2", "0:0:1,1:1", ["0:0:1", "1:1:0", "1:1:1"]),
    ],
)
def test_breaks_on_three_levels_and_of_cables(topo, fail, links, run_json):
    options = ("--topo", topo, "--message", "50k", "--fail", fail, "--fail-at", "20us", "--plan-time", "10us")
    report = run_json("fors", "run", *options)
    assert report["exchange"]["delivered"] == report["messages"] == report["servers"] * (report["servers"] - 1)
    assert sorted(link for one in report["detections"] for link in one["links"]) == links


def test_some_servers_of_three_levels_and_links_that_failed_before(run_json):
    options = ("--topo", "fat-tree:k=4", "--group", "0-2,5,9-12", "--fail", "0:1,2/0:1", "--random-failures", "2")
    report = run_json("fors", "run", *options, "--seed", "2", "--message", "50k")
    assert (report["servers"], report["exchange"]["delivered"], report["failed_links"]) == (8, 56, 4)
    assert report["most_flows_on_a_link"]["max"] == 1


@pytest.mark.parametrize("routing", ["fors", "minhop"])
def test_messages_of_unlike_size(routing, run_json):
    options = ("--skew", "zipf:1", "--message", "1M", "--fail", "0:0", "--routing", routing)
    report = run_json(*SMALL, *options)
    assert report["exchange"]["delivered"] == report["messages"]
    assert report["over_bound"] == pytest.approx(report["ms"] * 1e3 / report["bound_us"], rel=1e-3)
    assert 1.02 < report["over_bound"] < (1.5 if routing == "fors" else 5)
    if routing == "fors":
        assert report["most_flows_on_a_link"]["max"] == 1


def test_a_link_breaks_while_messages_of_unlike_size_are_sent(run_json):
    options = ("--skew", "moe:1", "--message", "100k", "--fail", "0:0", "--fail-at", "40us", "--plan-time", "20us")
    report = run_json(*SMALL, *options)
    assert report["exchange"]["delivered"] == report["messages"]
    assert report["detections"][0]["in_force_us"] is not None


def test_links_that_failed_before_and_a_table(capsys):
    assert main([*SMALL, "--fail", "*:1", "--routing", "ftree", "--phases", "3"]) == 0
    text = capsys.readouterr().out
    assert "3 links failed before" in text
    assert "8, executed 3" in text


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--routing", "ecmp"), "allowed: fors, ftree, minhop, ftree-ar"),
        (("--fail", "9:0"), "no link 9:0"),
        (("--fail", "9:*", "--fail-at", "1us"), "no leaf 9"),
        (("--fail", "0:0,1:1", "--fail-at", "1us", "2us", "3us"), "3 times for 2 parts"),
        (("--fail-at", "1us"), "--fail-at needs --fail"),
        (("--fail", "0:0", "--fail-at", "soon"), "not a time up to 10000s with its unit"),
        (("--fail", "0:0", "--silent"), "--silent needs --fail-at"),
        (("--fail", "0:0,0:1,1:2"), "leaves 0 and 1"),
        (("--fail", "0:*", "--skip-unreachable"), "leaf 0 has no link left"),
        (("--topo", "ft:m0=3", "--phases", "2"), "m1"),
        (("--arity", "0"), "at least 1"),
        (("--straggler", "9:1us"), "straggler 9: no such server participates (there are 9)"),
        (("--straggler", "3"), "'3' is not SERVER:TIME, like 3:20us"),
        (("--straggler", "3:soon"), "--straggler: 'soon' is not a time up to 10000s with its unit"),
        (("--jitter", "1"), "not a time up to 10000s with its unit"),
        (("--rate", "100k"), "less than 1 Mb/s"),
        (("--skew", "zipf:1", "--phases", "3"), "--phases samples phases of equal messages"),
        (("--topo", "ft:m0=2,m1=2,speed=2", "--routing", "ftree-ar"), "ftree-ar needs one cable"),
        (("--topo", "fat-tree:k=4", "--routing", "ftree"), "routing ftree is for two levels"),
        (("--topo", "fat-tree:k=4", "--skew", "zipf:1"), "--sizes and --skew are for two levels"),
        (("--topo", "fat-tree:k=4", "--fail", "8:*", "--fail-at", "1us"), "has no leaf 8 (0..7)"),
        (("--topo", "fat-tree:k=4", "--fail", "0/0:2"), "has no link 0/0:2"),
    ],
)
def test_refusals_are_one_line(options, rule, refused):
    assert rule in refused(*SMALL, *options)
