# SPDX-License-Identifier: Apache-2.0
"""`fors export`: plans as files of OpenSM, ibsim and MSCCL, and as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.cli import fors_sizes, fors_tiers
from detour.cli.fors_shown import fabric_of, refuse
from detour.cli.parser import Parser, output_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from detour.control.fors import FatTree2, ForsPlan
    from detour.control.fors.tiers.fabric import FatTree3
    from detour.control.fors.tiers.solve import TierPlan

_FORMATS = ("opensm", "ibsim", "msccl", "json")


def register(parser: Parser) -> None:
    """The options that are not those of all commands of `fors`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the plan: CSV with phase,src,dst,spine")
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        required=True,
        help="opensm: forwarding tables (-R file -U); ibsim: the fabric; msccl: XML; json: phases, ranks and spines",
    )
    parser.add_argument("--out", type=output_file, required=True, metavar="FILE", help="what to write")
    fors_sizes.register(parser, cost=False)
    parser.add_argument("--guids", type=Path, metavar="FILE", help="name,guid of switches and servers (made up)")


def run(options: argparse.Namespace) -> int:
    """Writes a plan in a format, if it is right."""
    fabric, plan, sent = _right_tiers(options) if fors_tiers.meant(options) else _right_plan(options)
    if options.guids is not None and options.format not in ("opensm", "ibsim"):
        raise DetourError(f"--guids is for opensm and ibsim; {options.format} has none")
    if options.format in ("opensm", "ibsim"):
        lines = _subnet(fabric, options.format, options.guids)
    else:
        from detour.control.fors.collective import msccl, schedule_json

        if options.format == "msccl" and sent is not None:
            raise DetourError("MSCCL's all-to-all has messages of one size; json takes those of unlike size")
        lines = msccl(plan) if options.format == "msccl" else [schedule_json(plan, sent).rstrip("\n")]
    write_file(options.out, "\n".join([*lines, ""]))
    return 0


def _right_plan(options: argparse.Namespace) -> tuple[FatTree2, ForsPlan, np.ndarray | None]:
    """The fabric, the file's plan and, with sizes, the bytes of its rows.

    Raises:
        DetourError: something is wrong with it.
    """
    from detour.control.fors import files
    from detour.control.fors.unequal import read_unequal, unequal_problems
    from detour.control.fors.verify import problems

    sent = None
    if fors_sizes.wanted(options):
        fabric = fors_sizes.named_fabric(options)
        sizes = fors_sizes.sizes_of(options, fabric)
        unequal = read_unequal(fabric, options.file, sizes, skip_unreachable=options.skip_unreachable)
        plan, sent, found = unequal.plan, unequal.sent, unequal_problems(unequal, most=1)
    else:
        fabric = fabric_of(options)
        plan = files.read(fabric, options.file, tuple(fabric.unreachable()))
        found = problems(plan, most=1)
    refuse(found, options.file, fabric)
    return fabric, plan, sent


def _right_tiers(options: argparse.Namespace) -> tuple[FatTree3, TierPlan, None]:
    """The same on three levels, where all messages have one size."""
    from detour.control.fors.tiers.files import read_tiers
    from detour.control.fors.tiers.verify import tier_problems

    fabric = fors_tiers.tiers_of(options)
    plan = read_tiers(fabric, options.file)
    refuse(tier_problems(plan, most=1), options.file, fabric)
    return fabric, plan, None


def _subnet(fabric: FatTree2 | FatTree3, form: str, guids: Path | None) -> Iterable[str]:
    from detour.control.fors import FatTree2
    from detour.control.fors.subnet import forwarding_tables, made_up_guids, read_guids, simulated
    from detour.control.fors.tiers.subnet import tier_forwarding_tables, tier_simulated

    names = made_up_guids(fabric) if guids is None else read_guids(fabric, guids)
    if not isinstance(fabric, FatTree2):
        return tier_forwarding_tables(fabric, names) if form == "opensm" else tier_simulated(fabric, names)
    return forwarding_tables(fabric, names) if form == "opensm" else simulated(fabric, names)
