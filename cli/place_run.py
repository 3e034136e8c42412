# SPDX-License-Identifier: Apache-2.0
"""`place --run`: the jobs of a file in virtual time, by several schemes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from detour.cli.output import Page, run_meter, timed_bar

if TYPE_CHECKING:
    from detour.experiments.sim.job_runs import JobsRun
    from detour.topo import Topology
    from detour.topo.failures import Failures

_SHOWN_LINKS = 2


def run_placed(options: argparse.Namespace, topology: Topology, down: Failures) -> list[JobsRun]:
    """What became of the jobs, by scheme. Ctrl-C ends the run: what has happened by then is told."""
    from detour.base.interrupting import noticed
    from detour.base.quantities import time_ps_of
    from detour.base.times import MS
    from detour.experiments.sim.job_runs import DEFAULT_SCHEMES, JobsPlan, run_jobs
    from detour.experiments.sim.settings import events_of

    names = [name.strip() for name in (options.scheme or ",".join(DEFAULT_SCHEMES)).split(",")]
    events = [event for when, what in options.at or () for event in events_of(topology, when, what)]
    after = options.reroute_after
    late_ps = None if after == "never" else MS if after is None else time_ps_of(after)
    plan = JobsPlan(topology, options.jobs, names, events, down, options.rate, late_ps)
    with timed_bar("place", options.json) as update, noticed() as stop:
        return list(run_jobs(plan, lambda what, graph: run_meter(update, graph, what), stop))


def show_runs(page: Page, runs: Sequence[JobsRun], topology: str) -> None:
    """Schemes side by side, then each one's jobs, collectives and busiest links."""
    from detour.experiments.columns import table
    from detour.experiments.sim.job_runs import JobsRun, RunCollective, RunJob, RunLink

    page.table(table(JobsRun, runs, f"on {topology}"))
    if any(len(run.jobs) > 1 for run in runs):
        page.table(table(RunJob, [job for run in runs for job in run.jobs], "jobs"))
    if any(len(run.collectives) > 1 for run in runs):
        page.table(table(RunCollective, [one for run in runs for one in run.collectives], "collectives"))
    page.table(table(RunLink, [link for run in runs for link in run.links[:_SHOWN_LINKS]], "the busiest links"))
    for text in map(why_ended, runs):
        if text:
            page.print(text)


def why_ended(run: JobsRun) -> str:
    """A line about a run that did not complete; empty if it did."""
    if run.ended_by == "delivered":
        return ""
    return f"{run.scheme}: {run.ended_by} after {run.virtual_us:.1f} us, {run.completed:.1%} of its tasks are over"


def exit_code(options: argparse.Namespace, runs: Sequence[JobsRun]) -> int:
    """130 after Ctrl-C, 1 if a run was stuck."""
    from detour.cli import INTERRUPTED

    ends = [run.ended_by for run in runs]
    if options.json:
        print(*filter(None, map(why_ended, runs)), sep="\n", end="", file=sys.stderr)
    return INTERRUPTED if "interrupted" in ends else int("stuck" in ends)
