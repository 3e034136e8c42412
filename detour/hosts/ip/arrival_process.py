# SPDX-License-Identifier: Apache-2.0
"""Times and sizes of what a UDP flow sends: constant rate, Poisson, on and off; sizes fixed or drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.quantities import number_of
from detour.hosts.draws import BELOW
from detour.hosts.ip import layout

_MODES = {"constant": layout.CONSTANT, "poisson": layout.POISSON, "on-off": layout.ON_OFF}


@dataclass(frozen=True)
class Spacing:
    """`rate_bps`: of payload, on average (of `on-off`: while it is on). `size`: bytes of payload, unless `sizes` says
    with which probability a packet has how many. `mode`: `constant`, `poisson`, or `on-off`, with exponentially
    distributed times of both."""

    rate_bps: float
    size: int = 1000
    sizes: tuple[tuple[int, float], ...] = ()
    mode: str = "constant"
    on_ps: int = 0
    off_ps: int = 0

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise DetourError(f"a flow is {', '.join(_MODES)}, not {self.mode!r}")
        if not self.rate_bps >= 1:
            raise DetourError(f"a flow of {self.rate_bps:g} bit/s; expected at least 1")
        if self.mode == "on-off" and (self.on_ps < 1 or self.off_ps < 1):
            raise DetourError("an on-off flow needs its mean on and off times")

    @property
    def number(self) -> int:
        """The mode's number in native code."""
        return _MODES[self.mode]

    @property
    def longest(self) -> int:
        """Bytes of its longest payload."""
        return max((size for size, _ in self.sizes), default=self.size)

    def table(self) -> np.ndarray:
        """Sizes with the numbers below which they are drawn; empty if all have the same."""
        if not self.sizes:
            return np.zeros(0, layout.SizeRecord.dtype)
        total = sum(share for _, share in self.sizes)
        table = np.zeros(len(self.sizes), layout.SizeRecord.dtype)
        table["bytes"] = [size for size, _ in self.sizes]
        table["below"] = np.round(np.cumsum([share for _, share in self.sizes]) / total * BELOW)
        table["below"][-1] = BELOW
        return table


def read_sizes(path: Path) -> tuple[tuple[int, float], ...]:
    """Sizes with their probabilities from a file of a distribution: a line a size, bytes and the probability of at most
    so many (`512 0.4`), rising, the last one 1. Raises DetourError if the file cannot be read, or a line is none of
    these; named with its number."""
    sizes: list[tuple[int, float]] = []
    before, size_before = 0.0, -1
    for number, line in enumerate(read_text(path).splitlines(), 1):
        fields = line.split("#")[0].replace(",", " ").split()
        if not fields:
            continue
        try:
            size, up_to = number_of(fields[0].removesuffix("B")), number_of(fields[-1])
        except DetourError:
            raise DetourError(f"{path}:{number}: {line.strip()!r} is not bytes and a probability") from None
        if len(fields) not in (2, 3) or size < 0 or size != int(size) or size <= size_before:
            raise DetourError(f"{path}:{number}: expected increasing whole numbers of bytes, each with a probability")
        if not before <= up_to <= 1:
            raise DetourError(
                f"{path}:{number}: probabilities must increase to 1; here {before:g} is followed by {up_to:g}"
            )
        if up_to > before:
            sizes.append((int(size), up_to - before))
        before, size_before = up_to, int(size)
    if before != 1:
        raise DetourError(f"{path}: the last probability is {before:g}, not 1")
    return tuple(sizes)
