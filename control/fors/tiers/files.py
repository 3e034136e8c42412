# SPDX-License-Identifier: Apache-2.0
"""Plans of three levels as CSV: `phase,src,dst,agg,core`; what a flow does not use is empty."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.control.fors.files import write_rows
from detour.control.fors.tiers.fabric import FatTree3
from detour.control.fors.tiers.solve import TierPlan, tier_bound

TIER_HEADER = ["phase", "src", "dst", "agg", "core"]


def write_tiers(plan: TierPlan, path: Path) -> None:
    """Writes a plan.

    Raises:
        DetourError: the file cannot be written.
    """
    columns = [plan.phase, plan.src, plan.dst, plan.plane, plan.core]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    write_rows(path, TIER_HEADER, (("" if value < 0 else str(value) for value in row) for row in rows))


def read_tiers(fabric: FatTree3, path: Path) -> TierPlan:
    """A plan from a file, with its bound; phases are as many as it uses. Leaves without a way are left out.

    Raises:
        DetourError: the file cannot be read, or a line is not of that form.
    """
    lines = list(csv.reader(read_text(path).splitlines()))
    if not lines or lines[0] != TIER_HEADER:
        raise DetourError(f"{path}: line 1 is not {','.join(TIER_HEADER)}")
    rows = [_row(path, number, line) for number, line in enumerate(lines[1:], start=2)]
    table = np.array(rows, np.int32).reshape(-1, len(TIER_HEADER))
    numbers, phase = np.unique(table[:, 0], return_inverse=True)
    columns = (table[:, 1], table[:, 2], table[:, 3], table[:, 4])
    plan = TierPlan(fabric, len(numbers), phase.astype(np.int32), *columns)
    return replace(plan, lower_bound=tier_bound(fabric), parted=tuple(fabric.unreachable()))


def _row(path: Path, number: int, line: list[str]) -> list[int]:
    if len(line) != len(TIER_HEADER):
        raise DetourError(f"{path}:{number}: {len(line)} values instead of {len(TIER_HEADER)}")
    found = []
    for name, text in zip(TIER_HEADER, line, strict=True):
        empty = not text and name in TIER_HEADER[3:]
        if not empty and not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise DetourError(f"{path}:{number}: {name} {text!r} is not a number")
        found.append(-1 if empty else int(text))
    return found
