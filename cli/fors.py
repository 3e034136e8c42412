# SPDX-License-Identifier: Apache-2.0
"""`fors`: phases and spines for all-to-all exchanges on fat-trees with failed links."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.progress import Progress
from detour.cli import fors_export, fors_rivals, fors_run, fors_sizes
from detour.cli.fors_shown import checked, fabric_of, right_plan, shown
from detour.cli.output import shown_progress
from detour.cli.parser import Parser, command, output_file

if TYPE_CHECKING:
    from detour.control.fors import ForsPlan
    from detour.control.fors.incremental import Change

_SCHEDULES = ("fors", "linear-shift", "xor", "bandwidth-optimal")


def register(commands: Any) -> None:
    """Adds these commands."""
    fors = commands.add_parser("fors", help="all-to-all exchanges on fat-trees with failed links, without contention")
    kinds = fors.add_subparsers(dest="fors", metavar="WHAT", required=True)
    schedule = _add(kinds, "schedule", "phases of an exchange, as few as there can be", _schedule)
    fors_sizes.register(schedule)
    schedule.add_argument(
        "--algorithm", choices=_SCHEDULES, default="fors", help="the others know of no failures; Ftree routes them"
    )
    route = _add(kinds, "route", "spines for the flows of an exchange", _route)
    route.add_argument(
        "--keep", type=Path, metavar="FILE", help="a plan from before more links failed: move as few flows as possible"
    )
    fors_sizes.register(route)
    verify = _add(kinds, "verify", "check a plan: every pair once, no contention, no failed link", _verify, out=False)
    verify.add_argument("file", type=Path, metavar="FILE", help="CSV with phase,src,dst,spine")
    fors_sizes.register(verify, cost=False)
    fors_export.register(_add(kinds, "export", "a plan for other people's tools", fors_export.run, out=False))
    fors_run.register(kinds)
    fors_rivals.register(kinds)


def _add(kinds: Any, name: str, text: str, run: Any, *, out: bool = True) -> Parser:
    parser = command(kinds, name, text, run)
    parser.add_argument(
        "--topo",
        default="ft:m0=20,m1=18",
        metavar="SPEC",
        help="m0=20,m1=18: spines, leaves; hosts=,cables=,speed=; ft3:...,fat-tree:k=",
    )
    parser.add_argument("--servers", type=int, metavar="N", help="servers that are there, spread evenly (m0*m1)")
    parser.add_argument(
        "--population", metavar="N,...", help="servers of every leaf, a number for each (not --servers)"
    )
    parser.add_argument(
        "--group", metavar="LIST", help="servers that take part, like 0-3,8 (default: all that are there)"
    )
    parser.add_argument("--fail", metavar="LEAF:SPINE[,...]", help="links that are down; *:3 spine 3, 3:* leaf 3")
    parser.add_argument("--random-failures", type=int, metavar="N", help="more links; leaves keep a common spine")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of these failures (1)")
    parser.add_argument("--skip-unreachable", action="store_true", help="leave out leaves that no spine joins any more")
    if out:
        parser.add_argument(
            "--out", type=output_file, metavar="FILE", help="write the plan as CSV: phase,src,dst,spine"
        )
    return parser


def _schedule(options: argparse.Namespace) -> int:
    if fors_sizes.wanted(options):
        if options.algorithm != "fors":
            raise DetourError(f"--algorithm {options.algorithm} knows of no sizes; `fors run --routing` compares them")
        return fors_sizes.schedule(options)
    if options.algorithm == "fors":
        return _finish(options, _plan(options))
    from detour.control.fors.baselines import SCHEDULES, ftree
    from detour.control.fors.plan import PlanSeconds

    fabric = fabric_of(options)
    if fabric.cores:
        raise DetourError(f"--algorithm {options.algorithm} is for fat-trees of two levels (ft:...)")
    begin = time.perf_counter()
    flows = SCHEDULES[options.algorithm](fabric)
    scheduled = time.perf_counter()
    plan = ftree(fabric, flows)
    seconds = PlanSeconds(schedule=scheduled - begin, route=time.perf_counter() - scheduled)
    plan = replace(plan, method=f"{options.algorithm}/ftree", seconds=seconds)
    return _finish(options, _bounded(plan))


def _route(options: argparse.Namespace) -> int:
    if fors_sizes.wanted(options):
        if options.keep is not None:
            raise DetourError("--keep changes plans for messages of one size; with --sizes or --skew plan anew")
        return fors_sizes.schedule(options)
    if options.keep is None:
        return _finish(options, _plan(options))
    from detour.control.fors.incremental import reroute
    from detour.control.fors.plan import PlanSeconds

    fabric = fabric_of(options)
    with _loaded(options):
        if fabric.unreachable():
            left = "no way to each other" if fabric.cores else "no common spine left"
            raise DetourError(f"a plan cannot be kept where leaves have {left}: plan without --keep")
        # What is wrong with it for other reasons than failures cannot be repaired by moving flows.
        change = reroute(right_plan(replace(fabric, failed=frozenset()), options.keep), fabric)
    plan = change.plan
    if not change.anew:
        plan = _bounded(replace(plan, seconds=PlanSeconds(route=change.seconds)))
    return _finish(options, plan, change)


def _bounded(plan: ForsPlan) -> ForsPlan:
    """The plan with its proven bound."""
    from detour.control.fors.solve import proven_bound

    bound = proven_bound(plan.fabric)
    return replace(plan, lower_bound=bound, optimal=plan.phases == bound)


def _plan(options: argparse.Namespace) -> ForsPlan:
    from detour.control.fors import solve

    fabric = fabric_of(options)
    with _loaded(options) as progress:
        progress(f"planning {fabric.servers} servers on {fabric.name} with {len(fabric.failed)} failed links")
        return solve(fabric, skip_unreachable=options.skip_unreachable)


@contextmanager
def _loaded(options: argparse.Namespace) -> Iterator[Progress]:
    """Native code is loaded, and compiled if need be, before anything is timed."""
    from detour.control.native import FORS_PART

    with shown_progress(options.json) as progress:
        progress("loading native code")
        FORS_PART.load()
        yield progress


def _verify(options: argparse.Namespace) -> int:
    if fors_sizes.wanted(options):
        return fors_sizes.verify(options)
    from detour.control.fors import files

    fabric = fabric_of(options)
    return _finish(options, _bounded(files.read(fabric, options.file, tuple(fabric.unreachable()))))


def _finish(options: argparse.Namespace, plan: ForsPlan, change: Change | None = None) -> int:
    """Verifies, writes and shows a plan; 1 if it is not right."""
    from msgspec import UNSET

    from detour.cli.fors_planned import Planned
    from detour.control.fors import files
    from detour.control.fors.solve import paper_phases
    from detour.control.fors.verify import problems

    fabric, three = plan.fabric, plan.fabric.cores > 0
    checks = checked(options, plan, plan, problems, files.write, plan.unreachable)
    planned = Planned(
        reduction=UNSET if three else fabric.reduction,
        flows=plan.flows,
        bound=plan.lower_bound,
        lower_bound=plan.lower_bound,
        paper_phases=UNSET if three else paper_phases(fabric, plan.phases),
        optimal=plan.optimal and checks["verified"],
        gap=plan.phases - plan.lower_bound if three else UNSET,
        moved=UNSET if change is None else change.moved,
        anew=UNSET if change is None else change.anew,
        **checks,
    )
    optimal = "optimal" + " (proven)" * three if planned.optimal else "not proven optimal"
    optimal += f", {planned.gap} above" if three and not planned.optimal else ""
    rows = [("phases", f"{planned.phases} (at least {planned.bound} are needed: {optimal})")]
    if not three:
        rows.append(("as the paper counts", f"{planned.paper_phases} (a server's part for itself takes a phase too)"))
    moved = []
    if change is not None:
        moved = [("moved", f"{change.moved:,} flows" + (" (planned anew)" if change.anew else ""))]
    return shown(options, planned, [*rows, ("flows", f"{planned.flows:,}")], moved)
