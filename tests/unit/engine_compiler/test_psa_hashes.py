# SPDX-License-Identifier: Apache-2.0
"""PSA's Hash over inputs of many widths, against straightforward Python; `tests/differential` has psa_switch beside."""

from __future__ import annotations

import random
import zlib

from detour.engine import phv
from detour.engine.compiler.program import Program
from tests.packet_runner import PacketRunner
from tests.psa_hashes import TAIL_BITS, WIDTHS, psa_hash_program

from .test_hashing import checksum, crc16, xor16

PYTHON = {
    "crc16": crc16,
    "crc32": zlib.crc32,
    "csum16": checksum,
    "xor16": xor16,
    "identity": lambda data: int.from_bytes(data[:8], "big"),
}


def _filled_on_the_left(value: int, width: int) -> bytes:
    return value.to_bytes((width + 7) // 8, "big")


def test_what_is_hashed_is_filled_up_to_bytes_on_the_left() -> None:
    # The number of p4c's hash-extern-bmv2.
    assert crc16(_filled_on_the_left(0x456, 12)) == 0xFE82
    runner = PacketRunner(Program(psa_hash_program()))
    rng = random.Random(25)
    for _ in range(5):
        source, destination = rng.randbytes(4), rng.randbytes(4)
        runner.start(b"\x45" + bytes(11) + source + destination)
        runner.ingress(runner.state.sw, runner.phv.ctypes.data)
        assert not runner.fixed(phv.PARSER_ERROR)
        tail = destination[-1] % (1 << TAIL_BITS)
        for width in WIDTHS:
            word = int.from_bytes(source, "big") % (1 << width) << TAIL_BITS | tail
            data = _filled_on_the_left(word << 8, width + TAIL_BITS + 8)
            for name, function in PYTHON.items():
                assert runner.get(f"results.{name}_{width}") == function(data) % (1 << 32), (name, width)
        for name, function in PYTHON.items():  # of the last width
            assert runner.get(f"results.{name}_modulo") == 100 + function(data) % 7, name
