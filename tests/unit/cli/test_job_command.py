# SPDX-License-Identifier: Apache-2.0
"""`detour job` on the command line."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from detour.cli import main

SMALL = ["--params", "125M", "--batch", "8"]
GPT = ["gpt", *SMALL, "--tp", "2", "--pp", "2", "--dp", "2"]
MOE = ["moe", *SMALL, "--dp", "8", "--ep", "4"]
CHANGES = [
    (GPT, "--layers 4"), (GPT, "--hidden 256"), (GPT, "--sequence 512"), (GPT, "--micro-batch 2"),
    (GPT, "--tflops 100"), (GPT, "--efficiency 0.5"), (GPT, "--nvlink 1T"), (GPT, "--nvlink none"),
    (GPT, "--recompute"), (GPT, "--recompute selective"), (GPT, "--context 2"), (GPT, "--interleave 2"),
    (GPT, "--zero 2"), (GPT, "--bucket 25MB"), ([*GPT, "--zero", "1"], "--prefetch"), (GPT, "--sequence-parallel"),
    (GPT, "--sm-share 0.1"), (MOE, "--expert-chunks 2"),
    (GPT, "--params 350M"), (GPT, "--batch 16"), (GPT, "--tp 4"), (GPT, "--pp 4"),
    (GPT, "--dp 4"), (MOE, "--experts 16"), (MOE, "--top-k 1"), (MOE, "--ep 8"), (MOE, "--skew moe:1.2"),
]  # fmt: skip


def job(folder: Path, *options: str) -> dict[str, Any]:
    file = folder / "job.yaml"
    assert main(["job", *options, "--out", str(file)]) == 0
    (job_read,) = yaml.safe_load(file.read_text())["jobs"]
    return job_read


@pytest.mark.parametrize(("kind", "change"), CHANGES, ids=lambda value: value if isinstance(value, str) else value[0])
def test_every_option_changes_the_job(tmp_path, kind, change, capsys):
    assert job(tmp_path, *kind, *change.split()) != job(tmp_path, *kind)


def test_a_written_job_runs(tmp_path, capsys):
    job(tmp_path, "gpt", *SMALL, "--pp", "2", "--dp", "2", "--layers", "2", "--hidden", "128", "--sequence", "64")
    capsys.readouterr()
    topology = ["--topo", "leaf-spine:leaves=2,spines=2,hosts=2"]
    assert main(["place", str(tmp_path / "job.yaml"), *topology, "--run", "--scheme", "placed", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["ended_by"] == "delivered"
    assert {one["name"] for one in run["collectives"]} == {"forward", "backward", "gradient"}
    for name, count in (("x.et", 4), ("x.goal", 1), ("x.bin", 1)):
        options = [*topology, "--out", str(tmp_path / name), "--json"]
        assert main(["job", "export", str(tmp_path / "job.yaml"), *options]) == 0
        assert len(json.loads(capsys.readouterr().out)["files"]) == count


def test_memory_is_told_and_limited(tmp_path, capsys):
    options = [*GPT, "--json", "--out", str(tmp_path / "job.yaml")]
    assert main(["job", *options]) == 0
    memory = json.loads(capsys.readouterr().out)["memory_bytes"]
    assert memory["total"] == sum(memory[part] for part in ("parameters", "gradients", "optimizer", "activations"))
    assert main(["job", *options, "--memory", str(memory["total"])]) == 0


def test_a_timeline_of_a_written_job(tmp_path, capsys):
    size = ["--layers", "4", "--hidden", "128", "--sequence", "64"]
    job(tmp_path, "gpt", *SMALL, "--pp", "2", "--dp", "2", "--interleave", "2", "--zero", "2", "--bucket", "1MB", *size)
    trace, picture = tmp_path / "a.json", tmp_path / "a.svg"
    options = ["--topo", "leaf-spine:leaves=2,spines=2,hosts=2", "--run", "--scheme", "placed", "--json"]
    capsys.readouterr()
    options += ["--timeline", str(trace), "--timeline", str(picture)]
    assert main(["place", str(tmp_path / "job.yaml"), *options]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    parts = run["compute_us"] + sum(run["exposed_us"].values()) + run["idle_us"]
    assert parts == pytest.approx(run["step_us"], abs=0.01)
    assert set(run["exposed_us"]) == {"forward", "backward", "gradient", "parameter"}
    assert 0 < run["saved_us"] < run["step_us"]
    assert picture.read_text().count("<svg") == 1
    names: set[str] = set()
    by_thread: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["ph"] == "X":
            begin = event["ts"]
            names.add(event["name"])
            by_thread.setdefault((event["pid"], event["tid"]), []).append((begin, begin + event["dur"]))
    assert {process for process, _ in by_thread} == {1, 2, 3, 4}
    computed = {
        f"{way} {number}, chunk {chunk}" for way in ("forward", "backward") for number in range(4) for chunk in (0, 1)
    }
    assert names == computed | set(run["exposed_us"])
    for spans in by_thread.values():
        assert all(end <= begin + 1e-6 for (_, end), (begin, _) in pairwise(spans)), "of a thread they do not overlap"
    assert max(end for spans in by_thread.values() for _, end in spans) == pytest.approx(run["step_us"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*GPT, "--memory", "1GB"], "that is more than --memory 1GB"),
        ([*GPT, "--zero", "4"], "zero is 4; it must be 0, 1, 2 or 3"),
        ([*GPT, "--interleave", "5"], "layers is 6; with interleave 5 it must be a multiple of 5"),
        ([*GPT, "--context", "3"], "sequence is 2048; it must be a multiple of context, 3"),
        ([*GPT, "--bucket", "some"], "'some' is not"),
        ([*GPT, "--prefetch"], "prefetch gathers weights ahead; it needs zero of 1, 2 or 3"),
        ([*GPT, "--recompute", "half"], "--recompute"),
        (["gpt", "--params", "big", "--batch", "8"], "is not a number of parameters, like 13B"),
        ([*GPT, "--pp", "5"], "layers is 12; it must be a multiple of pp, 5"),
        ([*GPT, "--efficiency", "0"], "must be above 0"),
        ([*GPT, "--nvlink", "fast"], "'fast' is not a rate"),
        ([*MOE, "--skew", "hot"], "skew 'hot'"),
        (["export", "none.yaml", "--topo", "d1"], "unknown file type"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, options, message, capsys):
    assert main(["job", *options, "--out", str(tmp_path / "job.txt")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "job.txt").exists()
