# SPDX-License-Identifier: Apache-2.0
"""Capture files: frames with times, written as pcap, read as pcap or pcapng, in either byte order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from detour.base.errors import DetourError

_MAGIC_US, _MAGIC_NS = 0xA1B2C3D4, 0xA1B23C4D
_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_BYTE_ORDER = 0x1A2B3C4D
_IF_TSRESOL, _IF_TSOFFSET = 9, 14
_LINKTYPE_ETHERNET = 1
_RAW = (12, 14, 101, 228, 229)
"""IP packets and nothing before them"""
_LINK_TYPES = {0: "NULL", 9: "PPP", 105: "IEEE 802.11", 108: "LOOP", 113: "SLL", 127: "radiotap", 276: "SLL2"}
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


def read(path: Path, ethernet: bytes | None = None, advice: str = "expected Ethernet") -> Iterator[Frame]:
    """The frames of a file, in its order. `ethernet`: both addresses of the header that IP packets without one get;
    `advice`: to whom could have given them. Raises DetourError if it is not a capture, is truncated, or its frames
    are not Ethernet."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            frames = _of_pcapng(path, file) if magic == _SECTION.to_bytes(4) else _of_pcap(path, file, magic)
            for link_type, frame in frames:
                yield frame if link_type == _LINKTYPE_ETHERNET else _framed(path, link_type, frame, ethernet, advice)
    except OSError as error:
        raise DetourError(f"{path} cannot be read: {error.strerror}") from None


def _framed(path: Path, link_type: int, frame: Frame, ethernet: bytes | None, advice: str) -> Frame:
    """An IP packet with an Ethernet header before it."""
    if link_type not in _RAW:
        name = _LINK_TYPES.get(link_type, "one without Ethernet")
        raise DetourError(f"{path}: its frames are of link type {link_type} ({name}); expected Ethernet")
    if ethernet is None:
        raise DetourError(f"{path}: its frames are of link type {link_type} (RAW: IP without Ethernet); {advice}")
    kind = b"\x86\xdd" if frame.data[:1] >= b"\x60" else b"\x08\x00"
    return Frame(frame.time_ns, ethernet + kind + frame.data)


def _of_pcap(path: Path, file: BinaryIO, magic: bytes) -> Iterator[tuple[int, Frame]]:
    """Frames with their link types, after the first four bytes."""
    head = magic + file.read(20)
    order, tick_ns = _format(path, head)
    link_type = struct.unpack_from(order + "I", head, 20)[0] & 0xFFFF  # above are flags about checksums
    while record := file.read(16):
        if len(record) < 16:
            raise DetourError(f"{path} ends within a record")
        seconds, fraction, captured, length = struct.unpack(order + "IIII", record)
        _check(path, captured, length)
        data = file.read(length)
        if len(data) < length:
            raise DetourError(f"{path} ends within a frame")
        yield link_type, Frame(seconds * 1_000_000_000 + fraction * tick_ns, data)


def _format(path: Path, head: bytes) -> tuple[str, int]:
    """Byte order and length of a tick."""
    for order in "<>":
        if len(head) == 24:
            magic = struct.unpack_from(order + "I", head)[0]
            if magic in (_MAGIC_US, _MAGIC_NS):
                return order, 1000 if magic == _MAGIC_US else 1
    raise DetourError(f"{path} is not a pcap or pcapng file")


def _check(path: Path, captured: int, length: int) -> None:
    if captured != length:
        raise DetourError(f"{path}: a frame of {length} bytes was captured with only {captured}")
    if length > _LARGEST:
        raise DetourError(f"{path}: a frame of {length} bytes is invalid")


# -- pcapng -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Interface:
    """Ticks a second and seconds before the first one."""

    link_type: int
    snap: int
    ticks: int
    offset_s: int

    def time_ns(self, high: int, low: int) -> int:
        return ((high << 32) + low) * 1_000_000_000 // self.ticks + self.offset_s * 1_000_000_000


def _of_pcapng(path: Path, file: BinaryIO) -> Iterator[tuple[int, Frame]]:
    """Frames with their link types, after the first four bytes. Blocks that say nothing of frames are skipped."""
    interfaces: list[_Interface] = []
    try:
        for order, kind, body in _blocks(path, file):
            if kind == _SECTION:
                interfaces = []
            elif kind == _INTERFACE:
                interfaces.append(_interface(order, body))
            elif kind == _SIMPLE_PACKET:
                (length,) = struct.unpack_from(order + "I", body)
                _check(path, min(length, interfaces[0].snap or length), length)
                yield interfaces[0].link_type, Frame(0, body[4 : 4 + length])
            elif kind in (_PACKET, _OLD_PACKET):
                layout = "IIIII" if kind == _PACKET else "HxxIIII"
                number, high, low, captured, length = struct.unpack_from(order + layout, body)
                _check(path, captured, length)
                if len(body) < 20 + length:
                    raise DetourError(f"{path} ends within a frame")
                here = interfaces[number]
                yield here.link_type, Frame(here.time_ns(high, low), body[20 : 20 + length])
    except (struct.error, IndexError):
        raise DetourError(f"{path}: a block of this pcapng file is invalid") from None


def _blocks(path: Path, file: BinaryIO) -> Iterator[tuple[str, int, bytes]]:
    """(byte order, type, body) of all blocks."""
    order, kind = "<", _SECTION.to_bytes(4)
    while kind:
        head = file.read(4)
        if kind == _SECTION.to_bytes(4):
            magic = file.read(4)
            order = "<" if magic == _BYTE_ORDER.to_bytes(4, "little") else ">"
            file.seek(-len(magic), 1)
        if len(head) < 4:
            raise DetourError(f"{path} ends within a block")
        (length,) = struct.unpack(order + "I", head)
        if not 12 <= length <= 2 * _LARGEST:
            raise DetourError(f"{path}: a block of {length} bytes is invalid")
        body = file.read(length - 8)
        if len(body) < length - 8:
            raise DetourError(f"{path} ends within a block")
        yield order, struct.unpack(order + "I", kind)[0], body[:-4]
        kind = file.read(4)


def _interface(order: str, body: bytes) -> _Interface:
    link_type, snap = struct.unpack_from(order + "HxxI", body)
    ticks, offset, at = 1_000_000, 0, 8
    while at + 4 <= len(body):
        code, size = struct.unpack_from(order + "HH", body, at)
        if code == _IF_TSRESOL:
            exponent = body[at + 4]
            ticks = 1 << (exponent & 0x7F) if exponent & 0x80 else 10**exponent
        elif code == _IF_TSOFFSET:
            (offset,) = struct.unpack_from(order + "q", body, at + 4)
        elif code == 0:
            break
        at += 4 + size + -size % 4
    return _Interface(link_type, snap, ticks, offset)
