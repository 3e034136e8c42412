# SPDX-License-Identifier: Apache-2.0
"""`reproduce nonshortest`, `pfc-gain` and `deadlock`: the non-shortest-path paper."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.cli.output import Page
from detour.cli.parser import byte_count, counts, delays
from detour.cli.reproducing import add, carry_out, extent_of, show


def register(kinds: Any) -> None:
    """Adds these experiments."""
    _nonshortest(kinds)
    parser = add(kinds, "pfc-gain", "Table I: what removing PFC gains on a fat-tree", _run_pfc_gain)
    parser.add_argument("--connections", type=counts, metavar="N[,N...]", help="(default: those of Table I)")
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="draws of pairs (1)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw throughput over connections (.png, .svg)")
    parser = add(kinds, "deadlock", "Fig. 2: a PFC deadlock, and what prevents it", _run_deadlock)
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="(1)")


def _nonshortest(kinds: Any) -> None:
    parser = add(kinds, "nonshortest", "Figs. 5 to 7 and Table III of the non-shortest-path paper", _run_nonshortest)
    parser.add_argument("--topology", default="D1", metavar="D1|D2|D3", help="or a topology like dragonfly:p=2,a=4,h=2")
    parser.add_argument("--pattern", default="adv1", metavar="unf|adv1|adv2")
    parser.add_argument("--pairs", type=counts, metavar="N[,N...]", help="numbers of connections (default: a spread)")
    parser.add_argument("--scheme", default="all", metavar="all|NAME")
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="draws of pairs (1)")
    parser.add_argument(
        "--threshold", metavar="best|N", help="T of Benchmark in packets (10; with --full the best of 0, 10, 20, 30)"
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
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw throughput over connections (.png, .svg)")


def _run_nonshortest(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import experiment as nonshortest
    from detour.experiments.nonshortest import tables
    from detour.experiments.reproduce import NONSHORTEST
    from detour.fabric.footings.virtual.scheme import SCHEMES, scheme
    from detour.hosts.config import host_changes

    chosen = nonshortest.NonshortestSelection(
        options.topology,
        options.pattern,
        tuple(options.pairs or nonshortest.default_pairs(options.topology, options.pattern)),
        tuple(SCHEMES) if options.scheme == "all" else (scheme(options.scheme).name,),
        seeds=options.seeds,
        thresholds=_thresholds(options, nonshortest.THRESHOLDS, nonshortest.DEFAULT_THRESHOLD),
        times=extent_of(options),
        delays_us=options.delays,
        headroom_bytes=options.headroom,
        message_bytes=options.message,
        loss=options.loss,
        hosts=host_changes(options.set),
        step_bytes=options.step,
    )
    found = carry_out(options, NONSHORTEST, nonshortest.select(chosen))
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


def _thresholds(options: argparse.Namespace, swept: tuple[int, ...], default: int) -> tuple[int, ...]:
    if options.threshold == "best" or (options.threshold is None and options.full):
        return swept
    if options.threshold is None:
        return (default,)
    if not options.threshold.isdecimal():
        raise DetourError(f"--threshold {options.threshold!r} is neither `best` nor a number of packets")
    return (int(options.threshold),)


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
