# SPDX-License-Identifier: Apache-2.0
"""Frames that people hand in: as hex, or in a capture file."""

from __future__ import annotations

from pathlib import Path

from detour.base.errors import DetourError
from detour.engine.switch import pcap

_MAX_FRAME = 65_550
_ADVICE = "--ethernet DST/SRC, or ethernet=DST/SRC in a workload, gives them a header"


def read_frame(text: str, ethernet: bytes | None = None) -> bytes:
    """A frame in hex (blanks and colons between bytes do no harm), or the first one of a capture file, whatever it is
    called. `ethernet`: see `pcap.read`. Raises DetourError: it is neither."""
    if text.endswith((".pcap", ".cap", ".pcapng")) or "/" in text or _is_file(text):
        return read_capture(Path(text), ethernet)[0]
    if ethernet is not None:
        raise DetourError(f"--ethernet needs a capture file; there is none called {text!r}")
    return hex_frame(text)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # hex may be longer than any name
        return False


def ethernet_of(text: str, source: str | None = None) -> bytes:
    """Both addresses of an Ethernet header: `DST/SRC`, or `DST` if `source` is known. Raises DetourError: it is
    something else."""
    addresses = [each.replace(":", "") for each in (text.split("/") + ([source] if source and "/" not in text else []))]
    try:
        parts = [bytes.fromhex(each) for each in addresses]
    except ValueError:
        parts = []
    if [len(each) for each in parts] != [6, 6]:
        raise DetourError(f"{text!r} is not two MAC addresses, DST/SRC, like 08:00:00:00:01:00/08:00:00:00:01:11")
    return b"".join(parts)


def hex_frame(text: str) -> bytes:
    """A frame in hex. Raises DetourError: it is none."""
    digits = "".join(text.split()).replace(":", "").removeprefix("0x")
    if len(digits) % 2:
        raise DetourError(f"--packet: {len(digits)} digits of hex; there must be two for each byte")
    try:
        frame = bytes.fromhex(digits)
    except ValueError:
        wrong = next(c for c in digits if c not in "0123456789abcdefABCDEF")
        raise DetourError(f"--packet: {wrong!r} is not a digit of hex, and there is no capture file {text!r}") from None
    if not 0 < len(frame) <= _MAX_FRAME:
        raise DetourError(f"--packet: a frame of {len(frame)} bytes; expected 1 to {_MAX_FRAME}")
    return frame


def read_capture(path: Path, ethernet: bytes | None = None) -> list[bytes]:
    """All frames of a capture file (pcap or pcapng). `ethernet`: see `pcap.read`. Raises DetourError: it cannot be
    read, is none, ends in the middle of a frame, has none, or none of Ethernet."""
    frames = [frame.data for frame in pcap.read(path, ethernet, _ADVICE)]
    if not frames:
        raise DetourError(f"{path}: there is no frame in it")
    return frames
