# SPDX-License-Identifier: Apache-2.0
"""Times and rates as Mininet, `tc` and ns-3 understand them in labs."""

from __future__ import annotations

import re

from detour.base.errors import DetourError

_TIMES_PS = {"": 10**6, "us": 10**6, "usec": 10**6, "ms": 10**9, "msec": 10**9, "s": 10**12, "sec": 10**12,
             "ns": 10**3, "usecs": 10**6, "msecs": 10**9, "secs": 10**12}  # fmt: skip
_RATES = {"bps": 1, "b/s": 1, "kbps": 10**3, "kb/s": 10**3, "mbps": 10**6, "mb/s": 10**6, "gbps": 10**9,
          "gb/s": 10**9}  # fmt: skip
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*([a-z/]*)\s*", re.IGNORECASE)
MOST_DELAY_PS, MOST_RATE_BPS = 10**13, 10**13


def _scaled(text: str, units: dict[str, int]) -> float | None:
    """A number times its unit; None: it is none, or there is no such unit."""
    match = _NUMBER.fullmatch(text)
    factor = units.get(match[2].lower()) if match else None
    return None if match is None or factor is None else float(match[1]) * factor


def tc_time_ps(text: str, where: str) -> int:
    """A time as `tc` takes it: without a unit microseconds. Raises DetourError: it is none, or longer than 10 s."""
    value = _scaled(text, _TIMES_PS)
    if value is None or value > MOST_DELAY_PS:
        raise DetourError(f"{where}: {text!r} is not a delay of at most 10 s, like 5ms (a number alone: microseconds)")
    return round(value)


def mbps_bps(value: float, where: str) -> int:
    """A bandwidth in Mb/s, which Mininet's links have. Raises DetourError: it is none that a link can have."""
    if not 0 < value * 1e6 <= MOST_RATE_BPS or value * 1e6 < 1:
        raise DetourError(f"{where}: a bandwidth of {value} Mb/s; expected a number above 0, at most 10000000")
    return round(value * 1e6)


def ns3_rate_bps(text: str, where: str) -> int:
    """A rate as ns-3 writes it: `1000Mbps`, `10Gbps`. Raises DetourError: it is none."""
    value = _scaled(text, _RATES)
    if value is None or not 1 <= value <= MOST_RATE_BPS:
        raise DetourError(f"{where}: {text!r} is not a rate, like 1000Mbps or 10Gbps")
    return round(value)


def loss_of_percent(value: float, where: str) -> float:
    """A loss as Mininet's links have it, in percent, as a fraction. Raises DetourError: it is none."""
    if not 0 <= value <= 100:
        raise DetourError(f"{where}: a loss of {value}; expected 0 to 100, in percent")
    return value / 100
