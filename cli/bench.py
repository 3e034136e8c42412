# SPDX-License-Identifier: Apache-2.0
"""`bench`: how fast the engine is, beside BMv2 where that is installed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from detour.base.progress import Progress
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import byte_count, command, draws, floats, output_file, seconds

if TYPE_CHECKING:
    from detour.experiments.bench.report import BenchReport

Measure = Callable[[argparse.Namespace, Progress], "BenchReport"]


def register(commands: Any) -> None:
    """Adds these commands."""
    bench = commands.add_parser("bench", help="measure the engine, beside BMv2 where that is installed")
    kinds = bench.add_subparsers(dest="bench", metavar="WHAT", required=True)

    switch = _add(kinds, "switch", "packets a second through one switch, in process and over veth", _switch)
    switch.add_argument("--sizes", type=byte_count, nargs="+", default=[64, 512, 1500], metavar="BYTES")
    switch.add_argument("--seconds", type=seconds, default=1.0, metavar="S", help="time for each load (1)")
    linux = _add(kinds, "linux", "iperf3's TCP between Linux hosts over one switch and five (root)", _linux)
    linux.add_argument("--seconds", type=seconds, default=4.0, metavar="S", help="for each connection (4)")
    linux.add_argument("--rounds", type=draws, default=2, metavar="N", help="how often, by turns (2)")
    fabric = _add(kinds, "fabric", "packet-hops a second of 36 switches in real time", _fabric)
    fabric.add_argument("--seconds", type=seconds, default=3.0, metavar="S", help="time for each load (3)")
    tables = _add(kinds, "tables", "lookups in exact, LPM and ternary tables of growing size", _tables)
    tables.add_argument("--entries", type=byte_count, nargs="+", metavar="N", help="sizes (10 to 100000)")
    tables.add_argument("--seconds", type=seconds, default=0.5, metavar="S", help="time for each size (0.5)")
    pipeline = _add(kinds, "pipeline", "time from a new pipeline to its first packet", _pipeline)
    pipeline.add_argument("--times", type=byte_count, default=3, metavar="N", help="how often (3)")
    p4runtime = _add(kinds, "p4runtime", "entries a second over gRPC", _p4runtime)
    p4runtime.add_argument("--entries", type=byte_count, default=100_000, metavar="N", help="in each table (100000)")
    p4runtime.add_argument("--batch", type=byte_count, default=2_000, metavar="N", help="updates a message (2000)")
    soak = _add(kinds, "p4rt-soak", "memory that a P4Runtime server takes when clients do their worst", _p4rt_soak)
    soak.add_argument("--seconds", type=seconds, default=60.0, metavar="S", help="how long (60)")
    _add(kinds, "memory", "bytes a switch and bytes an entry", _memory)
    sim = _add(kinds, "sim", "packet-hops a second in virtual time, and memory of 32,768 connections", _sim)
    sim.add_argument("--k", type=byte_count, default=16, metavar="K", help="ports of the fat-tree's switches (16)")
    sim.add_argument("--message", type=byte_count, default=2_000_000, metavar="BYTES", help="of each host (2000000)")
    transport = command(
        kinds, "transport", "messages on paths that fail in part, and equal senders at a full queue", _transport
    )
    transport.add_argument("--gray", action="store_true", help="only paths that lose some kinds of frames")
    transport.add_argument("--fairness", action="store_true", help="only equal senders: Jain's index over 20 seeds")
    lab = _add(
        kinds, "lab", "packets a second of a plain IPv4 lab in virtual time, beside p4sim and ns-3's bridge", _lab
    )
    lab.add_argument("--speeds", type=_speeds, metavar="MBPS[,...]", help="of traffic (1,100,1000,10000)")
    lab.add_argument("--seconds", type=seconds, metavar="S", help="of virtual time for which hosts send (2.912)")
    lab.add_argument("--turns", type=byte_count, default=1, metavar="N", help="of which the middle one counts (1)")
    start = _add(kinds, "start", "what a switch, a fabric, a small simulation and a question cost to start", _start)
    start.add_argument("--times", type=draws, default=3, metavar="N", help="how often each (3)")
    _add(kinds, "setup", "time to build, prove and connect large fabrics; frames a second of socket drivers", _setup)
    _add(kinds, "monitor", "what monitoring costs, beside the host stack's own time", _monitor)
    _add(kinds, "trace", "what tracing costs, and traces a second, beside BMv2's log", _trace)
    fors = command(kinds, "fors", "planning of all-to-all exchanges with failed links, against its goals", _fors)
    fors.add_argument("--sets", type=byte_count, default=200, metavar="N", help="random failure sets (200)")
    fors.add_argument("--phases", type=int, default=24, metavar="N", help="of exchanges in virtual time (24; 0: none)")
    everything = command(kinds, "all", "all of these, as a page with --write", _everything)
    everything.add_argument("--write", type=output_file, metavar="FILE", help="writes the page (Markdown) there")


def _speeds(text: str) -> tuple[float, ...]:
    """Megabits a second, separated by commas."""
    found = floats(text)
    if not found or not all(0 < value <= 1e6 for value in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not speeds in Mb/s, like 1,100,10000")
    return found


def _fors(options: argparse.Namespace) -> None:
    """Needs the engine only for the exchanges."""
    from detour.engine import warm
    from detour.experiments.bench import fors
    from detour.hosts.rdma import RDMA

    with shown_progress(options.json) as progress:
        if options.phases > 0:
            warm.ensure(progress, RDMA)
        report = fors.run(options.sets, max(options.phases, 0), progress)
    present(report.numbers, options, lambda page: show_benchmarks(page, [report]))


def _everything(options: argparse.Namespace) -> None:
    """Runs every benchmark with its defaults."""
    from detour.engine import warm
    from detour.experiments.bench import fabric, memory, p4runtime, page, pipeline, setup, sim, switch, tables
    from detour.hosts.rdma import RDMA

    begin = time.monotonic()
    with shown_progress(options.json) as progress:
        warm.ensure(progress, RDMA)
        reports = [
            switch.run(progress=progress),
            fabric.run(progress=progress),
            pipeline.run(progress=progress),
            p4runtime.run(progress=progress),
            memory.run(progress=progress),
            tables.run(progress=progress),
            sim.run(progress=progress),
            setup.run(progress=progress),
        ]
    if options.write is not None:
        page.write(options.write, page.page(reports, time.monotonic() - begin))
    numbers = {report.name: report.numbers for report in reports}
    present(numbers, options, lambda page: show_benchmarks(page, reports))


def _transport(options: argparse.Namespace) -> None:
    """Runs the parts that are asked for, all of them without an option."""
    from detour.engine import warm
    from detour.experiments.bench import fairness, gray
    from detour.hosts.rdma import RDMA

    parts = {"gray": gray.run, "fairness": fairness.run}
    with shown_progress(options.json) as progress:
        warm.ensure(progress, RDMA)
        reports = [run(progress) for name, run in parts.items() if getattr(options, name)]
        reports = reports or [run(progress) for run in parts.values()]
    numbers = {key: value for report in reports for key, value in report.numbers.items()}
    present(numbers, options, lambda page: show_benchmarks(page, reports))


def _add(kinds: Any, name: str, text: str, measure: Measure) -> Any:
    return command(kinds, name, text, lambda options: _run(options, measure))


def _run(options: argparse.Namespace, measure: Measure) -> None:
    from detour.engine import warm
    from detour.hosts.rdma import RDMA

    with shown_progress(options.json) as progress:
        warm.ensure(progress, RDMA)
        report = measure(options, progress)
    present(report.numbers, options, lambda page: show_benchmarks(page, [report]))


def show_benchmarks(page: Page, reports: Sequence[BenchReport]) -> None:
    """What was measured, the goals, and where."""
    from detour.experiments.bench.report import machine

    for report in reports:
        page.table(report.table())
        if report.goals:
            page.table(report.goals_table())
        for note in report.notes:
            page.print(note)
    page.print(machine())


def _switch(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import switch

    return switch.run(tuple(options.sizes), options.seconds, progress)


def _linux(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import linux

    return linux.run(options.seconds, options.rounds, progress)


def _fabric(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import fabric

    return fabric.run(options.seconds, progress)


def _tables(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import tables

    return tables.run(options.entries or tables.ENTRIES, options.seconds, progress)


def _pipeline(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import pipeline

    return pipeline.run(options.times, progress)


def _p4runtime(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import p4runtime

    return p4runtime.run(options.entries, options.batch, progress)


def _p4rt_soak(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import p4rt_soak

    return p4rt_soak.run(options.seconds, progress)


def _memory(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import memory

    return memory.run(progress)


def _start(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import start

    return start.run(options.times, progress)


def _setup(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import setup

    return setup.run(progress=progress)


def _monitor(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import monitor

    return monitor.run(progress=progress)


def _trace(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import trace

    return trace.run(progress)


def _lab(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import lab

    speeds = options.speeds or lab.SPEEDS_MBPS
    return lab.run(speeds, options.seconds or lab.LAB_SECONDS, options.turns, progress)


def _sim(options: argparse.Namespace, progress: Progress) -> BenchReport:
    from detour.experiments.bench import sim

    return sim.run(options.k, options.message, progress)
