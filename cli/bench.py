# SPDX-License-Identifier: Apache-2.0
"""`bench`: how fast the engine is, beside BMv2 where that is installed: the benchmarks, and their options."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from detour.base.progress import Progress
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import byte_count, command, draws, floats, output_file, seconds
from detour.cli.reproducing import OptionDeclaration, option

if TYPE_CHECKING:
    from detour.experiments.bench.report import BenchReport


def _speeds(text: str) -> tuple[float, ...]:
    """Megabits a second, separated by commas."""
    found = floats(text)
    if not found or not all(0 < value <= 1e6 for value in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not speeds in Mb/s, like 1,100,10000")
    return found


def _lasting(what: str) -> OptionDeclaration:
    return option("--seconds", type=seconds, metavar="S", help=what)


_BENCHMARKS: dict[str, tuple[str, tuple[OptionDeclaration, ...]]] = {
    "switch": (
        "packets a second through one switch, in process and over veth",
        (option("--sizes", type=byte_count, nargs="+", metavar="BYTES"), _lasting("time for each load (1)")),
    ),
    "linux": (
        "iperf3's TCP between Linux hosts over one switch and five (root)",
        (
            _lasting("for each connection (4)"),
            option("--rounds", type=draws, metavar="N", help="how often, by turns (2)"),
        ),
    ),
    "fabric": ("packet-hops a second of 36 switches in real time", (_lasting("time for each load (3)"),)),
    "tables": (
        "lookups in exact, LPM and ternary tables of growing size",
        (
            option("--entries", type=byte_count, nargs="+", metavar="N", help="sizes (10 to 100000)"),
            _lasting("time for each size (0.5)"),
        ),
    ),
    "pipeline": (
        "time from a new pipeline to its first packet",
        (option("--times", type=byte_count, metavar="N", help="how often (3)"),),
    ),
    "p4runtime": (
        "entries a second over gRPC",
        (
            option("--entries", type=byte_count, metavar="N", help="in each table (100000)"),
            option("--batch", type=byte_count, metavar="N", help="updates a message (2000)"),
        ),
    ),
    "p4rt-soak": ("memory that a P4Runtime server takes when clients do their worst", (_lasting("how long (60)"),)),
    "memory": ("bytes a switch and bytes an entry", ()),
    "sim": (
        "packet-hops a second in virtual time, and memory of 32,768 connections",
        (
            option("--k", type=byte_count, metavar="K", help="ports of the fat-tree's switches (16)"),
            option("--message", type=byte_count, metavar="BYTES", help="of each host (2000000)"),
        ),
    ),
    "transport": (
        "messages on paths that fail in part, and equal senders at a full queue",
        (
            option("--gray", action="store_true", help="only paths that lose some kinds of frames"),
            option("--fairness", action="store_true", help="only equal senders: Jain's index over 20 seeds"),
        ),
    ),
    "lab": (
        "packets a second of a plain IPv4 lab in virtual time, beside p4sim and ns-3's bridge",
        (
            option("--speeds", type=_speeds, metavar="MBPS[,...]", help="of traffic (1,100,1000,10000)"),
            _lasting("of virtual time for which hosts send (2.912)"),
            option("--turns", type=byte_count, metavar="N", help="of which the middle one counts (1)"),
        ),
    ),
    "start": (
        "what a switch, a fabric, a small simulation and a question cost to start",
        (option("--times", type=draws, metavar="N", help="how often each (3)"),),
    ),
    "setup": ("time to build, prove and connect large fabrics; frames a second of socket drivers", ()),
    "monitor": ("what monitoring costs, beside the host stack's own time", ()),
    "trace": ("what tracing costs, and traces a second, beside BMv2's log", ()),
    "fors": (
        "planning of all-to-all exchanges with failed links, against its goals",
        (
            option("--sets", type=byte_count, metavar="N", help="random failure sets (200)"),
            option("--phases", type=int, metavar="N", help="of exchanges in virtual time (24; 0: none)"),
        ),
    ),
    "all": (
        "all of these, as a page with --write",
        (option("--write", type=output_file, metavar="FILE", help="writes the page (Markdown) there"),),
    ),
}
"""by name: what it measures, and its options, which its module's `run` has as parameters"""
_OF_ALL = ("switch", "fabric", "pipeline", "p4runtime", "memory", "tables", "sim", "setup")
_PARTS = {"transport": ("gray", "fairness"), "all": _OF_ALL}
"""those that are several"""


def register(commands: Any) -> None:
    """Adds these commands."""
    bench = commands.add_parser("bench", help="measure the engine, beside BMv2 where that is installed")
    kinds = bench.add_subparsers(dest="bench", metavar="WHAT", required=True)
    for name, (text, options) in _BENCHMARKS.items():
        parser = command(kinds, name, text, _run)
        for one in options:
            parser.add_argument(one.flag, **one.settings)


def _run(options: argparse.Namespace) -> None:
    """Measures and shows it; of parts those that are named by an option, or all."""
    from detour.engine import warm
    from detour.experiments.bench.report import write
    from detour.hosts.rdma import RDMA

    begin, name = time.monotonic(), options.bench
    given = {one.name: value for one in _BENCHMARKS[name][1] if (value := getattr(options, one.name)) is not None}
    parts = _PARTS.get(name, ())
    with shown_progress(options.json) as progress:
        if name != "fors" or given.get("phases", 1) > 0:  # planning needs no engine, its exchanges do
            warm.ensure(progress, RDMA)
        named = [part for part in parts if given.get(part)] or parts
        reports = [_measure(part, {}, progress) for part in named] or [_measure(name, given, progress)]
    if "write" in given:
        write(given["write"], reports, time.monotonic() - begin)
    numbers: Any = {report.name: report.numbers for report in reports}
    if name != "all":
        numbers = {key: value for report in reports for key, value in report.numbers.items()}
    present(numbers, options, lambda page: show_benchmarks(page, reports))


def _measure(name: str, given: dict[str, Any], progress: Progress) -> BenchReport:
    module = import_module(f"detour.experiments.bench.{name.replace('-', '_')}")
    return module.run(progress=progress, **given)


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
