# SPDX-License-Identifier: Apache-2.0
"""`detour fors`: what it prints, writes and refuses."""

import json

import pytest

from detour import cli

SMALL = ["--topo", "ft:m0=4,m1=5"]


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["fors", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", ["schedule", "route"])
def test_json(run_json, command):
    result = run_json("fors", command, *SMALL, "--fail", "0:0,1:1")
    assert (result["phases"], result["lower_bound"], result["optimal"]) == (22, 22, True)
    assert (result["bound"], result["paper_phases"]) == (22, 22)
    assert result["verified"] is True
    assert result["method"] == "algorithm-1/recolouring"
    assert set(result["seconds"]) == {"schedule", "route", "verify"}
    assert result["failed"] == ["0:0", "1:1"]


def test_a_plan_goes_through_a_file(capsys, run_json, tmp_path):
    path = tmp_path / "plan.csv"
    options = [*SMALL, "--random-failures", "4", "--seed", "3", "--servers", "17"]
    assert run(capsys, "route", *options, "--out", path)[0] == 0
    assert path.read_text().startswith("phase,src,dst,spine\n")
    assert run_json("fors", "verify", path, *options)["verified"] is True
    code, out, _ = run(capsys, "verify", path, *options, "--fail", "*:2")
    assert code == 1
    assert "uses the failed link" in out
    spoilt = path.read_text().splitlines()
    path.write_text("\n".join([*spoilt[:-1], ""]))
    code, out, _ = run(capsys, "verify", path, *options, "--json")
    assert code == 1
    assert json.loads(out)["problems"][0].endswith("is there 0 times instead of 1")


def test_route_knows_sizes_as_schedule_does(run_json, refused, tmp_path):
    options = [*SMALL, "--skew", "zipf:1", "--message", "1000"]
    reports = [run_json("fors", command, *options) for command in ("route", "schedule")]
    for one in reports:
        del one["seconds"]
    assert reports[0] == reports[1]
    assert reports[0]["verified"]
    assert "--keep needs messages of equal size" in refused("fors", "route", *options, "--keep", tmp_path / "plan.csv")


def test_parallel_cables_go_through_a_file(capsys, run_json, tmp_path):
    path, options = tmp_path / "plan.csv", ["--topo", "ft:m0=2,m1=4,hosts=4,cables=2", "--fail", "0:0:1,3:1"]
    report = run_json("fors", "schedule", *options, "--out", path)
    assert (report["fabric"], report["failed"]) == ("FT(2;2,4;hosts=4,cables=2)", ["0:0:1", "3:1:0", "3:1:1"])
    assert (report["phases"], report["bound"], report["verified"]) == (24, 24, True)
    assert path.read_text().startswith("phase,src,dst,spine,up,down\n")
    assert run_json("fors", "verify", path, *options)["optimal"] is True
    code, out, _ = run(capsys, "verify", path, *options[:2], "--fail", "1:0:0", "--json")
    assert code == 1
    assert "uses the failed link 1:0:0" in json.loads(out)["problems"][0]
    assert run(capsys, "export", path, *options, "--format", "json", "--out", tmp_path / "plan.json")[0] == 0


def test_the_fewest_phases_are_verified_as_such(capsys, run_json, tmp_path):
    path, nine = tmp_path / "plan.csv", ["--topo", "ft:m0=3,m1=3"]
    _, out, _ = run(capsys, "schedule", *nine, "--out", path)
    assert "8 (at least 8 are needed: optimal)" in out
    assert "9 (a server's part for itself takes a phase too)" in " ".join(out.split())
    result = run_json("fors", "verify", path, *nine)
    assert (result["phases"], result["bound"], result["paper_phases"], result["optimal"]) == (8, 8, 9, True)


def test_a_group_goes_through_a_file(capsys, run_json, tmp_path):
    path, group = tmp_path / "plan.csv", [*SMALL, "--population", "4,4,3,4,0", "--group", "0-2,5,8-9,14"]
    assert run(capsys, "schedule", *group, "--fail", "0:0", "--out", path)[0] == 0
    result = run_json("fors", "verify", path, *group, "--fail", "0:0")
    assert (result["servers"], result["phases"], result["flows"]) == (7, 6, 42)
    assert {int(line.split(",")[1]) for line in path.read_text().splitlines()[1:]} == {0, 1, 2, 5, 8, 9, 14}
    code, out, _ = run(capsys, "verify", path, *SMALL)
    assert (code, "is there 0 times instead of 1" in out) == (1, True)


@pytest.mark.parametrize(
    ("form", "begin"),
    [
        ("opensm", "Unicast lids [0x0-0x"),
        ("ibsim", "switchguid=0x"),
        ("msccl", '<algo name="fors"'),
        ("json", '{"collective": "alltoall"'),
    ],
)
def test_exports(capsys, refused, tmp_path, form, begin):
    path, out = tmp_path / "plan.csv", tmp_path / "exported"
    assert run(capsys, "schedule", *SMALL, "--fail", "0:0", "--out", path)[0] == 0
    assert run(capsys, "export", path, *SMALL, "--fail", "0:0", "--format", form, "--out", out) == (0, "", "")
    assert out.read_text().startswith(begin)
    assert "is not a plan for FT(2;4,5) with 20 servers" in refused(
        "fors", "export", path, *SMALL, "--fail", "*:2", "--format", form, "--out", out
    )
    assert "is a folder; expected a file" in refused(
        "fors", "export", path, *SMALL, "--fail", "0:0", "--format", form, "--out", tmp_path
    )
    guids = run(capsys, "export", path, *SMALL, "--fail", "0:0", "--format", form, "--out", out, "--guids", path)
    assert guids[0] == 2
    assert ("--guids is for opensm and ibsim" in guids[2]) == (form in ("msccl", "json"))


def test_nothing_crosses_a_spine(run_json):
    result = run_json("fors", "schedule", "--topo", "ft:m0=6,m1=1", "--fail", "0:*")
    assert (result["phases"], result["flows"], result["optimal"]) == (5, 30, True)


def test_a_plan_is_kept(capsys, run_json, tmp_path):
    path, after = tmp_path / "plan.csv", tmp_path / "after.csv"
    assert run(capsys, "route", *SMALL, "--fail", "0:0", "--out", path)[0] == 0
    result = run_json("fors", "route", *SMALL, "--fail", "0:0,3:1", "--keep", path, "--out", after)
    assert (result["method"], result["anew"], result["optimal"]) == ("incremental", False, True)
    assert 0 < result["moved"] < 200
    old, new = (set(file.read_text().splitlines()) for file in (path, after))
    assert len(old - new) == result["moved"]
    assert run(capsys, "verify", after, *SMALL, "--fail", "0:0,3:1")[0] == 0


def test_what_cannot_be_kept(capsys, refused, tmp_path):
    path = tmp_path / "plan.csv"
    assert run(capsys, "route", *SMALL, "--out", path)[0] == 0
    assert "plan without --keep" in refused(
        "fors", "route", *SMALL, "--fail", "0:0,0:1,2:2,2:3", "--skip-unreachable", "--keep", path
    )
    assert "is not a plan for FT(2;4,5) with 19 servers" in refused(
        "fors", "route", *SMALL, "--servers", "19", "--keep", path
    )
    path.write_text("phase,src,dst,spine\n2147483647,0,99999999,1\n")
    assert "dst 99999999 is not in 0..19" in refused("fors", "route", *SMALL, "--keep", path)
    path.write_text("phase,src,dst,spine\n2147483646,0,1,\n")
    code, out, _ = run(capsys, "verify", path, *SMALL)
    assert (code, "is there 0 times instead of 1" in out) == (1, True)


def test_leaves_that_nothing_joins(run_json, refused):
    lost = [*SMALL, "--fail", "0:0,0:1,2:2,2:3"]
    assert "no common spine is left for leaves 0 and 2" in refused("fors", "schedule", *lost)
    result = run_json("fors", "schedule", *lost, "--skip-unreachable")
    assert (result["unreachable"], result["verified"], result["flows"]) == ([[0, 2]], True, 20 * 19 - 32)


@pytest.mark.parametrize(("algorithm", "phases"), [("linear-shift", 15), ("xor", 15), ("bandwidth-optimal", 16)])
def test_schedules_that_know_of_no_failures(capsys, run_json, algorithm, phases):
    result = run_json("fors", "schedule", "--topo", "ft:m0=4,m1=4", "--algorithm", algorithm)
    assert (result["phases"], result["verified"], result["method"]) == (phases, True, f"{algorithm}/ftree")
    assert (result["bound"], result["optimal"], result["paper_phases"]) == (15, phases == 15, 16)
    code, out, _ = run(capsys, "schedule", "--topo", "ft:m0=4,m1=4", "--fail", "0:0", "--algorithm", algorithm)
    assert code == 1
    assert "uses the failed link 0:0" in out


CABLES = ["schedule", "--topo", "ft:m0=2,m1=4,cables=2"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["schedule", "--topo", "leaf-spine:leaves=2,spines=2,hosts=2"], "ft:m0=20,m1=18"),
        (["schedule", "--topo", "ft:m0=4"], "m1 missing"),
        (["schedule", "--topo", "ft:m0=2,m1=4,cables=0"], "cables=0 is less than 1"),
        (["schedule", "--topo", "ft:m0=2,m1=4,hosts=0"], "hosts=0 is less than 1"),
        (["schedule", "--topo", "ft:m0=2,m1=4,speed=0"], "speed=0 is not a fraction of numbers in 1..16"),
        (["schedule", "--topo", "ft:m0=2,m1=4,speed=fast"], "speed=fast is not a number like 2 or a fraction like 1/2"),
        (["schedule", "--topo", "ft:m0=2,m1=4,speed=1/0"], "speed=1/0 is not a number"),
        ([*CABLES, "--fail", "0:0:2"], "has no link 0:0:2 (leaf 0..3, spine 0..1, cable 0..1)"),
        ([*CABLES, "--fail", "0"], "'0' is not leaf:spine or leaf:spine:cable, like 0:3:1"),
        (["schedule", "--topo", "ft:m0=2,m1=4", "--fail", "0:0:1"], "has no link 0:0:1 (leaf 0..3, spine 0..1)"),
        (["route", *SMALL, "--fail", "9:0"], "no link 9:0"),
        (["route", *SMALL, "--fail", "x"], "'x' is not leaf:spine"),
        (["route", *SMALL, "--servers", "0"], "1..20 servers, not for 0"),
        (["route", *SMALL, "--random-failures", "-1"], "-1 cannot fail"),
        (["route", *SMALL, "--random-failures", "19"], "can fail"),
        (["route", *SMALL, "--keep", "/nowhere.csv"], "No such file"),
        (["route", *SMALL, "--out", "/nowhere/plan.csv"], "--out: there is no folder /nowhere"),
        (["verify", "/nowhere.csv"], "No such file"),
        (["schedule", "--algorithm", "best"], "invalid choice"),
        (["schedule", "--seed", "x"], "is not a whole number"),
        (["schedule", *SMALL, "--skew", "zipf"], "skew 'zipf' is not uniform, zipf:S or moe:S, like zipf:1.2"),
        (["schedule", *SMALL, "--skew", "zipf:1", "--sizes", "none.csv"], "one of the two"),
        (["schedule", *SMALL, "--sizes", "none.csv"], "none.csv: No such file"),
        (["schedule", *SMALL, "--skew", "zipf:1", "--algorithm", "xor"], "--algorithm xor ignores sizes"),
        (["schedule", *SMALL, "--skew", "zipf:1", "--fail", "0:0,0:1,1:2,1:3"], "leaves 0 and 1"),
    ],
)
def test_what_is_refused(refused, arguments, error):
    assert error in refused("fors", *arguments)


UNLIKE = [*SMALL, "--fail", "0:0,1:1", "--skew", "zipf:1.2", "--message", "20k"]


def test_unlike_sizes_go_through_a_file(capsys, run_json, refused, tmp_path):
    path, json_path = tmp_path / "plan.csv", tmp_path / "plan.json"
    report = run_json("fors", "schedule", *UNLIKE, "--out", path)
    assert (report["verified"], report["messages"], report["sizes"]) == (True, 380, "zipf:1.2")
    assert report["length_bytes"] >= report["bound_bytes"] == report["bound_by_servers"] > report["bound_by_links"]
    assert report["ratio"] == pytest.approx(report["length_bytes"] / report["bound_bytes"], abs=1e-6)
    assert path.read_text().startswith("phase,src,dst,spine,bytes\n")
    again = run_json("fors", "verify", path, *UNLIKE)
    assert (again["length_bytes"], again["phases"]) == (report["length_bytes"], report["phases"])
    code, out, _ = run(capsys, "verify", path, *UNLIKE, "--seed", "2")
    assert code == 1
    assert "bytes instead of" in out
    assert run(capsys, "export", path, *UNLIKE, "--format", "json", "--out", json_path)[0] == 0
    exported = json.loads(json_path.read_text())
    sent = sum(flow["bytes"] for flows in exported["phases"] for flow in flows)
    assert (exported["collective"], sent) == ("alltoallv", report["total_bytes"])
    assert "messages of equal size" in refused("fors", "export", path, *UNLIKE, "--format", "msccl", "--out", json_path)


def test_sizes_from_a_file_and_a_table(capsys, tmp_path):
    path = tmp_path / "sizes.csv"
    path.write_text("src,dst,bytes\n0,4,1000\n0,8,500\n5,8,1500\n")
    code, out, _ = run(capsys, "schedule", *SMALL, "--sizes", path)
    text = " ".join(out.split())
    assert code == 0
    assert "3 messages, 3,000 bytes" in text
    assert "at least 2,000 bytes (the busiest server)" in text
    assert "1.0000 (optimal)" in text
