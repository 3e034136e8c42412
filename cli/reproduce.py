# SPDX-License-Identifier: Apache-2.0
"""`reproduce`: the papers' tables and figures, ours beside theirs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.tables import Table, left
from detour.cli import (
    reproduce_fcplus,
    reproduce_fors,
    reproduce_loss,
    reproduce_nonshortest,
    reproduce_paths,
    reproduce_qcn,
    reproduce_queues,
    reproduce_rivals,
    reproduce_tcp,
)
from detour.cli.output import present
from detour.cli.parser import Parser, archive_file, output_file
from detour.cli.reproducing import add, extent_of, means_of, points_bar

_ALL_TEXT = "docs/results.md with every number and figure"


def register(commands: Any) -> None:
    """Adds these commands."""
    reproduce: Parser = commands.add_parser("reproduce", help="the papers' tables and figures, ours beside theirs")
    reproduce.add_argument("--list", action="store_true", help="list what can be reproduced")
    reproduce.add_argument("--json", action="store_true", help="print exactly one JSON document")
    reproduce.set_defaults(run=_list)
    kinds = reproduce.add_subparsers(dest="experiment", metavar="WHAT")
    reproduce_nonshortest.register(kinds)
    reproduce_paths.options_of(
        add(kinds, "path-placement", "section IV: a throttled link, with and without rerouting", reproduce_paths.run)
    )
    reproduce_fors.options_of(
        add(kinds, "fors", "Figs. 3, 6, 7 of the FORS paper: all-to-all and failures", reproduce_fors.run)
    )
    reproduce_fcplus.options_of(
        add(kinds, "fcplus", "Tables I to VIII and Figs. 3 to 7 of the FC+ paper: expanders", reproduce_fcplus.run)
    )
    reproduce_qcn.options_of(
        add(kinds, "qcn-switch", "Figs. 3, 7, 8 of the QCN-Switch paper: adaptive Dragonfly routing", reproduce_qcn.run)
    )
    reproduce_loss.options_of(
        add(kinds, "loss", "what losses, reordering and contention cost, by transport", reproduce_loss.run)
    )
    reproduce_rivals.options_of(
        add(kinds, "rivals", "SprayLERP beside other ways to choose paths", reproduce_rivals.run)
    )
    reproduce_queues.options_of(
        add(kinds, "queues", "the traffic manager beside queueing theory: waits, shares, rates", reproduce_queues.run)
    )
    reproduce_tcp.options_of(add(kinds, "tcp", "TCP of the IP hosts beside theory", reproduce_tcp.run))
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


# -- what they do -------------------------------------------------------------------------------------------


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
