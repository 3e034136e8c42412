# SPDX-License-Identifier: Apache-2.0
"""`detour place --run` on the command line."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from detour.cli import INTERRUPTED, main
from detour.experiments.sim import job_runs

TOPO = ["--topo", "leaf-spine:leaves=2,spines=2,hosts=2"]
RUN_KEYS = {
    "scheme", "step_us", "ideal_us", "busbw_gbps", "busiest_link_bytes", "lost_bytes", "retransmitted", "recover_us",
}  # fmt: skip


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs: [{name: ring, collective: ring-all-reduce, hosts: [h0, h2, h1, h3], bytes: 200000}]")
    return str(file)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["place", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_runs_stand_beside_the_placement(jobs, capsys):
    report = document(capsys, jobs, *TOPO, "--run")
    assert [run["scheme"] for run in report["runs"]] == ["ecmp", "placed", "spray"]
    assert all(set(run) > RUN_KEYS for run in report["runs"])
    assert {key: report[key] for key in report if key not in ("runs", "seconds")} == {
        key: value for key, value in document(capsys, jobs, *TOPO).items() if key != "seconds"
    }


def test_what_people_read(jobs, capsys):
    assert main(["place", jobs, *TOPO, "--run", "--scheme", "placed,REPS", "--at", "10us", "fail:s0-s2"]) == 0
    text = capsys.readouterr().out
    assert "REPS" in text
    assert "recover us" in text
    assert "ecmp" not in text
    assert "saved by an ideal network" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--at", "1ms", "fail:s0-s2"], "--at is for --run"),
        (["--scheme", "ecmp"], "--scheme is for --run"),
        (["--timeline", "x.json"], "--timeline is for --run"),
        (["--run", "--timeline", "x.txt"], "--timeline x.txt: expected .json, for Perfetto, or a picture"),
        (["--run", "--scheme", "ecmp,none"], "there is no scheme 'none'"),
        (["--run", "--at", "soon", "fail:s0-s2"], "is not a time"),
        (["--run", "--reroute-after", "soon"], "is not a time"),
    ],
)
def test_wrong_options_are_one_line(jobs, options, message, capsys):
    assert main(["place", jobs, *TOPO, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_stuck_run_says_so(jobs, capsys):
    options = ["--run", "--scheme", "ecmp", "--at", "1us", "fail:s2", "--at", "1us", "fail:s3"]
    assert main(["place", jobs, *TOPO, *options, "--reroute-after", "never"]) == 1
    assert "ecmp: stuck after" in capsys.readouterr().out


def test_ctrl_c_tells_how_far_it_came(jobs, capsys, monkeypatch):
    usual = job_runs.run_workload

    def interrupted(*arguments: Any, **named: Any) -> Any:
        assert threading.current_thread() is threading.main_thread()
        os.kill(os.getpid(), signal.SIGINT)
        return usual(*arguments, **named)

    monkeypatch.setattr(job_runs, "run_workload", interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert main(["place", jobs, *TOPO, "--run"]) == INTERRUPTED
    assert "ecmp: interrupted after 0.0 us, 0.0% of its tasks were completed" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is before
