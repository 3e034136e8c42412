# SPDX-License-Identifier: Apache-2.0
"""Mutations of frames of the hosts: bits, lengths, parts of other frames, fields with values that are nearly right."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.fuzz.hosts_model import seal, udp_at

# (bytes from the beginning of UDP, width) of what is worth aiming at, by the length of what follows UDP
_BTH = [(8, 1), (9, 1), (12, 4), (16, 1), (17, 3)]
_RETH = [(20, 8), (28, 4), (32, 4), (36, 4)]
_SACK = [(20, 1), (21, 3), (24, 1), (25, 3), (28, 1), (29, 3), (32, 4), (36, 8)]
_PROBE = [(8, 4), (12, 4), (16, 4), (20, 4), (24, 2)]
_STEPS = (-1 << 23, -65, -64, -49, -48, -32, -3, -2, -1, 1, 2, 3, 32, 48, 63, 64, 65, 1 << 23)
_OPTIONS = (
    *(b"\x3e\x04\0\0\0\x09", b"\x3e\x04\xff\xff\xff\xff", b"\x3e\x05\0\0\0\0", b"\x3e\x03\0\0\0\0"),
    *(b"\x01\x04\0\0\0\0", b"\0\0\0\0\0\0", b"\0\0\0\x3e\x02\0", b"\0\0\0\0\0\x3e"),
)
_ENDS = (0, 1, 0x1F, 0x20, 0x60, 0x62, 0x7F, 0x80, 0xFF)


class Mutator:
    """Makes mutants of frames; `words` are numbers that hosts know: QPNs, keys, addresses, PSNs, of now and of old."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.words: list[int] = [0]
        self._kinds: Sequence[Callable[[bytearray, bytes], None]] = (
            *(self._flip, self._field, self._field, self._field, self._byte),
            *(self._splice, self._splice, self._length, self._move),
        )

    def mutant(self, frame: bytes, other: bytes, sealed: bool) -> bytes:
        """A mutant of `frame` with parts of `other`; `sealed`: its ICRC and checksum are right."""
        work = bytearray(frame)
        for _ in range(self.rng.choice((1, 1, 1, 2, 3, 6))):
            self.rng.choice(self._kinds)(work, other)
        if self.rng.random() < 0.05 and len(work) >= 54:
            return bytes(work[: self.rng.randrange(len(work))])
        return seal(bytes(work)) if sealed and len(work) > 62 else bytes(work)

    def _flip(self, work: bytearray, _: bytes) -> None:
        for _i in range(self.rng.randint(1, 4)):
            if work:
                work[self.rng.randrange(len(work))] ^= 1 << self.rng.randrange(8)

    def _byte(self, work: bytearray, _: bytes) -> None:
        if work:
            work[min(self.rng.randrange(len(work)), self.rng.randrange(120))] = self.rng.choice(_ENDS)

    def _place(self, work: bytearray) -> tuple[int, int] | None:
        """One of the fields: where it begins, its width."""
        if len(work) < 71:
            return None
        udp = udp_at(work)
        fields = _BTH + (_SACK if work[udp + 8] == 0x11 else _RETH)
        if int.from_bytes(work[udp + 2 : udp + 4], "big") != 4791:
            fields = _PROBE
        at, width = self.rng.choice(fields)
        return (udp + at, width) if udp + at + width <= len(work) else None

    def _field(self, work: bytearray, _: bytes) -> None:
        place = self._place(work)
        if place is None:
            return
        at, width = place
        value = int.from_bytes(work[at : at + width], "big")
        kind = self.rng.randrange(5)
        if kind < 2:
            value += self.rng.choice(_STEPS)
        elif kind == 2:
            value = self.rng.choice(self.words) + self.rng.choice((0, 0, 0, *_STEPS))
        elif kind == 3:
            value = self.rng.choice((*_ENDS, (1 << 8 * width) - 1, 1 << (8 * width - 1)))
        else:
            value ^= 1 << self.rng.randrange(8 * width)
        work[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")

    def _splice(self, work: bytearray, other: bytes) -> None:
        """A part of another frame, at the same distance from UDP."""
        if len(work) < 71 or len(other) < 71:
            return
        mine, its = udp_at(work), udp_at(other)
        at = self.rng.choice((0, 8, 12, 17, 20, 28, 32, 36, self.rng.randrange(60)))
        part = other[its + at : its + at + self.rng.choice((1, 2, 3, 4, 8, 16, 24))]
        if mine + at + len(part) <= len(work):
            work[mine + at : mine + at + len(part)] = part

    def _length(self, work: bytearray, _: bytes) -> None:
        """Longer or shorter, with lengths that say so, or not."""
        delta = self.rng.choice((-40, -24, -16, -8, -4, -3, -1, 1, 3, 4, 8, 20, 40))
        if delta > 0:
            work += self.rng.randbytes(delta)
        else:
            del work[max(20, len(work) + delta) :]
        if len(work) > 70 and self.rng.random() < 0.8:
            udp = udp_at(work)
            work[udp + 4 : udp + 6] = (len(work) - udp).to_bytes(2, "big")
            work[18:20] = (len(work) - 54).to_bytes(2, "big")
            if work[udp + 8] in (0x0A, 0x0B) and self.rng.random() < 0.8 and len(work) > udp + 36:
                size = int.from_bytes(work[udp + 32 : udp + 36], "big") + delta
                work[udp + 32 : udp + 36] = (size & 0xFFFFFFFF).to_bytes(4, "big")

    def _move(self, work: bytearray, _: bytes) -> None:
        """A hop-by-hop header more, less, or with other options."""
        if len(work) < 62:
            return
        if work[20] == 0 and self.rng.random() < 0.5:
            del work[54:62]
            work[20] = 17
        elif work[20] == 17:
            work[54:54] = b"\x11\0" + self.rng.choice(_OPTIONS)
            work[20] = 0
        else:
            work[55:62] = self.rng.choice((b"\0", b"\0", b"\1")) + self.rng.choice(_OPTIONS)
        work[18:20] = (len(work) - 54).to_bytes(2, "big")
