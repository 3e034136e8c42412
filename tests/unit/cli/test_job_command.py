# SPDX-License-Identifier: Apache-2.0
"""`detour job` on the command line."""

from __future__ import annotations

import json
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
    (GPT, "--recompute"), (GPT, "--params 350M"), (GPT, "--batch 16"), (GPT, "--tp 4"), (GPT, "--pp 4"),
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
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
