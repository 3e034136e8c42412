# SPDX-License-Identifier: Apache-2.0
"""`fors schedule`, `route` and `verify` on fat-trees of three levels."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.cli.fors_shown import FoundPlan, KeptPlan, checked, refuse, shown
from detour.cli.output import shown_progress

if TYPE_CHECKING:
    from detour.control.fors.tiers.fabric import FatTree3
    from detour.control.fors.tiers.solve import TierPlan

_TWO_LEVELS_ONLY = ("sizes", "skew")


@dataclass(frozen=True, kw_only=True)
class _PlannedTiers(FoundPlan):
    """As on two levels; `gap`: phases above the bound."""

    flows: int
    bound: int
    lower_bound: int
    gap: int


@dataclass(frozen=True, kw_only=True)
class _KeptTiers(KeptPlan, _PlannedTiers): ...


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
    refuse(tier_problems(old, most=1), options.keep, fabric)
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

    known = checked(options, plan, plan, tier_problems, write_tiers, plan.parted)
    planned = (_PlannedTiers if moved is None else _KeptTiers)(
        flows=len(plan.phase),
        bound=plan.lower_bound,
        lower_bound=plan.lower_bound,
        optimal=plan.optimal and known["verified"],
        gap=plan.phases - plan.lower_bound,
        **known,
        **({} if moved is None else {"moved": moved, "anew": anew}),
    )
    proven = "optimal (proven)" if planned.optimal else f"not proven optimal, {planned.gap} above"
    rows = [("phases", f"{planned.phases} (at least {planned.bound} are needed: {proven})")]
    return shown(options, planned, [*rows, ("flows", f"{planned.flows:,}")])
