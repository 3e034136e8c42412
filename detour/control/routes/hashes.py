# SPDX-License-Identifier: Apache-2.0
"""The choices that the data plane makes by hash, repeated exactly, and turned round: which source port chooses what.

fabric.p4 hashes with BMv2's crc16, which is CRC-16/ARC (polynomial 0x8005 reflected, initial value and final
XOR 0), over fields in network order. `path` is the low 15 bits of the UDP source port.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PATHS = 1 << 15
DETOUR_BIT = 1 << 15


def crc_table() -> tuple[int, ...]:
    """The 256 steps of CRC-16/ARC, by the byte that goes in."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_TABLE = crc_table()


def crc16(data: bytes) -> int:
    """CRC-16/ARC; `crc16(b"123456789")` is 0xbb3d."""
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


@lru_cache(maxsize=1)
def path_hashes() -> NDArray[np.uint16]:
    """(32768,) crc16 of every `path`, as valiant.p4 computes it."""
    table = np.array(_TABLE, dtype=np.uint16)
    paths = np.arange(PATHS, dtype=np.uint16)
    crc = table[paths >> 8]
    return (crc >> 8 ^ table[(crc ^ paths) & 0xFF]).astype(np.uint16)


def pick_via(path: int, source: int, destination: int, groups: int) -> int:
    """The intermediate group for a packet from group `source` to another group `destination` (pick_via in P4)."""
    via = int(path_hashes()[path]) % (groups - 2)
    low, high = sorted((source, destination))
    via += via >= low
    return via + (via >= high)


def pick_member(path: int, node_id: int, size: int) -> int:
    """The member of an action set of that size that a switch takes (mix in valiant.p4, then the selector's crc16)."""
    spread = path * (node_id * 0x9E3779B1 | 1) * (path + node_id) & 0xFFFFFFFF
    return crc16(spread.to_bytes(4, "big")) % size


@lru_cache(maxsize=64)
def _first_paths(choices: int, start: int) -> tuple[int, ...]:
    """For every residue of the hash modulo `choices` the first path from `start` on (cyclically) that has it."""
    rolled = np.roll(path_hashes() % choices, -start)
    residues, first = np.unique(rolled, return_index=True)
    path_of = dict(zip(residues.tolist(), ((first + start) % PATHS).tolist(), strict=True))
    return tuple(path_of[residue] for residue in range(choices))


def via_ports(source: int, destination: int, groups: int, start: int = 0) -> dict[int, int]:
    """For every intermediate group between two groups a UDP source port (most significant bit 1) that chooses it.
    `start` (0 to 32767) is where the search begins: different values give different ports for the same groups."""
    if groups < 3 or source == destination:
        return {}
    ports = _first_paths(groups - 2, start % PATHS)
    between = [group for group in range(groups) if group not in (source, destination)]
    return {via: DETOUR_BIT | ports[residue] for residue, via in enumerate(between)}


def probe_ports(source: int, destination: int, groups: int, start: int = 0) -> tuple[int, ...]:
    """The |G| - 1 candidates to probe between two groups: a shortest path first, then one by every other group. Mizrahi
    et al., section III; one candidate inside a group and where there is no Valiant routing."""
    return (start % PATHS, *via_ports(source, destination, groups, start).values())
