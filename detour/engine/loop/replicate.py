# SPDX-License-Identifier: Apache-2.0
"""Finding the replicas of a multicast group or clone session in what `detour.engine.pre` wrote.

A table of offsets, indexed by group or session id, leads to a block of int32: number of replicas, length to which
a clone is cut, then port and rid of each replica.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.engine.loop.native import load32


@inner()
def find(offsets: int, replicas: int, size: int, number: int) -> int:
    """Address of the block of group or session `number`, or 0 if it does not exist."""
    if offsets == 0 or number < 0 or number >= size:
        return 0
    offset = load32(offsets + 4 * number)
    if offset < 0:
        return 0
    return replicas + 4 * offset


@inner(forceinline=True)
def count(block: int) -> int:
    """Number of replicas."""
    return load32(block)


@inner(forceinline=True)
def cut(block: int) -> int:
    """Length in bytes to which clones are cut, 0: not at all."""
    return load32(block + 4)


@inner(forceinline=True)
def replica_port(block: int, number: int) -> int:
    """Egress port of a replica."""
    return load32(block + 8 + 8 * number)


@inner(forceinline=True)
def replica_rid(block: int, number: int) -> int:
    """Replication id of a replica."""
    return load32(block + 12 + 8 * number)
