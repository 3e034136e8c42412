# SPDX-License-Identifier: Apache-2.0
"""What frames say, read without any of detour's code, and what hosts may make of them: placed bytes and completions.

`read` follows the description in `detour/hosts/frames/wire.py`, with `zlib` for the ICRC. `Receiver` says which bytes a
responder places and which immediates it reports; `Sender` which packets a requester may take for acknowledged: those
of which a frame that is an answer says so, and nothing else.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ROCE, PROBES = 4791, 4793
_WRITE, _WRITE_IMM, _ACK, _CNP = 0x0A, 0x0B, 0x11, 0x81
ACKNOWLEDGE, REFUSED = 0x1F, 0x62
Fields = dict[str, Any]


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def udp_at(frame: bytes | bytearray) -> int:
    """Where UDP begins in a frame that a host has sent."""
    return 62 if frame[20] == 0 else 54


def sums(frame: bytes, udp: int, length: int) -> tuple[int, int]:
    """(UDP checksum, ICRC) that belong in the frame, were its own 0 and correct."""
    addresses, packet = frame[22:54], frame[udp : udp + length]
    masked = bytearray(b"\xff" * 8 + b"\x6f\xff\xff\xff" + length.to_bytes(2, "big") + b"\x11\xff" + addresses)
    masked += packet[:6] + b"\xff\xff" + packet[8:12] + b"\xff" + packet[13:-4]
    crc = zlib.crc32(bytes(masked))
    pseudo = addresses + length.to_bytes(4, "big") + b"\0\0\0\x11" + packet + bytes(length & 1)
    return 0xFFFF - (_number(pseudo) % 0xFFFF), crc


def seal(frame: bytes) -> bytes:
    """The frame with the ICRC and the UDP checksum that it should have, if it is long enough for them."""
    udp = udp_at(frame)
    length = len(frame) - udp
    if length < 8:
        return frame
    sealed = bytearray(frame)
    if _number(frame[udp + 2 : udp + 4]) == ROCE and length >= 24:
        sealed[-4:] = sums(frame, udp, length)[1].to_bytes(4, "little")
    sealed[udp + 6 : udp + 8] = b"\0\0"
    sealed[udp + 6 : udp + 8] = (sums(bytes(sealed), udp, length)[0]).to_bytes(2, "big")
    return bytes(sealed)


def read(frame: bytes) -> Fields | None:
    """Fields of a frame that is whole and correct in every sum, else None."""
    if len(frame) < 54 or frame[12:14] != b"\x86\xdd" or frame[14] >> 4 != 6:
        return None
    end = 54 + _number(frame[18:20])
    if end > len(frame):
        return None
    udp, delay = _behind_options(frame, end)
    if udp < 0 or udp + 8 > end:
        return None
    length, port = _number(frame[udp + 4 : udp + 6]), _number(frame[udp + 2 : udp + 4])
    if length < 8 or udp + length != end or port not in (ROCE, PROBES) or frame[udp + 6 : udp + 8] == b"\0\0":
        return None
    if port == ROCE and length < 24:
        return None
    total, crc = sums(frame[:end], udp, length)
    if total not in (0, 0xFFFF) or (port == ROCE and crc.to_bytes(4, "little") != frame[end - 4 : end]):
        return None
    f: Fields = {"src": frame[22:38], "dst": frame[38:54], "sport": _number(frame[udp : udp + 2])}
    f |= {"ce": int(frame[15] >> 4 & 3 == 3), "has_delay": int(delay is not None), "delay": delay or 0}
    body = frame[udp + 8 : end]
    return _roce(f, body) if port == ROCE else _probe(f, body)


def _behind_options(frame: bytes, end: int) -> tuple[int, int | None]:
    """(where UDP begins, below 0: nowhere; accumulated delay, None without the option)."""
    if frame[20] == 17:
        return 54, None
    if frame[20] != 0 or end < 62 or frame[54] != 17:
        return -1, None
    after, at, delay = 54 + 8 * (frame[55] + 1), 56, None
    if after > end:
        return -1, None
    while at < after:
        if frame[at] == 0:
            at += 1
            continue
        if at + 2 > after or at + 2 + frame[at + 1] > after:
            return -1, None
        if frame[at] == 0x3E and frame[at + 1] == 4:
            delay = _number(frame[at + 2 : at + 6])
        at += 2 + frame[at + 1]
    return after, delay


def _roce(f: Fields, body: bytes) -> Fields | None:
    if body[1] & 0x0F or body[2:4] != b"\xff\xff":
        return None
    solicited, pad = body[1] >> 7, body[1] >> 4 & 3
    f |= {"opcode": body[0], "qpn": _number(body[5:8]), "psn": _number(body[9:12]), "count": body[8] & 0x7F}
    rest = body[12:-4]
    if body[0] in (_WRITE, _WRITE_IMM):
        headers = 20 if body[0] == _WRITE_IMM else 16
        size = len(rest) - headers - pad
        if size < 0 or _number(rest[12:16]) != size or (body[0] == _WRITE_IMM and not solicited):
            return None
        va, imm = int.from_bytes(rest[:8], "big", signed=True), _number(rest[16:20]) if headers == 20 else 0
        f |= {"kind": "data", "va": va, "rkey": _number(rest[8:12]), "length": size, "imm": imm, "solicited": solicited}
        return f | {"payload": rest[headers : headers + size]}
    if body[0] == _ACK and len(rest) == 24 and rest[4] & 0x80:
        f |= {"kind": "ack", "syndrome": rest[0], "msn": _number(rest[1:4]), "trigger": _number(rest[5:8])}
        f |= {"count": rest[8], "base": _number(rest[9:12]), "bitmap": int.from_bytes(rest[16:24], "big", signed=True)}
        # those of the packet that it answers
        return f | {"ce": rest[4] & 1, "has_delay": rest[4] >> 1 & 1, "delay": _number(rest[12:16])}
    return f | {"kind": "cnp"} if body[0] == _CNP and len(rest) == 16 else None


def _probe(f: Fields, body: bytes) -> Fields | None:
    if len(body) != 20 or body[:3] != b"DT\x01" or body[3] not in (1, 2):
        return None
    f |= {"kind": "ptm" if body[3] == 1 else "ptr", "qpn": _number(body[4:8]), "psn": _number(body[8:12])}
    return f | {"cand": _number(body[16:18]), "reflected": _number(body[12:16]) if body[3] == 2 else 0}


def near(psn: int, expected: int) -> int:
    """The sequence number with these low 24 bits that is closest to the expected one."""
    return expected + ((psn - expected + 0x800000) & 0xFFFFFF) - 0x800000


@dataclass
class Region:
    """A registered region, or one that is none any more."""

    key: int
    begin: int
    length: int
    writable: bool


@dataclass
class Receiver:
    """What a QP may do with data: bytes in `memory`, immediates in `reports` as (value, length of the message)."""

    window: int
    in_order: bool
    expected: int
    regions: list[Region]
    memory: np.ndarray
    held: dict[int, Fields] = field(default_factory=dict)
    refused: int | None = None
    length: int = 0
    delivered: int = 0
    reports: list[tuple[int, int]] = field(default_factory=list)

    def take(self, f: Fields) -> None:
        """A data packet for this QP has come."""
        seq = near(f["psn"], self.expected)
        if not self.expected <= seq < self.expected + self.window or seq in self.held:
            return
        if self.refused is not None and seq >= self.refused:
            return
        if self.in_order and seq > self.expected:
            return
        if f["length"] and not any(self._allows(region, f) for region in self.regions):
            self.refused = seq
            return
        if f["length"]:
            self.memory[f["va"] : f["va"] + f["length"]] = np.frombuffer(f["payload"], np.uint8)
        self.held[seq] = f
        while self.expected in self.held:
            self._deliver(self.held.pop(self.expected))

    @staticmethod
    def _allows(region: Region, f: Fields) -> bool:
        inside = region.begin <= f["va"] and f["va"] + f["length"] <= region.begin + region.length
        return region.writable and region.key == f["rkey"] and inside

    def _deliver(self, f: Fields) -> None:
        self.expected += 1
        self.length += f["length"]
        self.delivered += f["length"]
        if f["opcode"] == _WRITE_IMM:
            self.reports.append((f["imm"], self.length))
        if f["solicited"]:
            self.length = 0


@dataclass
class Sender:
    """What a QP may take for acknowledged: `claimed`, of the packets `first` to `sent`."""

    window: int
    selective: bool
    first: int
    sent: int
    claimed: set[int] = field(default_factory=set)

    def emit(self, f: Fields) -> None:
        """A data packet of this QP goes out."""
        self.sent = max(self.sent, near(f["psn"], self.sent) + 1)

    def take(self, f: Fields) -> None:
        """An ACK or NAK for this QP has come."""
        una = self.first
        while una in self.claimed:
            una += 1
        psn = near(f["psn"], una)
        if not una - self.window <= psn < self.sent:
            return
        if f["syndrome"] == ACKNOWLEDGE:
            self.claimed.update(range(una, psn + 1))
            if self.selective:
                base = near(f["base"], una)
                self.claimed.update(base + k for k in range(64) if f["bitmap"] >> k & 1 and base + k < self.sent)
                self.claimed.update([near(f["trigger"], una)])
        elif f["syndrome"] != REFUSED:  # a sequence error (go-back-N) acknowledges what precedes it
            self.claimed.update(range(una, psn))
