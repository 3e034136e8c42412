# SPDX-License-Identifier: Apache-2.0
"""Jobs on a fabric that is up: `detour place --apply --run`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.fabric.workloads.jobs import read_job_run
from tests.unit.fabric.sessions import TARGETS, on

LEAVES = "leaf-spine:leaves=2,spines=2,hosts=2"


def file_of(folder: Path, *jobs: str) -> Path:
    file = folder / "jobs.yaml"
    file.write_text("jobs:\n" + "".join(f"  - {job}\n" for job in jobs))
    return file


@pytest.mark.parametrize("target", TARGETS)
def test_a_job_runs_on_a_fabric_that_is_up(target, tmp_path):
    text = "{name: a, collective: ring-all-reduce, hosts: [h0, h2, h1, h3], bytes: 60000, iterations: 2, compute: 3ms}"
    file = file_of(tmp_path, text)
    with on(target, LEAVES) as session:
        session.place(str(file))
        progress: list[str] = []
        ran: Any = session.run_jobs(str(file), progress=progress.append)
    # Three steps back and forth, and what is computed; a flow carries 60 kB.
    assert ran.step_us > 3000
    assert target == "bmv2" or ran.ideal_us <= ran.step_us, "BMv2's rates count packets, short ones too"
    assert ran.busbw_gbps > 0
    assert 120_000 <= ran.busiest_link_bytes <= 4 * 120_000
    assert (ran.lost_bytes >= 0, ran.recover_us) == (True, None)
    count = len(read_job_run(file, session.topology).graph)
    assert progress[-1].endswith(f" of {count} tasks")


def test_steps_wait_for_each_other(tmp_path):
    # The second half of the pipeline cannot begin before the first one has sent.
    job = (
        "{name: p, collective: training-step, hosts: h0-h3, pp: 4, microbatches: 1, stage_bytes: 1000, "
        "forward: 2ms, backward: 4ms}"
    )
    with on("virtual", LEAVES) as session:
        ran: Any = session.run_jobs(str(file_of(tmp_path, job)))
    assert 4 * 6000 < ran.step_us < 4 * 6000 + 6 * 500


def test_what_cannot_run_is_refused(tmp_path):
    ring = "{name: a, collective: ring-all-reduce, hosts: all, bytes: 60000%s}"
    with on("virtual", LEAVES) as session:
        with pytest.raises(DetourError, match="a running fabric takes 20000"):
            session.run_jobs(str(file_of(tmp_path, ring % ", iterations: 4000")))
        with pytest.raises(DetourError, match="needs `bytes`"):
            session.run_jobs(str(file_of(tmp_path, "{collective: ring-all-reduce, hosts: all}")))
        cancelled = threading.Event()
        cancelled.set()
        with pytest.raises(DetourError, match="cancelled: 0 of"):
            session.run_jobs(str(file_of(tmp_path, ring % "")), cancelled=cancelled)
        assert not session.flows().flows, "nothing is left open"
