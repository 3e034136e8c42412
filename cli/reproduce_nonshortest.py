# SPDX-License-Identifier: Apache-2.0
"""`reproduce nonshortest`, `pfc-gain` and `deadlock`: the non-shortest-path paper."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli.output import Page
from detour.cli.parser import byte_count, counts, delays, output_file
from detour.cli.reproducing import add, carry_out, extent_of, show

if TYPE_CHECKING:
    from detour.experiments.nonshortest.experiment import NonshortestSelection

PREAMBLE_BYTES = 20
"""preamble, start of frame delimiter and the gap between frames (IEEE 802.3)"""


def register(kinds: Any) -> None:
    """Adds these experiments."""
    _nonshortest(kinds)
    parser = add(kinds, "pfc-gain", "Table I: what removing PFC gains on a fat-tree", _run_pfc_gain)
    parser.add_argument("--connections", type=counts, metavar="N[,N...]", help="(default: those of Table I)")
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="draws of pairs (1)")
    parser.add_argument(
        "--plot", type=output_file, metavar="FILE", help="draw throughput over connections (.png, .svg)"
    )
    parser = add(kinds, "deadlock", "Fig. 2: a PFC deadlock, and what prevents it", _run_deadlock)
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="(1)")


def _nonshortest(kinds: Any) -> None:
    parser = add(kinds, "nonshortest", "Figs. 5 to 7 and Table III of the non-shortest-path paper", _run_nonshortest)
    parser.add_argument("--topology", default="D1", metavar="D1|D2|D3", help="or a topology like dragonfly:p=2,a=4,h=2")
    parser.add_argument(
        "--pattern", metavar="NAME", help="unf, adv1 (default), adv2, permutation, advc, bit-reverse or two-jobs"
    )
    parser.add_argument("--pairs", type=counts, metavar="N[,N...]", help="numbers of connections (default: a spread)")
    parser.add_argument("--scheme", default="all", metavar="all|NAME")
    parser.add_argument("--seeds", type=int, metavar="K", help="draws of pairs (5; --quick 1, --full 10)")
    parser.add_argument(
        "--threshold", metavar="best|N", help="T of Benchmark in packets (default: the one that was chosen for it)"
    )
    parser.add_argument(
        "--delays", type=delays, default=(1.0, 1.0, 1.0), metavar="H,L,G", help="us, of links to hosts, local, global"
    )
    parser.add_argument(
        "--headroom", type=int, metavar="BYTES", help="of PFC, a port and class (default: IEEE 802.1Q, annex N)"
    )
    parser.add_argument(
        "--message", type=byte_count, default=0, metavar="BYTES", help="one message each: completion times"
    )
    parser.add_argument("--loss", type=float, default=0.0, metavar="P", help="links between switches lose frames (0)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the hosts (may be repeated)"
    )
    parser.add_argument("--step", type=byte_count, metavar="BYTES", help="K of the schemes that mark by steps")
    parser.add_argument(
        "--preamble", action="store_true", help="frames take Ethernet's preamble and gap on links as well: 20 bytes"
    )
    parser.add_argument("--cc", metavar="NAME", help="another congestion control: dctcp, dcqcn, fixed, FILE.py:NAME")
    parser.add_argument("--without", metavar="NAME", help="leave an addition of the schemes out (see --settings)")
    parser.add_argument(
        "--plot", type=output_file, metavar="FILE", help="draw throughput over connections (.png, .svg)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--settings", action="store_true", help="what the paper says, what was added, and what each addition is worth"
    )
    what.add_argument(
        "--tune", type=Path, metavar="FILE", help="find the best setting of every scheme on D1, D2 or D3; keep it there"
    )


def _run_nonshortest(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import experiment as nonshortest
    from detour.experiments.nonshortest import tables
    from detour.experiments.reproduce import NONSHORTEST
    from detour.fabric.footings.virtual.scheme import SCHEMES, scheme

    if options.tune:
        return _tune(options)
    if options.settings:
        return _run_settings(options)
    schemes = tuple(SCHEMES) if options.scheme == "all" else (scheme(options.scheme).name,)
    found = carry_out(options, NONSHORTEST, nonshortest.select(_selection(options, schemes)))
    points, gains = found.collected.points, found.collected.gains
    if options.plot:
        from detour.experiments.nonshortest import figures

        figures.throughput(points, options.plot)

    def render(page: Page) -> None:
        page.table(tables.throughput(points))
        if gains:
            page.table(tables.gains(gains))
        for table in tables.completion(points):
            page.table(table)

    return show(options, found, render)


def _selection(
    options: argparse.Namespace, schemes: tuple[str, ...], pattern: str | None = None, pairs: tuple[int, ...] = ()
) -> NonshortestSelection:
    """What the options select, or of it a pattern with these numbers of pairs."""
    from detour.experiments.nonshortest import experiment as nonshortest
    from detour.experiments.nonshortest import settings
    from detour.experiments.steady import draws_of
    from detour.hosts.cc import pinned
    from detour.hosts.config import host_changes

    chosen: str = pattern or options.pattern or "adv1"
    draws = draws_of(extent_of(options))
    return nonshortest.NonshortestSelection(
        options.topology,
        chosen,
        tuple(pairs or options.pairs or nonshortest.default_pairs(options.topology, chosen)),
        schemes,
        seeds=draws if options.seeds is None else options.seeds,
        thresholds=_thresholds(options, settings.THRESHOLDS),
        times=extent_of(options),
        delays_us=options.delays,
        headroom_bytes=options.headroom,
        message_bytes=options.message,
        loss=options.loss,
        hosts=host_changes(options.set),
        step_bytes=options.step,
        control=pinned(options.cc) if options.cc else "",
        overhead_bytes=PREAMBLE_BYTES if options.preamble else 0,
        without=options.without,
    )


def _thresholds(options: argparse.Namespace, swept: tuple[int, ...]) -> tuple[int, ...] | None:
    if options.threshold is None:
        return None
    if options.threshold == "best":
        return swept
    if not options.threshold.isdecimal():
        raise DetourError(f"--threshold {options.threshold!r} is neither `best` nor a number of packets")
    return (int(options.threshold),)


def _run_settings(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import ablation, tables
    from detour.experiments.reproduce import NONSHORTEST
    from detour.fabric.footings.virtual.scheme import scheme

    if options.without:
        raise DetourError("--settings leaves out every addition in turn; --without is for one")
    schemes = ablation.ABLATED_SCHEMES if options.scheme == "all" else (scheme(options.scheme).name,)
    cells = ablation.cells(options.topology, options.pattern, tuple(options.pairs or ()))
    points = [
        point for pattern, pairs in cells for point in ablation.select(_selection(options, schemes, pattern, (pairs,)))
    ]
    experiment = NONSHORTEST.collecting(ablation.collect)
    found = carry_out(options, experiment, points)

    def render(page: Page) -> None:
        page.table(tables.set_to(found.collected))
        for table in tables.settings(found.collected):
            page.table(table)

    return show(options, found, render)


def _tune(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import settings, tables, tuning
    from detour.experiments.reproduce import NONSHORTEST

    points = tuning.select(options.topology, options.full)
    experiment = NONSHORTEST.collecting(lambda results: tuning.choices(points, results))
    found = carry_out(options, experiment, points)
    settings.write(options.tune, found.collected)
    return show(options, found, lambda page: page.table(tables.tried(found.collected)))


def _run_pfc_gain(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import pfc_gain, tables
    from detour.experiments.reproduce import PFC_GAIN

    points = pfc_gain.select(options.connections or pfc_gain.CONNECTIONS, options.seeds, extent_of(options))
    found = carry_out(options, PFC_GAIN, points)
    if options.plot:
        from detour.experiments.nonshortest import figures

        figures.pfc_gain(found.collected.points, options.plot)
    return show(options, found, lambda page: page.table(tables.table_1(found.collected)))


def _run_deadlock(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import deadlock, tables
    from detour.experiments.reproduce import DEADLOCK

    found = carry_out(options, DEADLOCK, deadlock.select(options.seeds))

    def render(page: Page) -> None:
        page.table(tables.figure_2(found.collected))
        stuck = tables.stuck(found.collected)
        if stuck:
            page.print("Queues that can never move again:")
        for line in stuck:
            page.print(f"  {line}")

    return show(options, found, render)
