# SPDX-License-Identifier: Apache-2.0
"""For experiments whose results are dicts: see `reproducing`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

CarryOut = Callable[[argparse.Namespace, str, list[dict[str, Any]]], dict[str, Any]]
"""computes the points of a sweep by its name, as the options say"""

_SHOWN = 10


def rest(
    console: Console, result: dict[str, Any], groups: Callable[[list[dict[str, Any]]], list[str]] | None = None
) -> None:
    """Failures and points left out; `groups` says in lines what these are where they are too many to be named."""
    from detour.experiments.reproduce import describe

    for failure in result["failures"]:
        console.print(f"failed: {describe(failure['point'])}: {failure['reason']}")
    left_out = sorted(result["left_out"], key=describe)
    if left_out:
        console.print(f"left out: {len(left_out)} points beyond the time of --quick (--json names them)")
        shown = groups(left_out) if groups else [describe(point) for point in left_out[:_SHOWN]]
        for line in shown:
            console.print(f"  {line}")
