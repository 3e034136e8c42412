# SPDX-License-Identifier: Apache-2.0
"""Cycles among channels that depend on one another (Dally and Seitz, 1987).

A channel is a link in one direction, column c of switch x, and a class l of packets on it. It depends on channels of
the switch behind the link only, so dependencies are an array (switches, width, classes, width, classes): channel
(x, c, l) depends on column d, class m of the switch behind (x, c).
"""

from __future__ import annotations

import numpy as np

from detour.base.arrays import BoolArray, Bools5, Int32Array, Int32s2, Int64s1, Int64s3
from detour.control.native import VERIFIER

Depends = BoolArray
"""dependencies as above"""


@VERIFIER.entry
def _strip(depends: Bools5, neighbour: Int32s2, degree: Int64s3, stack: Int64s1) -> int:
    """Remove channels on which nothing depends until none is left or every one is (Kahn); return how many remain.
    degree[x, c, l] becomes the number of remaining channels that depend on the channel, -1 if it was removed."""
    n, width, classes = degree.shape
    degree[:] = 0
    for x in range(n):
        for c in range(width):
            y = neighbour[x, c]
            if y >= 0:
                for k in range(classes):
                    for d in range(width):
                        for m in range(classes):
                            degree[y, d, m] += depends[x, c, k, d, m]
    top, left = 0, n * width * classes
    for i in range(left):
        if degree.flat[i] == 0:
            stack[top] = i
            top += 1
    while top:
        top -= 1
        k = stack[top] % classes
        x, c = stack[top] // classes // width, stack[top] // classes % width
        degree[x, c, k] = -1
        left -= 1
        y = neighbour[x, c]
        if y >= 0:
            for d in range(width):
                for m in range(classes):
                    if depends[x, c, k, d, m]:
                        degree[y, d, m] -= 1
                        if degree[y, d, m] == 0:
                            stack[top] = (y * width + d) * classes + m
                            top += 1
    return left


def cycle_of(depends: Depends, neighbour: Int32Array) -> tuple[tuple[int, int, int], ...]:
    """A cycle, () if there is none: channels (x, c, l), each depending on the next, the last on the first.

    `depends`: (switches, width, classes, width, classes); `neighbour`: (switches, width) switch behind a column, -1 for
    none."""
    n, width, classes = depends.shape[:3]
    neighbour = np.ascontiguousarray(neighbour)
    degree = np.zeros((n, width, classes), np.int64)
    if _strip(np.ascontiguousarray(depends), neighbour, degree, np.empty(degree.size, np.int64)) == 0:
        return ()
    # Every remaining channel has a remaining one that depends on it: walking backwards must come round.
    left = degree > 0
    before: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for x, c, k in np.argwhere(left).tolist():
        for d, m in np.argwhere(depends[x, c, k]).tolist():
            before.setdefault((int(neighbour[x, c]), d, m), (x, c, k))
    x, c, k = np.argwhere(left)[0].tolist()
    at, walk = (x, c, k), dict[tuple[int, int, int], int]()
    while at not in walk:
        walk[at] = len(walk)
        at = before[at]
    return tuple(reversed(list(walk)[walk[at] :]))
