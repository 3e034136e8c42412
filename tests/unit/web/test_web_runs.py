# SPDX-License-Identifier: Apache-2.0
"""Runs in virtual time: recorded, read again, refused, shown as they go."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.cli import main
from detour.cli.web.recorder import RunAnswers, RunRecorder, read_run, write_run
from detour.experiments.sim.plan import SimPlan, plan_of
from detour.experiments.sim.run import SimRun, run_workload
from detour.experiments.sim.settings import SimOptions

TOPOLOGY = "leaf-spine:leaves=2,spines=2,hosts=2"


def planned(**more: Any) -> SimPlan:
    options: dict[str, Any] = {"topo": TOPOLOGY, "workload": "permutation:bytes=200k"} | more
    return plan_of(SimOptions(**options))


def recorded(plan: SimPlan, recorder: RunRecorder | None) -> SimRun:
    return run_workload(plan.topology, plan.workload, plan.settings, watcher=recorder)


@pytest.fixture(scope="module")
def run() -> tuple[RunRecorder, SimRun, list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []
    recorder = RunRecorder("a test", heard.append)
    result = recorded(planned(fail=("s0-s2@8us",), reroute_after="5us"), recorder)
    return recorder, result, heard


def test_a_run_is_recorded_sample_by_sample(run):
    recorder, result, heard = run
    samples = recorder.samples()
    assert len(samples) > 10
    assert [sample["t"] for sample in heard] == [sample["t"] for sample in samples]
    assert samples[-1]["t"] == pytest.approx(result.end_ps / 1e12, abs=2e-6)
    directions = recorder.head["directions"]
    assert {len(sample[key]) for sample in samples for key in ("use", "queue", "up", "drops", "marks")} == {
        len(directions)
    }
    assert max(max(sample["use"]) for sample in samples) > 0.5
    assert all(0 <= use <= 1 for sample in samples for use in sample["use"])
    # Bytes that connections received, in the end, are those that the run counts.
    last: dict[str, int] = {}
    for sample in samples:
        last |= {flow["name"]: flow["bytes"] for flow in sample["flows"]}
    assert sum(last.values()) == int(result.counts.delivered.sum())


def test_what_happened_is_told_at_its_time(run):
    recorder, _, _ = run
    events = [event for sample in recorder.samples() for event in sample["events"]]
    assert [(e["kind"], round(1e6 * e["t"], 3)) for e in events if e["kind"] in ("fail", "routes")] == [
        ("fail", 8.0), ("routes", 13.0),
    ]  # fmt: skip
    place = next(i for i, each in enumerate(recorder.head["directions"]) if each["link"] == "s0-s2")
    assert [sample["up"][place] for sample in recorder.samples() if sample["t"] < 8e-6][-1] == 1
    assert recorder.samples()[-1]["up"][place] == 0
    assert recorder.samples()[-1]["failures"] == ["s0-s2"]


def test_recording_changes_nothing(run):
    _, result, _ = run
    alone = recorded(planned(fail=("s0-s2@8us",), reroute_after="5us"), None)
    assert np.array_equal(alone.tasks.finish_ps, result.tasks.finish_ps)
    assert np.array_equal(alone.counts.packets, result.counts.packets)
    assert alone.drops == result.drops


def test_a_long_run_keeps_few_looks_and_loses_nothing(monkeypatch):
    monkeypatch.setattr("detour.cli.web.recorder._MOST", 16)
    monkeypatch.setattr("detour.cli.web.recorder._LEAST", 16)
    heard: list[dict[str, Any]] = []
    recorder = RunRecorder("a test", heard.append)
    result = recorded(
        planned(workload="incast:bytes=100k,senders=3,receivers=1", ecn="off", fail=("s0-s2@8us",)), recorder
    )
    samples = recorder.samples()
    assert 8 <= len(samples) <= 16 < len(heard)
    for key in ("drops", "marks"):
        assert sum(sum(sample[key]) for sample in samples) == sum(sum(sample[key]) for sample in heard)
    assert max(max(s["queue"]) for s in samples) == max(max(s["queue"]) for s in heard)
    assert [e["kind"] for s in samples for e in s["events"]].count("fail") == 1
    assert samples[-1]["t"] >= result.end_ps / 1e12 - 2e-6


def test_paths_of_flows_are_those_of_the_tables(run):
    recorder = RunRecorder("a test")
    recorded(planned(scheme="TelemetryLERP"), recorder)
    ways = [way for many in recorder.paths.values() for way in many]
    assert len(recorder.paths) == 4
    assert all(way["path"].startswith("sport:0x") for way in ways)
    assert all(way["switches"][0] in ("s0", "s1") for way in ways)


def test_pauses_are_told_with_who_sent_them():
    recorder = RunRecorder("a test")
    crowd = "incast:bytes=500k,senders=8,receivers=1"
    recorded(
        planned(topo="dragonfly:p=2,a=4,h=1", workload=crowd, scheme="Benchmark", buffer="100k", jitter="0"), recorder
    )
    pauses = [event for sample in recorder.samples() for event in sample["events"] if event["kind"] == "pfc"]
    assert pauses
    assert all(event["count"] > 0 and event["text"].startswith("PFC: pauses sent by s") for event in pauses)


def written(tmp_path: Path, run: tuple[RunRecorder, SimRun, list[dict[str, Any]]]) -> Path:
    recorder = run[0]
    path = tmp_path / "a.run"
    write_run(path, {**recorder.head, "repeat": {}}, recorder.samples(), recorder.paths)
    return path


def test_what_is_written_is_read(tmp_path, run):
    path = written(tmp_path, run)
    read = read_run(path)
    assert read.samples == run[0].samples()
    assert read.head["graph"] == run[0].head["graph"]
    assert path.read_bytes() == written(tmp_path, run).read_bytes()
    answers = RunAnswers(read.head, read.paths)
    assert answers.questions["state"]({})["kind"] == "run"
    name = next(iter(read.paths))
    assert answers.questions["flow"]({"name": name})["paths"] == list(read.paths[name])
    with pytest.raises(DetourError, match="cannot change a run"):
        answers.do("fail", {"name": "s0-s2"})


def test_a_run_that_goes_on_is_shown(run):
    answers = RunAnswers(run[0].head, run[0].paths, live=True)
    assert answers.questions["state"]({})["live"] is True
    answers.live = False
    assert answers.questions["state"]({})["live"] is False


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"text", "not a recorded run"),
        (lambda data: gzip.compress(b"{}\n"), "not a recorded run"),
        (lambda data: gzip.compress(b"[]\n"), "not a recorded run"),
        (lambda data: gzip.compress(b'{"detour_recorded_run": 99}\n'), "format 99"),
        (lambda data: data[: len(data) // 2], "not written to its end"),
        (lambda data: gzip.compress(b"\n".join(gzip.decompress(data).splitlines()[:-1])), "not written to its end"),
        (lambda data: gzip.compress(gzip.decompress(data).replace(b'"use":[', b'"use":[0,', 1)), "sample 1"),
    ],
)
def test_files_that_are_no_runs_are_refused_in_a_line(
    tmp_path,
    run,
    damage,
    message,
    refused,
):
    path = written(tmp_path, run)
    path.write_bytes(damage(path.read_bytes()))
    assert message in refused("web", "--run", str(path), "--port", "0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["web", "--run", "/nowhere.run"], "No such file"),
        (["web", "--run", "x", "--program", "a,b"], "not allowed with"),
        (["web", "--run", "x", "--token", "x" * 20], "cannot be changed"),
        (["web", "--entries", "x"], "--entries needs --program"),
        (["web", "--program", "a,b"], "no such file"),
        (
            ["sim", "--topo", TOPOLOGY, "--workload", "permutation", "--place", "--record", "x.run"],
            "--place runs twice",
        ),
        (["sim", "--topo", TOPOLOGY, "--record", "/nowhere/x.run"], "/nowhere"),
        (["sim", "--lab", ".", "--web", "0"], "--web does not go with --lab"),
    ],
)
def test_bad_input_is_told_in_a_line(
    arguments,
    message,
    refused,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*arguments)


def test_the_command_writes_a_file(tmp_path, capsys):
    path = tmp_path / "a.run"
    arguments = ["sim", "--topo", TOPOLOGY, "--workload", "permutation:bytes=100k", "--record", str(path), "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["completed"] == 4
    assert read_run(path).head["status"]["about"] == "permutation:bytes=100k, SprayLERP"
