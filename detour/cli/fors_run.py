# SPDX-License-Identifier: Apache-2.0
"""`fors run`: an all-to-all exchange in virtual time, with links that fail before it or in its midst; `fors rivals`:
FORS beside other ways to exchange the same messages."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError, told_of
from detour.base.quantities import time_ps_of
from detour.base.tables import Table, left
from detour.cli.output import present, shown_progress
from detour.cli.parser import (
    Parser,
    byte_count,
    bytes_from_0,
    command,
    output_file,
    rate_bps,
    time_ps,
    whole,
    whole_numbers,
)

if TYPE_CHECKING:
    from detour.base.arrays import Int64Array
    from detour.control.fors.fabric import FatTree, TreeLink
    from detour.experiments.fors.results import ExchangeResult
    from detour.experiments.fors.rivals_fast import ScaleUp
    from detour.fabric.traffic.outage import Break, Detection

_RATE = 200 * 10**9


def register(kinds: Any) -> None:
    """Add `run` and `rivals` to the commands of `fors`."""
    _add_run_options(command(kinds, "run", "run the exchange on a fabric in virtual time", _run))
    text = "compare FORS, multi-commodity flow, Birkhoff phases, FAST, Min-Hop, ECMP and SprayLERP: time over the bound"
    _add_rivals_options(command(kinds, "rivals", text, _rivals))


def _add_run_options(parser: Parser) -> None:
    parser.option("--topo", "as in `fors schedule`", "SPEC", default="ft:m0=20,m1=18")
    add_server_options(parser, "number of servers (default: m0*m1)")
    parser.option("--fail", "links that fail; *:3 spine 3, 3:* leaf 3", "LEAF:SPINE[,...]")
    parser.option(
        "--fail-at",
        "time of the failure, like 500us: one for all, or one for each part of --fail",
        "TIME",
        time_ps,
        nargs="+",
    )
    parser.flag("--silent", "failing links lose frames, but their ports stay up")
    parser.option("--random-failures", "number of random links that are down from the start", "N", whole, default=0)
    parser.add_argument("--routing", default="fors", metavar="fors|ftree|minhop|ftree-ar")
    parser.option("--message", "size of every message, or mean size (600k)", "BYTES", byte_count, default=600_000)
    add_size_options(parser, message=False, cost=False)
    parser.option("--rate", "rate of every link (200G)", "BPS", rate_bps, default=_RATE)
    parser.option("--phases", "number of phases to run, drawn from all parts (default: all)", "N", whole, default=0)
    parser.option("--arity", "children per node of the barrier's tree (4)", "K", whole, default=4)
    parser.option("--plan-time", "planning time, like 1ms (default: as on this machine)", "TIME", time_ps)
    parser.option("--jitter", "longest random delay of host software (0us)", "TIME", time_ps, default=0)
    parser.option("--straggler", "servers that start every phase late, like 3:20us", "SERVER:TIME[,...]")
    parser.flag("--skip-unreachable", "leave out leaves without a common spine")
    parser.option("--seed", "seed of phases, failures and host stacks (1)", "S", whole, default=1)


def add_server_options(parser: Parser, servers: str) -> None:
    """Add the options for the servers that there are and those that take part; `servers`: the help for their number."""
    parser.option("--servers", servers, "N", whole)
    parser.option("--population", "number of servers of each leaf (not with --servers)", "N,...")
    parser.option("--group", "participating servers, like 0-3,8 (default: all)", "LIST")


def add_size_options(parser: Parser, *, message: bool = True, cost: bool = True) -> None:
    """The options for messages of unlike size."""
    parser.option("--sizes", "message sizes: CSV src,dst,bytes or JSON", "FILE", Path)
    parser.option("--skew", "sizes drawn by --seed: zipf:S, moe:S (hot receivers) or uniform", "KIND")
    if message:
        parser.option("--message", "mean size with --skew (600k)", "BYTES", byte_count, default=600_000)
    if cost:
        parser.option("--phase-cost", "fixed cost of a phase in bytes (0)", "BYTES", bytes_from_0, default=0)


def has_sizes(options: argparse.Namespace) -> bool:
    """Return whether messages have sizes of their own."""
    return options.sizes is not None or options.skew is not None


def sizes_of(options: argparse.Namespace, fabric: FatTree) -> Int64Array:
    """The sizes that the options name. Raises `DetourError`: both are given, or what is wrong with one."""
    from detour.control.fors.files import drawn_sizes, read_sizes

    if options.sizes is not None and options.skew is not None:
        raise DetourError("--sizes reads sizes from a file, --skew draws them: give one of the two")
    if options.sizes is not None:
        return read_sizes(fabric, options.sizes)
    return drawn_sizes(fabric.servers, options.skew or "uniform", options.message, options.seed)


def _run(options: argparse.Namespace) -> int:
    from detour.control.fors import parse_fabric, random_failures
    from detour.control.fors.texts import parse_links
    from detour.control.native import FORS_PART
    from detour.engine import warm
    from detour.experiments.fors.exchange import ExchangeRun, execute
    from detour.fabric.traffic.outage import Delays
    from detour.fabric.traffic.phased import Pace
    from detour.fabric.traffic.pinned import Tuning
    from detour.hosts.rdma import RDMA

    bare = parse_fabric(options.topo, None, options.servers, options.population, options.group)
    fabric = random_failures(bare, options.random_failures, options.seed)
    breaks: tuple[Break, ...] = ()
    if options.fail_at:
        breaks = _breaks(_parts(fabric, options.fail), options.fail_at, options.silent)
    elif options.silent:
        raise DetourError("--silent needs --fail-at: servers already avoid links that failed before the exchange")
    else:
        fabric = fabric.with_failed(parse_links(fabric, options.fail))
    sizes = None
    if has_sizes(options):
        if options.phases:
            raise DetourError("--phases samples phases of equal messages; leave it out with --sizes and --skew")
        if fabric.cores:
            raise DetourError(f"--sizes and --skew are for two levels (ft:...); {options.topo!r} has three")
        sizes = sizes_of(options, fabric)
    stragglers: list[tuple[int, int]] = []  # servers and ps
    for part in options.straggler.split(",") if options.straggler is not None else ():
        server, colon, late = part.strip().partition(":")
        if not colon or not (server.isascii() and server.isdecimal()):
            raise DetourError(f"--straggler: {part.strip()!r} is not SERVER:TIME, like 3:20us")
        with told_of("--straggler"):
            stragglers.append((int(server), time_ps_of(late)))
    run = ExchangeRun(
        fabric, options.routing, breaks, options.phases,
        Pace(options.message, options.arity, jitter_ps=options.jitter, stragglers=tuple(stragglers)),
        Tuning(rate_bps=options.rate, seed=options.seed), Delays(plan_ps=options.plan_time),
        skip_unreachable=options.skip_unreachable, sizes=sizes,
    )  # fmt: skip
    with shown_progress(options.json) as progress:
        warm.ensure(progress, RDMA)
        if breaks:
            FORS_PART.load()  # so that the time of planning is not that of compiling
        result = execute(run, lambda done, total: progress(f"phase {done} of {total}"))
    present(result, options, lambda page: page.table(_measured(result)))
    return 1 if result.exchange.missing or result.exchange.repeated else 0


def _parts(fabric: FatTree, text: str | None) -> list[tuple[frozenset[TreeLink], frozenset[int]]]:
    from detour.control.fors.texts import parse_links

    parts: list[tuple[frozenset[TreeLink], frozenset[int]]] = []
    for part in text.split(",") if text else []:
        leaf, _, spine = part.strip().partition(":")
        if spine == "*" and leaf.isascii() and leaf.isdecimal():
            if int(leaf) >= fabric.all_leaves:
                raise DetourError(f"{fabric.name} has no leaf {leaf} (0..{fabric.all_leaves - 1})")
            parts.append((frozenset(), frozenset({int(leaf)})))
        else:
            parts.append((parse_links(fabric, part) - fabric.failed, frozenset()))
    return parts


def _breaks(
    parts: list[tuple[frozenset[TreeLink], frozenset[int]]], times: list[int], silent: bool
) -> tuple[Break, ...]:
    from detour.fabric.traffic.outage import Break

    if not parts:
        raise DetourError("--fail-at needs --fail, which names the links")
    if len(times) not in (1, len(parts)):
        raise DetourError(f"--fail-at has {len(times)} times for {len(parts)} parts of --fail; give 1 or as many")
    moments = times * len(parts) if len(times) == 1 else times
    return tuple(Break(at, links, leaves, silent) for at, (links, leaves) in zip(moments, parts, strict=True))


def _measured(result: ExchangeResult) -> Table[tuple[str, str]]:
    counts, phase, crowd = result.exchange, result.phase_us, result.most_flows_on_a_link
    rows = [
        ("fabric", f"{result.topology}, {result.servers} servers, {result.failed_links} links failed before"),
        ("routing", result.routing),
        ("throughput a server", f"{result.throughput_gbps:.1f} of {result.rate_gbps:g} Gb/s"),
        ("phases", f"{result.phases}, executed {result.phases_executed}"),
        ("exchange", f"{result.ms:.3f} ms"),
        ("a phase", f"{phase.mean:.2f} us ({phase.min:.2f} to {phase.max:.2f})"),
        ("of that its barrier", f"{result.barrier_us.mean:.2f} us"),
        ("flows on the fullest link", f"{crowd.mean:.2f} on average, at most {crowd.max}"),
        ("messages delivered once", f"{counts.delivered} of {counts.messages}"),
        ("missing, repeated, given up", f"{counts.missing}, {counts.repeated}, {counts.given_up}"),
        ("packets sent again", str(counts.retransmitted_packets)),
    ]
    if isinstance(result.bound_us, float) and isinstance(result.over_bound, float):
        rows.insert(
            5, ("at least", f"{result.bound_us / 1e3:.3f} ms of bytes; the exchange took {result.over_bound:.3f} of it")
        )
    rows += [(f"links {', '.join(detection.links[:6])}", _story(detection)) for detection in result.detections]
    if result.planning_seconds:
        took = ", ".join(f"{1000 * seconds:.2f}" for seconds in result.planning_seconds)
        counted = "counted as measured" if result.plan_time == "measured" else "counted as --plan-time says"
        rows.append(("planning", f"{took} ms of CPU time on this machine, {counted}"))
    return Table((left("what", lambda row: row[0]), left("measured", lambda row: row[1])), rows)


def _story(detection: Detection) -> str:
    text = f"{detection.detected_by}: noticed at {detection.detected_us:.1f} us"
    if detection.hosts_told_us is not None:
        text += f", hosts told at {detection.hosts_told_us:.1f} us"
    if detection.in_force_us is None:
        return text + ", the exchange was over before the new plan"
    return text + f", new plan in force at {detection.in_force_us:.1f} us from phase {detection.in_force_from_phase} on"


def _add_rivals_options(parser: Parser) -> None:
    parser.option("--topo", "as in `fors run` (ft:m0=4,m1=4)", "SPEC", default="ft:m0=4,m1=4")
    parser.option("--failures", "numbers of random failed links (0,1,3,5)", "N,...", default="0,1,3,5")
    add_size_options(parser, cost=False)
    parser.option("--rate", "rate of servers' links (200G)", "BPS", rate_bps, default=_RATE)
    text = "add FAST: G servers of a leaf form a machine with an internal network of SPEED times a link, like 4:9"
    parser.option("--scale-up", text, "G:SPEED")
    parser.flag("--ideal", "compute ideal times only; run nothing")
    parser.option("--seed", "seed of failures, sizes, hashes and host stacks (1)", "S", whole, default=1)
    parser.option("--write", "also write the table to this file (docs/fors-fabric.md)", "FILE", output_file)


def _scale_up(text: str | None) -> ScaleUp | None:
    from detour.experiments.fors.rivals_fast import ScaleUp

    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,4}):(\d{1,5}(?:\.\d{1,4}|/\d{1,5})?)", text.strip(), re.ASCII)
    speed = Fraction(match[2]) if match and not match[2].endswith("/0") else Fraction(0)
    if not match or not speed:
        raise DetourError(f"--scale-up {text!r} is not SERVERS:SPEED, like 4:9")
    if int(match[1]) < 2:
        raise DetourError("--scale-up: a machine needs at least 2 servers; with one, FAST is `birkhoff`")
    return ScaleUp(int(match[1]), speed)


def _rivals(options: argparse.Namespace) -> int:
    from detour.control.fors import parse_fabric
    from detour.control.native import FORS_PART
    from detour.engine import warm
    from detour.experiments.columns import table
    from detour.experiments.fors.rivals import RivalRow, compare, write_table
    from detour.fabric.traffic.pinned import Tuning
    from detour.hosts.rdma import RDMA

    fabric = parse_fabric(options.topo)
    failures = whole_numbers("--failures", options.failures)
    if not has_sizes(options):
        options.skew = "uniform"
    sizes = sizes_of(options, fabric)
    scale_up = _scale_up(options.scale_up)
    tuning = Tuning(rate_bps=options.rate, seed=options.seed)
    with shown_progress(options.json) as progress:
        FORS_PART.load()
        if not options.ideal:
            warm.ensure(progress, RDMA)
        name = str(options.sizes or options.skew)
        comparison = compare(
            fabric, sizes, failures, name, tuning, scale_up=scale_up, measure=not options.ideal, report=progress
        )
    if options.write is not None:
        write_table(options.write, _command(options), comparison)
    machines = f", machines {comparison.scale_up}" if comparison.scale_up else ""
    caption = f"{comparison.topology}, {comparison.servers} servers{machines}, "
    caption += f"{comparison.sizes} of {comparison.mean_bytes:,} bytes: over the bound"
    present(comparison, options, lambda page: page.table(table(RivalRow, comparison.rows, caption)))
    return 0 if all(row.delivered is not False for row in comparison.rows) else 1


def _command(options: argparse.Namespace) -> str:
    """Return the command that writes the same table, with all options that matter."""
    text = f"detour fors rivals --topo {options.topo} --failures {options.failures}"
    text += f" --sizes {options.sizes}" if options.sizes else f" --skew {options.skew} --message {options.message}"
    text += f" --scale-up {options.scale_up}" if options.scale_up else ""
    text += f" --rate {options.rate}" if options.rate != _RATE else ""
    text += f" --seed {options.seed}"
    return text + (" --ideal" if options.ideal else "")
