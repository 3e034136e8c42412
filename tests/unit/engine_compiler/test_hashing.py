# SPDX-License-Identifier: Apache-2.0
"""Hashes and checksums against straightforward Python."""

from __future__ import annotations

import itertools
import json
import random
import struct
import zlib
from typing import Any

import pytest

from detour.engine.compiler.hashes import CrcParameters, reflected
from detour.engine.compiler.program import Program

from .bitstring import Spec, join, split
from .conftest import PROGRAMS, MiniSwitch, program

IN: Spec = [("a", 128), ("b", 12), ("c", 4), ("d", 64), ("more", 8)]
EXTRA: Spec = [("p", 3), ("q", 13), ("r", 16)]
OUT: Spec = [
    ("crc32", 32), ("crc32_custom", 32), ("crc16", 16), ("crc16_custom", 16), ("csum16", 16), ("xor16", 16),
    ("identity", 64), ("based", 16), ("odd", 32), ("optional", 32), ("max0", 16), ("random", 32), ("loose", 16),
]  # fmt: skip


def crc16(data: bytes) -> int:
    """CRC-16/ARC, bit by bit."""
    r = 0
    for byte in data:
        r ^= byte
        for _ in range(8):
            r = r >> 1 ^ (0xA001 if r & 1 else 0)
    return r


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def xor16(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    r = 0
    for word in struct.unpack(f"!{len(data) // 2}H", data):
        r ^= word
    return r


def bits(*parts: tuple[int, int]) -> bytes:
    """(value, width) side by side, zeros on the right."""
    word = total = 0
    for value, width in parts:
        word, total = word << width | value, total + width
    fill = -total % 8
    return (word << fill).to_bytes((total + fill) // 8, "big")


@pytest.mark.parametrize("seed", range(40))
def test_all_algorithms(seed: int) -> None:
    rng = random.Random(seed)
    v = {name: rng.getrandbits(n) for name, n in IN} | {"more": seed % 3}
    e = {name: rng.getrandbits(n) for name, n in EXTRA}
    data = join(IN, v) + (join(EXTRA, e) if v["more"] == 1 else b"") + b"tail"
    ((_, out),) = MiniSwitch(program("hashing")).send(0, data)
    got = split(OUT, out[len(data) - 4 :])
    a, b, c, d, more = ((v[name], n) for name, n in IN)
    p, q, _ = ((e[name], n) for name, n in EXTRA)
    if v["more"] != 1:
        p, q = (0, 3), (0, 13)  # p4c hashes copies of the fields, which are there even if the header is not
    assert got["crc32"] == zlib.crc32(bits(a, d, more))
    assert got["crc32_custom"] == zlib.crc32(bits(a, d))
    assert got["crc16"] == crc16(bits(a, b, c))
    assert got["crc16_custom"] == crc16(bits(d))
    assert got["csum16"] == checksum(bits(a, more))
    assert got["xor16"] == xor16(bits(a, more))
    assert got["identity"] == int.from_bytes(bits(b, c, d)[:8], "big") % ((1 << 64) - 1)
    assert got["based"] == 1000 + crc16(bits(a)) % 7
    assert got["odd"] == zlib.crc32(bits(b, (v["b"] & 31, 5), a, (5, 3)))
    assert got["optional"] == zlib.crc32(bits(b, c, p, q, d))
    assert got["max0"] == 55
    assert 10 <= got["random"] <= 19
    assert got["loose"] == crc16(bits(p, b, q, a))


def _direct() -> Program:
    """The same program with header fields instead of copies as input of its hashes, as checksums have them."""
    source = json.loads((PROGRAMS / "hashing.json").read_text())
    inputs = {len(c["input"]): c for c in source["calculations"] if c["algo"] == "crc32"}
    _replace(inputs[5], [("i", "b"), ("i", "c"), ("e", "p"), ("e", "q"), ("i", "d")])
    loose = next(c for c in source["calculations"] if c["algo"] == "crc16" and len(c["input"]) == 4)
    _replace(loose, [("e", "p"), ("i", "b"), ("e", "q"), ("i", "a")])
    return Program.from_json(source)


def _replace(calculation: dict[str, Any], fields: list[tuple[str, str]]) -> None:
    calculation["input"] = [{"type": "field", "value": list(f)} for f in fields]


@pytest.mark.parametrize("more", [0, 1])
def test_fields_of_invalid_headers_are_left_out(more: int) -> None:
    rng = random.Random(more)
    v = {name: rng.getrandbits(n) for name, n in IN} | {"more": more}
    e = {name: rng.getrandbits(n) for name, n in EXTRA}
    data = join(IN, v) + (join(EXTRA, e) if more else b"")
    ((_, out),) = MiniSwitch(_direct()).send(0, data)
    got = split(OUT, out[len(data) :])
    a, b, c, d, _ = ((v[name], n) for name, n in IN)
    p, q, _ = ((e[name], n) for name, n in EXTRA)
    assert got["optional"] == zlib.crc32(bits(b, c, p, q, d) if more else bits(b, c, d))
    assert got["loose"] == crc16(bits(p, b, q, a) if more else bits(b, a))


def test_random_numbers_come_from_the_seed() -> None:
    def draw(seed: int) -> list[int]:
        switch = MiniSwitch(program("hashing"), seed)
        data = join(IN, {})
        return [split(OUT, switch.send(0, data)[0][1][len(data) :])["random"] for _ in range(200)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert set(draw(3)) == set(range(10, 20))


ETHERNET = bytes(12) + b"\x08\x00"


def _packet(rng: random.Random, options: int, payload: bytes) -> tuple[bytearray, int]:
    """An IPv4/UDP packet with right checksums; (packet, where the UDP header begins)."""
    ihl = 5 + options
    length = 8 + len(payload)
    ip = bytearray(struct.pack("!BBHHHBBHII", 0x40 | ihl, 0, 4 * ihl + length, 1, 0, 64, 17, 0, 0x0A000001, 0x0A000002))
    ip += rng.randbytes(4 * options)
    struct.pack_into("!H", ip, 10, checksum(bytes(ip)))
    udp = bytearray(struct.pack("!HHHH", 1000, 2000, length, 0)) + payload
    struct.pack_into("!H", udp, 6, _udp_checksum(bytes(ip), bytes(udp)))
    return bytearray(ETHERNET) + ip + udp, 14 + len(ip)


def _udp_checksum(ip: bytes, udp: bytes) -> int:
    pseudo = ip[12:20] + b"\0\x11" + udp[4:6]
    # The program takes the fields without the checksum, which is what zeroing it amounts to.
    return checksum(pseudo + udp[:6] + udp[8:])


@pytest.mark.parametrize("options", [0, 1, 4, 10])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 100, 1471])
def test_checksums_are_verified_and_updated(options: int, size: int) -> None:
    rng = random.Random(size * 100 + options)
    packet, at = _packet(rng, options, rng.randbytes(size))
    switch = MiniSwitch(program("checksums"))
    ((port, out),) = switch.send(0, bytes(packet))
    assert port == 1
    packet[14 + 8] -= 1
    struct.pack_into("!H", packet, 14 + 10, 0)
    struct.pack_into("!H", packet, 14 + 10, checksum(bytes(packet[14:at])))
    struct.pack_into("!H", packet, at + 2, 2001)
    struct.pack_into("!H", packet, at + 6, _udp_checksum(bytes(packet[14:at]), bytes(packet[at:])))
    assert out == bytes(packet)


@pytest.mark.parametrize("where", [15, 20, 14 + 30, -1, -5])
def test_a_wrong_byte_is_noticed(where: int) -> None:
    packet, _ = _packet(random.Random(1), 3, b"some payload")
    packet[where] ^= 0x10
    ((port, _),) = MiniSwitch(program("checksums")).send(0, bytes(packet))
    assert port == 2


def test_headers_that_are_not_there_count_as_right() -> None:
    assert MiniSwitch(program("checksums")).send(0, bytes(12) + b"\x86\xdd" + b"other")[0][0] == 1


# -- parameters that are set while the switch runs -----------------------------------------------------------


_POLYNOMIALS = {16: 0x1021, 32: 0x1EDC6F41}


def crc(data: bytes, width: int, p: CrcParameters) -> int:
    """Most significant bit first, as the parameters are given."""
    top, full = 1 << (width - 1), (1 << width) - 1
    remainder = p.initial
    for byte in data:
        remainder ^= (reflected(byte, 8) if p.data_reflected else byte) << (width - 8)
        for _ in range(8):
            remainder = (remainder << 1 ^ (p.polynomial if remainder & top else 0)) & full
    return (reflected(remainder, width) if p.remainder_reflected else remainder) ^ p.final_xor


def test_the_reference_knows_the_catalogued_crcs() -> None:
    check = b"123456789"
    assert crc(check, 32, CrcParameters(0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, True, True)) == zlib.crc32(check)
    assert crc(check, 16, CrcParameters(0x1021, 0xFFFF, 0, False, False)) == 0x29B1  # CRC-16/IBM-3740


@pytest.mark.parametrize(("data", "remainder"), list(itertools.product([False, True], repeat=2)))
def test_parameters_are_those_that_were_set(data: bool, remainder: bool) -> None:
    switch = MiniSwitch(program("hashing"))
    rng = random.Random(f"{data}{remainder}")
    names = {calculation["algo"]: name for name, calculation in switch.program.model.calculations.items()}
    parameters = {
        width: CrcParameters(polynomial, rng.getrandbits(width), rng.getrandbits(width), data, remainder)
        for width, polynomial in _POLYNOMIALS.items()
    }
    for width, each in parameters.items():
        switch.state.set_crc(names[f"crc{width}_custom"], each)
    for _ in range(20):
        v = {name: rng.getrandbits(n) for name, n in IN} | {"more": 0}
        packet = join(IN, v)
        ((_, out),) = switch.send(0, packet)
        got = split(OUT, out[len(packet) :])
        assert got["crc32_custom"] == crc(bits((v["a"], 128), (v["d"], 64)), 32, parameters[32])
        assert got["crc16_custom"] == crc(bits((v["d"], 64)), 16, parameters[16])
        assert got["crc16"] == crc16(bits((v["a"], 128), (v["b"], 12), (v["c"], 4)))


def test_one_calculation_of_several() -> None:
    switch = MiniSwitch(program("hashing"))
    with pytest.raises(KeyError):
        switch.state.set_crc("no such calculation", CrcParameters(1, 0, 0, False, False))
    names = {calculation["algo"]: name for name, calculation in switch.program.model.calculations.items()}
    switch.state.set_crc(names["crc16_custom"], CrcParameters(0x1021, 0, 0, False, False))
    packet = join(IN, {"a": 5, "d": 77})
    ((_, out),) = switch.send(0, packet)
    got = split(OUT, out[len(packet) :])
    assert got["crc32_custom"] == zlib.crc32(bits((5, 128), (77, 64)))  # as at the start
    assert got["crc16_custom"] != crc16(bits((77, 64)))
