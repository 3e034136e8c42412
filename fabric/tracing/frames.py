# SPDX-License-Identifier: Apache-2.0
"""Frames that people hand in: as hex, or in a capture file."""

from __future__ import annotations

from pathlib import Path

from detour.base.errors import DetourError
from detour.engine.switch import pcap

_MAX_FRAME = 65_550


def read_frame(text: str) -> bytes:
    """A frame in hex (blanks and colons between bytes do no harm), or the first one of a pcap file.

    Raises:
        DetourError: it is neither.
    """
    if text.endswith((".pcap", ".cap")) or "/" in text:
        return read_pcap(Path(text))[0]
    return hex_frame(text)


def hex_frame(text: str) -> bytes:
    """A frame in hex.

    Raises:
        DetourError: it is none.
    """
    digits = "".join(text.split()).replace(":", "").removeprefix("0x")
    if len(digits) % 2:
        raise DetourError(f"--packet: {len(digits)} digits of hex; there must be two for each byte")
    try:
        frame = bytes.fromhex(digits)
    except ValueError:
        wrong = next(c for c in digits if c not in "0123456789abcdefABCDEF")
        raise DetourError(f"--packet: {wrong!r} is no digit of hex, and {text!r} is no pcap file") from None
    if not 0 < len(frame) <= _MAX_FRAME:
        raise DetourError(f"--packet: a frame of {len(frame)} bytes; 1 to {_MAX_FRAME} are possible")
    return frame


def read_pcap(path: Path) -> list[bytes]:
    """All frames of a capture file (pcap, not pcapng).

    Raises:
        DetourError: it cannot be read, is none, ends in the middle of a frame, or has none.
    """
    frames = [frame.data for frame in pcap.read(path)]
    if not frames:
        raise DetourError(f"{path}: there is no frame in it")
    return frames
