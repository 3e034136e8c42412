# SPDX-License-Identifier: Apache-2.0
"""Memory that training takes of a GPU, from the shape of a model.

Weights, gradients and optimizer states: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
Parameter Models", SC 2020, section 3.1 and figure 1, for Adam in mixed precision. Activations: Korthikanti et al.,
"Reducing Activation Recomputation in Large Transformer Models", 2022, section 4, for the first stage, which holds most.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import accumulate

from detour.control.placement.training import TrainingShape
from detour.fabric.workloads.schedules import passes

_WEIGHT, _GRADIENT, _OPTIMIZER = 2, 2, 12
"""bytes for each parameter: bf16; bf16; the weight, its momentum and its variance in fp32"""
HEAD = 128
"""width of an attention head, as in Brown et al., table 2.1"""


@dataclass(frozen=True)
class GpuMemory:
    """Bytes of a GPU, by what they are for."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        return sum(getattr(self, each.name) for each in fields(self))

    def __str__(self) -> str:
        parts = ", ".join(f"{each.name} {getattr(self, each.name) / 1e9:.3g}" for each in fields(self))
        return f"{self.total / 1e9:.1f} GB ({parts})"


def state_bytes(parameters: float, zero: int = 0, ranks: int = 1) -> tuple[float, float, float]:
    """Bytes of the weights, gradients and optimizer states of parameters that `ranks` have in common."""
    shares = [1 / ranks if zero >= stage else 1.0 for stage in (3, 2, 1)]
    weights, gradients, optimizer = (parameters * each for each in (_WEIGHT, _GRADIENT, _OPTIMIZER))
    return weights * shares[0], gradients * shares[1], optimizer * shares[2]


@dataclass(frozen=True, kw_only=True)
class Activations:
    """`tokens`: of a microbatch at a rank; `sequence`: that attention goes over. `recompute`: `full`, `selective` (of
    attention, as FlashAttention does it) or None. `networks`: that each token goes through in a layer."""

    tokens: int
    sequence: int
    hidden: int
    tp: int = 1
    sequence_parallel: bool = False
    recompute: str | None = None
    networks: int = 1

    @property
    def of_layer(self) -> float:
        """Return the bytes of a layer and microbatch (table 2)."""
        width = self.tokens * self.hidden
        if self.recompute == "full":
            return 2.0 * width
        # Attention 11, of which 8 are divided, the network 19 (16), layer norms 4.
        divided, whole = 8 + 16 * self.networks, 7 + 3 * self.networks
        if self.sequence_parallel:
            divided, whole = divided + whole, 0
        scores = 0.0 if self.recompute else 5 * self.sequence / HEAD
        return width * (whole + (divided + scores) / self.tp)


def layers_held(shape: TrainingShape) -> float:
    """Layers whose activations the first stage holds, counted for each microbatch."""
    under_way = accumulate(1 if each.way == "forward" else -1 for each in passes(shape, 0))
    return max(under_way) * shape.layers / shape.interleave
