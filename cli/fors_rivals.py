# SPDX-License-Identifier: Apache-2.0
"""`fors rivals`: FORS_PART beside other ways to exchange the same messages, by failed links."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli import fors_sizes
from detour.cli.output import present, shown_progress
from detour.cli.parser import byte_count, command, output_file

if TYPE_CHECKING:
    from detour.experiments.fors.rivals_fast import ScaleUp

_RATE = 200 * 10**9


def register(kinds: Any) -> None:
    """Adds `rivals` to the commands of `fors`."""
    text = "FORS_PART, multicommodity flow, Birkhoff's phases, FAST, Min-Hop, ECMP, SprayLERP: time over the bound"
    parser = command(kinds, "rivals", text, _run)
    parser.add_argument("--topo", default="ft:m0=4,m1=4", metavar="SPEC", help="as in `fors run` (ft:m0=4,m1=4)")
    parser.add_argument("--failures", default="0,1,3,5", metavar="N,...", help="links that fail, drawn (0,1,3,5)")
    fors_sizes.register(parser, cost=False)
    parser.add_argument("--rate", type=byte_count, default=_RATE, metavar="BPS", help="of servers' links (200G)")
    parser.add_argument(
        "--scale-up",
        metavar="G:SPEED",
        help="FAST too: G servers of a leaf are a machine with a network inside, SPEED times a link, like 4:9",
    )
    parser.add_argument("--ideal", action="store_true", help="only what links need; nothing is run")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of failures, sizes, hashes, host stacks (1)")
    parser.add_argument(
        "--write", type=output_file, metavar="FILE", help="write the table there as well (docs/fors-fabric.md)"
    )


def _counts(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 7 for part in parts):
        raise DetourError(f"--failures {text!r} are not numbers of links, like 0,1,3,5")
    return [int(part) for part in parts]


def _scale_up(text: str | None) -> ScaleUp | None:
    from detour.experiments.fors.rivals_fast import ScaleUp

    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,4}):(\d{1,5}(?:\.\d{1,4}|/\d{1,5})?)", text.strip(), re.ASCII)
    speed = Fraction(match[2]) if match and not match[2].endswith("/0") else Fraction(0)
    if not match or not speed:
        raise DetourError(f"--scale-up {text!r} is not servers of a machine and a speed in rates of a link, like 4:9")
    if int(match[1]) < 2:
        raise DetourError("--scale-up: a machine of one server has nothing to balance; FAST is `birkhoff` there")
    return ScaleUp(int(match[1]), speed)


def _run(options: argparse.Namespace) -> int:
    from detour.control.fors import parse_fabric
    from detour.control.native import FORS_PART
    from detour.engine import warm
    from detour.experiments.columns import table
    from detour.experiments.fors.rivals import RivalRow, compare
    from detour.experiments.fors.rivals_page import write_block
    from detour.fabric.traffic.pinned import Tuning
    from detour.hosts.rdma import RDMA

    fabric = parse_fabric(options.topo)
    failures = _counts(options.failures)
    if not fors_sizes.wanted(options):
        options.skew = "uniform"
    sizes = fors_sizes.sizes_of(options, fabric)
    scale_up = _scale_up(options.scale_up)
    tuning = Tuning(rate_bps=options.rate, seed=options.seed)
    with shown_progress(options.json) as progress:
        FORS_PART.load()
        if not options.ideal:
            warm.ensure(progress, RDMA)
        name = str(options.sizes or options.skew)
        found = compare(
            fabric, sizes, failures, name, tuning, scale_up=scale_up, measure=not options.ideal, report=progress
        )
    if options.write is not None:
        write_block(options.write, _command(options), found)
    machines = f", machines {found.scale_up}" if found.scale_up else ""
    caption = f"{found.topology}, {found.servers} servers{machines}, {found.sizes} of {found.mean_bytes:,} bytes"
    caption += ": over the bound"
    present(found, options, lambda page: page.table(table(RivalRow, found.rows, caption)))
    return 0 if all(row.delivered is not False for row in found.rows) else 1


def _command(options: argparse.Namespace) -> str:
    """What writes the same table, all that matters named."""
    text = f"detour fors rivals --topo {options.topo} --failures {options.failures}"
    text += f" --sizes {options.sizes}" if options.sizes else f" --skew {options.skew} --message {options.message}"
    text += f" --scale-up {options.scale_up}" if options.scale_up else ""
    text += f" --rate {options.rate}" if options.rate != _RATE else ""
    text += f" --seed {options.seed}"
    return text + (" --ideal" if options.ideal else "")
