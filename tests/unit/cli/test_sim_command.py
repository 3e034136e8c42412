# SPDX-License-Identifier: Apache-2.0
"""`detour sim` as people type it: one document, tables of 80 columns, scenario files, one line for what is wrong."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from detour.base.places import BUILD
from detour.cli import INTERRUPTED, main
from detour.cli.output import rest_text, run_meter
from detour.experiments.sim import run as run_module
from detour.fabric.workloads.tasks import TaskList

SMALL = ["--topo", "leaf-spine:leaves=2,spines=2,hosts=2"]
FLOWS = "3\n0 1 3 1000 2.0\n1 2 3 20000 2.00001\n3 0 3 500 2.0\n"


def test_a_flow_file_runs(tmp_path, run_json):
    file = tmp_path / "flows.txt"
    file.write_text(FLOWS)
    report = run_json("sim", *SMALL, "--workload", str(file))
    assert (report["flows"], report["completed"], report["bytes"], report["delivered_bytes"]) == (3, 3, 21_500, 21_500)
    assert report["steps"] == []
    assert 10e-6 < report["seconds"] < 30e-6  # the second flow begins 10 us after the others


def test_what_people_read_fits_80_columns(capsys):
    assert main(["sim", *SMALL, "--workload", "ring:bytes=200k,iterations=2"]) == 0
    text = capsys.readouterr().out
    assert "slowdown" in text
    assert "ring #2" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_placement_stands_beside_hashing(run_json):
    topo = ["--topo", "leaf-spine:leaves=2,spines=4,hosts=4"]
    report = run_json("sim", *topo, "--workload", "ring:bytes=1e6,shuffle=3", "--place")
    alone = run_json("sim", *topo, "--workload", "ring:bytes=1e6,shuffle=3", "--scheme", "LERP-shortest")
    assert report["ecmp"] == alone
    assert report["speedup"] == pytest.approx(report["ecmp"]["seconds"] / report["seconds"], abs=1e-3)
    assert report["speedup"] > 1
    (step,) = report["steps"]
    assert step["ideal_us"] <= step["us"] <= report["ecmp"]["steps"][0]["us"]


SCENARIO = """\
# a run
topo: leaf-spine:leaves=2,spines=2,hosts=2
workload: permutation:bytes=50k
rate: 50G
fail:
  - s0-s2@5us
reroute-after: 20us
"""


def test_a_scenario_is_the_same_as_its_options(tmp_path, run_json):
    file = tmp_path / "run.yaml"
    file.write_text(SCENARIO)
    options = ["--workload", "permutation:bytes=50k", "--rate", "50G", "--fail", "s0-s2@5us", "--reroute-after", "20us"]
    report = run_json("sim", str(file))
    assert report == run_json("sim", *SMALL, *options)
    assert run_json("sim", str(file), "--rate", "100G") == run_json("sim", *SMALL, *options, "--rate", "100G")
    assert report != run_json("sim", str(file), "--rate", "100G")


WRONG_SCENARIOS = {
    SCENARIO.replace("rate: 50G", "rate: fast"): "line 4: rate: 'fast' is not a rate",
    SCENARIO.replace("rate:", "speed:"): "line 4: there is no 'speed'; allowed: topo, workload",
    SCENARIO.replace("rate: 50G", "topo: d1"): "line 4: topo appears twice",
    SCENARIO.replace("leaves=2", "leaves=none"): "line 2: 'leaf-spine:leaves=none,spines=2,hosts=2'",
    SCENARIO.replace("bytes=50k", "bytes=0"): "line 3: workload 'permutation:bytes=0': bytes: '0'",
    SCENARIO.replace("rate: 50G", "mtu: 4098"): "line 4: mtu: '4098'; expected 256 to 4096, a multiple of 4",
    SCENARIO.replace("@5us", "@5"): "line 5: fail: '5' is not a time",
    SCENARIO.replace("s0-s2@5us", "s0-s9@5us"): "line 5: fail: ",
    SCENARIO.replace("rate: 50G", "rate: [1, 2]"): "line 4: rate must be a text or a number",
    SCENARIO.replace("rate: 50G", "rate:"): "line 4: rate must be a text or a number",
    SCENARIO.replace("  - s0-s2@5us", "  - {a: b}"): "line 6: fail must be a list of texts",
    SCENARIO.replace("rate: 50G", "rate: {"): "line 6: expected the node content",
    SCENARIO.replace("topo: leaf", "topo leaf"): "line 3: mapping values are not allowed",
    "": "expected lines `key: value`",
    "- a\n": "expected lines `key: value`",
    "workload: permutation\n": "a run needs topo: --topo",
}


@pytest.mark.parametrize("text", WRONG_SCENARIOS)
def test_what_is_wrong_in_a_scenario_is_named_by_line(tmp_path, refused, text):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    assert WRONG_SCENARIOS[text] in refused("sim", str(file))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "a run needs topo"),
        (SMALL, "a run needs workload"),
        ([*SMALL, "--workload", "storm"], "there is no workload 'storm'"),
        ([*SMALL, "--workload", "permutation", "--scheme", "none"], "there is no scheme 'none'"),
        (["--topo", "no", "--workload", "permutation"], "no"),
        ([*SMALL, "--workload", "permutation", "--out", "/no/such/folder"], "--out: there is no folder /no/such "),
        ([*SMALL, "--workload", "permutation", "--plot", "x.doc"], "--plot x.doc: plots are written as"),
        ([*SMALL, "--workload", "permutation", "--place", "--fail", "s0-s2@1us"], "--place does not go with --fail"),
        ([*SMALL, "--workload", "permutation", "--place", "--scheme", "SprayLERP"], "chooses paths itself"),
        (["no.yaml"], "no.yaml: No such file or directory"),
    ],
)
def test_wrong_commands_are_one_line(refused, arguments, says):
    assert says in refused("sim", *arguments)


OWN = '''
def pairs(network, size=1000, seed=0):
    """Every host to the one across, the second half later."""
    hosts = len(network.hosts)
    return [(k, (k + 1) % hosts, size, 1e-6 * (k >= hosts // 2)) for k in range(hosts)]


def broken(topology):
    return [(0, 1)]


def raising(topology):
    raise ValueError("no")


number = 3
'''


def test_a_workload_of_ones_own(tmp_path, run_json, refused):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    report = run_json("sim", *SMALL, "--workload", f"{file}:pairs:size=5000")
    assert (report["flows"], report["bytes"], report["completed"]) == (4, 20_000, 4)
    for name, says in {
        "pairs:length=3": "mine.py:2: pairs: got an unexpected keyword argument 'length'; it takes network, [size=]",
        "broken": "mine.py:8: row 0 is (0, 1); expected source, destination, bytes",
        "raising": "mine.py:13: ValueError: no",
        "number": "is a int, and not a function",
        "absent": "has no 'absent'",
    }.items():
        assert says in refused("sim", *SMALL, "--workload", f"{file}:{name}")


def written(folder: Path, name: str, change: tuple[str, str] = ("", "")) -> str:
    """A program of ours under another name, with a word exchanged: `P4INFO,JSON`."""
    info, json_ = folder / "mine.p4info.txtpb", folder / "mine.json"
    for file, source in ((info, f"{name}.p4info.txtpb"), (json_, f"{name}.json")):
        text = (BUILD / source).read_text()
        file.write_text(text.replace(*change) if change[0] else text)
    return f"{info},{json_}"


def test_a_program_of_ones_own_carries_the_hosts(tmp_path, run_json):
    flows = [*SMALL, "--workload", "permutation:bytes=20k"]
    assert run_json("sim", *flows, "--program", written(tmp_path, "fabric")) == run_json("sim", *flows)


def test_a_program_that_lacks_something_is_refused(tmp_path, refused):
    flows = [*SMALL, "--workload", "permutation:bytes=20k", "--program"]
    without = written(tmp_path, "fabric", (".router.route", ".router.elsewhere"))
    assert "FabricIngress.router.route" in refused("sim", *flows, without)
    info, json_ = written(tmp_path, "fabric").split(",")
    assert "is neither a P4 program" in refused("sim", *flows, info)
    assert "no.json: there is no such file" in refused("sim", *flows, f"{info},no.json")
    assert f"{json_} is not P4Info in text format" in refused("sim", *flows, f"{json_},{json_}")
    other = BUILD / "adaptive.p4info.txtpb"
    assert f"{other} and {json_}: P4Info" in refused("sim", *flows, f"{other},{json_}")
    dragonfly = ["--topo", "d1", "--workload", "adv1", "--scheme", "Benchmark", "--program"]
    assert "the scheme runs adaptive.p4" in refused("sim", *dragonfly, f"{info},{json_}")


GOAL = """\
num_ranks 2
rank 0 {
l1: calc 1000
l2: send 1000b to 1 tag 3
l2 requires l1
}
rank 1 {
l1: recv 1000b from 0 tag 3
}
"""


def test_files_are_told_apart_by_what_they_are(tmp_path, run_json, refused):
    for name, text, flows in (
        ("a.goal", GOAL, 1),
        ("schedule", GOAL, 1),
        ("flows", FLOWS, 3),
        ("jobs.yaml", "jobs: [{collective: ring-all-reduce, hosts: all, bytes: 4000}]", 24),
    ):
        (tmp_path / name).write_text(text)
        report = run_json("sim", *SMALL, "--workload", str(tmp_path / name))
        assert (name, report["flows"], report["completed"]) == (name, flows, flows)
    assert "there is no trace.0.et" in refused("sim", *SMALL, "--workload", str(tmp_path / "trace.0.et"))


def test_ctrl_c_tells_how_far_it_came(capsys, monkeypatch):
    usual = run_module.run_workload

    def interrupted(*arguments, **named):
        os.kill(os.getpid(), signal.SIGINT)
        return usual(*arguments, **named)

    monkeypatch.setattr(run_module, "run_workload", interrupted)
    assert main(["sim", *SMALL, "--workload", "permutation", "--json"]) == INTERRUPTED
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert (report["ended_by"], report["completed"], report["delivered_bytes"]) == ("interrupted", 0, 0)
    assert "interrupted after" in printed.err


def test_the_rest_of_a_run_is_estimated(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 130.0)
    assert rest_text(100.0, 0.25) == ", some 90 s left"
    assert rest_text(100.0, 0.0) == rest_text(129.0, 0.5) == ""


def test_a_run_is_as_far_as_its_bytes_whatever_tasks_are_over():
    tasks, shown = TaskList(2), []
    tasks.message(0, 1, 10)
    tasks.message(0, 1, 990)
    run_meter(lambda *what: shown.append(what), tasks.graph(), "spray")(10.0, 2e-6, 0.5)
    ((done, total, text),) = shown
    assert (done, total) == (0.01, 1.0)
    assert text.startswith("1 of 2 tasks of spray, ")
