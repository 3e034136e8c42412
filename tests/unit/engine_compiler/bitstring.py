# SPDX-License-Identifier: Apache-2.0
"""Packets from and to named bit fields, independent of the compiler."""

from __future__ import annotations

Spec = list[tuple[str, int]]


def join(spec: Spec, values: dict[str, int]) -> bytes:
    """Fields side by side; missing ones are 0, negative ones two's complement."""
    total = word = 0
    for name, bits in spec:
        word = word << bits | (values.get(name, 0) & ((1 << bits) - 1))
        total += bits
    assert total % 8 == 0
    return word.to_bytes(total // 8, "big")


def split(spec: Spec, data: bytes) -> dict[str, int]:
    """The fields of the first bytes."""
    total = sum(bits for _, bits in spec)
    word = int.from_bytes(data[: total // 8], "big")
    values = {}
    for name, bits in spec:
        total -= bits
        values[name] = word >> total & ((1 << bits) - 1)
    return values
