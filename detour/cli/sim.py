# SPDX-License-Identifier: Apache-2.0
"""`sim`: any topology, scheme and workload in virtual time."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.cores import THREADS
from detour.base.errors import DetourError
from detour.base.interrupting import noticed
from detour.cli.lab import add_lab_options, sim_lab
from detour.cli.output import Page, present, run_meter, timed_bar
from detour.cli.parser import (
    Parser,
    command,
    output_file,
    output_folder,
    port_number,
    refuse,
    thread_count,
    traced_packets,
)
from detour.cli.trace_text import present_traced
from detour.cli.web.command import DEFAULT_PORT

if TYPE_CHECKING:
    from detour.cli.web.recorder import WatchedRun
    from detour.experiments.sim.plan import SimPlan
    from detour.experiments.sim.replay.tracing import TracedPackets
    from detour.experiments.sim.results import SimResult
    from detour.experiments.sim.run import SimRun
    from detour.experiments.sim.settings import SimOptions

_SHOWN_STEPS = 16
_SHOWN_FLOWS = 4


def register(commands: Any) -> None:
    text = "run a workload on any topology in virtual time: completion times, slowdown, link utilisation"
    sim = command(commands, "sim", text, _sim)
    sim.add_argument(
        "scenario", nargs="?", type=Path, metavar="SCENARIO", help="a YAML file with options (docs/sim.md)"
    )
    _what(sim)
    sim.option("--rate", "of links (100G)", "RATE")
    sim.option("--mtu", "payload of data packets (1000)", "BYTES")
    sim.option("--delay", "of links (1us)", "TIME")
    sim.option("--buffer", "packet memory per port, shared within the switch (375k)", "BYTES")
    sim.option("--fast", "skip steady phases; bound on their rates (0.02; 0: off)", "ERROR", nargs="?", const="0.02")
    sim.option("--loss", "fraction of frames lost between switches (0)", "FRACTION")
    sim.option("--ecn", "marking thresholds in bytes (default: the scheme's)", "K|KMIN,KMAX,PMAX|off")
    sim.option(
        "--fail",
        "take a link or switch down at a time, like s0-s3@50us; repeatable",
        "LINK@TIME",
        action="append",
        default=[],
    )
    sim.option("--reroute-after", "time after which the controller routes around a failure (never)", "TIME")
    sim.flag("--place", "run with placed paths and with ECMP, and compare")
    sim.option(
        "--plot",
        "draw all plots into one file (sim.png; .svg, .pdf)",
        "FILE",
        output_file,
        nargs="?",
        const=Path("sim.png"),
    )
    sim.option("--out", "write flows.csv, result.json and report.html there", "DIR", output_folder)
    sim.option("--record", "write the run for `detour trace --run` and `detour web --run`", "FILE", output_file)
    sim.option("--trace", "trace passing packets, like 'src h3 and marked' (docs/trace.md); '' matches all", "FILTER")
    sim.option("--trace-count", "with --trace: number of packets (10)", "N", traced_packets, default=10)
    help_text = f"show the run live in the browser, then until Ctrl-C ({DEFAULT_PORT}; 0: any free port)"
    sim.option("--web", help_text, "PORT", port_number, nargs="?", const=DEFAULT_PORT)


def _what(sim: Parser) -> None:
    add_lab_options(sim)
    sim.option("--tick", "with --lab: time unit of programs (1us, as in BMv2; or 1ns)", "TIME")
    sim.option("--topo", "like leaf-spine:leaves=4,spines=4,hosts=8, d1, a file, FILE.py:NAME", "T")
    text = "a pattern (permutation:bytes=1e6), a collective (ring:bytes=1e8), a job file, a flow file, FILE.py:NAME"
    sim.option("--workload", text, "W")
    sim.option("--scheme", "transport, path selection, congestion control (SprayLERP)", "S")
    sim.option("--routing", "path selection in the switches: valiant, spraypoint:p=4,h=2, FILE.py:NAME", "NAME")
    sim.option("--cc", "congestion control in place of the scheme's: dctcp, dcqcn, fixed, FILE.py:NAME", "C")
    sim.option("--program", "P4 program of all switches", "P4|P4INFO,JSON")
    sim.option(
        "--connections", "most connections between two hosts for messages of jobs (1); each flow has its own", "N"
    )
    sim.option(
        "--duration", "virtual time after which the run ends, like 2ms (default: when everything is delivered)", "TIME"
    )
    text = "largest random delay of a full frame at its host (twice its transmission time on the slowest link; 0: none)"
    sim.option("--jitter", text, "TIME")
    sim.option("--seed", "random seed (1)", "N")
    sim.option(
        "--threads",
        "threads; results do not depend on them (default: one per core if the fabric is large)",
        "N",
        thread_count,
    )


def _sim(options: argparse.Namespace) -> int:
    with THREADS.set_to(options.threads or 0):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    if options.lab is not None:
        return sim_lab(options)
    refuse(options, ("solution", "lab_args", "tick"), "is for labs (--lab)")
    from detour.experiments.sim import report
    from detour.experiments.sim.replay.run_files import Checkpoints, RepeatableRun
    from detour.experiments.sim.results import by_size, result_of
    from detour.experiments.sim.run import run_workload
    from detour.experiments.sim.watching import Watchers

    report.check_folder(options.out)
    report.check_plot(options.plot)
    given, plan = _plan(options)
    if plan.settings.fast and (options.record or options.web is not None or options.trace is not None):
        raise DetourError("--record, --web and --trace show every packet: leave out --fast")
    if options.place:
        if options.record or options.web is not None or options.trace is not None:
            raise DetourError("--place runs twice; --record, --web and --trace show one run: leave out --place")
        return _place(options, plan)
    checkpoints, traced = None if options.record is None else Checkpoints(), _traced(options, plan)
    with _watched(options, plan) as watched:
        with timed_bar("sim", options.json) as update, noticed() as stop:
            recorder = None if watched is None else watched.recorder
            watchers = [each for each in (checkpoints, recorder, traced) if each is not None]
            watcher = Watchers(watchers) if watchers else None
            meter = run_meter(update, plan.workload.graph, duration_ps=plan.settings.duration_ps)
            run = run_workload(plan.topology, plan.workload, plan.settings, meter, watcher=watcher, stop=stop)
        if watched is not None:
            watched.over(None if checkpoints is None else RepeatableRun.of(given, checkpoints.taken).as_json())
        _files(options, run)
        result = result_of(run)
        packets = None if traced is None else traced.live_packets()
        present_traced(result, options, lambda page: show_sim(page, run, result, by_size(run)), packets)
        if watched is not None:
            watched.wait()
    return _exit_code(options, run)


def _exit_code(options: argparse.Namespace, *runs: SimRun) -> int:
    """130 after Ctrl-C, 1 if one could not go on; that a run ends by `--duration` is what was asked for. The page says
    why, and so does standard error beside JSON."""
    for run in runs:
        if options.json and run.ended_by != "delivered":
            print(f"detour: {_why_ended(run)}", file=sys.stderr)
    if any(run.ended_by == "interrupted" for run in runs):
        from detour.cli import INTERRUPTED

        return INTERRUPTED
    return int(any(run.ended_by == "stuck" for run in runs))


def _watched(options: argparse.Namespace, plan: SimPlan) -> AbstractContextManager[WatchedRun | None]:
    if options.record is None and options.web is None:
        return nullcontext()
    from detour.cli.web.recorder import watched_run

    description = f"{plan.workload.text}, {plan.settings.scheme.name}"
    return watched_run(options.record, options.web, description, options.json)


def _traced(options: argparse.Namespace, plan: SimPlan) -> TracedPackets | None:
    if options.trace is None:
        return None
    from detour.experiments.sim.replay.tracing import TracedPackets

    return TracedPackets(plan.topology, options.trace, options.trace_count)


def _plan(options: argparse.Namespace) -> tuple[SimOptions, SimPlan]:
    from dataclasses import fields

    from detour.experiments.sim.placed import PLACED_SCHEME
    from detour.experiments.sim.plan import plan_of, read_scenario
    from detour.experiments.sim.settings import SimOptions

    values: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(SimOptions)}
    values["fail"] = tuple(options.fail)
    given = SimOptions(**values)
    if options.scenario is None:
        given = _named(given, options, PLACED_SCHEME)
        return given, plan_of(given)
    scenario = read_scenario(options.scenario)
    with scenario.blaming(given):
        under = _named(scenario.under(given), options, PLACED_SCHEME)
        return under, plan_of(under)


def _named(given: SimOptions, options: argparse.Namespace, scheme: str) -> SimOptions:
    """With the scheme that placements need, if none is named."""
    from dataclasses import replace

    return replace(given, scheme=scheme) if options.place and given.scheme is None else given


def _place(options: argparse.Namespace, plan: SimPlan) -> int:
    from detour.experiments.sim.placed import placed_result, run_both

    if plan.settings.failures:
        raise DetourError(
            "--place does not go with --fail: placements are not repaired in `sim` (use `detour place --run --at`)"
        )
    with timed_bar("sim", options.json) as update:
        ecmp, placed = run_both(plan, run_meter(update, plan.workload.graph, duration_ps=plan.settings.duration_ps))
    _files(options, placed)
    result = placed_result(ecmp, placed)
    present(result, options, lambda page: _show_placed(page, ecmp, placed))
    return _exit_code(options, ecmp, placed)


def _files(options: argparse.Namespace, run: SimRun) -> None:
    from detour.experiments.sim import figures, report

    if options.out:
        report.write(options.out, run)
    if options.plot:
        figures.draw(options.plot, run)


def _head(page: Page, run: SimRun) -> None:
    page.print(f"{run.workload.text} on {run.topology.spec}")
    page.print(f"{run.settings.scheme.name}, {run.settings.links.rate_bps / 1e9:g} Gb/s")


def show_sim(page: Page, run: SimRun, result: SimResult, bins: list[Any]) -> None:
    """Tables, and what happened in sentences."""
    from detour.base.quantities import time_text
    from detour.cli.output import bytes_text
    from detour.experiments.sim.tables import sim_tables

    _head(page, run)
    page.tables(sim_tables(result, bins, _SHOWN_STEPS))
    missing = result.bytes - result.delivered_bytes
    page.print(
        f"{result.completed} of {result.flows} flows complete, {bytes_text(result.delivered_bytes)} delivered"
        + (f", {bytes_text(missing)} missing," if missing else "")
        + f" in {time_text(run.end_ps)} of virtual time"
        + (f", executed by {run.threads} threads" if run.threads > 1 else "")
    )
    page.print(
        f"{result.wire_gbps:.1f} Gb/s of data frames at the hosts, {result.drops} frames lost, "
        f"{int(run.counts.retransmitted.sum())} sent again"
    )
    if run.ended_by != "delivered":
        page.print(_why_ended(run))


def _why_ended(run: SimRun) -> str:
    """Say why a run ended incomplete, with some of its flows."""
    from detour.base.quantities import time_text

    graph, missing, hosts = run.graph.tasks, run.incomplete, run.topology.hosts
    ends = [(graph["source"][flow], graph["destination"][flow]) for flow in missing[:_SHOWN_FLOWS].tolist()]
    names = [f"{hosts[a].name} to {hosts[b].name}" for a, b in ends]
    more = [f"{len(missing) - len(names)} more"] if len(missing) > len(names) else []
    flows = f"{len(missing)} flows" + (f" ({', '.join([*names, *more])})" if names else "")
    if run.ended_by == "duration":
        return f"--duration {time_text(run.end_ps)} cut off {flows}"
    if run.ended_by == "interrupted":
        return f"interrupted after {time_text(run.end_ps)}, {run.tasks.finished.mean():.1%} of the tasks were completed"
    return f"stuck, {flows} cannot complete: {run.cause}"


def _show_placed(page: Page, ecmp: SimRun, placed: SimRun) -> None:
    """Steps both ways, and all of it."""
    from detour.experiments.columns import table
    from detour.experiments.sim.placed import ComparedStep, all_of_it, compared_steps
    from detour.experiments.sim.results import result_of

    _head(page, placed)
    for run in (ecmp, placed):
        if run.ended_by != "delivered":
            page.print(_why_ended(run))
    steps = compared_steps(result_of(ecmp).steps, result_of(placed).steps)
    whole = all_of_it(ecmp, placed)
    page.table(table(ComparedStep, [*steps[:_SHOWN_STEPS], whole]))
    if len(steps) > _SHOWN_STEPS:
        page.print(f"the first {_SHOWN_STEPS} of {len(steps)} steps; --json has all")
    if whole.faster is not None:
        page.print(f"a placement makes it {whole.faster:.2f} times as fast as ECMP's hashes do")
