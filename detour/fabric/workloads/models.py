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
from detour.control.placement.training import SHAPE_KEYS, TrainingShape
from detour.fabric.workloads.gpu_memory import Activations, GpuMemory, layers_held, state_bytes

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
    None: tensor parallelism is over the fabric. `recompute`: see `Activations`. `experts` of each layer, of which each
    token takes `top_k`; 0: none. `context`, `interleave`, `zero`: see `TrainingShape`; `bucket` and the rest: see
    `training.Overlap`, None as by default."""

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
    recompute: str | None = None
    experts: int = 0
    top_k: int = 2
    ep: int = 1
    skew: str = "uniform"
    context: int | None = None
    interleave: int | None = None
    zero: int | None = None
    bucket: int | None = None
    prefetch: bool | None = None
    expert_chunks: int | None = None
    sequence_parallel: bool | None = None
    sm_share: float | None = None

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
        """Raise DetourError: what does not go into what, or a single host."""
        layers, _ = self.shape()
        if self._hosts == 1:
            raise DetourError("tp * pp * dp is 1: a single host sends nothing; give --tp, --pp or --dp")
        for what, value, by, count in (
            ("layers", layers, "pp", self.pp), ("batch", self.batch, "dp * micro-batch", self.dp * self.micro_batch),
            ("dp", self.dp, "ep", self.ep), ("experts", self.experts, "ep", self.ep),
            ("sequence", self.sequence, "context", self.context or 1),
        ):  # fmt: skip
            if value % count:
                raise DetourError(f"{what} is {value}; it must be a multiple of {by}, {count}")

    @property
    def _hosts(self) -> int:
        return self.tp * self.pp * self.dp * (self.context or 1)

    @property
    def _tokens(self) -> int:
        """Tokens of a microbatch at a rank."""
        return self.micro_batch * self.sequence // (self.context or 1)

    def job(self, name: str) -> dict[str, Any]:
        """Return the run as a job file describes it."""
        self.check()
        layers, h = self.shape()
        tokens, per_stage = self._tokens, layers // self.pp
        activations = _BYTES * tokens * h
        # Each of a layer: attention 8 t h^2 + 4 t s h, a dense network 16 t h^2; logits 2 t h V.
        scores, network = 4 * tokens * self.sequence * h, 16 * tokens * h**2
        dense = 8 * tokens * h**2 + scores + (0 if self.experts else network)
        forward, head = self._seconds(per_stage * dense), self._seconds(2 * tokens * h * _VOCABULARY)
        again = {None: 0.0, "full": forward, "selective": self._seconds(per_stage * scores)}[self.recompute]
        inside = per_stage * self._tensor_seconds(activations)
        weights = 4 * h**2 * layers + (0 if self.experts else 8 * h**2 * layers) + _VOCABULARY * h
        job = {
            "name": name, "collective": "training-step", "hosts": f"h0-h{self._hosts - 1}",
            "tp": self.tp, "pp": self.pp, "dp": self.dp, "microbatches": self.batch // (self.dp * self.micro_batch),
            "layers": per_stage, "stage_bytes": activations // self.tp if self.pp > 1 else 0,
            "tensor_bytes": activations if self.tp > 1 and self.nvlink_bps is None else 0,
            "gradient_bytes": _BYTES * weights // (self.tp * self.pp), "forward": _time(forward + inside),
            "backward": _time(2 * forward + again + inside), "head": _time(head),
        }  # fmt: skip
        if self.context and self.context > 1:
            job |= {"attention": _time(self._seconds(per_stage * scores)), "context_bytes": 2 * activations // self.tp}
        more = ("context", "interleave", "zero", "prefetch", "expert_chunks", "sequence_parallel", "sm_share")
        job |= {key: getattr(self, key) for key in more if getattr(self, key) is not None}
        if self.bucket is not None:
            job["bucket_bytes"] = self.bucket
        if self.experts:
            held = 8 * h**2 * per_stage * self.experts // (self.ep * self.tp)
            job |= {
                "ep": self.ep, "skew": self.skew, "expert_bytes": self.top_k * activations // self.tp,
                "expert_gradient_bytes": _BYTES * held if self.dp * (self.context or 1) > self.ep else 0,
                "expert": _time(self._seconds(per_stage * self.top_k * network)),
            }  # fmt: skip
        return job

    def memory(self) -> GpuMemory:
        """Return the memory of a GPU of the first stage. Raises DetourError as `job` does."""
        shape = TrainingShape(**{key: value for key, value in self.job("").items() if key in SHAPE_KEYS})
        h = self.shape()[1]
        layer, expert = (4 + (0 if self.experts else 8)) * h**2 / self.tp, 8 * h**2 * self.experts / (self.ep * self.tp)
        zero, ranks = shape.zero, shape.dp * shape.context
        common = state_bytes(layer * shape.layers + _VOCABULARY * h / self.tp, zero, ranks)
        states = [
            sum(each) for each in zip(common, state_bytes(expert * shape.layers, zero, ranks // self.ep), strict=True)
        ]
        if zero == 3:  # layers that are gathered
            states[0] += _BYTES * (layer + expert) * (2 if self.prefetch else 1)
        held = Activations(
            tokens=self._tokens, sequence=self.sequence, hidden=h, tp=self.tp, recompute=self.recompute,
            sequence_parallel=bool(self.sequence_parallel), networks=self.top_k if self.experts else 1,
        ).of_layer * layers_held(shape)  # fmt: skip
        if self.pp == 1:  # what comes into the logits, and they in fp32
            held += 4 * self._tokens * (h + _VOCABULARY) / self.tp
        return GpuMemory(*(round(each) for each in (*states, held)))

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
