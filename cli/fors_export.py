# SPDX-License-Identifier: Apache-2.0
"""`fors export`: plans as files of OpenSM, ibsim and MSCCL, and as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.cli.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Iterable

    from detour.control.fors import FatTree2

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
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="what to write")
    parser.add_argument("--guids", type=Path, metavar="FILE", help="name,guid of switches and servers (made up)")


def fabric_of(options: argparse.Namespace) -> FatTree2:
    """The fabric that the options describe.

    Raises:
        DetourError: they do not describe one, or pairs of its leaves cannot reach each other and may not be skipped.
    """
    from detour.control.fors import parse_fabric, random_failures
    from detour.control.fors.solve import unreachable_text

    fabric = parse_fabric(options.topo, options.fail, options.servers, options.population, options.group)
    if options.random_failures is not None:
        fabric = random_failures(fabric, options.random_failures, options.seed)
    lost = fabric.unreachable()
    if lost and not options.skip_unreachable:
        raise DetourError(unreachable_text(fabric, tuple(lost)))
    return fabric


def run(options: argparse.Namespace) -> int:
    """Writes a plan in a format, if it is right."""
    from detour.control.fors import files
    from detour.control.fors.verify import problems

    fabric = fabric_of(options)
    plan = files.read(fabric, options.file, tuple(fabric.unreachable()))
    for text in problems(plan, most=1):
        raise DetourError(f"{options.file} is no plan for {fabric.name} with {fabric.servers} servers: {text}")
    if options.guids is not None and options.format not in ("opensm", "ibsim"):
        raise DetourError(f"--guids is for opensm and ibsim; {options.format} has none")
    if options.format in ("opensm", "ibsim"):
        lines = _subnet(fabric, options.format, options.guids)
    else:
        from detour.control.fors.collective import msccl, schedule_json

        lines = msccl(plan) if options.format == "msccl" else [schedule_json(plan).rstrip("\n")]
    text = "\n".join([*lines, ""])
    try:
        options.out.write_text(text)
    except OSError as error:
        raise DetourError(f"{options.out}: {error.strerror}") from error
    return 0


def _subnet(fabric: FatTree2, form: str, guids: Path | None) -> Iterable[str]:
    from detour.control.fors.subnet import forwarding_tables, made_up_guids, read_guids, simulated

    names = made_up_guids(fabric) if guids is None else read_guids(fabric, guids)
    return forwarding_tables(fabric, names) if form == "opensm" else simulated(fabric, names)
