# SPDX-License-Identifier: Apache-2.0
"""Real frames of every kind, produced by two hosts talking to each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.hosts.addresses import to_words
from detour.hosts.endpoint import MAX_FRAME, receive, transmit
from detour.hosts.frames import wire
from detour.hosts.verbs import Path, QPInitAttr, SendWR
from tests.native import from_python
from tests.property.lossy import Pair, add_delay, make_pair, mark, through_switches

icrc, udp_checksum = from_python(wire.icrc), from_python(wire.udp_checksum)


def next_frame(pair: Pair, host: int, now: int = 0) -> bytes:
    """What the host sends next; empty if nothing."""
    buf = np.zeros(MAX_FRAME, np.uint8)
    return buf[: int(transmit(pair.hs, host, buf, 0, now))].tobytes()


def deliver(pair: Pair, host: int, frame: bytes, now: int = 0) -> None:
    """Hands a frame to a host."""
    buf = np.frombuffer(frame + bytes(MAX_FRAME), np.uint8).copy()
    receive(pair.hs, host, buf, 0, len(frame), now)


def pair_with(telemetry: bool = True, connect: dict[str, Any] | None = None, **options: Any) -> Pair:
    """A pair with fixed numbers: PSN 0x010203 on the first host, path 0x8123."""
    attr = QPInitAttr(psn=0x010203, telemetry=telemetry)
    return make_pair(
        seed=1, attr_a=attr, attr_b=QPInitAttr(psn=0x0A0B0C), connect=connect or {"path": Path(0x8123)}, **options
    )


def data_frame(length: int, imm: int | None = None, telemetry: bool = True, path: Path | None = None) -> bytes:
    """First packet of a message."""
    pair = pair_with(telemetry, {"path": path} if path else None)
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, length), pair.mr_b.addr + 16, pair.mr_b.rkey, imm))
    return next_frame(pair, 0)


def ack_frame(ticks: int = 0, ce: bool = False) -> bytes:
    """ACK of a packet that was delayed by `ticks` and perhaps marked."""
    pair = pair_with()
    pair.write(100)
    frame = add_delay(next_frame(pair, 0), ticks)
    deliver(pair, 1, mark(frame) if ce else frame)
    return next_frame(pair, 1)


def nak_frame() -> bytes:
    """NAK with remote access error."""
    pair = pair_with()
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 100), pair.mr_b.addr, pair.mr_b.rkey ^ 1))
    deliver(pair, 1, next_frame(pair, 0))
    return next_frame(pair, 1)


def probe_frames(path: Path | None = None, ticks: int = 0) -> tuple[bytes, bytes]:
    """A PTM and the PTR that answers it."""
    pair = pair_with(connect={"candidates": [Path(0x0001), path or Path(0x8123)]})
    pair.write(50_000)
    next_frame(pair, 0)
    ptm = next_frame(pair, 0)
    deliver(pair, 1, add_delay(through_switches(ptm), ticks))
    return ptm, next_frame(pair, 1)


def reseal(frame: bytearray) -> bytes:
    """Makes ICRC and UDP checksum right again, if the lengths allow it."""
    udp = 62 if frame[20] == 0 else 54
    words = [*to_words(int.from_bytes(frame[22:38], "big")), *to_words(int.from_bytes(frame[38:54], "big"))]
    buf = np.frombuffer(bytes(frame) + bytes(64), np.uint8).copy()
    length = len(frame) - udp
    if length < 8:
        return bytes(frame)
    if frame[udp + 2 : udp + 4] == (4791).to_bytes(2, "big") and length >= 24:
        buf[udp + length - 4 : udp + length] = np.frombuffer(
            int(icrc(buf.ctypes.data + udp, length, *words)).to_bytes(4, "little"), np.uint8
        )
    buf[udp + 6 : udp + 8] = 0
    checksum = int(udp_checksum(buf.ctypes.data + udp, length, *words)) or 0xFFFF
    buf[udp + 6 : udp + 8] = np.frombuffer(checksum.to_bytes(2, "big"), np.uint8)
    return buf[: len(frame)].tobytes()
