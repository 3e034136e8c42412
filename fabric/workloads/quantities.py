# SPDX-License-Identifier: Apache-2.0
"""Numbers of bytes and times as people write them in names of workloads and in files."""

from __future__ import annotations

import re
from typing import Any

from detour.base.errors import DetourError
from detour.base.times import MS, NS, US

_UNITS = {"ps": 1, "ns": NS, "us": US, "ms": MS, "s": 1000 * MS}
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ps|ns|us|ms|s)", re.ASCII)
_LONGEST_PS = 1 << 60
_FACTORS = {"k": 10**3, "M": 10**6, "G": 10**9}


def duration_ps(value: Any, what: str) -> int:
    """`10us`, `2.5ms`; 0 needs no unit.

    Raises:
        DetourError: it is something else, or longer than 13 days.
    """
    text = str(value).strip()
    if text == "0":
        return 0
    found = _TIME.fullmatch(text)
    if found is None:
        raise DetourError(f"{what} is {text!r:.40}; wanted is a time with its unit, like 10us (ps, ns, us, ms, s)")
    time = round(float(found[1]) * _UNITS[found[2]])
    if time > _LONGEST_PS:
        raise DetourError(f"{what} is {text}; at most 2**60 ps are possible")
    return time


def whole_bytes(value: Any, what: str, most: int) -> int:
    """`1000000`, `1e6`, `64k` or `1MB`; k, M and G are powers of 1000.

    Raises:
        DetourError: it is no whole number from 1 to `most`.
    """
    text = str(value).strip()
    factor = _FACTORS.get(text.removesuffix("B")[-1:], 1)
    plain = text.removesuffix("B")[:-1] if factor > 1 else text
    try:
        number = factor * float(plain) if not plain.isdecimal() else factor * int(plain[:20])
    except ValueError:
        number = 0
    if number != number or not 1 <= number <= most or number != int(number):
        raise DetourError(f"{what} is {text!r:.40}; it must be a whole number from 1 to {most}, like 1000000 or 1e6")
    return int(number)
