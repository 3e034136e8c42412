# SPDX-License-Identifier: Apache-2.0
"""Jobs whose flows are unlike: training steps, tokens to experts, all-reduces along rails, trees or NCCL's channels.

A layout says which rank sends how much to which other one, and as part of what; ranks are the job's hosts in order.

    - collective: training-step      # rank = tensor + tp * (context + cp * (data + dp * pipeline)), as in Megatron-LM
      hosts: h0-h31
      tp: 2
      pp: 4
      dp: 4
      microbatches: 8
      stage_bytes: 8000000           # to the next stage, of a microbatch and host
      gradient_bytes: 100000000      # of a host, all-reduced by those of its `dp` group
    - {collective: moe, hosts: h0-h31, bytes: 100000, skew: "moe:1.2"}
    - {collective: rail-all-reduce, hosts: all, group: 8, bytes: 1000000, graph: nccl.xml}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path as File
from typing import Any, NamedTuple
from xml.etree import ElementTree

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.control.placement.nccl.layout import NCCL_KEYS, NcclJob, nccl_job
from detour.control.placement.nccl.rules import double_trees

_MOST = 1 << 40


class RankFlow(NamedTuple):
    """Bytes that one rank sends to another in a step of a job, as part of `what`."""

    what: str
    source: int
    target: int
    bytes: int


def ring_flows(what: str, ranks: list[int], size: int, rounds: int = 2) -> Iterator[RankFlow]:
    """An all-reduce of `size` bytes around a ring, or as many reduce-scatters and all-gathers as `rounds` says."""
    n = len(ranks)
    for place, rank in enumerate(ranks if n > 1 else ()):
        yield RankFlow(what, rank, ranks[(place + 1) % n], max(1, rounds * (n - 1) * size // n))


@dataclass(frozen=True)
class TrainingShape:
    """A training step: `tp` * `context` * `pp` * `dp` ranks; `ep` of each `dp` group share experts; a stage has
    `interleave` chunks of the model. `layers`: of a stage. Bytes of a host: `stage_bytes` to the next stage and
    `tensor_bytes` in each of the two all-reduces of a layer, for each microbatch; `context_bytes` of keys and values;
    `expert_bytes` in each all-to-all of a layer, spread by `skew` and `seed` (`fors.files.drawn_sizes`);
    `gradient_bytes` and `expert_gradient_bytes` in the all-reduces at the end, or as `zero` has it. 0: not over the
    fabric."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    context: int = 1
    interleave: int = 1
    zero: int = 0
    microbatches: int = 1
    layers: int = 1
    stage_bytes: int = 0
    tensor_bytes: int = 0
    context_bytes: int = 0
    gradient_bytes: int = 0
    expert_bytes: int = 0
    expert_gradient_bytes: int = 0
    skew: str = "uniform"
    seed: int = 1

    def __post_init__(self) -> None:
        """Raise DetourError: what is wrong."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= _MOST:
                raise DetourError(f"{name} is {value!r}; it must be a whole number from {least} to 2**40")
        if self.dp % self.ep:
            raise DetourError(f"ep is {self.ep}; it must divide dp, {self.dp}")
        if type(self.skew) is not str:
            raise DetourError(f"skew is {self.skew!r}; expected a text like moe:1.2")
        if self.pp > 1 and not self.stage_bytes:
            raise DetourError("stages need `stage_bytes`, what each host sends to the next one")
        if self.context > 1 and not self.context_bytes:
            raise DetourError("context parallelism needs `context_bytes`, the keys and values of a host")
        if self.zero > _ZERO:
            raise DetourError(f"zero is {self.zero}; it must be 0, 1, 2 or 3")
        self._check_chunks()

    def _check_chunks(self) -> None:
        for name, count, by in (("layers", self.layers, self.interleave), ("microbatches", self.microbatches, self.pp)):
            if self.interleave > 1 and count % by:
                raise DetourError(f"{name} is {count}; with interleave {self.interleave} it must be a multiple of {by}")
        if self.interleave > 1 and self.pp == 1:
            raise DetourError(f"interleave is {self.interleave}, but there is one stage; it needs pp of 2 or more")

    @property
    def ranks(self) -> int:
        return self.tp * self.context * self.pp * self.dp

    def members(self, stage: int) -> list[int]:
        """Return the ranks of a stage."""
        return self._ranks(stage, range(self.tp), range(self.context), range(self.dp))

    def _ranks(self, stage: int, tensor: range, context: range, data: range) -> list[int]:
        return [a + self.tp * (b + self.context * (c + self.dp * stage)) for c in data for b in context for a in tensor]

    def groups(self, what: str, stage: int) -> list[list[int]]:
        """Ranks of a stage that take part together in `tensor`, `context`, `gradient`, `expert` or `expert-gradient`.
        Gradients are those of all ranks that have the same weights (Megatron-LM: data and context parallel)."""
        tensor, context, data = range(self.tp), range(self.context), range(self.dp)
        match what:
            case "tensor":
                return [self._ranks(stage, tensor, _just(b), _just(c)) for c in data for b in context]
            case "context":
                return [self._ranks(stage, _just(a), context, _just(c)) for c in data for a in tensor]
            case "gradient":
                return [self._ranks(stage, _just(a), context, data) for a in tensor]
            case "expert":
                some = [range(first, first + self.ep) for first in range(0, self.dp, self.ep)]
                return [self._ranks(stage, _just(a), _just(b), each) for a in tensor for b in context for each in some]
            case _:
                some = [range(first, self.dp, self.ep) for first in range(self.ep)]
                return [self._ranks(stage, _just(a), context, each) for a in tensor for each in some]

    @property
    def gradients(self) -> list[tuple[str, int]]:
        """Kinds of gradients, and the bytes of a host."""
        kinds = ("gradient", self.gradient_bytes), ("expert-gradient", self.expert_gradient_bytes)
        return [(what, size) for what, size in kinds if size]

    @property
    def gradient_rounds(self) -> int:
        """Reduce-scatters and all-gathers of all gradients, or weights, in a step (Rajbhandari et al., "ZeRO", SC 2020,
        section 7): an all-reduce is one of each; from 2 on gradients are reduced for each microbatch, with 3 weights
        are gathered for each pass."""
        return {2: self.microbatches + 1, 3: 3 * self.microbatches}.get(self.zero, 2)

    @cached_property
    def tokens(self) -> Int64Array:
        """(ep, ep) bytes that each rank of a group sends to the experts of each other one."""
        return _drawn(self.ep, max(1, self.expert_bytes // self.ep), self.skew, self.seed)

    def flows(self) -> Iterator[RankFlow]:
        """All of a step."""
        blocks = self.layers * self.microbatches
        for stage in range(self.pp):
            kinds = [(what, size, self.gradient_rounds) for what, size in self.gradients]
            for what, size, rounds in (("tensor", 4 * blocks * self.tensor_bytes, 2), *kinds):
                for group in self.groups(what, stage) if size else ():
                    yield from ring_flows(what, group, size, rounds)
            # Keys and values in forward passes; in backward passes their gradients with them.
            for group in self.groups("context", stage) if self.context > 1 else ():
                for rank, target in zip(group, group[1:] + group[:1], strict=True):
                    yield RankFlow("context", rank, target, 3 * blocks * (self.context - 1) * self.context_bytes)
            if self.expert_bytes:
                both = 2 * blocks * (self.tokens + self.tokens.T)
                for group in self.groups("expert", stage):
                    yield from _all_pairs("expert", group, both)
            # From the last stage a chunk's activations go to the first one, which has the next chunk.
            chunks, onward = self.interleave - (stage + 1 == self.pp), self.members((stage + 1) % self.pp)
            for ends in zip(self.members(stage), onward, strict=True) if chunks else ():
                for what, (a, b) in (("forward", ends), ("backward", ends[::-1])):
                    yield RankFlow(what, a, b, self.microbatches * chunks * self.stage_bytes)


_ZERO = 3
_LEAST = {
    each.name: int(each.name != "zero" and not each.name.endswith("bytes"))
    for each in fields(TrainingShape)
    if each.name != "skew"
}
SHAPE_KEYS = frozenset(each.name for each in fields(TrainingShape))


def _just(number: int) -> range:
    return range(number, number + 1)


def _drawn(ranks: int, mean: int, skew: str, seed: int) -> Int64Array:
    from detour.control.fors.files import drawn_sizes  # most placements need nothing of FORS

    return drawn_sizes(ranks, skew, mean, seed)


def _all_pairs(what: str, ranks: list[int], sizes: Int64Array) -> Iterator[RankFlow]:
    for a, source in enumerate(ranks):
        for b, target in enumerate(ranks):
            if a != b:
                yield RankFlow(what, source, target, int(sizes[a, b]))


@dataclass(frozen=True)
class Experts:
    """Tokens to experts and back: two all-to-alls among `ranks`, `mean` bytes a pair in each."""

    ranks: int
    mean: int
    skew: str = "uniform"
    seed: int = 1

    @cached_property
    def tokens(self) -> Int64Array:
        """(ranks, ranks) bytes that each sends to the experts of each other one."""
        return _drawn(self.ranks, self.mean, self.skew, self.seed)

    def flows(self) -> Iterator[RankFlow]:
        """Both ways."""
        yield from _all_pairs("expert", list(range(self.ranks)), self.tokens + self.tokens.T)


# -- rails --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rails:
    """All-reduce of machines of `group` ranks each, which follow each other: machines reduce and spread inside, by
    NVLink, and ranks of the same place reduce across machines. `channels`: places whose ranks do that, each around a
    ring of its own, or along two trees (`tree`); by default each place once. `size`: what each of these flows carries
    (of a tree: an inner one)."""

    ranks: int
    group: int
    size: int
    channels: tuple[int, ...]
    tree: bool = False

    def __post_init__(self) -> None:
        """Raise DetourError: ranks do not make up whole machines, or there is one machine only."""
        if self.ranks % self.group or self.ranks == self.group:
            raise DetourError(f"{self.ranks} hosts cannot form two or more machines of {self.group}")

    @property
    def machines(self) -> int:
        return self.ranks // self.group

    @property
    def bytes(self) -> int:
        """The bytes of each rank, chosen so that flows carry what they do."""
        each = 2 * self.size if self.tree else self.size * self.machines / (2 * (self.machines - 1))
        return max(1, round(each * len(self.channels)))

    def members(self, place: int) -> list[int]:
        """The ranks of a place, by machine."""
        return list(range(place, self.ranks, self.group))

    def flows(self) -> Iterator[RankFlow]:
        """Yield the flows of all channels."""
        for number, place in enumerate(self.channels):
            ranks = self.members(place)
            if not self.tree:
                for a, rank in enumerate(ranks):
                    yield RankFlow(f"channel {number}", rank, ranks[(a + 1) % len(ranks)], self.size)
                continue
            for which, parents in enumerate(double_trees(len(ranks))):
                pairs = [(ranks[a], ranks[b]) for a, b in enumerate(parents) if b >= 0]
                for a, b in (*pairs, *(pair[::-1] for pair in pairs)):
                    yield RankFlow(f"channel {number} tree {which}", a, b, self.size)


_TREES, _RING = ("1", "2", "3"), "4"


def read_nccl_graph(file: File) -> tuple[int, tuple[int, ...], bool]:
    """(GPUs of a machine, network devices of the channels, whether they are trees) of what NCCL writes with
    `NCCL_GRAPH_DUMP_FILE`: its ring or its tree, whichever comes first. Raises
    DetourError: it is none, or a channel leaves a machine by another device than it came by."""
    try:
        graphs = list(ElementTree.fromstring(read_text(file)).iter("graph"))
    except ElementTree.ParseError as error:
        raise DetourError(f"NCCL graph {file}: {error}") from None
    graph = next((one for one in graphs if one.get("pattern") in (*_TREES, _RING)), None)
    if graph is None:
        raise DetourError(f"NCCL graph {file}: there is no graph with pattern {' or '.join((*_TREES, _RING))}")
    gpus, devices = 0, list[int]()
    for channel in graph.iter("channel"):
        nets = {_device(net, file) for net in channel.iter("net")}
        if len(nets) != 1:
            raise DetourError(f"NCCL graph {file}: a channel has devices {sorted(nets)}; one for both ways is needed")
        gpus = max(gpus, len(channel.findall("gpu")))
        devices += nets
    if not gpus or max(devices) >= gpus:
        raise DetourError(f"NCCL graph {file}: {gpus} GPUs and devices {devices}; each needs a GPU of its number")
    return gpus, tuple(devices), graph.get("pattern") != _RING


def _device(net: ElementTree.Element, file: File) -> int:
    text = net.get("dev", "")
    if not text.isdigit():
        raise DetourError(f"NCCL graph {file}: a net has device {text!r}, which is not a number")
    return int(text)


# -- layouts by the keys of a job ---------------------------------------------------------------------------


class NcclLayout:
    """One operation of NCCL (`placement.nccl`); each pair of hosts is a flow."""

    def __init__(self, job: NcclJob) -> None:
        self.job = job

    def flows(self) -> Iterator[RankFlow]:
        """Yield the flows of all channels."""
        return (RankFlow("nccl", a, b, size) for (a, b), size in self.job.pairs().items())


JobLayout = TrainingShape | Experts | Rails | NcclLayout
LAYOUTS = {
    "training-step": SHAPE_KEYS
    | {"forward", "backward", "head", "expert", "attention"}
    | {"bucket_bytes", "prefetch", "expert_chunks", "sequence_parallel", "sm_share"},
    "moe": {"bytes", "skew", "seed", "expert"},
    "rail-all-reduce": {"bytes", "group", "graph", "nvlink"},
    "double-tree": {"bytes"},
    "nccl": NCCL_KEYS,
}
"""collectives, and the keys of their own"""


def layout_of(job: dict[str, Any], ranks: int) -> JobLayout:
    """Return the layout of a job with so many hosts. Raises DetourError: the job is wrong."""
    kind = job["collective"]
    if kind == "training-step":
        shape = TrainingShape(**{key: job[key] for key in SHAPE_KEYS & set(job)})
        if shape.ranks != ranks:
            factors = "tp * pp * dp" + " * context" * (shape.context > 1)
            raise DetourError(f"{factors} is {shape.ranks}, but there are {ranks} hosts")
        return shape
    size = job.get("bytes", 1)
    if type(size) is not int or not 1 <= size <= _MOST:
        raise DetourError(f"bytes is {size!r}; it must be a whole number from 1 to 2**40")
    if kind == "nccl":
        return NcclLayout(nccl_job(job, ranks))
    if kind == "moe":
        return Experts(ranks, size, str(job.get("skew", "uniform")), job.get("seed", 1))
    if kind == "double-tree":
        return Rails(ranks, 1, size, (0,), tree=True)
    group, channels, tree = job.get("group"), (), False
    if "graph" in job:
        found, channels, tree = read_nccl_graph(File(str(job["graph"])))
        group = found if group is None else group
    if type(group) is not int or group < 1:
        raise DetourError(f"group is {group!r}; it must be the number of GPUs of a machine")
    return Rails(ranks, group, size, channels or tuple(range(group)), tree)
