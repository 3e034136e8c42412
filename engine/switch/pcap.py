# SPDX-License-Identifier: Apache-2.0
"""The classic pcap file format: frames with times, read and written one after the other."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from detour.base.errors import DetourError

_MAGIC_US, _MAGIC_NS = 0xA1B2C3D4, 0xA1B23C4D
_PCAPNG = 0x0A0D0D0A
_LINKTYPE_ETHERNET = 1
_SNAP = 262_144
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Frame:
    """A frame of a capture file."""

    time_ns: int
    data: bytes


def header() -> bytes:
    """Head of a file of Ethernet frames with times in microseconds."""
    return struct.pack("<IHHiIII", _MAGIC_US, 2, 4, 0, 0, _SNAP, _LINKTYPE_ETHERNET)


def packet(time_ns: int, data: bytes) -> bytes:
    """One frame in a file that begins with `header()`."""
    seconds, ns = divmod(time_ns, 1_000_000_000)
    return struct.pack("<IIII", seconds, ns // 1000, len(data), len(data)) + data


def read(path: Path) -> Iterator[Frame]:
    """The frames of a file, in its order. `DetourError` names a file that is no capture or is cut off."""
    try:
        with path.open("rb") as file:
            yield from _frames(path, file)
    except OSError as error:
        raise DetourError(f"{path} cannot be read: {error.strerror}") from None


def _frames(path: Path, file: BinaryIO) -> Iterator[Frame]:
    head = file.read(24)
    order, tick_ns = _format(path, head)
    while record := file.read(16):
        if len(record) < 16:
            raise DetourError(f"{path} ends within a record")
        seconds, fraction, captured, length = struct.unpack(order + "IIII", record)
        if captured != length:
            raise DetourError(f"{path}: a frame of {length} bytes was captured with {captured} only")
        if length > _LARGEST:
            raise DetourError(f"{path}: a frame of {length} bytes cannot be right")
        data = file.read(length)
        if len(data) < length:
            raise DetourError(f"{path} ends within a frame")
        yield Frame(seconds * 1_000_000_000 + fraction * tick_ns, data)


def _format(path: Path, head: bytes) -> tuple[str, int]:
    """Byte order and length of a tick."""
    for order in "<>":
        if len(head) == 24:
            magic = struct.unpack_from(order + "I", head)[0]
            if magic in (_MAGIC_US, _MAGIC_NS):
                return order, 1000 if magic == _MAGIC_US else 1
    if len(head) >= 4 and struct.unpack_from("<I", head)[0] == _PCAPNG:
        raise DetourError(f"{path} is a pcapng file; convert it to pcap (editcap -F pcap)")
    raise DetourError(f"{path} is not a pcap file")
