# SPDX-License-Identifier: Apache-2.0
"""What native code of planners has in common."""

from __future__ import annotations

from typing import Any

from detour.base.jit import allocating


@allocating
def assign(target: Any, values: Any) -> None:
    """`target[: len(values)] = values`, of one dimension. Numba's own also compiles an error in words, which takes two
    seconds."""
    for i in range(len(values)):
        target[i] = values[i]
