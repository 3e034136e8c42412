# SPDX-License-Identifier: Apache-2.0
"""IPv6 addresses and uSID lists as the two signed 64-bit numbers that native code works with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address

import numpy as np

from detour.base.arrays import Int64Array
from detour.topo.address import USID_BITS, usid_address

_WORD = (1 << 64) - 1


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def to_words(address: str | int | IPv6Address) -> tuple[int, int]:
    """High and low half of an IPv6 address."""
    value = int(IPv6Address(address))
    return _signed(value >> 64), _signed(value & _WORD)


@lru_cache(1 << 12)
def to_text(high: int, low: int) -> str:
    """The address that `to_words` took apart."""
    return str(IPv6Address(((int(high) & _WORD) << 64) | (int(low) & _WORD)))


def final_address(usids: Sequence[int]) -> int:
    """Return the destination address at the end of the uSID list: the block and the last uSID.

    Checksums cover it (docs/facts.md, "uSID lists and checksums")."""
    return usid_address(usids[-1:])


def final_words(node_ids: Iterable[int]) -> Int64Array:
    """(n,) the first words of what is left of lists that end at these nodes."""
    nodes, place = np.unique(np.array(list(node_ids), np.int64), return_inverse=True)
    return np.array([to_words(final_address((node,)))[0] for node in nodes.tolist()], np.int64)[place]


def head_words(usids: Sequence[int]) -> tuple[int, int, int]:
    """Words of the address of a uSID list whose last uSID is not known yet, and by how many bits that is shifted."""
    shift = 80 - USID_BITS * len(usids)
    return (*to_words(usid_address((*usids, 1)) ^ 1 << shift), shift)


def ended(words: Int64Array, shift: Int64Array, node_ids: Int64Array) -> Int64Array:
    """Words (..., 2) of lists of `head_words`, `words` (..., 2) and `shift` (...), that end at nodes."""
    high = np.where(shift >= 64, node_ids << np.maximum(shift - 64, 0), 0)
    low = np.where(shift < 64, node_ids << np.minimum(shift, 63), 0)
    return words | np.stack([high, low], axis=-1)


def list_words(usids: Sequence[int]) -> tuple[int, int, int]:
    """A uSID list as an address, and the first word of what is left of it in the end."""
    return (*to_words(usid_address(usids)), to_words(final_address(usids))[0]) if usids else (0, 0, 0)
