# SPDX-License-Identifier: Apache-2.0
"""Log lines and capture files of `detour switch`."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader, wrpcapng

from detour.base.errors import DetourError
from detour.engine.switch import log, pcap
from detour.engine.switch.options import SwitchOptions


def test_log_lines_are_bmv2s(capsys: pytest.CaptureFixture[str]) -> None:
    logger = log.open_log(SwitchOptions(log_console=True, log_level="info"))
    logger.warning("Removing port %d", 3)
    logger.debug("not seen")
    written = capsys.readouterr().out
    assert re.fullmatch(r"\[\d\d:\d\d:\d\d\.\d{3}\] \[bmv2\] \[W\] \[thread \d+\] Removing port 3\n", written)


def test_log_files_rotate_under_bmv2s_names(tmp_path: Path) -> None:
    logger = log.open_log(SwitchOptions(log_file=tmp_path / "s1", log_file_bytes=200, log_file_count=2))
    for number in range(12):
        logger.info("line %d", number)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s1.1.txt", "s1.2.txt", "s1.txt"]
    assert "line 11" in (tmp_path / "s1.txt").read_text()


def test_a_log_that_cannot_be_written_is_named() -> None:
    with pytest.raises(DetourError, match="/nowhere/s1"):
        log.open_log(SwitchOptions(log_file=Path("/nowhere/s1")))


def test_frames_come_back(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    frames = [pcap.Frame(1_700_000_000_123_456_000 + number, bytes([number]) * (60 + number)) for number in range(3)]
    path.write_bytes(pcap.header() + b"".join(pcap.packet(frame.time_ns, frame.data) for frame in frames))
    assert [frame.data for frame in pcap.read(path)] == [frame.data for frame in frames]
    assert next(pcap.read(path)).time_ns == 1_700_000_000_123_456_000
    assert [data for data, _ in RawPcapReader(str(path))] == [frame.data for frame in frames]


def test_both_byte_orders_and_nanoseconds_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    head = struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(head + struct.pack(">IIII", 1, 5, 2, 2) + b"ab")
    assert list(pcap.read(path)) == [pcap.Frame(1_000_000_005, b"ab")]


def block(order: str, kind: int, body: bytes) -> bytes:
    padded = body + bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(padded))
    return struct.pack(order + "I", kind) + length + padded + length


def interface(order: str, link_type: int, options: bytes = b"") -> bytes:
    return block(order, 1, struct.pack(order + "HxxI", link_type, 65535) + options)


def packet(order: str, number: int, ticks: int, data: bytes) -> bytes:
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(order, 6, head + data)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_of_several_interfaces_and_sections(tmp_path: Path, order: str) -> None:
    """Ticks of microseconds, nanoseconds with an offset, and 2^-10 s; blocks of names and of packets without times."""
    path, section = tmp_path / "x.pcapng", block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    nano = struct.pack(order + "HHBxxxHHq", 9, 1, 9, 14, 8, 100)
    path.write_bytes(
        section + interface(order, 1) + interface(order, 1, nano) + packet(order, 0, 7, b"first")
        + block(order, 4, b"names") + packet(order, 1, 9, b"second!")
        + section + interface(order, 1, struct.pack(order + "HHBxxx", 9, 1, 0x8A))
        + packet(order, 0, 512, b"third") + block(order, 3, struct.pack(order + "I", 6) + b"fourth")
    )  # fmt: skip
    assert list(pcap.read(path)) == [
        pcap.Frame(7_000, b"first"), pcap.Frame(100_000_000_009, b"second!"),
        pcap.Frame(500_000_000, b"third"), pcap.Frame(0, b"fourth"),
    ]  # fmt: skip
    whole = path.read_bytes()
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        try:
            assert len(list(pcap.read(path))) < 5
        except DetourError:
            continue


def test_what_scapy_writes_is_read(tmp_path: Path) -> None:
    frames = [Ether(bytes(12) + b"\x08\x00" + bytes([number]) * 50) for number in range(3)]
    wrpcapng(str(tmp_path / "x.pcapng"), frames)
    assert [frame.data for frame in pcap.read(tmp_path / "x.pcapng")] == [bytes(frame) for frame in frames]


def pcap_of(link_type: int, data: bytes) -> bytes:
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type) + pcap.packet(0, data)


def pcapng_of(link_type: int, data: bytes) -> bytes:
    section = block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    return section + interface("<", link_type) + packet("<", 0, 0, data)


@pytest.mark.parametrize("written", [pcap_of, pcapng_of])
def test_ip_without_ethernet_gets_a_header_if_one_is_given(
    tmp_path: Path, written: Callable[[int, bytes], bytes]
) -> None:
    path, header = tmp_path / "x", bytes(range(12))
    for link_type, first, kind in ((101, 0x45, "0800"), (12, 0x60, "86dd"), (229, 0x60, "86dd")):
        path.write_bytes(written(link_type, bytes([first]) + b"rest"))
        with pytest.raises(DetourError, match=rf"link type {link_type} \(RAW: .*expected Ethernet$"):
            list(pcap.read(path))
        assert next(pcap.read(path, header)).data == header + bytes.fromhex(kind) + bytes([first]) + b"rest"
    for link_type, name in ((113, "SLL"), (276, "SLL2"), (0, "NULL"), (147, "one without Ethernet")):
        path.write_bytes(written(link_type, b"Erest"))
        with pytest.raises(DetourError, match=rf"link type {link_type} \({name}\); expected Ethernet"):
            list(pcap.read(path, header))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a pcap or pcapng file"),
        (b"x" * 100, "is not a pcap or pcapng file"),
        (struct.pack("<I", 0x0A0D0D0A) + bytes(100), "a block of 0 bytes is invalid"),
        (pcap.header() + b"\0\0", "ends within a record"),
        (pcap.header() + pcap.packet(0, b"abcd")[:-1], "ends within a frame"),
        (pcap.header() + struct.pack("<IIII", 0, 0, 60, 90) + bytes(60), "captured with only 60"),
        (pcap.header() + struct.pack("<IIII", 0, 0, 2**31, 2**31), "is invalid"),
    ],
)
def test_damaged_captures_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    with pytest.raises(DetourError, match=words):
        list(pcap.read(path))
