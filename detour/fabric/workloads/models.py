# SPDX-License-Identifier: Apache-2.0
"""Training steps from the shape of a model: how long GPUs compute, and what they send. docs/workloads.md has the
formulae and where they come from.

FLOPs: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021,
section 5.1 and appendix; all-reduces of tensor parallelism: Shoeybi et al., "Megatron-LM", 2019, section 3; experts:
Lepikhin et al., "GShard", ICLR 2021, section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from detour.base.errors import DetourError

_TABLE = {
    125e6: (12, 768), 350e6: (24, 1024), 760e6: (24, 1536), 1.3e9: (24, 2048), 2.7e9: (32, 2560), 6.7e9: (32, 4096),
    13e9: (40, 5120), 175e9: (96, 12288), 530e9: (105, 20480), 1008e9: (128, 25600),
}  # fmt: skip
"""parameters: layers and width; Brown et al., "Language Models are Few-Shot Learners", 2020, table 2.1, and Narayanan
et al., table 1"""
_VOCABULARY = 51_200
_WIDTHS = 128
_BYTES = 2
"""of a weight, a gradient and an activation: bf16"""


@dataclass(frozen=True, kw_only=True)
class ModelRun:
    """A transformer and how it is trained. `batch`: sequences in a step, `micro_batch`: of a microbatch; `nvlink_bps`
    None: tensor parallelism is over the fabric. `experts` of each layer, of which each token takes `top_k`; 0: none."""

    params: float
    layers: int | None = None
    hidden: int | None = None
    sequence: int = 2048
    tp: int = 1
    pp: int = 1
    dp: int = 1
    batch: int = 1
    micro_batch: int = 1
    flops: float = 989e12
    efficiency: float = 0.4
    nvlink_bps: int | None = None
    recompute: bool = False
    experts: int = 0
    top_k: int = 2
    ep: int = 1
    skew: str = "uniform"

    def shape(self) -> tuple[int, int]:
        """(layers, width): as given, or of the model in the table with the next number of parameters, and the width
        that makes up the parameters: 12 L h^2 + V h."""
        nearest = min(_TABLE, key=lambda params: abs(math.log(params / self.params)))
        layers = self.layers or _TABLE[nearest][0]
        if self.hidden:
            return layers, self.hidden
        width = (math.sqrt(_VOCABULARY**2 + 48 * layers * self.params) - _VOCABULARY) / (24 * layers)
        return layers, max(_WIDTHS, round(width / _WIDTHS) * _WIDTHS)

    def check(self) -> None:
        """Raises DetourError: what does not go into what, or a single host."""
        layers, _ = self.shape()
        if self.tp * self.pp * self.dp == 1:
            raise DetourError("tp * pp * dp is 1: a single host sends nothing; give --tp, --pp or --dp")
        for what, value, by, count in (
            ("layers", layers, "pp", self.pp), ("batch", self.batch, "dp * micro-batch", self.dp * self.micro_batch),
            ("dp", self.dp, "ep", self.ep), ("experts", self.experts, "ep", self.ep),
        ):  # fmt: skip
            if value % count:
                raise DetourError(f"{what} is {value}; it must be a multiple of {by}, {count}")

    def job(self, name: str) -> dict[str, Any]:
        """Return the run as a job file describes it."""
        self.check()
        layers, h = self.shape()
        tokens, per_stage = self.micro_batch * self.sequence, layers // self.pp
        activations = _BYTES * tokens * h
        # Each of a layer: attention 8 t h^2 + 4 t s h, a dense network 16 t h^2; logits 2 t h V.
        attention, network = 8 * tokens * h**2 + 4 * tokens * self.sequence * h, 16 * tokens * h**2
        dense = attention + (0 if self.experts else network)
        forward, head = self._seconds(per_stage * dense), self._seconds(2 * tokens * h * _VOCABULARY)
        inside = per_stage * self._tensor_seconds(activations)
        weights = 4 * h**2 * layers + (0 if self.experts else 8 * h**2 * layers) + _VOCABULARY * h
        job = {
            "name": name, "collective": "training-step", "hosts": f"h0-h{self.tp * self.pp * self.dp - 1}",
            "tp": self.tp, "pp": self.pp, "dp": self.dp, "microbatches": self.batch // (self.dp * self.micro_batch),
            "layers": per_stage, "stage_bytes": activations // self.tp if self.pp > 1 else 0,
            "tensor_bytes": activations if self.tp > 1 and self.nvlink_bps is None else 0,
            "gradient_bytes": _BYTES * weights // (self.tp * self.pp), "forward": _time(forward + inside),
            "backward": _time((3 if self.recompute else 2) * forward + inside), "head": _time(head),
        }  # fmt: skip
        if self.experts:
            held = 8 * h**2 * per_stage * self.experts // (self.ep * self.tp)
            job |= {
                "ep": self.ep, "skew": self.skew, "expert_bytes": self.top_k * activations // self.tp,
                "expert_gradient_bytes": _BYTES * held if self.dp > self.ep else 0,
                "expert": _time(self._seconds(per_stage * self.top_k * network)),
            }  # fmt: skip
        return job

    def parameters(self) -> int:
        """Return the parameters of the model as built, all experts included."""
        layers, h = self.shape()
        return (4 + 8 * max(self.experts, 1)) * h**2 * layers + _VOCABULARY * h

    def _seconds(self, flops: float) -> float:
        return flops / self.tp / (self.flops * self.efficiency)

    def _tensor_seconds(self, activations: int) -> float:
        """Return the time of a layer's two all-reduces over NVLink."""
        if self.nvlink_bps is None:
            return 0.0
        return 2 * 2 * (self.tp - 1) / self.tp * activations * 8 / self.nvlink_bps


def _time(seconds: float) -> str:
    return f"{round(seconds * 1e9)}ns"
