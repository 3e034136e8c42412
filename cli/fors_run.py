# SPDX-License-Identifier: Apache-2.0
"""`fors run`: an all-to-all exchange in virtual time, with links that fail before it or in its midst."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.tables import Table, left
from detour.cli import fors_sizes
from detour.cli.output import present, shown_progress
from detour.cli.parser import byte_count, command

if TYPE_CHECKING:
    from detour.control.fors.fabric import FatTree, TreeLink
    from detour.experiments.fors.results import ExchangeResult
    from detour.fabric.traffic.outage import Break, Detection

_TIME = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s)")
_UNITS = {"us": 10**6, "ms": 10**9, "s": 10**12}


def register(kinds: Any) -> None:
    """Adds `run` to the commands of `fors`."""
    parser = command(kinds, "run", "run the exchange on a fabric in virtual time", _run)
    parser.add_argument("--topo", default="ft:m0=20,m1=18", metavar="SPEC", help="as in `fors schedule`")
    parser.add_argument("--servers", type=int, metavar="N", help="servers that are there (default: m0*m1)")
    parser.add_argument(
        "--population", metavar="N,...", help="servers of every leaf, a number for each (not --servers)"
    )
    parser.add_argument(
        "--group", metavar="LIST", help="servers that take part, like 0-3,8 (default: all that are there)"
    )
    parser.add_argument("--fail", metavar="LEAF:SPINE[,...]", help="links that fail; *:3 spine 3, 3:* leaf 3")
    parser.add_argument(
        "--fail-at", nargs="+", type=_time, metavar="TIME", help="when, like 500us: one time, or one for every part"
    )
    parser.add_argument("--silent", action="store_true", help="failing links lose frames, but their ports stay up")
    parser.add_argument("--random-failures", type=int, default=0, metavar="N", help="links failed from the beginning")
    parser.add_argument("--routing", default="fors", metavar="fors|ftree|minhop|ftree-ar")
    parser.add_argument(
        "--message", type=byte_count, default=600_000, metavar="BYTES", help="of every message, or their mean (600k)"
    )
    fors_sizes.register(parser, message=False, cost=False)
    parser.add_argument("--rate", type=byte_count, default=200 * 10**9, metavar="BPS", help="of every link (200G)")
    parser.add_argument(
        "--phases", type=int, default=0, metavar="N", help="so many, drawn from all parts (default: all)"
    )
    parser.add_argument("--arity", type=int, default=4, metavar="K", help="children a node of the barrier's tree (4)")
    parser.add_argument(
        "--plan-time", type=_time, metavar="TIME", help="what planning takes, like 1ms (default: as long as here)"
    )
    parser.add_argument(
        "--jitter", type=_time, default=0, metavar="TIME", help="hosts' software is up to so late, evenly drawn (0us)"
    )
    parser.add_argument(
        "--straggler", metavar="SERVER:TIME[,...]", help="servers that begin every phase so late, like 3:20us"
    )
    parser.add_argument("--skip-unreachable", action="store_true", help="leave out leaves that no spine joins")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of phases drawn, failures, host stacks (1)")


def _time(text: str) -> int:
    """Picoseconds."""
    found = _TIME.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 500us, 1.5ms or 1s")
    return round(float(found[1]) * _UNITS[found[2]])


def _stragglers(text: str | None) -> tuple[tuple[int, int], ...]:
    """Servers and ps."""
    found = []
    for part in text.split(",") if text is not None else ():
        server, colon, late = part.strip().partition(":")
        if not colon or not (server.isascii() and server.isdecimal()):
            raise DetourError(f"--straggler: {part.strip()!r} is not SERVER:TIME, like 3:20us")
        try:
            found.append((int(server), _time(late)))
        except argparse.ArgumentTypeError as error:
            raise DetourError(f"--straggler: {error}") from error
    return tuple(found)


def _run(options: argparse.Namespace) -> int:
    from detour.control.fors.fabric import parse_links
    from detour.control.native import FORS_PART
    from detour.engine import warm
    from detour.experiments.fors.exchange import ExchangeRun, execute
    from detour.fabric.traffic.outage import Delays
    from detour.fabric.traffic.phased import Pace
    from detour.fabric.traffic.pinned import Tuning
    from detour.hosts.rdma import RDMA

    fabric = _fabric(options)
    breaks: tuple[Break, ...] = ()
    if options.fail_at:
        breaks = _breaks(_parts(fabric, options.fail), options.fail_at, options.silent)
    elif options.silent:
        raise DetourError("--silent needs --fail-at: links that have failed before are known to everybody")
    else:
        fabric = fabric.with_failed(parse_links(fabric, options.fail))
    if fors_sizes.wanted(options) and options.phases:
        raise DetourError("--phases executes some phases for all; those of messages of unlike size are unlike")
    sizes = None
    if fors_sizes.wanted(options):
        if fabric.cores:
            raise DetourError(f"--sizes and --skew are for two levels (ft:...); {options.topo!r} has three")
        sizes = fors_sizes.sizes_of(options, fabric)
    run = ExchangeRun(
        fabric,
        options.routing,
        breaks,
        options.phases,
        Pace(options.message, options.arity, jitter_ps=options.jitter, stragglers=_stragglers(options.straggler)),
        Tuning(rate_bps=options.rate, seed=options.seed),
        Delays(plan_ps=options.plan_time),
        skip_unreachable=options.skip_unreachable,
        sizes=sizes,
    )
    with shown_progress(options.json) as progress:
        warm.ensure(progress, RDMA)
        if breaks:
            FORS_PART.load()  # so that the time of planning is not that of compiling
        result = execute(run, lambda done, total: progress(f"phase {done} of {total}"))
    present(result, options, lambda page: page.table(_measured(result)))
    return 1 if result.exchange.missing or result.exchange.repeated else 0


def _fabric(options: argparse.Namespace) -> FatTree:
    """The fabric, with the links that were drawn failed."""
    from detour.control.fors import parse_fabric, random_failures

    bare = parse_fabric(options.topo, None, options.servers, options.population, options.group)
    return random_failures(bare, options.random_failures, options.seed)


def _parts(fabric: FatTree, text: str | None) -> list[tuple[frozenset[TreeLink], frozenset[int]]]:
    """Links and leaves that every part of `--fail` breaks."""
    from detour.control.fors.fabric import parse_links

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
        raise DetourError("--fail-at says when, and --fail what fails; the latter is missing")
    if len(times) not in (1, len(parts)):
        raise DetourError(f"--fail-at has {len(times)} times for {len(parts)} parts of --fail; it takes 1 or as many")
    each = times * len(parts) if len(times) == 1 else times
    return tuple(Break(at, links, leaves, silent) for at, (links, leaves) in zip(each, parts, strict=True))


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
    rows += [(f"links {', '.join(each.links[:6])}", _story(each)) for each in result.detections]
    if result.planning_seconds:
        took = ", ".join(f"{1000 * seconds:.2f}" for seconds in result.planning_seconds)
        counted = "counted as measured" if result.plan_time == "measured" else "counted as --plan-time says"
        rows.append(("planning", f"{took} ms of CPU time on this machine, {counted}"))
    return Table((left("what", lambda row: row[0]), left("measured", lambda row: row[1])), rows)


def _story(found: Detection) -> str:
    text = f"{found.detected_by}: noticed at {found.detected_us:.1f} us"
    if found.hosts_told_us is not None:
        text += f", hosts told at {found.hosts_told_us:.1f} us"
    if found.in_force_us is None:
        return text + ", the exchange was over before the new plan"
    return text + f", new plan in force at {found.in_force_us:.1f} us from phase {found.in_force_from_phase} on"
