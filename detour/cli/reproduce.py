# SPDX-License-Identifier: Apache-2.0
"""`reproduce`: reproduce the papers' tables and figures. What experiments there are, their options, and how
any of them is carried out: its points, what came of them, and printing that."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from detour.base.errors import DetourError
from detour.base.quantities import time_ps_of
from detour.base.tables import Table, left
from detour.cli.output import Page, bar, present
from detour.cli.parser import (
    CommandFunction,
    Parser,
    add_options,
    archive_file,
    byte_count,
    bytes_from_0,
    command,
    counts,
    delays,
    draws,
    floats,
    fraction,
    fractions,
    output_file,
    refuse,
    seconds,
    whole,
)
from detour.fabric.operations.registry import CommandOption

if TYPE_CHECKING:
    from detour.experiments.reproduce import Experiment, Means, Reproduction
    from detour.experiments.sweep import SweepProgress

Extent: TypeAlias = Literal["quick", "normal", "full"]

QUICK_SECONDS = 45.0
"""what --quick may take, so that with starting up it stays below a minute"""
_QUICK_RIVALS_SECONDS = 240.0  # for the usual selection on two idle cores
_NAMED = 10  # points left out that are named
_ALL_TEXT = "write docs/results.md with every number and figure"


# -- any experiment -----------------------------------------------------------------------------------------


class ReproduceCommand:
    """The command of an experiment, whose options select its points. Some do more than that; they say so in these."""

    besides: frozenset[str] = frozenset({"plot"})  # options that its experiment's `select` does not have as parameters

    def __init__(self, name: str, text: str, **options: CommandOption) -> None:
        self.name, self.text, self.options = name, text, options

    def instead(self, options: argparse.Namespace) -> int | None:
        """Do something else and return the exit code, if options say so."""
        return None

    def variant(self, options: argparse.Namespace) -> Experiment[Any, Any, Any]:
        """Return the experiment that is run."""
        from detour.experiments.reproduce import EXPERIMENTS

        return EXPERIMENTS[self.name]

    def means(self, options: argparse.Namespace) -> Means:
        """Return how points are run."""
        return means_of(options, self.name)

    def after(self, options: argparse.Namespace, reproduction: Reproduction[Any, Any]) -> None:
        """Write further files."""

    def selected_by(self, options: argparse.Namespace) -> dict[str, Any]:
        """The arguments of `select`: options that were given."""
        values = {name: getattr(options, name) for name in self.options if name not in self.besides}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def run(self, options: argparse.Namespace) -> int:
        """Run the points, draw and print; the exit code."""
        if (code := self.instead(options)) is not None:
            return code
        from detour.experiments import reproduce

        experiment = self.variant(options)
        points = experiment.select(extent_of(options), **self.selected_by(options))
        with points_bar(experiment.name, options.json) as report:
            reproduction = reproduce.reproduce(experiment, points, self.means(options), report)
        if getattr(options, "plot", None) and experiment.draw is not None:
            experiment.draw(reproduction.collected, options.plot)
        self.after(options, reproduction)

        def render(page: Page) -> None:
            page.tables(experiment.tables(reproduction.collected))
            from detour.experiments.reproduce import describe

            for failure in reproduction.failures:
                page.print(f"failed: {describe(failure.point)}: {failure.reason}")
            if reproduction.left_out:
                source = getattr(options, "source", None)
                why = "beyond the time of --quick" if source is None else f"that {source} has not"
                page.print(f"left out: {len(reproduction.left_out)} points {why} (--json names them)")
                left_out = sorted(reproduction.left_out, key=describe)
                for line in experiment.groups(left_out) if experiment.groups else map(describe, left_out[:_NAMED]):
                    page.print(f"  {line}")

        present(reproduce.document(reproduction), options, render)
        return 1 if reproduction.failures else 0


def _add(kinds: Any, name: str, text: str, run: CommandFunction, *, wide: bool = True) -> Parser:
    """Add an experiment with the options that all have."""
    parser = command(kinds, name, text, run, wide=wide)
    parser.set_defaults(fitting=wide)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="as many points as fit in a minute")
    extent.add_argument("--full", action="store_true", help="everything, and longer runs")
    parser.option("--processes", "local processes (default: one per core)", "N", whole)
    parser.option("--ray", "use a Ray cluster (auto: the running one)", "ADDRESS")
    parser.option("--out", "file for finished points (default: in the cache)", "FILE", output_file)
    return parser


def extent_of(options: argparse.Namespace) -> Extent:
    """Return the requested extent."""
    return "quick" if options.quick else "full" if options.full else "normal"


def means_of(options: argparse.Namespace, name: str) -> Means:
    """Return how points are run. Raises `DetourError`: no process."""
    from detour.experiments.reproduce import Means, default_store

    processes = os.cpu_count() or 1 if options.processes is None else options.processes
    if processes < 1:
        raise DetourError(f"{processes} processes; expected at least 1")
    return Means(processes, options.ray, options.out or default_store(name), QUICK_SECONDS if options.quick else None)


@contextmanager
def points_bar(text: str, as_json: bool) -> Iterator[SweepProgress]:
    """A progress bar on standard error, if that is a terminal."""
    with bar(text, as_json) as update:

        def report(done: int, failed: int, total: int) -> None:
            update(done + failed, total, f"{text} ({failed} failed)" if failed else text)

        yield report


# -- those that do more -------------------------------------------------------------------------------------


class _Kept(ReproduceCommand):
    """Finished runs may be kept in a file beside the documents, and be taken from there."""

    def means(self, options: argparse.Namespace) -> Means:
        return replace(super().means(options), archive=options.source)

    def after(self, options: argparse.Namespace, reproduction: Reproduction[Any, Any]) -> None:
        from detour.experiments.reproduce import keep

        if options.keep is not None:
            keep(options.keep, self.means(options).store)


class _Nonshortest(_Kept):
    besides = frozenset({"plot", "settings", "tune", "keep", "source"})

    def variant(self, options: argparse.Namespace) -> Experiment[Any, Any, Any]:
        from detour.experiments import reproduce

        if options.tune:
            return reproduce.TUNING
        return reproduce.ADDITIONS_WORTH if options.settings else reproduce.NONSHORTEST

    def after(self, options: argparse.Namespace, reproduction: Reproduction[Any, Any]) -> None:
        super().after(options, reproduction)
        if options.tune:
            from detour.experiments.nonshortest import settings

            settings.write(options.tune, reproduction.collected)


class _Paths(ReproduceCommand):
    besides = frozenset({"plot", "part"})

    def variant(self, options: argparse.Namespace) -> Experiment[Any, Any, Any]:
        from detour.experiments import reproduce

        if options.part != "steps":
            return super().variant(options)
        refuse(
            options,
            ("footing", "seconds"),
            "does not go with --part steps, which runs in virtual time until all is delivered",
        )
        return reproduce.STEP_TIMES

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


class _Documented(_Kept):
    """An experiment that `writer` makes a page of docs/ of."""

    besides = frozenset({"write"})

    def after(self, options: argparse.Namespace, reproduction: Reproduction[Any, Any]) -> None:
        super().after(options, reproduction)
        if options.write is not None:
            source = "" if options.source is None else f" --from {options.source}"
            command = f"detour reproduce {self.name}{source} --write {options.write}"
            self.writer()(options.write, reproduction.collected, command)

    def writer(self) -> Callable[[Path, Any, str], None]:
        raise NotImplementedError


class _Flat(_Documented):
    def writer(self) -> Callable[[Path, Any, str], None]:
        from detour.experiments.flat import page

        return page.write


class _Rivals(_Kept):
    besides = frozenset({"write"})

    def means(self, options: argparse.Namespace) -> Means:
        means = super().means(options)
        return replace(means, budget_s=_QUICK_RIVALS_SECONDS) if options.quick else means

    def after(self, options: argparse.Namespace, reproduction: Reproduction[Any, Any]) -> None:
        from detour.experiments.rivals import page, points

        super().after(options, reproduction)
        if options.write is not None:
            selection = points.selection(extent_of(options), **self.selected_by(options))
            extent = " --quick" if options.quick else " --full" if options.full else ""
            source = "" if options.source is None else f" --from {options.source}"
            command = f"detour reproduce rivals{extent}{source} --write {options.write}"
            page.write(options.write, reproduction.collected, selection, command)


class _Qcn(_Kept):
    besides = frozenset({"plot", "transients", "keep"})

    def variant(self, options: argparse.Namespace) -> Experiment[Any, Any, Any]:
        from detour.experiments import reproduce

        if not options.transients:
            return super().variant(options)
        refuse(options, ("loads", "windows"), "does not go with --transients; phases say their load and their time")
        return reproduce.QCN_TRANSIENTS


class _Tcp(ReproduceCommand):
    besides = frozenset({"linux", "ns3", "plot", "cc", "seconds"})

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
        from detour.experiments.tcp import ns3

        beside_ns3 = ns3.compare()
        if options.plot:
            ns3.draw(beside_ns3, options.plot)
        present(ns3.ns3_document(beside_ns3), options, lambda page: page.table(ns3.ns3_table(beside_ns3)))
        return 0


class _Hardware(_Documented):
    """Numbers are fitted first, by runs of the same experiment; `--quick` and `--from` take those of the last fit."""

    besides = frozenset({"write", "keep", "source"})

    def selected_by(self, options: argparse.Namespace) -> dict[str, Any]:
        from detour.experiments import reproduce
        from detour.experiments.hardware import experiment, logs

        figures = logs.kept() if options.logs is None else logs.read_logs(options.logs)
        fitted = experiment.STORED
        if not options.quick and options.source is None and any(map(experiment.is_fitted, figures)):
            means, fitting = self.means(options), replace(reproduce.HARDWARE, collect=list)

            def evaluate(points: Sequence[experiment.HardwarePoint]) -> list[experiment.HardwareRun]:
                with points_bar("fitting", options.json) as report:
                    done = reproduce.reproduce(fitting, points, means, report)
                if done.failures:
                    raise DetourError(f"fitting failed: {done.failures[0].reason}")
                return done.collected

            fitted = experiment.fit(figures, evaluate, extent_of(options))
        return {"figures": figures, "fitted": fitted}

    def writer(self) -> Callable[[Path, Any, str], None]:
        from detour.experiments.hardware import page

        return page.write


# -- their options ------------------------------------------------------------------------------------------


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _loads(text: str) -> tuple[float, ...]:
    loads = floats(text)
    if not loads:
        raise DetourError(f"--loads {text}: loads are numbers, such as 0.1,0.4")
    return loads


def _windows(text: str) -> tuple[int, int]:
    parts = [time_ps_of(part, "us") / 1e6 for part in text.split(",")]
    if len(parts) != 2 or not all(0 < part <= 1_000_000 and part == int(part) for part in parts):
        raise DetourError(f"--windows {text}: two numbers of microseconds, until counting begins and counting")
    return int(parts[0]), int(parts[1])


def _plot(text: str) -> CommandOption:
    return CommandOption(f"{text} (.png, .svg)", "FILE", kind=output_file)


def _kept(text: str) -> dict[str, CommandOption]:
    """Options of `_Kept`."""
    source = "run nothing; read all runs from this file"
    return {
        "keep": CommandOption(text, "FILE", kind=output_file, group="file"),
        "source": CommandOption(source, "FILE", "--from", archive_file, group="file"),
    }


_COMMANDS: tuple[ReproduceCommand, ...] = (
    _Nonshortest(
        "nonshortest",
        "Figs. 5 to 7 and Table III of the non-shortest-path paper",
        topology=CommandOption("D1, D2, D3, or a topology like dragonfly:p=2,a=4,h=2", "D1|D2|D3"),
        pattern=CommandOption("unf, adv1 (default), adv2, permutation, advc, bit-reverse or two-jobs", "NAME"),
        pairs=CommandOption("numbers of connections (default: a spread)", "N[,N...]", kind=counts),
        scheme=CommandOption(metavar="all|NAME"),
        seeds=CommandOption("draws of pairs (5; --quick 1, --full 10)", "K", kind=whole),
        threshold=CommandOption("T of Benchmark in packets (default: the best one found)", "best|N"),
        delays_us=CommandOption("delays in us of links to hosts, local and global links", "H,L,G", "--delays", delays),
        headroom_bytes=CommandOption(
            "PFC headroom per port and class (default: IEEE 802.1Q, annex N)", "BYTES", "--headroom", bytes_from_0
        ),
        message_bytes=CommandOption("size of one message per pair: completion times", "BYTES", "--message", byte_count),
        loss=CommandOption("fraction of frames lost between switches (0)", "P", kind=fraction),
        hosts=CommandOption("a host parameter (repeatable)", "NAME=VALUE", "--set", repeatable=True),
        step_bytes=CommandOption("K of schemes with step marking", "BYTES", "--step", byte_count),
        preamble=CommandOption("count Ethernet's preamble and gap, 20 bytes per frame"),
        control=CommandOption("congestion control in place of the scheme's: dctcp, dcqcn, fixed, "
            "FILE.py:NAME", "NAME", "--cc"),
        without=CommandOption("leave out an addition of the schemes (see --settings)", "NAME"),
        plot=_plot("draw throughput over connections"),
        settings=CommandOption(
            "show the paper's settings, the additions, and the gain of each addition", group="of settings"
        ),
        tune=CommandOption(
            "find the best setting of every scheme on D1, D2 or D3, and write it to this file", "FILE", kind=Path,
            group="of settings",
        ),
        **_kept("add finished runs to this file (docs/runs.jsonl.xz)"),
    ),
    ReproduceCommand(
        "pfc-gain",
        "Table I: the gain of removing PFC on a fat-tree",
        connections=CommandOption("numbers of connections (default: those of Table I)", "N[,N...]", kind=counts),
        seeds=CommandOption("draws of pairs (1)", "K", kind=whole),
        plot=_plot("draw throughput over connections"),
    ),
    ReproduceCommand(
        "deadlock", "Fig. 2: a PFC deadlock, and what prevents it", seeds=CommandOption("draws (1)", "K", kind=whole)
    ),
    _Paths(
        "path-placement",
        "section IV: a throttled link, with and without rerouting",
        footing=CommandOption("100 Gb/s in virtual time, or real time", "virtual|real|bmv2"),
        seconds=CommandOption("length of each run (30; virtual: 0.03)", "S", kind=seconds),
        part=CommandOption(
            "that section (paper), or step times over load on 1, 4 and 8 planes (steps)", choices=("paper", "steps")
        ),
        plot=_plot("draw throughput over time, as in Fig. 3, or step times over load"),
    ),
    ReproduceCommand(
        "fors",
        "Figs. 3, 6, 7 of the FORS paper: all-to-all and failures",
        seed=CommandOption("seed of phases and of the spines of 1-3F SW0 (1)", "S", kind=whole),
        message=CommandOption("size of every message (600k)", "BYTES", kind=byte_count),
        plot=_plot("draw throughput and phases"),
    ),
    _Fcplus(
        "fcplus",
        "Tables I to VIII and Figs. 3 to 7 of the FC+ paper: expanders",
        seeds=CommandOption("number of wirings of Tables V and VIII (1), or of transports (5)", "K", kind=whole),
        part=CommandOption(
            "the paper's evaluation; FC+ compared with ECMP, KSP, shortest-union, UGAL and SprayLERP under real "
            "transports; or what each of these can be set to (paper)",
            choices=("paper", "transports", "settings"),
        ),
        plot=_plot("draw Figs. 3 to 7"),
        sizes=CommandOption("message sizes at packet level (equal: 500 kB)", choices=("equal", "web-search")),
    ),
    _Flat(
        "flat",
        "flat fabrics at equal cost: RNG, PolarFly, Slim Fly, FC+, trees",
        part=CommandOption(
            "ways to choose paths on RNG and PolarFly; networks; failures; collectives; claims without packets; RNG "
            "with 16,384 hosts (--full); what was tried to find settings (by name only)",
            choices=("paths", "networks", "failures", "collectives", "claims", "scale", "settings"),
        ),
        topologies=CommandOption("networks (rng:n=133,d=12,hosts=8)", "SPEC", "--topology", repeatable=True),
        matrices=CommandOption("traffic matrices (all)", "NAME[,NAME...]", "--matrix", kind=_names),
        ways=CommandOption(
            "who chooses which paths (spraypoint/REPS and ksp/SprayLERP)", "ROUTING/SCHEME[,...]", "--ways", kind=_names
        ),
        failures=CommandOption("like links:0.01 or switches:0.01,replanned (none)", "WHAT", repeatable=True),
        seeds=CommandOption("graphs of each cell (5; --quick 1, --full 10)", "K", kind=draws),
        us=CommandOption("virtual time in us for rates; messages arrive for half of it (800)", "T", kind=draws),
        write=CommandOption("write docs/flat-fabrics.md and its figures", "FILE", kind=output_file),
        **_kept("add finished runs to this file (docs/flat.jsonl.xz)"),
    ),
    _Qcn(
        "qcn-switch",
        "Figs. 3, 7, 8 of the QCN-Switch paper: adaptive Dragonfly routing",
        topology=CommandOption("dragonfly:p=4,a=8,h=4 (--quick: p=2,a=4,h=2)", "SPEC"),
        routing=CommandOption("routings (all); NAME-oldest: the oldest packet goes "
            "first", "NAME[,NAME...]", kind=_names),
        pattern=CommandOption("patterns (all); with --transients like "
            "un:0.4,adv1:0.4@1ms", "UN,MIX,ADV+k,ADVc", kind=_names),
        transients=CommandOption("change the traffic, and measure how soon routing follows"),
        loads=CommandOption("offered loads, 0 to 1 (default: a spread)", "L[,L...]", kind=_loads),
        windows=CommandOption("virtual time in us", "WARM,COUNT", kind=_windows),
        seed=CommandOption("seed (1)", "S", kind=whole),
        plot=_plot("draw Figs. 3, 7 and 8, or transients over time"),
        **_kept("add finished runs to this file (docs/qcn.jsonl.xz)"),
    ),
    ReproduceCommand(
        "loss",
        "cost of losses, reordering and contention, by transport",
        loss=CommandOption("fractions of lost frames (0.001,0.01,0.05)", "P[,P...]", kind=fractions),
        senders=CommandOption("numbers of senders that share a link (2,4,8,16)", "N[,N...]", kind=counts),
        seeds=CommandOption("runs of each (5; --quick 1, --full 10)", "K", kind=draws),
    ),
    ReproduceCommand(
        "planes",
        "a step over several planes, with a failing switch",
        schemes=CommandOption("schemes (default: seven)", "NAME[,NAME...]", "--scheme", kind=_names),
        seeds=CommandOption("runs of each (5; --quick 1, --full 10)", "K", kind=draws),
    ),
    _Rivals(
        "rivals",
        "SprayLERP compared with other path selection schemes",
        topologies=CommandOption("D1, D2, D3 or a topology; repeatable", "SPEC", "--topology", repeatable=True),
        patterns=CommandOption("a traffic pattern; repeatable", "NAME", "--pattern", repeatable=True),
        sizes=CommandOption(
            "size of a message, 0: endless connections; repeatable", "N", "--bytes", bytes_from_0, repeatable=True
        ),
        schemes=CommandOption("repeatable", "NAME", "--scheme", repeatable=True),
        draws=CommandOption("draws of pairs (5; --quick 1, --full 10)", "K", "--seeds", draws),
        write=CommandOption("also write the page to this file (docs/rivals.md)", "FILE", kind=output_file),
        **_kept("run points that this file lacks, and add them (docs/rivals.jsonl.xz)"),
    ),
    _Hardware(
        "hardware",
        "nccl-tests on H100 clusters compared with predictions",
        logs=CommandOption("logs of nccl-tests of one's own, instead of the figures that are kept", "DIR", kind=Path),
        write=CommandOption("write docs/hardware.md", "FILE", kind=output_file),
        **_kept("add finished runs to this file (docs/hardware.jsonl.xz)"),
    ),
    ReproduceCommand(
        "queues",
        "the traffic manager compared with queueing theory: waits, shares, rates",
        load=CommandOption("loads of M/D/1 and M/M/1 (0.3,0.5,0.7,0.8,0.9)", "L[,L...]", kind=fractions),
        seed=CommandOption("seed of arrivals and sizes (1)", "N", kind=whole),
    ),
    _Tcp(
        "tcp",
        "TCP of the IP hosts compared with theory",
        loss=CommandOption("fractions of lost frames (0.001,0.003,0.01)", "P[,P...]", kind=fractions),
        flows=CommandOption("numbers of flows that share a link (2,4,8)", "N[,N...]", kind=counts),
        seed=CommandOption("seed of losses and initial sequence numbers (1)", "N", kind=whole),
        linux=CommandOption("compare with Linux's TCP instead, in real time (root)", group="others"),
        ns3=CommandOption("compare with ns-3's TCP instead: windows over time (docs/hosts.md)", group="others"),
        plot=_plot("with --ns3: draw the windows"),
        cc=CommandOption("with --linux: newreno or cubic, with parameters (cubic)", "NAME"),
        seconds=CommandOption("with --linux: duration (100)", "S", kind=seconds),
    ),
)  # fmt: skip
"""in the order in which they are listed"""


# -- the commands -------------------------------------------------------------------------------------------


def register(commands: Any) -> None:
    reproduce: Parser = commands.add_parser("reproduce", help="reproduce the papers' tables and figures")
    reproduce.flag("--list", "list what can be reproduced")
    reproduce.flag("--json", "print exactly one JSON document")
    reproduce.set_defaults(run=_list)
    kinds = reproduce.add_subparsers(dest="experiment", metavar="WHAT")
    for one in _COMMANDS:
        add_options(_add(kinds, one.name, one.text, one.run), one.options)
    everything = _add(kinds, "all", _ALL_TEXT, _run_all, wide=False)
    everything.option("--folder", "folder of results.md (docs)", "DIR", Path, default=Path("docs"))
    kept = "add the runs behind the document to this file; with --from, those finished with the current sources"
    add_options(
        everything,
        {
            "keep": CommandOption(kept, "FILE", kind=output_file),
            "source": CommandOption("run nothing; read the runs of a --keep file", "FILE", "--from", archive_file),
        },
    )


def _list(options: argparse.Namespace) -> None:
    from detour.experiments.reproduce import EXPERIMENTS

    if not options.list:
        raise DetourError(f"name an experiment: {', '.join(EXPERIMENTS)}, all (see `detour reproduce --list`)")
    names = [(e.name, e.text) for e in EXPERIMENTS.values()] + [("all", _ALL_TEXT)]
    listed = {"experiments": [{"name": name, "text": text} for name, text in names]}
    columns = left("name", lambda row: row[0]), left("what it is", lambda row: row[1])
    present(listed, options, lambda page: page.table(Table(columns, names)))


def _run_all(options: argparse.Namespace) -> int:
    from detour.experiments import results

    extent, means = extent_of(options), replace(means_of(options, "results"), archive=options.source)
    if options.keep and options.source:
        results.keep(options.keep, extent, means)
    with points_bar("results", options.json) as report:
        written = results.write(options.folder, extent, means, report)
    if options.keep and not options.source:
        results.keep(options.keep, extent, means)
    present(written, options, lambda page: page.print(f"{written.file}: {written.points} points"))
    return 1 if written.failures else 0
