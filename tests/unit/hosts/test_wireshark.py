# SPDX-License-Identifier: Apache-2.0
"""docs/wireshark/detour.lua in tshark, on frames that hosts have really written."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether

from detour.engine.capture import INBOUND, capture_header, packet_block
from detour.hosts.verbs import Path as HostPath
from tests.property.lossy import add_delay
from tests.unit.hosts.frames import ack_frame, data_frame, deliver, next_frame, pair_with

LUA = Path(__file__).parents[3] / "docs" / "wireshark" / "detour.lua"
LIST = (0x5, 0xE003, 0x24, 0x8047)


def _missing() -> str | None:
    if shutil.which("tshark") is None:
        return "tshark is not on PATH"
    output = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=False).stdout
    return None if "with Lua" in " ".join(output.split()) else "this tshark has no Lua"


pytestmark = pytest.mark.skipif(_missing() is not None, reason=str(_missing()))


def probe_frames() -> list[bytes]:
    """A PTM, and the PTR that answers it."""
    pair = pair_with(connect={"candidates": [HostPath(0x8123), HostPath(0x0042)]})
    pair.qp_a.probe()
    ptm = add_delay(next_frame(pair, 0), 7)
    deliver(pair, 1, ptm)
    return [ptm, next_frame(pair, 1)]


def shown(tmp_path: Path, frames: list[bytes], *options: str) -> str:
    """What tshark prints of frames."""
    file = tmp_path / "frames.pcapng"
    packets = [packet_block(10**18 + n, INBOUND, frame, len(frame)) for n, frame in enumerate(frames)]
    file.write_bytes(capture_header("s0-1") + b"".join(packets))
    command = ["tshark", "-X", f"lua_script:{LUA}", "-r", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fields(tmp_path: Path, frame: bytes, *names: str) -> list[str]:
    """The values of fields of a frame, as text; several of one with commas between."""
    options = [word for name in names for word in ("-e", name)]
    return shown(tmp_path, [frame], "-T", "fields", "-E", "separator=;", *options).rstrip("\n").split(";")


def test_a_list_of_usids_is_taken_apart(tmp_path: Path) -> None:
    frame = data_frame(100, path=HostPath(0x8123, LIST))
    names = ("detour.usid.active", "detour.usid", "detour.usid.left", "detour.usid.place")
    values = fields(tmp_path, frame, *names)
    assert values == ["0x0005", "0xe003,0x0024,0x8047", "4", "s4,port 3,s35,h71"]
    assert fields(tmp_path, frame, "detour.nonshortest", "detour.path") == ["1", "0x0123"]
    assert "uSID 1: 0x0005, s4  <- active\n" in shown(tmp_path, [frame], "-O", "detour")
    assert "[*s4 port 3 s35 h71]" in shown(tmp_path, [frame])


def test_lists_in_a_routing_header_and_a_packet_inside(tmp_path: Path) -> None:
    first, second = "fcbb:bb00:3:8005::", "fcbb:bb00:1::"
    srh = IPv6ExtHdrSegmentRouting(addresses=[first, second], segleft=0, lastentry=1)
    inside = IPv6(src="fd00::1", dst="fcbb:bb00:7::") / UDP(sport=1, dport=4793) / bytes(4)
    frame = bytes(Ether(type=0x86DD) / IPv6(src="fd00::1", dst=first) / srh / inside)
    values = fields(tmp_path, frame, "detour.usid.list", "detour.nonshortest")
    assert values == [f"{first},{first},{second},fcbb:bb00:7::", "0"]


def test_the_transit_measurement_option(tmp_path: Path) -> None:
    frame = add_delay(data_frame(100), 1234)
    assert fields(tmp_path, frame, "detour.delay", "detour.delay_us") == ["1234", "1234"]
    in_ns = shown(tmp_path, [frame], "-o", "detour.tick_ns:1", "-T", "fields", "-e", "detour.delay_us")
    assert in_ns == "1.234\n"
    assert fields(tmp_path, ack_frame(), "detour.delay") == [""]


def test_acknowledgements(tmp_path: Path) -> None:
    names = [f"detour.sack.{name}" for name in ("psn", "count", "has_delay", "delay", "ce", "first")]
    assert fields(tmp_path, ack_frame(17, ce=True), *names) == ["0x010203", "0", "1", "17", "1", "0x010204"]
    assert fields(tmp_path, ack_frame(17), "detour.sack.ce", "detour.sack.bitmap") == ["0", "0x0000000000000000"]
    assert "[SACK 0x010203, CE]" in shown(tmp_path, [ack_frame(ce=True)])
    frame = bytearray(ack_frame())
    bitmap = len(frame) - 4 - 8
    frame[bitmap : bitmap + 8] = (0b10110).to_bytes(8, "big")
    assert fields(tmp_path, bytes(frame), "detour.sack.missing") == ["0x010204 0x010207"]


def test_probes(tmp_path: Path) -> None:
    ptm, ptr = probe_frames()
    names = [f"detour_probe.{name}" for name in ("type", "qpn", "sequence", "delay", "candidate")]
    assert fields(tmp_path, ptm, *names, "detour.delay") == ["1", "0x00000100", "0", "0", "0", "7"]
    assert fields(tmp_path, ptr, *names) == ["2", "0x00000100", "0", "7", "0"]
    assert "PTR 0, candidate 0" in shown(tmp_path, [ptr])


def test_what_is_damaged_is_no_error_of_the_script(tmp_path: Path) -> None:
    rng = random.Random(5)
    good = [*probe_frames(), ack_frame(3), data_frame(64, path=HostPath(0, LIST))]
    frames = []
    for _ in range(400):
        frame = bytearray(rng.choice(good))
        for _ in range(rng.randrange(4)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        frames.append(bytes(frame[: rng.randrange(14, len(frame) + 1)]))
    assert "Lua Error" not in shown(tmp_path, frames, "-V")
