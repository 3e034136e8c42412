# SPDX-License-Identifier: Apache-2.0
"""`fors schedule`, `verify` and `run` for messages of unlike size: options, and what is found."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.cli.fors_shown import FoundPlan, checked, fabric_of, shown
from detour.cli.output import shown_progress
from detour.cli.parser import Parser, byte_count

if TYPE_CHECKING:
    from detour.base.arrays import Int64Array
    from detour.control.fors import FatTree
    from detour.control.fors.unequal import UnequalPlan


@dataclass(frozen=True, kw_only=True)
class _PlannedSizes(FoundPlan):
    """Times are bytes of a server's link."""

    sizes: str
    """the file, or the skew"""
    total_bytes: int
    messages: int
    pieces: int
    length_bytes: int
    bound_bytes: int
    bound_by_servers: int
    bound_by_links: int
    ratio: float
    """length over bound"""


def register(parser: Parser, *, message: bool = True, cost: bool = True) -> None:
    """The options for sizes."""
    parser.add_argument("--sizes", type=Path, metavar="FILE", help="bytes of every message: CSV src,dst,bytes or JSON")
    parser.add_argument(
        "--skew", metavar="KIND", help="sizes drawn by --seed: zipf:S, moe:S (hot receivers) or uniform"
    )
    if message:
        parser.add_argument(
            "--message", type=byte_count, default=600_000, metavar="BYTES", help="mean size with --skew (600k)"
        )
    if cost:
        parser.add_argument(
            "--phase-cost", type=byte_count, default=0, metavar="BYTES", help="of a phase beside its length (0)"
        )


def wanted(options: argparse.Namespace) -> bool:
    """Whether messages have sizes of their own."""
    return options.sizes is not None or options.skew is not None


def sizes_of(options: argparse.Namespace, fabric: FatTree) -> Int64Array:
    """The sizes that the options name.

    Raises:
        DetourError: both are given, or what is wrong with one.
    """
    from detour.control.fors.sizes import drawn_sizes, read_sizes

    if options.sizes is not None and options.skew is not None:
        raise DetourError("--sizes reads sizes from a file, --skew draws them: one of the two")
    if options.sizes is not None:
        return read_sizes(fabric, options.sizes)
    return drawn_sizes(fabric.servers, options.skew or "uniform", options.message, options.seed)


def named_fabric(options: argparse.Namespace) -> FatTree:
    """Leaves without a common spine matter only where they have something to send: planning says so."""
    skipping = argparse.Namespace(**{**vars(options), "skip_unreachable": True})
    return fabric_of(skipping)


def schedule(options: argparse.Namespace) -> int:
    """Plans and shows; 1 if the plan is not right."""
    from detour.control.fors.unequal import plan_unequal
    from detour.control.native import FORS_PART

    fabric = named_fabric(options)
    sizes = sizes_of(options, fabric)
    with shown_progress(options.json) as progress:
        progress("loading native code")
        FORS_PART.load()
        progress(f"planning {fabric.servers} servers on {fabric.name} with {len(fabric.failed)} failed links")
        plan = plan_unequal(fabric, sizes, options.phase_cost, skip_unreachable=options.skip_unreachable)
    return _finish(options, plan)


def verify(options: argparse.Namespace) -> int:
    """Checks a file against sizes; 1 if it is not right."""
    from detour.control.fors.unequal import read_unequal

    fabric = named_fabric(options)
    sizes = sizes_of(options, fabric)
    return _finish(options, read_unequal(fabric, options.file, sizes, skip_unreachable=options.skip_unreachable))


def _finish(options: argparse.Namespace, plan: UnequalPlan) -> int:
    from detour.control.fors.unequal import unequal_problems, write_unequal

    rows = plan.plan
    known = checked(options, plan, rows, unequal_problems, write_unequal, rows.unreachable)
    found = _PlannedSizes(
        sizes=str(options.sizes or options.skew),
        total_bytes=int(plan.sizes.sum()),
        messages=int((plan.sizes > 0).sum()),
        pieces=rows.flows,
        length_bytes=plan.length,
        bound_bytes=rows.lower_bound,
        bound_by_servers=plan.by_servers,
        bound_by_links=plan.by_links,
        ratio=round(plan.length / rows.lower_bound, 6) if rows.lower_bound else 1.0,
        optimal=plan.length == rows.lower_bound and known["verified"],
        **known,
    )
    by_servers = found.bound_by_servers >= found.bound_by_links
    decides = "the busiest server" if by_servers else "links between leaves and spines"
    lines = [
        ("sizes", f"{found.sizes}: {found.messages:,} messages, {found.total_bytes:,} bytes"),
        ("time", f"{found.length_bytes:,} bytes of a server's link"),
        ("at least", f"{found.bound_bytes:,} bytes ({decides})"),
        ("time over bound", f"{found.ratio:.4f}" + (" (optimal)" if found.optimal else "")),
        ("phases", f"{found.phases}, of {found.pieces:,} pieces of messages"),
    ]
    return shown(options, found, lines)
