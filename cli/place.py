# SPDX-License-Identifier: Apache-2.0
"""`place`: a path for every flow of the jobs in a file, beside what ECMP would do with them."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli.asking import ask
from detour.cli.output import emit, progress, table
from detour.cli.parser import draws, operation

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 16
_LISTED = 20_000
"""assignments that --json prints; beyond that they need --out"""


def register(commands: Any) -> None:
    """Adds this command."""
    place = operation(commands, "place", _place)
    place.add_argument("jobs", type=Path, metavar="JOBS", help="job file, YAML or JSON (docs/placement.md)")
    place.add_argument("--topo", metavar="SPEC", help="leaf-spine:leaves=,spines=,hosts= or fat-tree:k=")
    place.add_argument("--fail", action="append", default=[], metavar="LINK|SWITCH", help="is down; may be repeated")
    place.add_argument("--seeds", type=draws, default=100, metavar="N", help="draws of ports for ECMP (100)")
    place.add_argument("--out", type=Path, metavar="FILE", help="writes all assignments as JSON")
    place.add_argument("--reroute", action="store_true", help="with --apply: the controller moves congested flows")
    place.add_argument("--watch", action="store_true", help="with --apply: switches count every flow by itself")
    place.add_argument("--apply", action="store_true", help="give them to the fabric that is up, whose topology counts")


def _place(options: argparse.Namespace) -> None:
    if options.apply:
        if options.topo or options.fail:
            raise DetourError("with --apply topology and failures are those of the fabric that is up")
        _apply(options)
        return
    for option in ("reroute", "watch"):
        if getattr(options, option):
            raise DetourError(f"--{option} is for the fabric that is up: it needs --apply")
    if options.topo is None:
        raise DetourError("place needs --topo SPEC, or --apply for the fabric that is up")
    from detour.control.placement.jobs import read_jobs
    from detour.control.placement.report import compare
    from detour.topo import parse_failure, parse_topology

    topology = parse_topology(options.topo)
    failures = frozenset(parse_failure(topology, text) for text in options.fail)
    flows = read_jobs(options.jobs, topology)
    with progress(options.json) as tell:
        found, report = compare(topology, flows, failures, options.seeds, tell)
        listed = range(len(flows)) if options.out or len(flows) <= _LISTED else range(_SHOWN)
        rows = found.assignments(listed)
    if options.out:
        _write(options.out, {"topology": topology.spec, "failures": options.fail, "assignments": rows})
    report["assignments"] = rows if len(flows) <= _LISTED else None
    emit(report, options.json, lambda console: _show(console, report, rows))


def _write(file: Path, document: Any) -> None:
    try:
        file.write_text(json.dumps(document))
    except OSError as error:
        raise DetourError(f"{file}: {error.strerror}") from None


def _show(console: Console, report: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    links = [
        (r["link"], r["flows"], r["ecmp_mean"], r["collisions"], r["ecmp_collisions_mean"], r["ecmp_collisions_worst"])
        for r in report["links"][:_SHOWN]
    ]
    busiest = f"{len(links)} of {len(report['links'])} links that are used, busiest under ECMP first"
    names = ("link", ">flows", ">ECMP, mean", ">collisions", ">ECMP, mean", ">ECMP, worst")
    console.print(table(names, links, busiest))
    ways = [(r["job"], r["source"], r["target"], " ".join(r["path"]), ":".join(r["usids"])) for r in rows[:_SHOWN]]
    more = report["flows"] - len(ways)
    title = f"the first {len(ways)} flows; --out FILE has the other {more}" if more else "flows"
    console.print(table(("job", "from", "to", "path", "uSIDs"), ways, title))
    console.print(
        f"{_count(report['flows'], 'flow')} of {_count(report['jobs'], 'job')} on {report['topology']}, "
        f"by {report['method']} in {report['seconds']:.2f} s"
    )
    console.print(
        f"collisions: {report['collisions']} (no placement can have less than {report['lower_bound']}); "
        f"ECMP: {report['ecmp_mean']:.1f} on average, {report['ecmp_worst']} at worst of {report['seeds']} seeds"
    )
    console.print(
        f"busiest link: {_count(report['busiest'], 'flow')}; ECMP: {report['ecmp_busiest_mean']:.1f} on average, "
        f"{report['ecmp_busiest_worst']} at worst"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _apply(options: argparse.Namespace) -> None:
    with progress(options.json) as tell:
        tell("placing")
        report = ask("place", jobs=os.path.abspath(options.jobs), reroute=options.reroute, watch=options.watch)
    text = (
        f"{report['flows']} flows placed on {report['topology']} by {report['method']} in {report['seconds']:.2f} s: "
        f"{report['collisions']} collisions (at least {report['lower_bound']})"
    )
    emit(report, options.json, lambda console: console.print(text))
