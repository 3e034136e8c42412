# SPDX-License-Identifier: Apache-2.0
"""Frames byte by byte, and as scapy sees them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from scapy.contrib.roce import AETH, BTH, opcode
from scapy.layers.inet import UDP
from scapy.layers.inet6 import HBHOptUnknown, IPv6, IPv6ExtHdrHopByHop
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.hosts.addresses import final_address, to_text, to_words
from detour.hosts.decode import decode
from detour.hosts.frames import checksum, sample, wire
from detour.hosts.frames.checksum import CRC_START
from detour.hosts.verbs import Path
from detour.topo.clos import leaf_spine
from tests.native import from_python
from tests.property.lossy import add_delay, mark, through_switches
from tests.unit.hosts.frames import ack_frame, data_frame, nak_frame, probe_frames

ETH_0_TO_1 = "020000ffffff 020000000000 86dd"
ETH_1_TO_0 = "020000ffffff 020000000001 86dd"
ADDR_0, ADDR_1 = "fd000000000000010000000000000001", "fd000000000100020000000000000001"

crc32_update, sum_bytes, unwrap = map(from_python, (checksum.crc32_update, checksum.sum_bytes, wire.unwrap))
GOLDEN = {
    # Ethernet | version, class, label, length, next, hops | addresses | option | UDP
    # | BTH | RETH | ImmDt | payload | ICRC
    "data": f"{ETH_0_TO_1} 60200000 0040 00 40 {ADDR_0} {ADDR_1} 11003e0400000000 812312b70038c6e4"
    "0ba0ffff0000010180010203 0000000000040810 0000014e 0000000a cafef00d f5b165224a58b791df6a 0000 93188857",
    "plain": f"{ETH_0_TO_1} 60200000 002c 11 40 {ADDR_0} {ADDR_1} 812312b7002c5a8f 0a90ffff0000010180010203"
    "0000000000040810 0000014e 00000003 f5b165 00 05fd1f7b",
    # ... BTH | AETH | flags, PSN | count, base | delay | bitmap | ICRC
    "ack": f"{ETH_1_TO_0} 6c000000 0030 11 40 {ADDR_1} {ADDR_0} 812312b70030f721 1100ffff0000010000010203"
    "1f000001 83010203 00010204 00001234 0000000000000000 c25bebeb",
    "nak": f"{ETH_1_TO_0} 6c000000 0030 11 40 {ADDR_1} {ADDR_0} 812312b700300b64 1100ffff0000010000010203"
    "62000000 82010203 00010203 00000000 0000000000000000 7d99eca1",
    # ... option | UDP | magic, version, type | QPN | sequence | delay | candidate
    "ptm": f"{ETH_0_TO_1} 60200000 0024 00 40 {ADDR_0} {ADDR_1} 11003e0400000000 812312b9001c2b7c"
    "44540101 00000100 00000000 00000000 00010000",
    "ptr": f"{ETH_1_TO_0} 6c000000 0024 00 40 {ADDR_1} {ADDR_0} 11003e0400000000 812312b9001c2b2e"
    "44540102 00000100 00000000 0000004d 00010000",
}


def frames() -> dict[str, bytes]:
    """One of every kind, the same each time."""
    ptm, ptr = probe_frames(ticks=77)
    return {
        "data": data_frame(10, 0xCAFEF00D), "plain": data_frame(3, telemetry=False), "ack": ack_frame(0x1234, ce=True),
        "nak": nak_frame(), "ptm": ptm, "ptr": ptr,
    }  # fmt: skip


@pytest.mark.parametrize("kind", GOLDEN)
def test_golden_bytes(kind: str) -> None:
    assert frames()[kind].hex() == GOLDEN[kind].replace(" ", "")


def without_option(frame: bytes) -> bytes:
    """The frame with its hop-by-hop header taken out, as ICRC and scapy want it."""
    assert frame[20] == 0
    length = int.from_bytes(frame[18:20], "big") - 8
    return frame[:18] + length.to_bytes(2, "big") + b"\x11" + frame[21:54] + frame[62:]


def scapy_agrees(frame: bytes) -> bool:
    """Whether scapy computes the same ICRC and UDP checksum."""
    packet = Ether(frame)
    del packet[UDP].chksum
    if BTH in packet:
        packet[BTH].icrc = None
        # scapy's UDP checksum needs the ICRC first
        packet = Ether(bytes(packet))
        del packet[UDP].chksum
    return bytes(packet) == frame


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 999, 1000])
@pytest.mark.parametrize("imm", [None, 0x01020304])
def test_scapy_decodes_data(length: int, imm: int | None) -> None:
    frame = data_frame(length, imm, telemetry=False)
    assert scapy_agrees(frame)
    packet = Ether(frame)
    bth = packet[BTH]
    name = "RDMA_WRITE_ONLY" if imm is None else "RDMA_WRITE_ONLY_WITH_IMMEDIATE"
    assert bth.opcode == opcode("RC", name)[0]
    assert (bth.solicited, bth.padcount, bth.version, bth.pkey) == (1, -length % 4, 0, 0xFFFF)
    assert (bth.dqpn, bth.psn, bth.ackreq, bth.resv7) == (0x101, 0x010203, 1, 0)
    body = bytes(bth.payload)
    assert int.from_bytes(body[12:16], "big") == length
    assert len(body) == 16 + (0 if imm is None else 4) + length + (-length % 4)
    assert (packet[IPv6].tc, packet[IPv6].hlim, packet[UDP].sport) == (2, 64, 0x8123)


@pytest.mark.parametrize("length", [0, 3, 1000])
def test_scapy_decodes_data_with_the_option(length: int) -> None:
    frame = data_frame(length)
    packet = Ether(frame)
    assert packet[IPv6].nh == 0
    assert packet[IPv6ExtHdrHopByHop].nh == 17
    option = packet[HBHOptUnknown]
    assert (option.otype, option.optlen, option.optdata) == (0x3E, 4, bytes(4))
    assert packet[BTH].psn == 0x010203
    assert scapy_agrees(without_option(frame))
    assert scapy_agrees(without_option(add_delay(frame, 12345))), "switches may write into the option"


def test_scapy_decodes_ack_and_nak() -> None:
    for frame, syndrome in ((ack_frame(), 0x1F), (nak_frame(), 0x62)):
        assert scapy_agrees(frame)
        packet = Ether(frame)
        assert packet[BTH].opcode == opcode("RC", "ACKNOWLEDGE")[0]
        assert packet[AETH].syndrome == syndrome
        assert len(packet[AETH].payload) == 20
        assert packet[IPv6].tc >> 2 == 48


def test_scapy_decodes_probes() -> None:
    ptm, ptr = probe_frames(ticks=5)
    for frame, dscp in ((ptm, 0), (ptr, 48)):
        assert scapy_agrees(frame)
        packet = Ether(frame)
        assert packet[UDP].dport == 4793
        assert packet[IPv6].tc >> 2 == dscp
        assert len(packet[Raw].load) == 20
        assert HBHOptUnknown in packet


def test_usid_list_in_the_destination_and_checksums_over_its_end() -> None:
    path = Path(0x0007, (0x0003, 0xE002, 0x8001))
    frame = data_frame(10, path=path)
    assert to_text(*to_words(int.from_bytes(frame[38:54], "big"))) == "fcbb:bb00:3:e002:8001::"
    with pytest.raises(DetourError, match="UDP checksum"):
        decode(frame)
    at_receiver = through_switches(frame)
    assert decode(at_receiver)["dst"] == "fcbb:bb00:8001::"
    assert scapy_agrees(without_option(at_receiver))
    ptm, _ = probe_frames(path)
    assert decode(through_switches(ptm))["sport"] == 7


def test_decode_gives_back_every_field() -> None:
    f = decode(frames()["data"])
    assert f["payload"] == bytes.fromhex("f5b165224a58b791df6a")
    expected = {
        "kind": "data", "src": "fd00:0:0:1::1", "dst": "fd00:0:1:2::1", "sport": 0x8123, "opcode": 0x0B, "qpn": 0x101,
        "psn": 0x010203, "count": 0, "solicited": 1, "va": 0x40810, "rkey": 0x14E, "length": 10, "imm": 0xCAFEF00D,
        "has_delay": 1, "delay": 0, "ce": 0,
    }  # fmt: skip
    assert {name: f[name] for name in expected} == expected
    assert decode(mark(frames()["data"]))["ce"] == 1
    a = decode(frames()["ack"])
    expected = {
        "kind": "ack", "psn": 0x010203, "trigger": 0x010203, "msn": 1, "base": 0x010204, "delay": 0x1234, "ce": 1,
    }  # fmt: skip
    assert {name: a[name] for name in expected} == expected
    p = decode(frames()["ptr"])
    assert (p["kind"], p["reflected"], p["cand"], p["qpn"]) == ("ptr", 77, 1, 0x100)


@pytest.mark.parametrize("kind", GOLDEN)
def test_truncated_frames_are_refused(kind: str) -> None:
    frame = frames()[kind]
    for length in range(len(frame)):
        with pytest.raises(DetourError):
            decode(frame[:length])
    assert decode(frame + bytes(10)) == decode(frame), "Ethernet padding is not part of the packet"


# what the checksums must not cover because switches change it: MACs, class and flow label, hop limit, the option
FREE = {"always": {*range(12), 15, 16, 17, 21}, "option": {*range(56, 62)}}


@pytest.mark.parametrize("kind", ["data", "plain", "ack", "ptm"])
def test_every_flipped_bit_is_noticed(kind: str) -> None:
    frame = frames()[kind]
    free = FREE["always"] | (FREE["option"] if frame[20] == 0 else set())
    for at in range(len(frame)):
        for bit in range(8):
            damaged = frame[:at] + bytes([frame[at] ^ 1 << bit]) + frame[at + 1 :]
            if at in free or (at == 14 and bit < 4):
                continue
            with pytest.raises(DetourError):
                decode(damaged)


def test_icrc_notices_what_the_udp_checksum_cannot() -> None:
    frame = bytearray(data_frame(100))
    frame[110:112], frame[120:122] = frame[120:122], frame[110:112]
    with pytest.raises(DetourError, match="ICRC"):
        decode(bytes(frame))


def hop_by_hop(frame: bytes, header: bytes) -> bytes:
    """The frame with another hop-by-hop header (without its next header byte) in place of its own."""
    length = int.from_bytes(frame[18:20], "big") - 8 + 1 + len(header)
    return frame[:18] + length.to_bytes(2, "big") + frame[20:54] + b"\x11" + header + frame[62:]


def test_other_hop_by_hop_headers() -> None:
    frame = data_frame(10)
    option = bytes.fromhex("3e0400000009")
    longer = hop_by_hop(frame, bytes.fromhex("01 0000 0104 00000000") + option)
    assert (decode(longer)["has_delay"], decode(longer)["delay"]) == (1, 9)
    other = hop_by_hop(frame, bytes.fromhex("00 1e04 00000000"))
    assert (decode(other)["has_delay"], decode(other)["delay"]) == (0, 0)
    for bad in ("00 1e05 00000000", "00 3eff 00000000", "05 3e04 00000000", "00 0102 0000 1e05"):
        with pytest.raises(DetourError, match="malformed"):
            decode(hop_by_hop(frame, bytes.fromhex(bad)))


def test_other_packets_are_refused() -> None:
    frame = frames()["data"]
    with pytest.raises(DetourError, match="malformed"):
        decode(frame[:12] + b"\x08\x00" + frame[14:])
    with pytest.raises(DetourError, match="4791"):
        decode(frame[:64] + (53).to_bytes(2, "big") + frame[66:])


def test_crc_and_internet_checksum_against_references() -> None:
    random = np.random.default_rng(3)
    for length in range(80):
        buf = random.integers(0, 256, length + 5, dtype=np.uint8)
        at = buf.ctypes.data + 3
        assert crc32_update(at, at + length, CRC_START) ^ CRC_START == zlib.crc32(buf[3 : 3 + length].tobytes())
        padded = buf[3 : 3 + length].tobytes() + bytes(length & 1)
        total = sum(int.from_bytes(padded[k : k + 2], "big") for k in range(0, len(padded), 2))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        assert sum_bytes(at, length) == total


def test_psn_unwraps_to_the_closest_sequence_number() -> None:
    top = 1 << 24
    assert unwrap(5, top - 3) == top + 5
    assert unwrap(top - 3, top + 5) == top - 3
    assert unwrap(0, 0) == 0
    assert unwrap(top - 1, 0) == -1
    assert unwrap(7 + (1 << 23) - 1, 7) == 7 + (1 << 23) - 1
    for near in (0, 12345, 5 * top + 17):
        for off in (-(1 << 22), -1, 0, 1, 1 << 22):
            assert unwrap((near + off) & (top - 1), near) == near + off


def test_final_address() -> None:
    assert to_text(*to_words(final_address([1, 2, 3, 4, 5, 0x8006]))) == "fcbb:bb00:8006::"
    with pytest.raises(DetourError, match="1 to 6 uSIDs"):
        final_address([])


def test_a_packet_is_as_long_as_its_headers_and_payload() -> None:
    near, far = leaf_spine(2, 1, 1).hosts
    assert len(sample.data_frame(near, far, payload=PAYLOAD)) == PACKET_BYTES
