# SPDX-License-Identifier: Apache-2.0
"""What `fors schedule`, `route` and `verify` tell of a plan for messages of one size. Loaded only when there is one."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from detour.cli.fors_shown import FoundPlan


@dataclass(frozen=True, kw_only=True)
class Planned(FoundPlan):
    """`reduction` and `paper_phases` are there on two levels, `gap` on three, `moved` and `anew` with `--keep`."""

    reduction: int | UnsetType = UNSET
    flows: int
    bound: int
    """phases that any plan needs, proven"""
    lower_bound: int
    """the same, by its older name"""
    paper_phases: int | UnsetType = UNSET
    """`phases` as the paper counts: a server's own part takes a phase too"""
    gap: int | UnsetType = UNSET
    """phases above the bound"""
    moved: int | UnsetType = UNSET
    anew: bool | UnsetType = UNSET
