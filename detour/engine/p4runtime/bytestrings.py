# SPDX-License-Identifier: Apache-2.0
"""Integers as P4Runtime byte strings (spec, "Bytestrings"): canonical ones go out, padded ones are accepted.

A string that is empty or exceeds the bit width is OUT_OF_RANGE. The sections on match fields and action
parameters say INVALID_ARGUMENT for "does not conform to Bytestrings", the section on byte strings itself
OUT_OF_RANGE; we follow the one that defines the criteria, everywhere.
"""

from __future__ import annotations

from detour.engine.p4runtime.errors import Code, Refused


def encode(value: int) -> bytes:
    """The shortest string that holds an unsigned value."""
    return value.to_bytes((value.bit_length() + 7) >> 3 or 1, "big")


def decode(data: bytes, bits: int, what: str) -> int:
    """The value of a string for a `bit<bits>` called `what`."""
    value = int.from_bytes(data, "big")
    if value >> bits or not data:
        raise out_of_range(data, bits, what)
    return value


def out_of_range(data: bytes, bits: int, what: str) -> Refused:
    """The refusal of a string."""
    if not data:
        return Refused(Code.OUT_OF_RANGE, f"{what}: the byte string is empty")
    shown = data[:20].hex() + ("..." if len(data) > 20 else "")
    return Refused(Code.OUT_OF_RANGE, f"{what}: 0x{shown} exceeds {bits} bits")


def encode_signed(value: int) -> bytes:
    """The shortest two's complement string."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) >> 3, "big", signed=True)


def decode_signed(data: bytes, bits: int, what: str) -> int:
    """The value of a two's complement string for an `int<bits>`."""
    value = int.from_bytes(data, "big", signed=True)
    if not data or not -(1 << (bits - 1)) <= value < (1 << (bits - 1)):
        raise out_of_range(data, bits, what)
    return value
