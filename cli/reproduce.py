# SPDX-License-Identifier: Apache-2.0
"""`reproduce`: the papers' tables and figures, ours beside theirs. What experiments there are, and their options."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.tables import Table, left
from detour.cli.output import present
from detour.cli.parser import (
    Parser,
    archive_file,
    byte_count,
    counts,
    delays,
    draws,
    floats,
    fractions,
    output_file,
    seconds,
)
from detour.cli.reproducing import ReproduceCommand, add, extent_of, means_of, option, plot, points_bar

if TYPE_CHECKING:
    from detour.experiments.reproduce import Experiment, Means, Reproduction

_ALL_TEXT = "docs/results.md with every number and figure"
_QUICK_RIVALS_SECONDS = 240.0
"""for the usual selection on two idle cores"""


class _Nonshortest(ReproduceCommand):
    def variant(self, options: argparse.Namespace) -> Experiment[Any, Any, Any]:
        from detour.experiments import reproduce

        if options.tune:
            return reproduce.TUNING
        return reproduce.ADDITIONS_WORTH if options.settings else reproduce.NONSHORTEST

    def after(self, options: argparse.Namespace, found: Reproduction[Any, Any]) -> None:
        if options.tune:
            from detour.experiments.nonshortest import settings

            settings.write(options.tune, found.collected)


class _Paths(ReproduceCommand):
    def instead(self, options: argparse.Namespace) -> int | None:
        if options.footing != "bmv2":
            return None
        from detour.experiments.placement.tables import NoPathFindings
        from detour.fabric.backends.bmv2.switch import missing

        if not (reason := missing()):
            return None
        present(NoPathFindings(skipped=reason), options, lambda page: page.print(f"skipped: {reason}"))
        return 0

    def means(self, options: argparse.Namespace) -> Means:
        """On the wall clock runs must not get in each other's way, and what they find is not to be had again from a
        file."""
        from detour.experiments.reproduce import Means

        return super().means(options) if options.footing in (None, "virtual") else Means()


class _Fcplus(ReproduceCommand):
    def variant(self, options: argparse.Namespace) -> Experiment[Any, Any, Any]:
        if options.plot and options.part not in (None, "paper"):
            raise DetourError(f"--plot draws the paper's figures; --part {options.part} has none")
        return super().variant(options)


class _Rivals(ReproduceCommand):
    def means(self, options: argparse.Namespace) -> Means:
        found = replace(super().means(options), archive=options.source)
        return replace(found, budget_s=_QUICK_RIVALS_SECONDS) if options.quick else found

    def after(self, options: argparse.Namespace, found: Reproduction[Any, Any]) -> None:
        from detour.experiments.rivals import page, points

        if options.keep is not None:
            points.keep(options.keep, self.means(options).store)
        if options.write is not None:
            selection = points.selection(extent_of(options), **self.asked(options))
            extent = " --quick" if options.quick else " --full" if options.full else ""
            source = "" if options.source is None else f" --from {options.source}"
            command = f"detour reproduce rivals{extent}{source} --write {options.write}"
            page.write(options.write, found.collected, selection, command)


class _Tcp(ReproduceCommand):
    def instead(self, options: argparse.Namespace) -> int | None:
        for name, what in (("cc", "linux"), ("seconds", "linux"), ("plot", "ns3")):
            if getattr(options, name) is not None and not getattr(options, what):
                raise DetourError(f"--{name} is for --{what}")
        if options.linux:
            from detour.experiments.tcp import linux

            lasting = linux.COMPARED_SECONDS if options.seconds is None else options.seconds
            beside_linux = linux.compare(options.cc or "cubic", lasting)
            present(beside_linux, options, lambda page: page.table(linux.linux_table(beside_linux)))
            return 0
        if not options.ns3:
            return None
        from detour.experiments.tcp import figures, ns3

        beside_ns3 = ns3.compare()
        if options.plot:
            figures.draw(beside_ns3, options.plot)
        present(ns3.ns3_document(beside_ns3), options, lambda page: page.table(ns3.ns3_table(beside_ns3)))
        return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _loads(text: str) -> tuple[float, ...]:
    found = floats(text)
    if not found:
        raise DetourError(f"--loads {text}: loads are numbers, such as 0.1,0.4")
    return found


def _windows(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.isdecimal() and 0 < int(part) <= 1_000_000 for part in parts):
        raise DetourError(f"--windows {text}: two numbers of microseconds, until counting begins and counting")
    return int(parts[0]), int(parts[1])


_COMMANDS: tuple[ReproduceCommand, ...] = (
    _Nonshortest(
        "nonshortest",
        "Figs. 5 to 7 and Table III of the non-shortest-path paper",
        option("--topology", metavar="D1|D2|D3", help="or a topology like dragonfly:p=2,a=4,h=2"),
        option(
            "--pattern", metavar="NAME", help="unf, adv1 (default), adv2, permutation, advc, bit-reverse or two-jobs"
        ),
        option("--pairs", type=counts, metavar="N[,N...]", help="numbers of connections (default: a spread)"),
        option("--scheme", metavar="all|NAME"),
        option("--seeds", type=int, metavar="K", help="draws of pairs (5; --quick 1, --full 10)"),
        option(
            "--threshold", metavar="best|N", help="T of Benchmark in packets (default: the one that was chosen for it)"
        ),
        option(
            "--delays", dest="delays_us", type=delays, metavar="H,L,G", help="us, of links to hosts, local, global"
        ),
        option(
            "--headroom", dest="headroom_bytes", type=int, metavar="BYTES",
            help="of PFC, a port and class (default: IEEE 802.1Q, annex N)",
        ),
        option(
            "--message", dest="message_bytes", type=byte_count, metavar="BYTES",
            help="one message each: completion times",
        ),
        option("--loss", type=float, metavar="P", help="links between switches lose frames (0)"),
        option(
            "--set", dest="hosts", action="append", metavar="NAME=VALUE",
            help="a parameter of the hosts (may be repeated)",
        ),
        option(
            "--step", dest="step_bytes", type=byte_count, metavar="BYTES", help="K of the schemes that mark by steps"
        ),
        option(
            "--preamble", action="store_true", help="frames take Ethernet's preamble and gap on links as well: 20 bytes"
        ),
        option(
            "--cc", dest="control", metavar="NAME",
            help="another congestion control: dctcp, dcqcn, fixed, FILE.py:NAME",
        ),
        option("--without", metavar="NAME", help="leave an addition of the schemes out (see --settings)"),
        plot("draw throughput over connections"),
        option(
            "--settings", asked=False, either=True, action="store_true",
            help="what the paper says, what was added, and what each addition is worth",
        ),
        option(
            "--tune", asked=False, either=True, type=Path, metavar="FILE",
            help="find the best setting of every scheme on D1, D2 or D3; keep it there",
        ),
    ),
    ReproduceCommand(
        "pfc-gain",
        "Table I: what removing PFC gains on a fat-tree",
        option("--connections", type=counts, metavar="N[,N...]", help="(default: those of Table I)"),
        option("--seeds", type=int, metavar="K", help="draws of pairs (1)"),
        plot("draw throughput over connections"),
    ),
    ReproduceCommand(
        "deadlock",
        "Fig. 2: a PFC deadlock, and what prevents it",
        option("--seeds", type=int, metavar="K", help="(1)"),
    ),
    _Paths(
        "path-placement",
        "section IV: a throttled link, with and without rerouting",
        option("--footing", metavar="virtual|real|bmv2", help="100 Gb/s in virtual time, or the wall clock"),
        option("--seconds", type=seconds, metavar="S", help="length of each run (30; virtual: 0.03)"),
        plot("draw throughput over time, as Fig. 3"),
    ),
    ReproduceCommand(
        "fors",
        "Figs. 3, 6, 7 of the FORS paper: all-to-all and failures",
        option("--seed", type=int, metavar="S", help="draws phases and the spines of 1-3F SW0 (1)"),
        option("--message", type=byte_count, metavar="BYTES", help="of every message (600k)"),
        plot("draw throughput and phases"),
    ),
    _Fcplus(
        "fcplus",
        "Tables I to VIII and Figs. 3 to 7 of the FC+ paper: expanders",
        option("--seeds", type=int, metavar="K", help="wirings of Tables V and VIII (1), or of transports (5)"),
        option(
            "--part", choices=("paper", "transports", "settings"),
            help="the paper's evaluation; FC+ beside ECMP, KSP, shortest-union, UGAL and SprayLERP under real "
            "transports; or what each of these can be set to (paper)",
        ),
        plot("draw Figs. 3 to 7"),
        option("--sizes", choices=("equal", "web-search"), help="of messages at packet level (equal: 500 kB)"),
    ),
    ReproduceCommand(
        "qcn-switch",
        "Figs. 3, 7, 8 of the QCN-Switch paper: adaptive Dragonfly routing",
        option("--topology", metavar="SPEC", help="dragonfly:p=4,a=8,h=4 (--quick: p=2,a=4,h=2)"),
        option("--routing", type=_names, metavar="NAME[,NAME...]", help="(all)"),
        option("--pattern", type=_names, metavar="UN,ADV,ADVc", help="(all)"),
        option("--loads", type=_loads, metavar="L[,L...]", help="offered, 0 to 1 (a spread)"),
        option("--windows", type=_windows, metavar="WARM,COUNT", help="us of virtual time"),
        option("--seed", type=int, metavar="S", help="(1)"),
        plot("draw Figs. 3, 7 and 8"),
    ),
    ReproduceCommand(
        "loss",
        "what losses, reordering and contention cost, by transport",
        option("--loss", type=fractions, metavar="P[,P...]", help="fractions of frames (0.001,0.01,0.05)"),
        option("--senders", type=counts, metavar="N[,N...]", help="that share a link (2,4,8,16)"),
        option("--seeds", type=draws, metavar="K", help="runs of each (5; --quick 1, --full 10)"),
    ),
    _Rivals(
        "rivals",
        "SprayLERP beside other ways to choose paths",
        option(
            "--topology", dest="topologies", action="append", metavar="SPEC",
            help="D1, D2, D3 or a topology; repeatable",
        ),
        option(
            "--pattern", dest="patterns", action="append", metavar="NAME", help="a traffic pattern; repeatable"
        ),
        option(
            "--bytes", dest="sizes", action="append", type=int, metavar="N",
            help="of a message, 0: connections without end; repeatable",
        ),
        option("--scheme", dest="schemes", action="append", metavar="NAME", help="repeatable"),
        option("--seeds", dest="draws", type=draws, metavar="K", help="draws of pairs (5; --quick 1, --full 10)"),
        option(
            "--write", asked=False, type=output_file, metavar="FILE",
            help="write the page there as well (docs/rivals.md)",
        ),
        option(
            "--keep", either=True, type=output_file, metavar="FILE",
            help="run what a file lacks, and add it there (docs/rivals.jsonl.xz)",
        ),
        option(
            "--from", dest="source", either=True, type=archive_file, metavar="FILE",
            help="run nothing: take everything out of that file",
        ),
    ),
    ReproduceCommand(
        "queues",
        "the traffic manager beside queueing theory: waits, shares, rates",
        option("--load", type=fractions, metavar="L[,L...]", help="of M/D/1 and M/M/1 (0.3,0.5,0.7,0.8,0.9)"),
        option("--seed", type=int, metavar="N", help="of arrivals and sizes (1)"),
    ),
    _Tcp(
        "tcp",
        "TCP of the IP hosts beside theory",
        option("--loss", type=fractions, metavar="P[,P...]", help="fractions of frames (0.001,0.003,0.01)"),
        option("--flows", type=counts, metavar="N[,N...]", help="that share a cable (2,4,8)"),
        option("--seed", type=int, metavar="N", help="of losses and initial numbers (1)"),
        option(
            "--linux", asked=False, either=True, action="store_true",
            help="beside Linux's TCP instead, in real time (root)",
        ),
        option(
            "--ns3", asked=False, either=True, action="store_true",
            help="beside ns-3's instead: windows over time (docs/hosts.md)",
        ),
        plot("with --ns3: draw them"),
        option(
            "--cc", asked=False, metavar="NAME", help="with --linux: newreno or cubic, with parameters (cubic)"
        ),
        option("--seconds", asked=False, type=float, metavar="S", help="with --linux: how long (100)"),
    ),
)  # fmt: skip
"""in the order in which they are listed"""


def register(commands: Any) -> None:
    """Adds these commands."""
    reproduce: Parser = commands.add_parser("reproduce", help="the papers' tables and figures, ours beside theirs")
    reproduce.add_argument("--list", action="store_true", help="list what can be reproduced")
    reproduce.add_argument("--json", action="store_true", help="print exactly one JSON document")
    reproduce.set_defaults(run=_list)
    kinds = reproduce.add_subparsers(dest="experiment", metavar="WHAT")
    for one in _COMMANDS:
        one.register(kinds)
    _all(kinds)


def _all(kinds: Any) -> None:
    parser = add(kinds, "all", _ALL_TEXT, _run_all, wide=False)
    parser.add_argument("--folder", type=Path, default=Path("docs"), metavar="DIR", help="where results.md goes (docs)")
    parser.add_argument(
        "--keep",
        type=output_file,
        metavar="FILE",
        help="add the runs behind the document there; with --from, those that the present sources have finished",
    )
    parser.add_argument(
        "--from", dest="source", type=archive_file, metavar="FILE", help="run nothing, but take the runs of a --keep"
    )


def _list(options: argparse.Namespace) -> None:
    from detour.experiments.reproduce import EXPERIMENTS

    if not options.list:
        raise DetourError(f"reproduce what? {', '.join(EXPERIMENTS)}, all (see `detour reproduce --list`)")
    names = [(e.name, e.text) for e in EXPERIMENTS.values()] + [("all", _ALL_TEXT)]
    listed = {"experiments": [{"name": name, "text": text} for name, text in names]}
    columns = left("name", lambda row: row[0]), left("what it is", lambda row: row[1])
    present(listed, options, lambda page: page.table(Table(columns, names)))


def _run_all(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import results

    extent, means = extent_of(options), replace(means_of(options, "results"), archive=options.source)
    if options.keep and options.source:
        results.keep(options.keep, extent, means)
    with points_bar("results", options.json) as report:
        written = results.write(options.folder, extent, means, report)
    if options.keep and not options.source:
        results.keep(options.keep, extent, means)
    present(written, options, lambda page: page.print(f"{written.file}: {written.points} points"))
    return 1 if written.failures else 0
