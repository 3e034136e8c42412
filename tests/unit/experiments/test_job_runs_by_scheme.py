# SPDX-License-Identifier: Apache-2.0
"""`detour place --run`: a job file in virtual time by several schemes, with what happens in the middle of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detour.base.dataplane import PAYLOAD
from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.experiments.sim.job_runs import JobsPlan, run_jobs
from detour.experiments.sim.settings import TimedFailure, events_of
from detour.fabric.backends.virtual.scheme import LinkSettings
from detour.fabric.workloads.ideal import group_ideals_ps, ideal_ps, wire_terms
from detour.fabric.workloads.jobs import read_job_run
from detour.topo import parse_topology
from detour.topo.failures import Failure, parse_failure

LEAVES = parse_topology("leaf-spine:leaves=4,spines=4,hosts=4")
RING = "{name: train, collective: ring-all-reduce, hosts: all, bytes: 1000000, shuffle: 3}"
EXPERTS = "{name: experts, collective: all-to-all, hosts: h0-h7, bytes: 100000, compute: 20us, iterations: 3}"
SILENT = lambda what, graph: lambda arrived, seconds, share: None  # noqa: E731


def file_of(folder: Path, *jobs: str) -> Path:
    file = folder / "jobs.yaml"
    file.write_text("jobs:\n" + "".join(f"  - {job}\n" for job in jobs))
    return file


def runs_of(folder: Path, *jobs: str, events: str = "", **more) -> dict[str, Any]:
    """Of `JobsRun`, whose times may be None."""
    timed = [one for text in events.split() for one in events_of(LEAVES, *text.split("@")[::-1])]
    more.setdefault("schemes", ("ecmp", "placed", "spray"))
    plan = JobsPlan(LEAVES, file_of(folder, *jobs), events=timed, **more)
    return {run.scheme: run for run in run_jobs(plan, SILENT)}


def test_a_job_by_three_schemes(tmp_path):
    runs = runs_of(tmp_path, RING)
    assert list(runs) == ["ecmp", "placed", "spray"]
    for run in runs.values():
        assert run.ended_by == "delivered"
        assert run.completed == 1
        assert run.step_us > run.ideal_us
        (job,) = run.jobs
        assert (job.step_us, job.ideal_us, job.alone_us) == (run.step_us, run.ideal_us, None)
        assert run.busiest_link_bytes == max(link.bytes for link in run.links)
        assert (run.lost_bytes, run.recover_us) == (0, None)
        # nccl-tests: 2 (n - 1) / n of what each rank has, over the time; flows carry 2 (n - 1) / n of it.
        assert run.busbw_gbps == pytest.approx(1e6 * 8 / (run.step_us * 1e3), rel=1e-3)
    assert runs["placed"].step_us < runs["ecmp"].step_us
    assert runs["placed"].busiest_link_bytes < runs["ecmp"].busiest_link_bytes


def test_jobs_together_and_alone(tmp_path):
    (run,) = runs_of(tmp_path, RING, EXPERTS, schemes=("placed",)).values()
    train, experts = run.jobs
    assert train.step_us == run.step_us
    for job in run.jobs:
        assert job.ideal_us < job.alone_us < job.step_us
    kinds = {one.job: one for one in run.collectives}
    assert kinds["experts"].count == 3
    assert kinds["experts"].us < experts.step_us, "without what it computes before"
    expected = kinds["experts"].bytes * 7 / 8 * 8 / (kinds["experts"].us * 1e3)
    assert kinds["experts"].busbw_gbps == pytest.approx(expected, rel=1e-3)
    assert experts.busbw_gbps == kinds["experts"].busbw_gbps


def test_a_link_that_fails_in_mid_step(tmp_path):
    calm = runs_of(tmp_path, RING)
    runs = runs_of(tmp_path, RING, events="fail:s0-s4@50us", reroute_after_ps=MS)
    for scheme, run in runs.items():
        assert run.ended_by == "delivered"
        assert run.lost_bytes > 0
        assert run.retransmitted >= run.lost_bytes > 0
        assert run.lost_bytes % PAYLOAD == 0
        assert run.step_us > calm[scheme].step_us
    for scheme in ("ecmp", "placed"):
        assert runs[scheme].recover_us >= 1_000, "nobody does anything before the controller does"
    assert runs["spray"].recover_us < 1_000, "senders find other paths by themselves"
    sooner = runs_of(tmp_path, RING, events="fail:s0-s4@50us", reroute_after_ps=50 * US, schemes=("placed",))
    assert sooner["placed"].recover_us < runs["placed"].recover_us


def test_nobody_repairs(tmp_path):
    (run,) = runs_of(tmp_path, RING, events="fail:s0-s4@50us", schemes=("placed",)).values()
    assert (run.ended_by, run.step_us, run.recover_us, run.busbw_gbps) == ("stuck", None, None, None)
    assert 0 < run.completed < 1


def test_what_flaps_comes_back(tmp_path):
    (run,) = runs_of(tmp_path, RING, events="flap:s0-s4:30us@50us", schemes=("placed",)).values()
    assert run.ended_by == "delivered"
    assert 30 <= run.recover_us < 500
    assert run.lost_bytes > 0


def test_a_slow_link_loses_nothing_here_but_time(tmp_path):
    (calm,) = runs_of(tmp_path, RING, schemes=("placed",)).values()
    (slow,) = runs_of(tmp_path, RING, events="slow:s0-s4:0.25@50us", schemes=("placed",)).values()
    (eased,) = runs_of(tmp_path, RING, events="slow:s0-s4:0.25@50us slow:s0-s4:1@80us", schemes=("placed",)).values()
    assert calm.step_us < eased.step_us < slow.step_us


def test_what_is_down_from_the_beginning(tmp_path):
    down = frozenset({parse_failure(LEAVES, "s4")})
    for run in runs_of(tmp_path, RING, down=down).values():
        assert run.ended_by == "delivered"
        assert not [link for link in run.links if "s4" in link.link.split()[0].split("-")]
        assert run.lost_bytes == 0


def test_a_run_that_is_stopped_says_how_far_it_came(tmp_path):
    looks = iter(range(1_000))
    plan = JobsPlan(LEAVES, file_of(tmp_path, RING, EXPERTS), ("placed", "spray"))
    (run,) = run_jobs(plan, SILENT, lambda: next(looks) > 20)
    assert run.ended_by == "interrupted"
    assert 0 < run.completed < 1
    assert (run.step_us, run.busbw_gbps) == (None, None)
    assert run.links


def test_what_events_mean():
    link = parse_failure(LEAVES, "s0-s4")
    assert events_of(LEAVES, "1ms", "fail:s0-s4") == [TimedFailure(MS, link)]
    assert events_of(LEAVES, "1ms", "heal:s5") == [TimedFailure(MS, Failure("switch", 5), "up")]
    assert events_of(LEAVES, "0", "slow:s0-s4:0.5") == [TimedFailure(0, link, "rate", 0.5)]
    both = [TimedFailure(MS, link), TimedFailure(MS + 10 * US, link, "up")]
    assert events_of(LEAVES, "1ms", "flap:s0-s4:10us") == both


@pytest.mark.parametrize(
    ("when", "event", "message"),
    [
        ("1", "fail:s0-s4", "is not a time"),
        ("1ms", "fail", "expected fail:LINK"),
        ("1ms", "break:s0-s4", "expected fail:LINK"),
        ("1ms", "fail:s0-s9", "has s0 to s7"),
        ("1ms", "slow:s0-s4", "expected fail:LINK"),
        ("1ms", "slow:s0-s4:0", "above 0"),
        ("1ms", "slow:s4:0.5", "slow needs a link"),
        ("1ms", "flap:s0-s4:10", "is not a time"),
        ("1ms", "flap:s0-s4:0us", "not a time above 0"),
    ],
)
def test_events_that_mean_nothing(when, event, message):
    with pytest.raises(DetourError, match=message):
        events_of(LEAVES, when, event)


def test_the_ideal_of_groups_is_that_of_each_alone(tmp_path):
    jobs = read_job_run(file_of(tmp_path, RING, EXPERTS), LEAVES)
    wire = wire_terms(LEAVES, LinkSettings())
    groups = group_ideals_ps(jobs.graph, wire, jobs.job, 2)
    alone = [ideal_ps(jobs.alone(job).graph, wire).total_ps for job in (0, 1)]
    assert groups.tolist() == alone
    assert np.bincount(jobs.job).tolist() == [len(jobs.alone(job).graph) for job in (0, 1)]
