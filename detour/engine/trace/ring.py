# SPDX-License-Identifier: Apache-2.0
"""The memory that traced code and Python share: one ring for all switches, and a control block for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.engine.compiler import tracing as words
from detour.engine.compiler.program import Program
from detour.engine.compiler.tracing import CONTROL_WORDS, OVERFLOW_WORDS, RING_HEAD
from detour.engine.loop.layout import PORTS_PER_SWITCH
from detour.engine.trace.matching import match_address

RING_BYTES = 16 << 20
_LEAST_BYTES = 1 << 16


class Ring:
    """Records, one behind the other, until `take` empties it."""

    def __init__(self, size_bytes: int = RING_BYTES) -> None:
        """`size_bytes`: what records may take. Packets that come while it is half full are counted and not traced.
        Raises DetourError if that is too little."""
        if size_bytes < _LEAST_BYTES:
            raise DetourError(f"{size_bytes} bytes for traces; the minimum is {_LEAST_BYTES}")
        capacity = size_bytes // 8
        self._memory = np.zeros(RING_HEAD + capacity + OVERFLOW_WORDS, np.int64)
        self._filter = np.zeros(1, np.int64)
        self._memory[words.CAPACITY] = capacity
        self._memory[words.NEXT_ID] = 1
        self.set_filter(self._filter)

    @property
    def address(self) -> int:
        """For control blocks."""
        return self._memory.ctypes.data

    @property
    def missed(self) -> int:
        """Packets that the filter wanted and for which there was no room."""
        return int(self._memory[words.MISSED])

    @property
    def lost(self) -> int:
        """Records for which there was no room, of packets that were being traced."""
        return int(self._memory[words.LOST_RECORDS])

    @property
    def begun(self) -> int:
        return int(self._memory[words.NEXT_ID]) - 1

    @property
    def used(self) -> float:
        """Fill level, 0 to 1; from a half on packets are missed."""
        return float(self._memory[words.USED]) / float(self._memory[words.CAPACITY])

    def allow(self, traces: int) -> None:
        """Let that many more packets be traced."""
        self._memory[words.LAST_ID] = self._memory[words.NEXT_ID] + traces - 1

    def set_filter(self, conditions: Int64Array) -> None:
        """Set the words of `filters.Filter.words`."""
        self._filter = conditions
        self._memory[words.FILTER] = conditions.ctypes.data

    def take(self) -> Int64Array:
        """Return the records and empty the ring. Only while no packet is in the middle of a function."""
        used = int(self._memory[words.USED])
        records = self._memory[RING_HEAD : RING_HEAD + used].copy()
        self._memory[words.USED] = 0
        return records


class TraceControl:
    """A switch's control block."""

    def __init__(self, ring: Ring, number: int, plain: Program, first_form: int) -> None:
        """`number`: what records call the switch; `first_form`: of the forms of its traced program."""
        self._words = np.zeros(CONTROL_WORDS, np.int64)
        self._choices = np.zeros(1, np.int64)
        self._words[words.RING_ADDRESS] = ring.address
        self._words[words.MATCH] = match_address()
        self._words[words.PLAIN_PARSE] = plain.parse_addr
        self._words[words.PLAIN_INGRESS] = plain.ingress_addr
        self._words[words.PLAIN_EGRESS] = plain.egress_addr
        self._words[words.PLAIN_DEPARSE] = plain.deparse_addr
        self._words[words.SWITCH_NUMBER] = number
        self._words[words.FIRST_FORM] = first_form

    @property
    def address(self) -> int:
        """For the state block's slot TRACE."""
        return self._words.ctypes.data

    def follow(self, marks: np.ndarray, pool_bytes: int, pool_stride: int, inner_ports: Sequence[int]) -> None:
        """Recognise packets that another switch traced, by `marks`, one int32 for each slot of the pool.
        `inner_ports`: those by which packets come from switches."""
        self._inner = np.zeros(PORTS_PER_SWITCH, np.uint8)
        self._inner[list(inner_ports)] = 1
        self._words[words.INNER_PORTS] = self._inner.ctypes.data
        self._words[words.MARKS] = marks.ctypes.data
        self._words[words.POOL_BYTES] = pool_bytes
        self._words[words.POOL_STRIDE] = pool_stride

    def choose(self, choices: Sequence[int]) -> None:
        """Set what the next choices (members, hashes, random numbers) of packets in this switch come to; those behind
        are natural."""
        self._choices = np.array([*choices, 0], np.int64)
        self._words[words.CHOICE_LIST] = self._choices.ctypes.data
        self._words[words.CHOICES] = len(choices)
        self._words[words.CHOICES_MADE] = 0
