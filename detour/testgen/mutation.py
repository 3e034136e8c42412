# SPDX-License-Identifier: Apache-2.0
"""Packets like those of tests, changed at random, thousands at a time on the engine: a look at the counters of coverage
tells whether one of them reaches something new."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from detour.base.arrays import BoolArray
from detour.engine.compiler.model import objects
from detour.engine.compiler.program import Program
from detour.testgen.switch import TestSwitch
from detour.testgen.testcase import Packet, Test

_BATCH = 512
_MOST_CHANGES, _MOST_TRIED = 4, 4
_LONGER = (0, 0, 4, 20, 40, 64, 128)
"""bytes that are put behind the packet: headers that it does not have yet"""
_COPIED = (2, 4, 6, 8)
"""bytes that are put in another place too: lists of segments, stacks of labels"""
_CUTS = (64, 16, 4, 1)
_LEAST = 14
"""bytes of a frame with an Ethernet header: interfaces send none that is shorter"""


class Mutator:
    """Changes packets and looks what they reach. A context manager."""

    def __init__(self, program: Program, seed: int) -> None:
        self._switch = TestSwitch(program, sinks=False)
        self._counts = program.coverage
        self._tried = np.zeros(len(self._counts), int)
        """how many tests have been made for each site: they may not reach it alone"""
        self._random = random.Random(seed)
        values = (each.get("value") for each in objects(program.json))
        digits = {each[2:] for each in values if isinstance(each, str) and each.startswith("0x")}
        self._constants = sorted({b"\0\0", *(bytes.fromhex(each.zfill(len(each) + len(each) % 2)) for each in digits)})
        """what packets are compared with"""

    def like(self, test: Test, wanted: Callable[[], BoolArray]) -> Iterator[Test]:
        """Tests with the same entries and another last packet, for each place that is wanted and that one reaches; as
        long as there are such. `wanted`: the sites of coverage that are, at any time."""
        *before, last = test.packets
        self._switch.play("\n".join([*test.setup(), *(line for packet in before for line in packet.stf(False))]))
        going_on = True
        while going_on:
            going_on = False
            frames, port = self._mutants(last.frame), last.port
            while (sites := np.flatnonzero(self._reached(frames, port) & wanted() & (self._tried < _MOST_TRIED))).size:
                self._tried[sites[0]] += 1
                frame = self._shortest(self._first(frames, port, sites[0]), port, sites[0])
                if frame:
                    going_on = True
                    yield replace(test, packets=(*before, Packet(port, frame)), covers=[])

    def _reached(self, frames: list[bytes], port: int) -> BoolArray:
        """Whether each site is reached by one of these packets."""
        before = self._counts.copy()
        self._switch.send(frames, port)
        reached = self._counts > before
        self._counts[:] = before
        return reached

    def _first(self, frames: list[bytes], port: int, site: Any) -> bytes:
        """The first packet that reaches a site."""
        while len(frames) > 1:
            half = frames[: len(frames) // 2]
            frames = half if self._reached(half, port)[site] else frames[len(half) :]
        return frames[0]

    def _shortest(self, frame: bytes, port: int, site: Any) -> bytes:
        """The packet without what is not needed at its end; nothing if it does not reach the site any more, as it is
        another state in which it did."""
        if not self._reached([frame], port)[site]:
            return b""
        for cut in _CUTS:
            while len(frame) >= _LEAST + cut and self._reached([frame[:-cut]], port)[site]:
                frame = frame[:-cut]
        return frame

    def _mutants(self, frame: bytes) -> list[bytes]:
        choose = self._random
        longer = frame + bytes(choose.choice(_LONGER))
        frames = []
        for _ in range(_BATCH):
            mutant = bytearray(longer)
            for _ in range(choose.randint(1, _MOST_CHANGES)):
                at, of = choose.randrange(len(mutant)), choose.randrange(len(mutant))
                copied = bytes(mutant[of : of + choose.choice(_COPIED)])
                new = choose.choice((choose.choice(self._constants), copied, self._changed(mutant[at])))
                mutant[at : at + len(new)] = new[: len(mutant) - at]
            frames.append(bytes(mutant))
        return frames

    def _changed(self, byte: int) -> bytes:
        choose = self._random
        others = (byte ^ 1 << choose.randrange(8), byte + 1 & 0xFF, byte - 1 & 0xFF, choose.randrange(256))
        return bytes([choose.choice(others)])

    def __enter__(self) -> Mutator:
        return self

    def __exit__(self, *exc: object) -> None:
        self._switch.network.stop()
