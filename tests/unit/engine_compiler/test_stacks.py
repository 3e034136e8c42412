# SPDX-License-Identifier: Apache-2.0
"""Header stacks and unions in controls."""

from __future__ import annotations

import pytest

from .conftest import program
from .mini_switch import MiniSwitch


def send(op: int, index: int = 0, value: int = 0, items: bytes = b"") -> tuple[int, bytes, list[int]]:
    """(result, what follows the operation header, errors)."""
    switch = MiniSwitch(program("stacks"))
    ((_, out),) = switch.send(0, bytes([op, index, value, 0]) + items + b"\0")
    assert out[-1] == 0
    return out[3], out[4:-1], switch.errors


def items(*ids: int) -> bytes:
    return b"".join(bytes([i, i, i, i]) for i in ids)


def test_push() -> None:
    assert send(1, 0, 9, items(1, 2)) == (0, b"\x09\0\0\0" + items(1, 2), [])
    assert send(1, 0, 9, items(1, 2, 3, 4)) == (0, b"\x09\0\0\0" + items(1, 2, 3), [])
    assert send(3, 0, 0, items(1, 2, 3, 4)) == (0, items(1, 2), [])


def test_pop() -> None:
    assert send(2, 0, 0, items(1, 2, 3)) == (0, items(2, 3), [])
    assert send(4, 0, 0, items(1, 2, 3, 4)) == (0, items(4), [])
    assert send(4, 0, 0, items(1, 2)) == (0, b"", [])
    assert send(2) == (0, b"", [])


@pytest.mark.parametrize("index", [0, 1, 2, 3])
def test_index_at_run_time(index: int) -> None:
    assert send(5, index, 0, items(11, 12, 13, 14)) == (11 + index, items(11, 12, 13, 14), [])
    _, out, errors = send(6, index, 99, items(11, 12, 13, 14))
    expected = bytearray(items(11, 12, 13, 14))
    expected[4 * index] = 99
    assert out == bytes(expected)
    assert errors == []


@pytest.mark.parametrize("index", [4, 5, 127, 255])
def test_index_out_of_bounds(index: int) -> None:
    """simple_switch aborts; here it is an error, reads give 0 and writes go nowhere."""
    assert send(5, index, 0, items(11, 12, 13, 14)) == (0, items(11, 12, 13, 14), [3])
    assert send(6, index, 99, items(11, 12, 13, 14)) == (0, items(11, 12, 13, 14), [3])


def test_copies() -> None:
    assert send(7, 0, 0, items(1, 2, 3)) == (0, items(1, 2, 3), [])
    assert send(8, 0, 0, items(1, 2, 3)) == (0, items(1, 2) + items(2), [])
    assert send(8, 0, 0, items(1)) == (0, items(1), [])


def test_comparison() -> None:
    assert send(9, 0, 0, items(5, 5))[0] == 1
    assert send(9, 0, 0, items(5, 6))[0] == 2
    assert send(9, 0, 0, items(5))[0] == 2
    assert send(9)[0] == 1


def test_unions_have_one_valid_member() -> None:
    assert send(10, 0, 0x42) == (1, b"\x42\x42", [])
    assert send(10, 1, 0x42) == (2, b"\x12\x34\x12\x34", [])


def test_a_header_made_valid_again_is_zero() -> None:
    assert send(11, 0, 0, items(7, 8)) == (0, b"\0\0\0\0" + items(8), [])
