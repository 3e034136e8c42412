# SPDX-License-Identifier: Apache-2.0
"""CRCs whose parameters are set while the switch runs, against the definition of a CRC, bit by bit."""

from __future__ import annotations

import itertools
import random
import zlib

import pytest

from detour.engine.compiler.hashes import CrcParameters, reflected

from .bitstring import join, split
from .conftest import program
from .mini_switch import MiniSwitch
from .test_hashing import IN, OUT, bits, crc16

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
