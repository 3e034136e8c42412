# SPDX-License-Identifier: Apache-2.0
"""IPv6 addresses and uSID lists as the two signed 64-bit numbers that native code works with."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address

from detour.base.errors import DetourError

USID_BLOCK = 0xFCBBBB00
"""first 32 bits of every uSID list (docs/architecture.md)"""
MAX_USIDS = 6

_WORD = (1 << 64) - 1


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def to_words(address: str | int | IPv6Address) -> tuple[int, int]:
    """High and low half of an IPv6 address."""
    value = int(IPv6Address(address))
    return _signed(value >> 64), _signed(value & _WORD)


def to_text(high: int, low: int) -> str:
    """The address that `to_words` took apart."""
    return str(IPv6Address(((int(high) & _WORD) << 64) | (int(low) & _WORD)))


def usid_address(usids: Sequence[int]) -> str:
    """Destination address that carries one to six uSIDs (16 bits each, not 0) behind the block."""
    if not 1 <= len(usids) <= MAX_USIDS:
        raise DetourError(f"a uSID list has 1 to {MAX_USIDS} entries; this one has {len(usids)}")
    value = USID_BLOCK << 96
    for place, usid in enumerate(usids):
        if not 0 < usid <= 0xFFFF:
            raise DetourError(f"uSID {usid:#x} at place {place + 1} must be 0x1 to 0xffff (0 ends a list)")
        value |= usid << (80 - 16 * place)
    return str(IPv6Address(value))


def final_address(usids: Sequence[int]) -> str:
    """What is left of the list where it ends: the block and the last uSID.

    Checksums cover it (docs/facts.md, "uSID lists and checksums")."""
    return usid_address(usids[-1:])
