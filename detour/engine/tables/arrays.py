# SPDX-License-Identifier: Apache-2.0
"""Indexed state: counters, meters, registers, parser value sets."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Self

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler.layout import container
from detour.engine.compiler.slots import METER_WORDS
from detour.engine.tables.errors import TableError, TableFull

_WORD = (1 << 64) - 1
_MOST = (1 << 63) - 1
_PS = 10**12
_FINEST = 10**6
"""Rates of meters are kept to a millionth of a token a second."""


def _check(name: str, index: int, size: int) -> int:
    if not 0 <= index < size:
        raise TableError(f"{name}: index {index} is not in 0..{size - 1}")
    return index


class _Copied:
    """An object with one array of numbers, the attribute named in `_NUMBERS`."""

    _NUMBERS = "values"

    def snapshot(self) -> Self:
        other = copy(self)
        setattr(other, self._NUMBERS, getattr(self, self._NUMBERS).copy())
        return other

    @property
    def snapshot_bytes(self) -> int:
        return getattr(self, self._NUMBERS).nbytes


class CounterArray(_Copied):
    """Packets and bytes for each index; BMv2 always counts both. Bytes are those that came in."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.values: NDArray[np.uint64] = np.zeros((size, 2), dtype=np.uint64)

    def read(self, index: int) -> tuple[int, int]:
        """(packets, bytes)."""
        packets, octets = self.values[_check(self.name, index, self.size)]
        return int(packets), int(octets)

    def write(self, index: int, packets: int, octets: int) -> None:
        self.values[_check(self.name, index, self.size)] = (packets & _WORD, octets & _WORD)

    def reset(self) -> None:
        self.values[:] = 0


@dataclass(frozen=True, slots=True)
class MeterRates:
    """Committed and peak rate, a second, and bursts: packets or bytes, whichever the meter counts."""

    cir: float
    cburst: int
    pir: float
    pburst: int


class MeterArray(_Copied):
    """Two-rate three-colour markers (RFC 2698 in BMv2's reading: token counters over integer ticks). Tokens are counted
    exactly, as RFC 2698 adds them one by one: by time t there were floor(t * rate) of them."""

    _NUMBERS = "rows"

    def __init__(self, name: str, size: int, unit: str, tick_ps: int) -> None:
        self.name, self.size, self.unit = name, size, unit
        self._tick_ps = tick_ps
        self.rows: NDArray[np.uint64] = np.zeros((size, METER_WORDS), dtype=np.uint64)

    def configure(self, index: int, config: MeterRates | None) -> None:
        """Set the rates, or with None goes back to the state in which every packet is green."""
        row = self.rows[_check(self.name, index, self.size)]
        if config is None:
            row[:] = 0
            return
        if config.cir > config.pir or min(config.cir, config.cburst, config.pburst) < 0:
            raise TableError(f"{self.name}: rates must not be negative and cir not above pir: {config}")
        peak, committed, ticks = self._in_ticks(config)
        row[:] = (
            *(1, ticks, peak, config.pburst, config.pburst, 0),
            *(committed, config.cburst, config.cburst, 0),
        )

    def _in_ticks(self, config: MeterRates) -> tuple[int, int, int]:
        """Peak and committed tokens in a number of ticks, and that number: integers as small as they can be."""
        peak, committed = (round(Fraction(rate) * _FINEST) * self._tick_ps for rate in (config.pir, config.cir))
        ticks = _FINEST * _PS
        common = gcd(peak, committed, ticks)
        return min(peak // common, _MOST), min(committed // common, _MOST), ticks // common

    def config(self, index: int) -> MeterRates | None:
        """The rates that were set, None if none were."""
        row = [int(word) for word in self.rows[_check(self.name, index, self.size)]]
        configured, ticks, peak, pburst, _, _, committed, cburst = row[:8]
        if not configured:
            return None
        seconds = ticks * self._tick_ps / _PS
        return MeterRates(round(committed / seconds, 6), cburst, round(peak / seconds, 6), pburst)

    def resize(self, size: int) -> None:
        """Grow (direct meters follow their table)."""
        rows = np.zeros((size, METER_WORDS), dtype=np.uint64)
        rows[: len(self.rows)] = self.rows
        self.rows, self.size = rows, size


class RegisterArray(_Copied):
    """Registers of any width, unsigned as in BMv2."""

    _NUMBERS = "memory"

    def __init__(self, name: str, size: int, bits: int) -> None:
        self.name, self.size, self.bits = name, size, bits
        self.item = container(bits)
        self.memory: NDArray[np.uint8] = np.zeros(size * self.item, dtype=np.uint8)

    def address(self, index: int) -> int:
        """Return where the value is in memory (little endian, `item` bytes)."""
        return self.memory.ctypes.data + _check(self.name, index, self.size) * self.item

    def read(self, index: int) -> int:
        at = _check(self.name, index, self.size) * self.item
        return int.from_bytes(self.memory[at : at + self.item].tobytes(), "little")

    def write(self, index: int, value: int) -> None:
        """Set the value, cut to the register's width."""
        at = _check(self.name, index, self.size) * self.item
        data = (value & ((1 << self.bits) - 1)).to_bytes(self.item, "little")
        self.memory[at : at + self.item] = np.frombuffer(data, dtype=np.uint8)

    def values(self) -> list[int]:
        if self.item <= 8:
            return self.memory.view(f"<u{self.item}").tolist()
        return [self.read(i) for i in range(self.size)]

    def reset(self) -> None:
        self.memory[:] = 0


class ValueSet:
    """A parser value set. A value is one integer: the key's components side by side, first on the left."""

    def __init__(self, name: str, bits: int, max_size: int, sw: NDArray[np.int64], slot: int) -> None:
        self.name, self.bits, self.max_size = name, bits, max_size
        self._sw, self._slot = sw, slot
        self._words = (bits + 63) // 64
        self.values: tuple[int, ...] = ()
        self.replace(())

    def snapshot(self) -> ValueSet:
        """A copy to be read; members are replaced as a whole."""
        return copy(self)

    @property
    def snapshot_bytes(self) -> int:
        return len(self.values) * 8 * self._words

    def replace(self, values: Iterable[int]) -> None:
        unique = tuple(dict.fromkeys(values))
        if self.max_size and len(unique) > self.max_size:
            raise TableFull(f"{self.name}: {len(unique)} values, the set holds {self.max_size}")
        for v in unique:
            if v < 0 or v >> self.bits:
                raise TableError(f"{self.name}: {v:#x} does not fit {self.bits} bits")
        data = b"".join(v.to_bytes(8 * self._words, "little") for v in unique) or bytes(8)
        self._array = np.frombuffer(bytearray(data), dtype=np.uint64)
        self.values = unique
        self._sw[self._slot] = self._array.ctypes.data
        self._sw[self._slot + 1] = len(unique)
