# SPDX-License-Identifier: Apache-2.0
"""`fors export`: plans as files of OpenSM, ibsim and MSCCL, and as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.cli import fors_sizes
from detour.cli.fors_shown import fabric_of, refuse, right_plan
from detour.cli.parser import Parser, output_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from detour.control.fors import FatTree, ForsPlan

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
    fabric, plan, sent = _right_plan(options)
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


def _right_plan(options: argparse.Namespace) -> tuple[FatTree, ForsPlan, np.ndarray | None]:
    """The fabric, the file's plan and, with sizes, the bytes of its rows.

    Raises:
        DetourError: something is wrong with it.
    """
    from detour.control.fors.unequal import read_unequal, unequal_problems

    if not fors_sizes.wanted(options):
        fabric = fabric_of(options)
        return fabric, right_plan(fabric, options.file), None
    fabric = fors_sizes.named_fabric(options)
    sizes = fors_sizes.sizes_of(options, fabric)
    unequal = read_unequal(fabric, options.file, sizes, skip_unreachable=options.skip_unreachable)
    refuse(unequal_problems(unequal, most=1), options.file, fabric)
    return fabric, unequal.plan, unequal.sent


def _subnet(fabric: FatTree, form: str, guids: Path | None) -> Iterable[str]:
    from detour.control.fors.subnet import forwarding_tables, made_up_guids, read_guids, simulated

    names = made_up_guids(fabric) if guids is None else read_guids(fabric, guids)
    return forwarding_tables(fabric, names) if form == "opensm" else simulated(fabric, names)
