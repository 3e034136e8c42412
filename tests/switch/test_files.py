# SPDX-License-Identifier: Apache-2.0
"""Log lines and capture files of `detour switch`."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a pcap file"),
        (b"x" * 100, "is not a pcap file"),
        (struct.pack("<I", 0x0A0D0D0A) + bytes(100), "pcapng"),
        (pcap.header() + b"\0\0", "ends within a record"),
        (pcap.header() + pcap.packet(0, b"abcd")[:-1], "ends within a frame"),
        (pcap.header() + struct.pack("<IIII", 0, 0, 60, 90) + bytes(60), "captured with 60 only"),
        (pcap.header() + struct.pack("<IIII", 0, 0, 2**31, 2**31), "cannot be right"),
    ],
)
def test_damaged_captures_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    with pytest.raises(DetourError, match=words):
        list(pcap.read(path))
