# SPDX-License-Identifier: Apache-2.0
"""Fixed-point numbers of qcn.p4: what the control plane writes for the paper's real ones, and how far off they are.

* Probabilities have 24 bits behind the point. A decrease is rounded down by less than 2^-24, plus what the rounding of
  L_f / n to 32 bits makes of it: less than p * n * Fb * 2^-33, below 2^-22 for 16 ports. A_i is off by at most 2^-25.
* Fb is quantised exactly: floor(63 * x / ((2w + 1) * Q_eq)) for every x up to (2w + 1) * Q_eq < 2^20 bytes, since the
  reciprocal has 40 bits and is rounded up.

`tests/unit/control/test_qcn_numbers.py` holds the compiled program against exact fractions.
"""

from __future__ import annotations

from detour.base.errors import DetourError

ONE = 1 << 24
"""Probability 1."""
LEVELS = 63
"""The highest Fb that six bits hold."""
SCALE_BITS = 40
DECREASE_BITS = 32
MOST_BYTES = 1 << 20


def fb_max(q_eq: int, w: int) -> int:
    """The Fb, in bytes, that becomes 63: (2w + 1) * Q_eq.

    Raises:
        DetourError: it does not fit.
    """
    found = (2 * w + 1) * q_eq
    if q_eq < 1 or not 0 <= w < 16 or found >= MOST_BYTES:
        raise DetourError(
            f"congestion points: Q_eq={q_eq} bytes, w={w}: (2w + 1) * Q_eq must be 1 to {MOST_BYTES - 1} bytes"
        )
    return found


def scale(fb_max: int) -> int:
    """What Fb in bytes is multiplied with to become 63 at `fb_max`, times 2^40, rounded up."""
    return -(-LEVELS * (1 << SCALE_BITS) // fb_max)


def decrease(limit: float, ports: int) -> int:
    """L_f / n, times 2^32."""
    return round(limit / ports * (1 << DECREASE_BITS))


def increase(fraction: float) -> int:
    """A_i as a probability."""
    return round(fraction * ONE)
