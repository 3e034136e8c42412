# SPDX-License-Identifier: Apache-2.0
"""Captures are complete, timed by the loop, and readable by others."""

from __future__ import annotations

import pytest
import script_program as script
from script_program import frame

from detour.base.errors import DetourError
from detour.engine.capture import INBOUND, OUTBOUND, capture_header, packet_block

US = 1_000_000


def _read(path):
    scapy = pytest.importorskip("scapy.utils")
    with scapy.RawPcapNgReader(str(path)) as reader:
        return list(reader)


def test_file_is_what_scapy_reads(tmp_path):
    path = tmp_path / "x.pcapng"
    time = (7 << 32) + 123
    path.write_bytes(
        capture_header("leaf-1")
        + packet_block(time, INBOUND, b"abcde", 5)
        + packet_block(time + 1, OUTBOUND, bytes(64), 1500)
    )
    first, second = _read(path)
    assert first[0] == b"abcde"
    assert first[1].ifname == b"leaf-1"
    assert first[1].tsresol == 1_000_000_000
    assert (first[1].tshigh << 32) + first[1].tslow == time
    assert (first[1].direction, second[1].direction) == (1, 2)
    assert second[1].wirelen == 1500


def test_both_directions_of_every_port(make, tmp_path):
    bench = make()
    bench.switch(1, name="left")
    bench.switch(2, name="right")
    bench.net.connect((1, 2), (2, 1), 64 * 8 * US, 3 * US)
    bench.sink(2, 2)
    bench.net.attach_sink((2, 7), lambda data, time: None)
    for tag, when in ((1, 0), (2, 20), (3, 40)):
        bench.net.capture(tmp_path / "deep" / "er" if tag == 2 else None)
        bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=tag), time_ps=when * US)
        bench.net.run((when + 10) * US)
    bench.net.capture(None)
    folder = tmp_path / "deep" / "er"
    ports = ("left-2", "left-510", "right-1", "right-2", "right-7", "right-510")
    assert {p.name for p in folder.iterdir()} == {f"{port}.pcapng" for port in ports}

    def seen(port):
        return [(data[3], m.tslow, m.direction) for data, m in _read(folder / f"{port}.pcapng")]

    # It came in at 20 us and went out at once; 1 us to send and 3 us to travel.
    assert seen("left-2") == [(2, 20_000, 1), (2, 20_000, 2)]
    assert seen("right-1") == [(2, 24_000, 1)]
    assert seen("right-2") == [(2, 24_000, 2)]
    assert seen("right-7") == []


def test_large_capture_loses_nothing(make, tmp_path):
    bench = make().single(2, queue_packets=10_000)
    bench.net.capture(tmp_path)
    for n in range(20):
        for _ in range(400):
            bench.net.inject((1, 2), frame(script.UNICAST, 2, size=4000), time_ps=n * US)
        bench.net.run(n * US + US // 2)
    bench.net.stop()
    assert len(_read(tmp_path / "s1-2.pcapng")) == 2 * 8000
    assert bench.net.loop_stats()["taken_drops"] == 0


def test_folder_that_cannot_be(make, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DetourError, match="cannot be written"):
        make().net.capture(tmp_path / "file" / "folder")
