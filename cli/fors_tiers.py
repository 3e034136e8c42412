# SPDX-License-Identifier: Apache-2.0
"""`fors schedule`, `route` and `verify` on fat-trees of three levels."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.base.tables import Table, left
from detour.cli.output import present, shown_progress

if TYPE_CHECKING:
    from detour.control.fors.plan import PlanSeconds
    from detour.control.fors.tiers.fabric import FatTree3
    from detour.control.fors.tiers.solve import TierPlan

_TWO_LEVELS_ONLY = ("sizes", "skew")


@dataclass(frozen=True)
class _PlannedTiers:
    """As on two levels; `gap`: phases above the bound."""

    fabric: str
    servers: int
    failed: list[str]
    flows: int
    phases: int
    bound: int
    lower_bound: int
    optimal: bool
    gap: int
    method: str
    verified: bool
    problems: list[str]
    unreachable: list[list[int]]
    seconds: PlanSeconds


@dataclass(frozen=True)
class _KeptTiers(_PlannedTiers):
    """With `--keep`."""

    moved: int
    anew: bool


def meant(options: argparse.Namespace) -> bool:
    """Whether the options name a fat-tree of three levels."""
    from detour.control.fors.tiers.fabric import is_three_level

    return is_three_level(options.topo)


def tiers_of(options: argparse.Namespace) -> FatTree3:
    """The fabric that the options describe.

    Raises:
        DetourError: they do not describe one, two leaves have no way and may not be skipped, or an option is for two
            levels.
    """
    from detour.control.fors.tiers.fabric import draw_failures, parse_three_levels
    from detour.control.fors.tiers.solve import parted_text

    for name in _TWO_LEVELS_ONLY:
        if getattr(options, name, None) is not None:
            raise DetourError(f"--{name} is for fat-trees of two levels (ft:...); {options.topo!r} has three")
    if getattr(options, "algorithm", "fors") != "fors":
        raise DetourError(f"--algorithm {options.algorithm} is for fat-trees of two levels (ft:...)")
    fabric = parse_three_levels(options.topo, options.fail, options.servers, options.population, options.group)
    if options.random_failures is not None:
        fabric = draw_failures(fabric, options.random_failures, options.seed)
    lost = tuple(fabric.unreachable())
    if lost and not options.skip_unreachable:
        raise DetourError(parted_text(fabric, lost))
    return fabric


def schedule(options: argparse.Namespace) -> int:
    """Plans, verifies and shows; 1 if the plan is not right."""
    from detour.control.fors.tiers.solve import solve_tiers
    from detour.control.fors.warm import warm_tiers

    fabric = tiers_of(options)
    with shown_progress(options.json) as progress:
        progress("loading native code")
        warm_tiers()
        if getattr(options, "keep", None) is not None:
            return _keep(options, fabric)
        failed = len(fabric.failed_low) + len(fabric.failed_high)
        progress(f"planning {fabric.servers} servers on {fabric.name} with {failed} failed links")
        plan = solve_tiers(fabric, skip_unreachable=options.skip_unreachable)
    return _finish(options, plan)


def _keep(options: argparse.Namespace, fabric: FatTree3) -> int:
    """An older plan on the fabric as it is now."""
    from detour.control.fors.tiers.files import read_tiers
    from detour.control.fors.tiers.keeping import kept
    from detour.control.fors.tiers.verify import tier_problems

    if fabric.unreachable():
        raise DetourError("a plan cannot be kept where leaves have no way to each other: plan without --keep")
    old = read_tiers(replace(fabric, failed_low=frozenset(), failed_high=frozenset()), options.keep)
    for text in tier_problems(old, most=1):
        raise DetourError(f"{options.keep} is no plan for {fabric.name} with {fabric.servers} servers: {text}")
    plan, moved, anew = kept(old, fabric)
    return _finish(options, plan, moved, anew)


def verify(options: argparse.Namespace) -> int:
    """Checks a file; 1 if it is not right."""
    from detour.control.fors.tiers.files import read_tiers

    fabric = tiers_of(options)
    return _finish(options, read_tiers(fabric, options.file))


def _finish(options: argparse.Namespace, plan: TierPlan, moved: int | None = None, anew: bool = False) -> int:
    from detour.control.fors.tiers.files import write_tiers
    from detour.control.fors.tiers.verify import tier_problems

    begin = time.perf_counter()
    found = tier_problems(plan)
    seconds = replace(plan.seconds, verify=time.perf_counter() - begin)
    if getattr(options, "out", None) is not None:
        write_tiers(plan, options.out)
    planned = _PlannedTiers(
        fabric=plan.fabric.name,
        servers=plan.fabric.servers,
        failed=plan.fabric.failed_names(),
        flows=len(plan.phase),
        phases=plan.phases,
        bound=plan.lower_bound,
        lower_bound=plan.lower_bound,
        optimal=plan.optimal and not found,
        gap=plan.phases - plan.lower_bound,
        method=plan.method,
        verified=not found,
        problems=found,
        unreachable=[list(pair) for pair in plan.parted],
        seconds=seconds,
    )
    if moved is not None:
        planned = _KeptTiers(**vars(planned), moved=moved, anew=anew)
    present(planned, options, lambda page: page.table(_told(planned)))
    return 1 if found else 0


def _told(plan: _PlannedTiers) -> Table[tuple[str, str]]:
    proven = "optimal (proven)" if plan.optimal else f"not proven optimal, {plan.gap} above"
    seconds = ", ".join(f"{name} {1000 * value:.1f} ms" for name, value in vars(plan.seconds).items())
    rows = [
        ("fabric", f"{plan.fabric}, {plan.servers} servers, {len(plan.failed)} failed links"),
        ("phases", f"{plan.phases} (at least {plan.bound} are needed: {proven})"),
        ("flows", f"{plan.flows:,}"),
        ("method", plan.method),
        ("verified", "yes" if plan.verified else "NO"),
        ("took", seconds),
        *(
            [("moved", f"{plan.moved:,} flows" + (" (planned anew)" * plan.anew))]
            if isinstance(plan, _KeptTiers)
            else []
        ),
    ]
    if plan.unreachable:
        rows.append(("left out", ", ".join(f"leaves {u} and {v}" for u, v in plan.unreachable)))
    rows += [("problem", text) for text in plan.problems]
    return Table((left("what", lambda row: row[0]), left("found", lambda row: row[1])), rows)
