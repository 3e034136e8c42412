# SPDX-License-Identifier: Apache-2.0
"""Numbers, sizes, times and rates as people write them: `64k`, `1e6`, `4MB`, `10us`, `1.5ms`, `100G`, `25Gb/s`. What
options, parameters and files of detour's own say is read here."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from detour.base.errors import DetourError

_NUMBER = re.compile(r"(?P<value>-?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?)\s*(?P<unit>[A-Za-z/]*)", re.IGNORECASE)
_HEXADECIMAL = re.compile("0x[0-9a-f]{1,12}", re.IGNORECASE)
_THOUSANDS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMES_PS = {"s": 10**12, "ms": 10**9, "us": 10**6, "ns": 10**3, "ps": 1}
_LONGEST_PS = 10**16
_LARGEST = 10**12


def _number(text: str, what: str, example: str, read: Callable[[float, str], float | None]) -> float:
    """Return the number that `read` makes of a number and its unit. `read` returns None if they are not `what`."""
    match = _NUMBER.fullmatch(text.strip())
    value = float(match["value"]) if match else math.nan
    number = read(value, match["unit"]) if match is not None and math.isfinite(value) else None
    if number is None or math.isnan(number):
        raise DetourError(f"{text!r} is not {what}, like {example}")
    return number


def bytes_of(text: str, least: int = 1) -> int:
    """A number of bytes, from `least` to 10**12: `1000`, `1e6`, `64k`, `1MB`; k, M and G are powers of 1000. Raises
    `DetourError`: it is none."""

    def read(value: float, unit: str) -> float | None:
        size = value * _THOUSANDS.get(unit.removesuffix("B"), 0)
        return size if least <= size <= _LARGEST and size == int(size) else None

    return int(_number(text, f"a number of bytes, {least} to 10**12", "64k or 1e6", read))


def time_ps_of(text: str, bare: str = "") -> int:
    """A time in picoseconds, up to 10,000 s: `10us`, `1.5ms`. `bare`: the unit of a number without one; if there is
    none, only 0 needs no unit. Raises `DetourError`: it is not a time."""

    def read(value: float, unit: str) -> float | None:
        if value == 0 and not unit:
            return 0
        time = value * _TIMES_PS.get(unit or bare, math.inf)
        return time if 0 <= time <= _LONGEST_PS else None

    units = f"in {bare}, or" if bare else "up to 10000s"
    return round(_number(text, f"a time {units} with its unit (s, ms, us, ns, ps)", "10us", read))


def time_or_never_of(text: str) -> int | None:
    """A time above 0 in picoseconds; None for `never`. Raises `DetourError`: it is neither."""
    time = None if text == "never" else time_ps_of(text)
    if time == 0:
        raise DetourError(f"{text!r} is neither a time above 0 nor never")
    return time


def rate_bps_of(text: str) -> int:
    """A rate in bits a second, from 10 kb/s to 10 Tb/s: `100G`, `25Gb/s`, `400Gbps`. Raises `DetourError`: it is
    none."""

    def read(value: float, unit: str) -> float | None:
        rate = value * _THOUSANDS.get(re.sub(r"(b/s|bps|bit/s)$", "", unit), 0)
        return rate if 10**4 <= rate <= 10**13 else None

    return round(_number(text, "a rate from 10k to 10T bits a second", "100G", read))


def fraction_of(text: str) -> float:
    """A fraction from 0 to 1: `0.5`, `1e-3`. Raises `DetourError`: it is none."""

    def read(value: float, unit: str) -> float | None:
        return value if not unit and 0 <= value <= 1 else None

    return _number(text, "a fraction from 0 to 1", "0.5", read)


def number_of(text: str) -> float:
    """A number: `0.5`, `1e6`, `2.5k`. Raises `DetourError`: it is none."""
    return _number(text, "a number", "0.5 or 1e6", lambda value, unit: value * _THOUSANDS.get(unit, math.nan))


def whole_number_of(text: str, most: int, least: int = 1) -> int:
    """A whole number from `least` to `most`: `1000000`, `1e6`, `1M`, `0xff`. Raises `DetourError`: it is none."""

    def read(value: float, unit: str) -> float | None:
        number = value * _THOUSANDS.get(unit, math.nan)
        return number if least <= number <= most and number == int(number) else None

    decimal = str(int(text, 16)) if _HEXADECIMAL.fullmatch(text.strip()) else text
    return int(_number(decimal, f"a whole number from {least} to {most}", "1000000 or 1e6", read))


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
