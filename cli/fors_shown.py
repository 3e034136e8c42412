# SPDX-License-Identifier: Apache-2.0
"""What `fors schedule`, `route` and `verify` find: verified, written, and shown."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.tables import Table, left
from detour.cli.output import present

if TYPE_CHECKING:
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
    check: Callable[[Any], list[str]],
    write: Callable[[Any, Path], None],
    unreachable: Sequence[tuple[int, int]],
) -> dict[str, Any]:
    """Verifies a plan, and writes it if that is wanted; the fields of `FoundPlan` that this makes known."""
    begin = time.perf_counter()
    problems = check(plan)
    seconds = replace(plan.seconds, verify=time.perf_counter() - begin)
    if getattr(options, "out", None) is not None:
        write(plan, options.out)
    return {
        "verified": not problems,
        "problems": problems,
        "seconds": seconds,
        "unreachable": [list(pair) for pair in unreachable],
    }


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
