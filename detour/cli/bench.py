# SPDX-License-Identifier: Apache-2.0
"""`bench`: measure the engine, and BMv2 where it is installed: the benchmarks and their options."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from detour.base.progress import Progress
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import (
    add_options,
    byte_count,
    command,
    counted,
    draws,
    floats,
    output_file,
    output_folder,
    seconds,
    thread_count,
)
from detour.fabric.operations.registry import CommandOption

if TYPE_CHECKING:
    from detour.experiments.bench.report import BenchReport


def _speeds(text: str) -> tuple[float, ...]:
    """Megabits a second, separated by commas."""
    speeds = floats(text)
    if not speeds or not all(0 < value <= 1e6 for value in speeds):
        raise argparse.ArgumentTypeError(f"{text!r} is not speeds in Mb/s, like 1,100,10000")
    return speeds


def _lasting(text: str) -> dict[str, CommandOption]:
    return {"seconds": CommandOption(text, "S", kind=seconds)}


def _count(metavar: str, text: str | None, several: bool = False) -> CommandOption:
    return CommandOption(text, metavar, kind=byte_count, several=several)


_PLOT = CommandOption("draw a plot (.png, .svg, .pdf)", "FILE", kind=output_file)

_BENCHMARKS: dict[str, tuple[str, dict[str, CommandOption]]] = {
    "switch": (
        "packets a second through one switch, in process and over veth",
        {"sizes": _count("BYTES", None, several=True), **_lasting("time for each load (0.15)")},
    ),
    "fabric": ("packet-hops a second of 36 switches in real time", _lasting("time for each load (3)")),
    "tables": (
        "lookups in exact, LPM and ternary tables of growing size",
        {"entries": _count("N", "table sizes (10 to 100000)", several=True), **_lasting("time for each size (0.5)")},
    ),
    "p4runtime": (
        "entries a second over gRPC",
        {"entries": _count("N", "entries per table (100000)"), "batch": _count("N", "updates per message (2000)")},
    ),
    "sai": ("packets a second through a router with the structure of SAI P4", _lasting("time for each load (1)")),
    "sim": (
        "packet-hops a second in virtual time, and memory of 32,768 connections",
        {
            "k": _count("K", "ports of the fat-tree's switches (16)"),
            "message": _count("BYTES", "bytes per host (2000000)"),
            "threads": CommandOption("threads of the run (1)", "N", kind=thread_count),
            "no_memory": CommandOption("skip the memory of connections"),
        },
    ),
    "parallel": (
        "one run in virtual time on 1, 2, 4 ... threads, and its critical path",
        {
            "k": _count("K", "ports of the fat-tree's switches (16)"),
            "message": _count("BYTES", "bytes per host (2000000)"),
            "turns": _count("N", "runs, of which the median counts (3)"),
            "plot": _PLOT,
        },
    ),
    "growth": (
        "boot time, verification, run time and memory of fabrics of 72 to 8,192 hosts (16,512) in virtual time",
        {
            "hosts": _count("N", "some of 72, 342, 1056, 8192, 16512 (default: up to 8192)", several=True),
            "message": _count("BYTES", "bytes per host (1000000)"),
            "threads": CommandOption("threads of the run (1)", "N", kind=thread_count),
            "plot": _PLOT,
        },
    ),
    "fast": (
        "jobs whose steady phases are skipped, and in full: errors and processor time",
        {"no_full": CommandOption("skip the runs in full"), "plot": _PLOT},
    ),
    "transport": (
        "messages on paths that lose some kinds of frames, and equal senders at a full queue",
        {
            "gray": CommandOption("only paths that lose some kinds of frames"),
            "fairness": CommandOption("only equal senders: Jain's index over 20 seeds"),
        },
    ),
    "lab": (
        "packets a second of a plain IPv4 lab in virtual time, compared with p4sim and ns-3's bridge",
        {
            "speeds": CommandOption("rates of traffic in Mb/s (1,100,1000,10000)", "MBPS[,...]", kind=_speeds),
            **_lasting("seconds of virtual time for which hosts send (2.912)"),
            "turns": _count("N", "runs, of which the median counts (1)"),
        },
    ),
    "start": (
        "start-up time of a switch, a fabric, a small simulation and a query",
        {"times": CommandOption("repetitions (3)", "N", kind=draws)},
    ),
    "compile": (
        "compile time from P4 to BMv2 JSON and P4Info, compared with p4c",
        {
            "programs": CommandOption("P4 programs (default: some of detour's)", "FILE", several=True),
            "times": CommandOption("repetitions (3)", "N", kind=draws),
        },
    ),
    "trace": ("cost of tracing, and traces a second, compared with BMv2's log", {}),
    "fors": (
        "planning of all-to-all exchanges with failed links",
        {
            "sets": _count("N", "random failure sets (200)"),
            "phases": CommandOption("phases of exchanges in virtual time (24; 0: none)", "N", kind=counted),
        },
    ),
    "ai-fabric": (
        "KPIs of an IETF draft on AI training fabrics, several schemes side by side",
        {
            "topo": CommandOption("(leaf-spine:leaves=4,spines=4,hosts=4)", "SPEC"),
            "scheme": CommandOption(
                "schemes as in `place --run` (ecmp,placed,spray,REPS,MRC-like-32,RoCEv2+PFC)", "S,..."
            ),
            "sizes": _count("BYTES", "message sizes (64k 256k 1M)", several=True),
            "draws": CommandOption("draws of ranks and pairs (3)", "N", kind=draws),
            "procedures": CommandOption(
                "procedures (all: throughput, incast, collectives, failover ...)", "NAME", several=True
            ),
            "out": CommandOption("write report.html, report.md and plots into this folder", "DIR", kind=output_folder),
        },
    ),
    "all": (
        "all benchmarks of docs/performance.md, with longer runs; --write writes the page",
        {"write": CommandOption("write the page (Markdown) to this file", "FILE", kind=output_file)},
    ),
}
"""by name: what it measures, and its options by the parameters that its module's `run` has"""
_OF_ALL = ("switch", "sai", "fabric", "p4runtime", "tables", "sim", "parallel", "growth")
_PARTS = {"transport": ("gray", "fairness"), "all": _OF_ALL}  # those that are several
_THOROUGH: dict[str, dict[str, Any]] = {
    "switch": {"seconds": 1.0},
    "growth": {"hosts": (72, 342, 1056, 8192, 16_512)},
}
"""what the page of `all` is measured with where it is more than the default, which ends within three minutes"""


def register(commands: Any) -> None:
    bench = commands.add_parser("bench", help="measure the engine, and BMv2 where it is installed")
    kinds = bench.add_subparsers(dest="bench", metavar="WHAT", required=True)
    for name, (text, options) in _BENCHMARKS.items():
        add_options(command(kinds, name, text, _run), options)


def _run(options: argparse.Namespace) -> None:
    """Measure and show it; of parts those that are named by an option, or all."""
    from detour.engine import warm
    from detour.experiments.bench.durations import about
    from detour.experiments.bench.report import write
    from detour.hosts.rdma import RDMA

    begin, name = time.monotonic(), options.bench
    given = {key: value for key in _BENCHMARKS[name][1] if (value := getattr(options, key)) is not None}
    parts = _PARTS.get(name, ())
    named = [part for part in parts if given.get(part)] or parts
    work = [(part, _THOROUGH.get(part, {}) if name == "all" else {}) for part in named] or [(name, given)]
    expected = sum(map(_expected_s, *zip(*work, strict=True)))
    if not options.json:
        print(f"detour: bench {name} takes about {about(expected)}", file=sys.stderr, flush=True)
    with shown_progress(options.json) as shown:
        progress = _with_share(shown, expected)
        # Compiling and planning need no engine, exchanges do.
        if name != "compile" and (name != "fors" or given.get("phases", 1) > 0):
            warm.ensure(progress, RDMA)
        reports = [_measure(*each, progress) for each in work]
    if "write" in given:
        write(given["write"], reports, time.monotonic() - begin)
    numbers: Any = {report.name: report.numbers for report in reports}
    if name != "all":
        numbers = {key: value for report in reports for key, value in report.numbers.items()}
    present(numbers, options, lambda page: show_benchmarks(page, reports))


def _with_share(progress: Progress, expected_s: float) -> Progress:
    """Say with each thing how much of the expected time is over."""
    begin = time.monotonic()
    return lambda text: progress(f"{min(99, int(100 * (time.monotonic() - begin) / expected_s))}%, {text}")


def _module(name: str) -> Any:
    return import_module(f"detour.experiments.bench.{name.replace('-', '_')}")


def _expected_s(name: str, given: dict[str, Any]) -> float:
    from detour.experiments.bench.durations import DURATIONS

    return DURATIONS[name].expected_s(_module(name).run, given)


def _measure(name: str, given: dict[str, Any], progress: Progress) -> BenchReport:
    return _module(name).run(progress=progress, **given)


def show_benchmarks(page: Page, reports: Sequence[BenchReport]) -> None:
    """Show measurements, goals, and the machine."""
    from detour.experiments.bench.report import machine

    for report in reports:
        page.table(report.table())
        if report.goals:
            page.table(report.goals_table())
        page.tables(report.tables)
        for note in report.notes:
            page.print(note)
    page.print(machine())
