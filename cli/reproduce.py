# SPDX-License-Identifier: Apache-2.0
"""`reproduce`: the papers' tables and figures, ours beside theirs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli import reproduce_fcplus, reproduce_fors, reproduce_paths, reproduce_qcn
from detour.cli import reproduce_tables as show
from detour.cli.output import emit, table
from detour.cli.parser import Parser, byte_count, counts, delays
from detour.cli.reproducing import add, carry_out, extent_of, means_of, points_bar

if TYPE_CHECKING:
    from detour.experiments.reproduce import Means


def register(commands: Any) -> None:
    """Adds these commands."""
    reproduce: Parser = commands.add_parser("reproduce", help="the papers' tables and figures, ours beside theirs")
    reproduce.add_argument("--list", action="store_true", help="list what can be reproduced")
    reproduce.add_argument("--json", action="store_true", help="print exactly one JSON document")
    reproduce.set_defaults(run=_list)
    kinds = reproduce.add_subparsers(dest="experiment", metavar="WHAT")
    _nonshortest(kinds)
    _pfc_gain(kinds)
    _deadlock(kinds)
    reproduce_paths.options_of(
        add(kinds, "path-placement", "section IV: a throttled link, with and without rerouting", reproduce_paths.run)
    )
    reproduce_fors.options_of(add(kinds, "fors", "Figs. 3, 6, 7 of the FORS paper: all-to-all and failures", _run_fors))
    reproduce_fcplus.options_of(
        add(kinds, "fcplus", "Tables I to VIII and Figs. 3 to 7 of the FC+ paper: expanders", _run_fcplus)
    )
    reproduce_qcn.options_of(
        add(kinds, "qcn-switch", "Figs. 3, 7, 8 of the QCN-Switch paper: adaptive Dragonfly routing", _run_qcn)
    )
    _all(kinds)


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


def _pfc_gain(kinds: Any) -> None:
    parser = add(kinds, "pfc-gain", "Table I: what removing PFC gains on a fat-tree", _run_pfc_gain)
    parser.add_argument("--connections", type=counts, metavar="N[,N...]", help="(default: those of Table I)")
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="draws of pairs (1)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw throughput over connections (.png, .svg)")


def _deadlock(kinds: Any) -> None:
    parser = add(kinds, "deadlock", "Fig. 2: a PFC deadlock, and what prevents it", _run_deadlock)
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="(1)")


def _all(kinds: Any) -> None:
    parser = add(kinds, "all", "docs/results.md with every number and figure", _run_all, wide=False)
    parser.add_argument("--folder", type=Path, default=Path("docs"), metavar="DIR", help="where results.md goes (docs)")


# -- what they do -------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> None:
    from detour.experiments.reproduce import EXPERIMENTS

    if not options.list:
        raise DetourError(f"reproduce what? {', '.join(EXPERIMENTS)}, all (see `detour reproduce --list`)")
    listed = [{"name": e.name, "text": e.text} for e in EXPERIMENTS.values()]
    listed.append({"name": "all", "text": "docs/results.md with every number and figure"})
    rows = [(e["name"], e["text"]) for e in listed]
    emit({"experiments": listed}, options.json, lambda console: console.print(table(("name", "what it is"), rows)))


def _carry_out(
    options: argparse.Namespace, name: str, points: Sequence[dict[str, Any]], means: Means | None = None
) -> dict[str, Any]:
    """Of experiments whose points have no type yet."""
    from detour.experiments.reproduce import EXPERIMENTS, document

    return document(carry_out(options, EXPERIMENTS[name], points, means))


def _run_nonshortest(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import experiment as nonshortest
    from detour.fabric.footings.virtual.scheme import SCHEMES, scheme
    from detour.hosts.config import host_changes

    thresholds = _thresholds(options, nonshortest.THRESHOLDS, nonshortest.DEFAULT_THRESHOLD)
    pairs = options.pairs or nonshortest.default_pairs(options.topology, options.pattern)
    schemes = tuple(SCHEMES) if options.scheme == "all" else (scheme(options.scheme).name,)
    points = nonshortest.select(
        nonshortest.NonshortestSelection(
            options.topology,
            options.pattern,
            tuple(pairs),
            schemes,
            options.seeds,
            thresholds,
            extent_of(options),
            options.delays,
            options.headroom,
            options.message,
            options.loss,
            host_changes(options.set),
            options.step,
        )
    )
    result = _carry_out(options, "nonshortest", points)
    if options.plot:
        from detour.experiments.nonshortest import figures

        figures.throughput(result["points"], options.plot)
    emit(result, options.json, lambda console: show.nonshortest(console, result))
    return 1 if result["failures"] else 0


def _thresholds(options: argparse.Namespace, swept: tuple[int, ...], default: int) -> tuple[int, ...]:
    if options.threshold == "best" or (options.threshold is None and options.full):
        return swept
    if options.threshold is None:
        return (default,)
    if not options.threshold.isdecimal():
        raise DetourError(f"--threshold {options.threshold!r} is neither `best` nor a number of packets")
    return (int(options.threshold),)


def _run_pfc_gain(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import pfc_gain

    points = pfc_gain.select(options.connections or pfc_gain.CONNECTIONS, options.seeds, extent_of(options))
    result = _carry_out(options, "pfc-gain", points)
    if options.plot:
        from detour.experiments.nonshortest import figures

        figures.pfc_gain(result["points"], options.plot)
    emit(result, options.json, lambda console: show.pfc_gain(console, result))
    return 1 if result["failures"] else 0


def _run_deadlock(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import deadlock

    result = _carry_out(options, "deadlock", deadlock.select(options.seeds))
    emit(result, options.json, lambda console: show.deadlock(console, result))
    return 1 if result["failures"] else 0


def _run_fors(options: argparse.Namespace) -> int:
    return reproduce_fors.run(options, extent_of(options), _carry_out)


def _run_fcplus(options: argparse.Namespace) -> int:
    return reproduce_fcplus.run(options, extent_of(options), _carry_out)


def _run_qcn(options: argparse.Namespace) -> int:
    return reproduce_qcn.run(options, extent_of(options), _carry_out)


def _run_all(options: argparse.Namespace) -> int:
    from detour.experiments.nonshortest import results

    with points_bar("results", options.json) as report:
        written = results.write(options.folder, extent_of(options), means_of(options, "results"), report)
    emit(written, options.json, lambda console: console.print(f"{written['file']}: {written['points']} points"))
    return 1 if written["failures"] else 0
