# SPDX-License-Identifier: Apache-2.0
"""`place`: a path for every flow of the jobs in a file, beside what ECMP would do with them."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.records import as_json
from detour.base.tables import Table, left, right
from detour.cli.asking import running
from detour.cli.output import Page, present, run_meter, shown_progress, timed_bar
from detour.cli.parser import Parser, draws, operation, output_file, output_path, refuse

if TYPE_CHECKING:
    from detour.control.placement.placement import Assignment
    from detour.control.placement.report import PlacementReport
    from detour.experiments.sim.job_runs import JobsRun
    from detour.topo import Topology
    from detour.topo.failures import Failures

_SHOWN = 16
_FORMATS = ("frr", "sonic", "linux", "p4runtime", "json", "csv")
_LISTED = 20_000  # assignments that --json prints; beyond that they need --out
_RUN_OPTIONS = ("scheme", "at", "reroute_after", "rate", "mtu", "timeline", "fast")


def register(commands: Any) -> None:
    place = operation(commands, "place", _place)
    place.add_argument("jobs", type=Path, metavar="JOBS", help="job file, YAML or JSON (docs/placement.md)")
    text = "like fat-tree:k=8, d1, leaf-spine:leaves=,spines=,hosts=, a file or FILE.py:NAME"
    place.add_argument("--topo", metavar="SPEC", help=text)
    place.add_argument(
        "--fail",
        action="append",
        default=[],
        metavar="LINK|SWITCH[,...]",
        help="link or switch that is down; repeatable",
    )
    place.add_argument("--repair", action="store_true", help="place without --fail first, then repair")
    place.add_argument("--detours", action="store_true", help="permit longer paths, of at most 6 uSIDs")
    place.add_argument("--seeds", type=draws, default=100, metavar="N", help="draws of ports for ECMP (100)")
    place.add_argument(
        "--out", type=output_path, metavar="FILE|DIR", help="writes all assignments as JSON; with --format a folder"
    )
    text = "files in --out DIR: router configuration (frr: a containerlab lab), table entries, or assignments"
    place.add_argument("--format", choices=_FORMATS, help=text)
    place.add_argument("--reroute", action="store_true", help="with --apply: let the controller move congested flows")
    place.add_argument("--watch", action="store_true", help="with --apply: let switches count each flow")
    place.add_argument(
        "--apply", action="store_true", help="install the placement on the running fabric, and use its topology"
    )
    _add_run_options(place)


def _add_run_options(place: Parser) -> None:
    """Add the options that need `--run`."""
    text = "run the jobs in virtual time: step times, bus bandwidth, losses"
    place.add_argument("--run", dest="run_jobs", action="store_true", help=text)
    place.option("--scheme", "with --run: ecmp, placed, spray (default), or others of `sim`", "S,...")
    text = "with --run: fail:LINK, heal:LINK, slow:LINK:FRACTION or flap:LINK:TIME at a time; repeatable"
    place.add_argument("--at", nargs=2, action="append", metavar=("TIME", "EVENT"), help=text)
    place.option("--reroute-after", "with --run: time after which the controller acts on an event (1ms; never)", "TIME")
    place.option("--rate", "with --run: rate of links (100G)", "RATE")
    place.option("--mtu", "with --run: payload of data packets (1000)", "BYTES")
    text = "with --run: skip steady phases; bound on their rates (0.02; 0: off)"
    place.option("--fast", text, "ERROR", nargs="?", const="0.02")
    text = "with --run: what each host does when, as .json for Perfetto or as .svg, .png, .pdf; repeatable"
    place.option("--timeline", text, "FILE", output_file, action="append")


def _place(options: argparse.Namespace) -> int:
    if not options.run_jobs:
        refuse(options, _RUN_OPTIONS, "is for --run")
    if options.apply:
        if options.topo or options.fail:
            raise DetourError("--topo and --fail do not go with --apply, which uses the running fabric")
        refuse(options, ("repair", "detours", "format"), "is for --topo, not for --apply")
        refuse(options, _RUN_OPTIONS, "is for --run in virtual time, not for --apply")
        _apply(options)
        return 0
    refuse(options, ("reroute", "watch"), "is for the fabric that is up: it needs --apply")
    if options.topo is None:
        raise DetourError("place needs --topo SPEC, or --apply for the running fabric")
    _check_output(options)
    from detour.control.graph_files import open_topology
    from detour.control.native import PLACEMENT
    from detour.control.placement.jobs import read_jobs
    from detour.control.placement.report import compare
    from detour.control.routers import PLACEMENT_FORMATS, document
    from detour.topo import parse_failure

    topology = open_topology(options.topo)
    names = [name.strip() for text in options.fail for name in text.split(",")]
    failures = frozenset(parse_failure(topology, name) for name in names)
    if options.repair and not failures:
        raise DetourError("--repair needs --fail LINK|SWITCH")
    flows = read_jobs(options.jobs, topology)
    with shown_progress(options.json) as progress:
        progress("loading native code")
        PLACEMENT.load()  # so that `seconds` is of the placement, on a machine's first run too
        placement, report = compare(
            topology, flows, failures, options.seeds, progress, detours=options.detours, repaired=options.repair
        )
        listed = range(len(flows)) if options.out or len(flows) <= _LISTED else range(_SHOWN)
        rows = placement.assignments(listed)
    if options.format:
        options.out.mkdir(exist_ok=True)
        for name, text in PLACEMENT_FORMATS[options.format](topology, failures, placement):
            write_file(options.out / name, text)
    elif options.out:
        write_file(options.out, document(topology, names, placement))
    report = replace(report, assignments=rows if len(flows) <= _LISTED else None)
    if options.run_jobs:
        runs = run_placed(options, topology, failures)
        present(as_json(report) | {"runs": as_json(runs)}, options, lambda page: show_runs(page, runs, topology.spec))
        return exit_code(options, runs)
    present(report, options, lambda page: show_placement(page, report, rows))
    return 0


def _check_output(options: argparse.Namespace) -> None:
    """With `--format`, `--out` is a folder, otherwise a file. What is wrong is told before any work is done."""
    for file in options.timeline or ():
        from detour.experiments.sim import timeline

        timeline.check(file)
    out = options.out
    if options.format and out is None:
        raise DetourError("--format needs a folder to write to: --out DIR")
    if options.format and out.exists() and not out.is_dir():
        raise DetourError(f"argument --out: {out} is a file; --format writes several files, so give a folder")
    if out and out.is_dir() and not options.format:
        raise DetourError(f"argument --out: {out} is a folder; expected a file")


def show_placement(page: Page, report: PlacementReport, rows: Sequence[Assignment]) -> None:
    """The busiest links, the first flows, and what is gained."""
    links = (
        left("link", lambda row: row.link),
        right("flows", lambda row: row.flows),
        right("by ECMP", lambda row: row.ecmp_mean, means="flows that hashing puts there, on average"),
        right("collisions", lambda row: row.collisions, means="pairs of flows that share the link"),
        right("ECMP, mean", lambda row: row.ecmp_collisions_mean, means="collisions by hashing"),
        right("ECMP, worst", lambda row: row.ecmp_collisions_worst, means=f"of {report.seeds} seeds"),
    )
    shown = report.links[:_SHOWN]
    page.table(
        Table(links, shown, f"{len(shown)} of {len(report.links)} links that are used, busiest under ECMP first")
    )
    columns = (
        left("job", lambda row: row[0][0]),
        left("from", lambda row: row[0][1]),
        left("to", lambda row: row[0][2]),
        left("path", lambda row: row[0][3]),
        left("uSIDs", lambda row: row[0][4]),
        right("flows", lambda row: row[1]),
    )
    # Connections of a pair that go the same way are one row.
    alike = Counter((row.job, row.source, row.target, " ".join(row.path), ":".join(row.usids)) for row in rows)
    first = list(alike.items())[:_SHOWN]
    count = sum(flows for _, flows in first)
    more = report.flows - count
    page.table(Table(columns, first, f"the first {count} flows; --out FILE has the other {more}" if more else "flows"))
    page.print(
        f"{_count(report.flows, 'flow')} of {_count(report.jobs, 'job')} on {report.topology}, "
        f"{'repaired' if report.moved is not None else 'by ' + report.method} in {report.seconds:.2f} s"
        + (f", {_count(report.moved, 'flow')} moved" if report.moved is not None else "")
    )
    page.print(
        f"collisions: {report.collisions} (no placement can have less than {report.lower_bound}); "
        f"ECMP: {report.ecmp_mean:.1f} on average, {report.ecmp_worst} at worst of {report.seeds} seeds"
    )
    page.print(
        f"busiest link: {_amount(report.busiest, report.unit)} (bound {report.bound}, {_gap(report)}); "
        f"ECMP: {report.ecmp_busiest_mean:.1f} on average, {report.ecmp_busiest_worst} at worst"
    )


def _amount(number: int, unit: str) -> str:
    return _count(number, unit.removesuffix("s"))


def _gap(report: PlacementReport) -> str:
    if report.busiest <= report.bound:
        return "reached"
    gap = f"{report.busiest_gap:.2%}" if report.busiest_gap >= 1e-4 else "less than 0.01%"
    return f"{gap} above, not proven"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _apply(options: argparse.Namespace) -> None:
    jobs = os.path.abspath(options.jobs)
    with shown_progress(options.json) as progress:
        progress("placing")
        report = running().place(jobs, options.reroute, options.watch)
        ran = running().run_jobs(jobs, progress=progress) if options.run_jobs else None
    text = (
        f"{report.flows} flows placed on {report.topology} by {report.method} in {report.seconds:.2f} s: "
        f"{report.collisions} collisions (at least {report.lower_bound})"
    )
    if ran is None:
        present(report, options, lambda page: page.print(text))
        return
    times = f"a step takes {ran.step_us:.1f} us, {ran.ideal_us:.1f} us in an empty fabric"
    more = f"{ran.lost_bytes} bytes lost, {ran.retransmitted} sent again"
    document = as_json(report) | {"runs": [as_json(ran)]}
    present(document, options, lambda page: page.print(f"{text}\n{times}; {more}"))


# -- `place --run`: the jobs of a file in virtual time, by several schemes

_SHOWN_LINKS = 2


def run_placed(options: argparse.Namespace, topology: Topology, down: Failures) -> list[JobsRun]:
    """Run the jobs and return the results by scheme. Ctrl-C ends the run; the results so far are returned."""
    from detour.base.interrupting import noticed
    from detour.base.quantities import time_or_never_of
    from detour.experiments.sim import timeline
    from detour.experiments.sim.job_runs import DEFAULT_SCHEMES, JobsPlan, run_jobs
    from detour.experiments.sim.settings import events_of

    names = [name.strip() for name in (options.scheme or ",".join(DEFAULT_SCHEMES)).split(",")]
    events = [event for when, what in options.at or () for event in events_of(topology, when, what)]
    late_ps = time_or_never_of(options.reroute_after or "1ms")
    files = options.timeline or ()
    plan = JobsPlan(
        topology, options.jobs, names, events, down, options.rate, options.mtu, late_ps, [] if files else None,
        options.fast,
    )  # fmt: skip
    with timed_bar("place", options.json) as update, noticed() as stop:
        runs = list(run_jobs(plan, lambda what, graph: run_meter(update, graph, what), stop))
    for file in files:
        timeline.write(file, plan.timed or ())
    return runs


def show_runs(page: Page, runs: Sequence[JobsRun], topology: str) -> None:
    """Schemes side by side, then each one's jobs, collectives and busiest links."""
    from detour.experiments.columns import table
    from detour.experiments.sim.job_runs import JobsRun, RunCollective, RunJob, RunLink, RunPart, parts_of

    page.table(table(JobsRun, runs, f"on {topology}"))
    if any(len(run.jobs) > 1 for run in runs):
        page.table(table(RunJob, [job for run in runs for job in run.jobs], "jobs"))
    if any(len(run.collectives) > 1 for run in runs):
        page.table(table(RunCollective, [one for run in runs for one in run.collectives], "collectives"))
    page.table(table(RunPart, [part for run in runs for part in parts_of(run)], "parts of a step"))
    page.table(table(RunLink, [link for run in runs for link in run.links[:_SHOWN_LINKS]], "the busiest links"))
    for text in map(why_ended, runs):
        if text:
            page.print(text)


def why_ended(run: JobsRun) -> str:
    """A line about a run that did not complete; empty if it did."""
    if run.ended_by == "delivered":
        return ""
    return (
        f"{run.scheme}: {run.ended_by} after {run.virtual_us:.1f} us, {run.completed:.1%} of its tasks were completed"
    )


def exit_code(options: argparse.Namespace, runs: Sequence[JobsRun]) -> int:
    """130 after Ctrl-C, 1 if a run was stuck."""
    from detour.cli import INTERRUPTED

    ends = [run.ended_by for run in runs]
    if options.json:
        print(*filter(None, map(why_ended, runs)), sep="\n", end="", file=sys.stderr)
    return INTERRUPTED if "interrupted" in ends else int("stuck" in ends)
