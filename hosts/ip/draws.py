# SPDX-License-Identifier: Apache-2.0
"""Random numbers of a host (xorshift64, as in `hosts.nic`)."""

from __future__ import annotations

import numpy as np

from detour.base.jit import inner, int64
from detour.hosts.ip.layout import IpHostRecord

BELOW = 1 << 31
"""Draws are whole numbers from 0 to below this."""


@inner()
def draw(h: IpHostRecord) -> int:
    """The next number of a host."""
    x = h.rng
    x ^= x << 13
    x ^= (x >> 7) & 0x01FFFFFFFFFFFFFF
    x ^= x << 17
    h.rng = x
    return (x >> 16) & 0x7FFFFFFF


@inner()
def exponential(h: IpHostRecord, mean: int) -> int:
    """The next exponentially distributed number."""
    return int64(-np.log((draw(h) + 0.5) / BELOW) * mean)
