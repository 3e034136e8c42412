# SPDX-License-Identifier: Apache-2.0
"""Sizes, times and rates as people write them: `64k`, `1e6`, `10us`, `1.5ms`, `100G`, `25Gb/s`."""

from __future__ import annotations

import math
import re

from detour.base.errors import DetourError

_NUMBER = re.compile(r"(?P<value>[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?)\s*(?P<unit>[A-Za-z/]*)", re.IGNORECASE)
_THOUSANDS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMES_PS = {"s": 10**12, "ms": 10**9, "us": 10**6, "ns": 10**3, "ps": 1}
_LONGEST_PS = 10**16
_LARGEST = 10**12


def _value(text: str, what: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text.strip())
    value = float(match["value"]) if match else math.nan
    if match is None or not math.isfinite(value):
        raise DetourError(f"{text!r} is not {what}, like {example}")
    return value, match["unit"]


def bytes_of(text: str) -> int:
    """A number of bytes, from 1 to 10**12: `1000`, `1e6`, `64k`, `1MB`; k, M and G are powers of 1000.

    Raises:
        DetourError: it is none.
    """
    what, example = "a number of bytes, 1 to 10**12", "64k or 1e6"
    value, unit = _value(text, what, example)
    factor = _THOUSANDS.get(unit.removesuffix("B"))
    if factor is None or not 1 <= value * factor <= _LARGEST or value * factor != int(value * factor):
        raise DetourError(f"{text!r} is not {what}, like {example}")
    return int(value * factor)


def time_ps_of(text: str) -> int:
    """A time in picoseconds, up to 10,000 s; what is not 0 needs a unit: `10us`, `1.5ms`.

    Raises:
        DetourError: it is none.
    """
    what, example = "a time up to 10000s with its unit (s, ms, us, ns, ps)", "10us"
    value, unit = _value(text, what, example)
    if value == 0 and not unit:
        return 0
    if unit not in _TIMES_PS or value * _TIMES_PS[unit] > _LONGEST_PS:
        raise DetourError(f"{text!r} is not {what}, like {example}")
    return round(value * _TIMES_PS[unit])


def rate_bps_of(text: str) -> int:
    """A rate in bits a second, from 10 kb/s to 10 Tb/s: `100G`, `25Gb/s`, `400Gbps`.

    Raises:
        DetourError: it is none.
    """
    what, example = "a rate from 10k to 10T bits a second", "100G"
    value, unit = _value(text, what, example)
    factor = _THOUSANDS.get(re.sub(r"(b/s|bps|bit/s)$", "", unit))
    if factor is None or not 10**4 <= value * factor <= 10**13:
        raise DetourError(f"{text!r} is not {what}, like {example}")
    return round(value * factor)


def fraction_of(text: str) -> float:
    """A fraction from 0 to 1: `0.5`, `1e-3`.

    Raises:
        DetourError: it is none.
    """
    value, unit = _value(text, "a fraction from 0 to 1", "0.5")
    if unit or value > 1:
        raise DetourError(f"{text!r} is not a fraction from 0 to 1, like 0.5")
    return value


def whole_number_of(text: str, most: int) -> int:
    """A whole number from 1 to `most`: `1000000`, `1e6`.

    Raises:
        DetourError: it is none.
    """
    what, example = f"a whole number from 1 to {most}", "1000000 or 1e6"
    value, unit = _value(text, what, example)
    if unit or not 1 <= value <= most or value != int(value):
        raise DetourError(f"{text!r} is not {what}, like {example}")
    return int(value)


def rate_text(bps: float) -> str:
    """`32 Gb/s`."""
    for unit in ("b/s", "kb/s", "Mb/s"):
        if bps < 1000:
            return f"{bps:.4g} {unit}"
        bps /= 1000
    return f"{bps:.4g} Gb/s"


def time_text(ps: float) -> str:
    """`12.3 us`."""
    for unit, size in _TIMES_PS.items():
        if abs(ps) >= size:
            return f"{ps / size:.4g} {unit}"
    return "0 s"
