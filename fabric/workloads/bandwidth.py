# SPDX-License-Identifier: Apache-2.0
"""Bus bandwidth as nccl-tests define it: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobStep:
    """What a step of a job's graph is: of which job (its number), what it is called, among how many ranks, how much it
    carries in nccl-tests' terms, and by what its bytes over its time become bus bandwidth (`factor`; 0: it is no
    collective)."""

    job: int
    name: str
    ranks: int = 1
    bytes: int = 0
    factor: float = 0.0


def all_reduce_factor(ranks: int) -> float:
    """Of an all-reduce."""
    return 2 * (ranks - 1) / ranks


def share_factor(ranks: int) -> float:
    """Of what leaves each rank its own part: all-gather, reduce-scatter, all-to-all."""
    return (ranks - 1) / ranks
