# SPDX-License-Identifier: Apache-2.0
"""What `fors schedule`, `route` and `verify` find: verified, written, and shown."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.tables import Table, left
from detour.cli.output import present

if TYPE_CHECKING:
    from detour.control.fors import FatTree, ForsPlan
    from detour.control.fors.plan import PlanSeconds


@dataclass(frozen=True, kw_only=True)
class FoundPlan:
    """The fields that all have."""

    fabric: str
    servers: int
    failed: list[str]
    phases: int
    optimal: bool
    method: str
    verified: bool
    problems: list[str]
    unreachable: list[list[int]]
    seconds: PlanSeconds


def checked(
    options: argparse.Namespace,
    plan: Any,
    rows: Any,
    check: Callable[[Any], list[str]],
    write: Callable[[Any, Path], None],
    unreachable: Sequence[tuple[int, int]],
) -> dict[str, Any]:
    """Verifies a plan, of which `rows` are phases and paths, and writes it if that is wanted; the fields of
    `FoundPlan`."""
    begin = time.perf_counter()
    problems = check(plan)
    seconds = replace(plan.seconds, verify=time.perf_counter() - begin)
    if getattr(options, "out", None) is not None:
        write(plan, options.out)
    return {
        "fabric": rows.fabric.name,
        "servers": rows.fabric.servers,
        "failed": rows.fabric.failed_names(),
        "phases": rows.phases,
        "method": rows.method,
        "verified": not problems,
        "problems": problems,
        "seconds": seconds,
        "unreachable": [list(pair) for pair in unreachable],
    }


def refuse(problems: Sequence[str], file: Path, fabric: Any) -> None:
    """A file that is no plan, whose first problem that is.

    Raises:
        DetourError: there is one.
    """
    for text in problems:
        raise DetourError(f"{file} is no plan for {fabric.name} with {fabric.servers} servers: {text}")


def shown(
    options: argparse.Namespace, plan: FoundPlan, rows: Sequence[tuple[str, str]], more: Sequence[tuple[str, str]] = ()
) -> int:
    """Shows it, with rows about what is this kind's own, before those of all kinds and behind; 1 if the plan is not
    right."""
    seconds = ", ".join(f"{name} {1000 * value:.1f} ms" for name, value in vars(plan.seconds).items())
    lines = [
        ("fabric", f"{plan.fabric}, {plan.servers} servers, {len(plan.failed)} failed links"),
        *rows,
        ("method", plan.method),
        ("verified", "yes" if plan.verified else "NO"),
        ("took", seconds),
        *more,
    ]
    if plan.unreachable:
        lines.append(("left out", ", ".join(f"leaves {u} and {v}" for u, v in plan.unreachable)))
    lines += [("problem", text) for text in plan.problems]
    table = Table((left("what", lambda row: row[0]), left("found", lambda row: row[1])), lines)
    present(plan, options, lambda page: page.table(table))
    return 0 if plan.verified else 1


def fabric_of(options: argparse.Namespace) -> FatTree:
    """The fabric that the options describe.

    Raises:
        DetourError: they do not describe one, pairs of its leaves cannot reach each other and may not be skipped, or an
            option is for two levels.
    """
    from detour.control.fors import parse_fabric, random_failures
    from detour.control.fors.fabric import unreachable_text

    fabric = parse_fabric(options.topo, options.fail, options.servers, options.population, options.group)
    for name in ("sizes", "skew") if fabric.cores else ():
        if getattr(options, name, None) is not None:
            raise DetourError(f"--{name} is for fat-trees of two levels (ft:...); {options.topo!r} has three")
    if options.random_failures is not None:
        fabric = random_failures(fabric, options.random_failures, options.seed)
    lost = fabric.unreachable()
    if lost and not options.skip_unreachable:
        raise DetourError(unreachable_text(fabric, tuple(lost)))
    return fabric


def right_plan(fabric: FatTree, path: Path) -> ForsPlan:
    """The plan in a file.

    Raises:
        DetourError: something is wrong with it.
    """
    from detour.control.fors import files
    from detour.control.fors.verify import problems

    plan = files.read(fabric, path, tuple(fabric.unreachable()))
    refuse(problems(plan, most=1), path, fabric)
    return plan
