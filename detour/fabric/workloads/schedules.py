# SPDX-License-Identifier: Apache-2.0
"""Schedules of a training step: the order of a stage's passes, and the bytes of gradients that go together.

1F1B: a stage of p runs min(p - 1 - stage, microbatches) forward passes first, then one forward and one backward pass in
turn, then the backward passes that are left (PipeDream-flush: Narayanan et al., "Efficient Large-Scale Language Model
Training on GPU Clusters Using Megatron-LM", SC 2021, section 2.2). Interleaved (the same section): a stage has several
chunks of the model, chunk c of stage s is part c p + s of all, and p microbatches go through a chunk before they go
through the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from detour.control.placement.training import TrainingShape


class Pass(NamedTuple):
    """`forward` or `backward`, of a microbatch, through a chunk of a stage."""

    way: str
    microbatch: int
    chunk: int = 0


def passes(shape: TrainingShape, stage: int) -> list[Pass]:
    """List a stage's passes, in order."""
    stages, chunks = shape.pp, shape.interleave
    total = shape.microbatches * chunks
    ahead = stages - 1 - stage if chunks == 1 else 2 * (stages - 1 - stage) + (chunks - 1) * stages
    ahead = min(ahead, total)
    forward, backward = [], []
    for number in range(total):
        turn, within = divmod(number, stages * chunks)
        chunk, place = divmod(within, stages) if chunks > 1 else (0, within)
        microbatch = turn * stages + place if chunks > 1 else number
        forward.append(Pass("forward", microbatch, chunk))
        backward.append(Pass("backward", microbatch, chunks - 1 - chunk))
    ordered = forward[:ahead]
    for number in range(total):
        ordered += forward[number + ahead : number + ahead + 1]
        ordered.append(backward[number])
    return ordered


@dataclass(frozen=True)
class Buckets:
    """`total` bytes of `layers` alike, which come or are needed one after the other, in buckets of `size` bytes; 0: a
    layer each."""

    total: int
    layers: int
    size: int = 0

    @cached_property
    def ends(self) -> list[int]:
        """Return the bytes up to the end of each."""
        layers = [self._upto(layer) for layer in range(1, self.layers + 1)]
        return [*range(self.size, self.total, self.size), self.total] if self.size else sorted(set(layers) - {0})

    @cached_property
    def sizes(self) -> list[int]:
        """Return the bytes of each."""
        return [end - begin for begin, end in zip([0, *self.ends], self.ends, strict=False)]

    def complete(self, layer: int) -> list[int]:
        """List the sizes of buckets of which `layer`, from 0 on, is the last one."""
        low, high = self._upto(layer), self._upto(layer + 1)
        return [size for size, end in zip(self.sizes, self.ends, strict=True) if low < end <= high]

    def needed(self, layer: int) -> int:
        """Return how many buckets have the bytes of all layers up to `layer`."""
        return sum(begin < self._upto(layer + 1) for begin in (0, *self.ends[:-1]))

    def _upto(self, layers: int) -> int:
        return self.total * layers // self.layers
