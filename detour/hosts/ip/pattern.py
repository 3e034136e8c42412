# SPDX-License-Identifier: Apache-2.0
"""The pattern of payloads, whose checksums are known before.

Byte n of a stream is byte n mod `PERIOD` of the pattern. `g.sums` holds the sums of its beginnings, so that a sender
knows the sum of any piece without reading it; receivers add up what has come.
"""

from __future__ import annotations

import numpy as np

from detour.base.jit import inner
from detour.base.memory import compare_bytes, load32, move_bytes
from detour.hosts.frames.checksum import fold, swapped
from detour.hosts.ip.layout import LONGEST_FRAME, PERIOD, StackGlobals


def make_pattern(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The pattern, as long as a period and the longest frame, and the sums of its beginnings."""
    period = np.random.default_rng(seed).integers(0, 256, PERIOD, np.uint8)
    length = PERIOD + LONGEST_FRAME
    pattern = np.resize(period, length)
    weighted = pattern.astype(np.int64) << np.where(np.arange(length) % 2 == 0, 8, 0)
    return pattern, np.concatenate([np.zeros(1, np.int64), np.cumsum(weighted)]).astype(np.int32)


@inner()
def put_pattern(g: StackGlobals, address: int, place: int, length: int) -> None:
    """Write the bytes of a stream from `place` on."""
    move_bytes(address, g.pattern + place % PERIOD, length)


@inner()
def pattern_sum(g: StackGlobals, place: int, length: int) -> int:
    """Sum of the bytes of a stream from `place` on, at an even place of the packet."""
    first = place % PERIOD
    total = load32(g.sums + 4 * (first + length)) - load32(g.sums + 4 * first)
    return swapped(fold(total)) if first & 1 else total


@inner()
def is_pattern(g: StackGlobals, address: int, place: int, length: int) -> bool:
    """Return whether bytes are those of a stream from `place` on."""
    return compare_bytes(address, g.pattern + place % PERIOD, length) == 0
