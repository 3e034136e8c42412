# SPDX-License-Identifier: Apache-2.0
"""`fors`: phases and spines for all-to-all exchanges on fat-trees with failed links, for messages of one size or of
sizes of their own; a plan is verified, written, shown, and exported to the tools of others."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.progress import Progress
from detour.base.tables import Table, left
from detour.cli import fors_run
from detour.cli.fors_run import add_server_options, add_size_options, has_sizes, sizes_of
from detour.cli.output import present, shown_progress
from detour.cli.parser import Parser, command, output_file, whole

if TYPE_CHECKING:
    from detour.base.arrays import Int64Array
    from detour.control.fors import FatTree, ForsPlan
    from detour.control.fors.incremental import Change
    from detour.control.fors.plan import UnequalPlan

_SCHEDULES = ("fors", "linear-shift", "xor", "bandwidth-optimal")
_FORMATS = ("opensm", "ibsim", "msccl", "json")


def register(commands: Any) -> None:
    fors = commands.add_parser("fors", help="plan contention-free all-to-all exchanges on fat-trees with failed links")
    kinds = fors.add_subparsers(dest="fors", metavar="WHAT", required=True)
    schedule = _add(kinds, "schedule", "compute the phases of an exchange, as few as possible", _schedule)
    add_size_options(schedule)
    schedule.option(
        "--algorithm", "fors, or one that ignores failures, routed by Ftree", choices=_SCHEDULES, default="fors"
    )
    route = _add(kinds, "route", "assign spines to the flows of an exchange", _route)
    route.option("--keep", "an earlier plan: after more failures move as few flows as possible", "FILE", Path)
    add_size_options(route)
    verify = _add(kinds, "verify", "check a plan: every pair once, no contention, no failed link", _verify, out=False)
    verify.add_argument("file", type=Path, metavar="FILE", help="CSV with phase,src,dst,spine")
    add_size_options(verify, cost=False)
    export = _add(kinds, "export", "export a plan to other tools", _export, out=False)
    export.add_argument("file", type=Path, metavar="FILE", help="the plan: CSV with phase,src,dst,spine")
    text = "opensm: forwarding tables (-R file -U); ibsim: the fabric; msccl: XML; json: phases, ranks and spines"
    export.option("--format", text, choices=_FORMATS, required=True)
    export.option("--out", "output file", "FILE", output_file, required=True)
    add_size_options(export, cost=False)
    export.option("--guids", "CSV with name,guid of switches and servers (default: generated)", "FILE", Path)
    fors_run.register(kinds)


def _add(kinds: Any, name: str, text: str, run: Any, *, out: bool = True) -> Parser:
    parser = command(kinds, name, text, run)
    help_text = "m0=20,m1=18: spines, leaves; hosts=,cables=,speed=; ft3:...,fat-tree:k="
    parser.option("--topo", help_text, "SPEC", default="ft:m0=20,m1=18")
    add_server_options(parser, "number of servers, spread evenly (m0*m1)")
    parser.option("--fail", "links that are down; *:3 spine 3, 3:* leaf 3", "LEAF:SPINE[,...]")
    parser.option("--random-failures", "number of random failed links; leaves keep a common spine", "N", whole)
    parser.option("--seed", "seed of the random failures (1)", "S", whole, default=1)
    parser.flag("--skip-unreachable", "leave out leaves without a common spine")
    if out:
        parser.option("--out", "write the plan as CSV: phase,src,dst,spine", "FILE", output_file)
    return parser


def _fabric_of(options: argparse.Namespace, skip_unreachable: bool) -> FatTree:
    """The fabric. Raises `DetourError`: the options do not describe one, pairs of its leaves cannot reach each other
    and may not be skipped, or an option is for two levels."""
    from detour.control.fors import parse_fabric, random_failures
    from detour.control.fors.fabric import unreachable_text

    fabric = parse_fabric(options.topo, options.fail, options.servers, options.population, options.group)
    for name in ("sizes", "skew") if fabric.cores else ():
        if getattr(options, name, None) is not None:
            raise DetourError(f"--{name} is for fat-trees of two levels (ft:...); {options.topo!r} has three")
    if options.random_failures is not None:
        fabric = random_failures(fabric, options.random_failures, options.seed)
    lost = fabric.unreachable()
    if lost and not skip_unreachable:
        raise DetourError(unreachable_text(fabric, tuple(lost)))
    return fabric


def _with_sizes(options: argparse.Namespace) -> tuple[FatTree, Int64Array]:
    """The fabric and the sizes. Leaves without a common spine matter only where they have something to send: planning
    says so."""
    fabric = _fabric_of(options, skip_unreachable=True)
    return fabric, sizes_of(options, fabric)


def _fabric(options: argparse.Namespace) -> FatTree:
    return _fabric_of(options, options.skip_unreachable)


def _read_unequal(options: argparse.Namespace) -> UnequalPlan:
    from detour.control.fors.unequal import read_unequal

    fabric, sizes = _with_sizes(options)
    return read_unequal(fabric, options.file, sizes, skip_unreachable=options.skip_unreachable)


def _right_plan(fabric: FatTree, path: Path) -> ForsPlan:
    """The plan in a file, in which nothing is wrong."""
    from detour.control.fors import files
    from detour.control.fors.verify import problems

    plan = files.read(fabric, path, tuple(fabric.unreachable()))
    _refuse(problems(plan, most=1), path, fabric)
    return plan


def _refuse(problems: Sequence[str], file: Path, fabric: FatTree) -> None:
    """A file that is not a plan, with the first problem."""
    for text in problems:
        raise DetourError(f"{file} is not a plan for {fabric.name} with {fabric.servers} servers: {text}")


def _schedule(options: argparse.Namespace) -> int:
    if has_sizes(options):
        if options.algorithm != "fors":
            raise DetourError(f"--algorithm {options.algorithm} ignores sizes; `fors run --routing` compares them")
        return _plan_sizes(options)
    if options.algorithm == "fors":
        return _finish(options, _plan(options))
    from detour.control.fors.baselines import SCHEDULES, ftree
    from detour.control.fors.plan import PlanSeconds

    fabric = _fabric(options)
    if fabric.cores:
        raise DetourError(f"--algorithm {options.algorithm} is for fat-trees of two levels (ft:...)")
    begin = time.perf_counter()
    flows = SCHEDULES[options.algorithm](fabric)
    scheduled = time.perf_counter()
    plan = ftree(fabric, flows)
    seconds = PlanSeconds(schedule=scheduled - begin, route=time.perf_counter() - scheduled)
    return _finish(options, _bounded(replace(plan, method=f"{options.algorithm}/ftree", seconds=seconds)))


def _route(options: argparse.Namespace) -> int:
    if has_sizes(options):
        if options.keep is not None:
            raise DetourError("--keep needs messages of equal size; make a new plan with --sizes or --skew")
        return _plan_sizes(options)
    if options.keep is None:
        return _finish(options, _plan(options))
    from detour.control.fors.incremental import reroute
    from detour.control.fors.plan import PlanSeconds

    fabric = _fabric(options)
    with _loaded(options):
        if fabric.unreachable():
            lost = "no way to each other" if fabric.cores else "no common spine left"
            raise DetourError(f"a plan cannot be kept where leaves have {lost}: plan without --keep")
        # What is wrong with it for other reasons than failures cannot be repaired by moving flows.
        change = reroute(_right_plan(replace(fabric, failed=frozenset()), options.keep), fabric)
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

    fabric = _fabric(options)
    with _loaded(options) as progress:
        progress(f"planning {fabric.servers} servers on {fabric.name} with {len(fabric.failed)} failed links")
        return solve(fabric, skip_unreachable=options.skip_unreachable)


def _plan_sizes(options: argparse.Namespace) -> int:
    from detour.control.fors.unequal import plan_unequal

    fabric, sizes = _with_sizes(options)
    with _loaded(options) as progress:
        progress(f"planning {fabric.servers} servers on {fabric.name} with {len(fabric.failed)} failed links")
        plan = plan_unequal(fabric, sizes, options.phase_cost, skip_unreachable=options.skip_unreachable)
    return _finish_sizes(options, plan)


@contextmanager
def _loaded(options: argparse.Namespace) -> Iterator[Progress]:
    """Native code is loaded, and compiled if need be, before anything is timed."""
    from detour.control.native import FORS_PART

    with shown_progress(options.json) as progress:
        progress("loading native code")
        FORS_PART.load()
        yield progress


def _verify(options: argparse.Namespace) -> int:
    if has_sizes(options):
        return _finish_sizes(options, _read_unequal(options))
    from detour.control.fors import files

    fabric = _fabric(options)
    return _finish(options, _bounded(files.read(fabric, options.file, tuple(fabric.unreachable()))))


def _export(options: argparse.Namespace) -> int:
    """Write a plan in a format, if it is right."""
    from detour.control.fors.collective import msccl, schedule_json
    from detour.control.fors.unequal import unequal_problems

    if has_sizes(options):
        plan = _read_unequal(options)
        _refuse(unequal_problems(plan, most=1), options.file, plan.fabric)
    else:
        plan = _right_plan(_fabric(options), options.file)
    if options.guids is not None and options.format not in ("opensm", "ibsim"):
        raise DetourError(f"--guids is for opensm and ibsim, not for {options.format}")
    if options.format == "msccl" and has_sizes(options):
        raise DetourError("MSCCL's all-to-all has messages of equal size; json supports unequal ones")
    if options.format == "msccl":
        lines: Iterable[str] = msccl(plan)
    elif options.format == "json":
        lines = [schedule_json(plan).rstrip("\n")]
    else:
        from detour.control.fors.subnet import forwarding_tables, made_up_guids, read_guids, simulated

        names = made_up_guids(plan.fabric) if options.guids is None else read_guids(plan.fabric, options.guids)
        lines = forwarding_tables(plan.fabric, names) if options.format == "opensm" else simulated(plan.fabric, names)
    write_file(options.out, "\n".join([*lines, ""]))
    return 0


def _finish(options: argparse.Namespace, plan: ForsPlan, change: Change | None = None) -> int:
    """Verify, write and show a plan for messages of one size; 1 if it is not right."""
    from detour.control.fors.solve import paper_phases
    from detour.control.fors.verify import problems

    three, bound = plan.fabric.cores > 0, plan.lower_bound
    document = _checked(options, plan, problems)
    if not three:
        document["reduction"] = plan.fabric.reduction
    document |= {"flows": plan.flows, "bound": bound, "lower_bound": bound}
    if not three:
        # A server's part for itself takes a phase too.
        document["paper_phases"] = paper_phases(plan.fabric, plan.phases)
    else:
        document["gap"] = plan.phases - bound
    optimal = "optimal" + " (proven)" * three if document["optimal"] else "not proven optimal"
    optimal += f", {document['gap']} above" if three and not document["optimal"] else ""
    rows = [("phases", f"{plan.phases} (at least {bound} are needed: {optimal})")]
    if not three:
        counted = f"{document['paper_phases']} (a server's part for itself takes a phase too)"
        rows.append(("as the paper counts", counted))
    rows.append(("flows", f"{plan.flows:,}"))
    moved = []
    if change is not None:
        document |= {"moved": change.moved, "anew": change.anew}
        moved = [("moved", f"{change.moved:,} flows" + (" (planned anew)" if change.anew else ""))]
    return _show(options, document, rows, moved)


def _finish_sizes(options: argparse.Namespace, plan: UnequalPlan) -> int:
    """The same for messages of unlike size. Times are bytes of a server's link; `ratio`: length over bound."""
    from detour.control.fors.unequal import unequal_problems

    bound, length = plan.lower_bound, plan.length
    document = _checked(options, plan, unequal_problems) | {
        "sizes": str(options.sizes or options.skew), "total_bytes": int(plan.sizes.sum()),
        "messages": int((plan.sizes > 0).sum()), "pieces": plan.flows, "length_bytes": length, "bound_bytes": bound,
        "bound_by_servers": plan.by_servers, "bound_by_links": plan.by_links,
        "ratio": round(length / bound, 6) if bound else 1.0,
    }  # fmt: skip
    decides = "the busiest server" if plan.by_servers >= plan.by_links else "links between leaves and spines"
    lines = [
        ("sizes", f"{document['sizes']}: {document['messages']:,} messages, {document['total_bytes']:,} bytes"),
        ("time", f"{length:,} bytes of a server's link"),
        ("at least", f"{bound:,} bytes ({decides})"),
        ("time over bound", f"{document['ratio']:.4f}" + (" (optimal)" if document["optimal"] else "")),
        ("phases", f"{plan.phases}, of {plan.flows:,} pieces of messages"),
    ]
    return _show(options, document, lines)


def _checked(options: argparse.Namespace, plan: ForsPlan, check: Callable[[Any], list[str]]) -> dict[str, Any]:
    """Verify a plan and write it if that is asked for; what JSON says of plans of both kinds."""
    from detour.control.fors import files

    begin = time.perf_counter()
    problems = check(plan)
    seconds = replace(plan.seconds, verify=time.perf_counter() - begin)
    if getattr(options, "out", None) is not None:
        files.write(plan, options.out)
    return {
        "fabric": plan.fabric.name, "servers": plan.fabric.servers, "failed": plan.fabric.failed_names(),
        "phases": plan.phases, "optimal": plan.optimal and not problems, "method": plan.method,
        "verified": not problems, "problems": problems, "unreachable": [list(pair) for pair in plan.unreachable],
        "seconds": vars(seconds),
    }  # fmt: skip


def _show(
    options: argparse.Namespace,
    document: dict[str, Any],
    rows: Sequence[tuple[str, str]],
    more: Sequence[tuple[str, str]] = (),
) -> int:
    """Show it, with rows about this kind's own, before those of all kinds and behind; 1 if the plan is not
    right."""
    lines = [
        ("fabric", f"{document['fabric']}, {document['servers']} servers, {len(document['failed'])} failed links"),
        *rows, ("method", document["method"]), ("verified", "yes" if document["verified"] else "NO"),
        ("took", ", ".join(f"{name} {1000 * value:.1f} ms" for name, value in document["seconds"].items())), *more,
    ]  # fmt: skip
    if document["unreachable"]:
        lines.append(("left out", ", ".join(f"leaves {u} and {v}" for u, v in document["unreachable"])))
    lines += [("problem", text) for text in document["problems"]]
    table = Table((left("what", lambda row: row[0]), left("found", lambda row: row[1])), lines)
    present(document, options, lambda page: page.table(table))
    return 0 if document["verified"] else 1
