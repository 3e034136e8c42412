# SPDX-License-Identifier: Apache-2.0
"""A training step as tasks: pipeline stages (`schedules`) with tensor, context, data and expert parallelism.

By default nothing overlaps but what different ranks do: a rank's own collectives come between its computations, and
gradients are reduced after its last backward pass. `Overlap` says what runs beside computing; docs/workloads.md has the
rules and where they come from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from detour.base.errors import DetourError
from detour.control.placement.training import TrainingShape
from detour.fabric.workloads import collectives
from detour.fabric.workloads.collectives import JobStep, Ranks, RankWaits, all_reduce_factor
from detour.fabric.workloads.schedules import Buckets, Pass, passes
from detour.fabric.workloads.streams import Operation, Streams, Waits
from detour.fabric.workloads.tasks import TaskList
from detour.hosts.state import FULL_RATE


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Times of a microbatch at a stage: `head_ps`: what the last stage computes in addition; `expert_ps`: what experts
    compute if tokens are spread evenly; `attention_ps`: the part of `forward_ps` that goes over blocks of keys and
    values. These take twice as much backward."""

    forward_ps: int
    backward_ps: int
    head_ps: int = 0
    expert_ps: int = 0
    attention_ps: int = 0


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Communication beside computing. `bucket_bytes`: of gradients that are reduced together as soon as they are there
    (0: all at the end; from ZeRO 2 on each layer's); `prefetch`: weights are gathered ahead; `expert_chunks`: parts of
    tokens, of which one is exchanged while experts compute another; `sm_share`: of computing that a collective takes
    beside it; `sequence_parallel`: reduce-scatter and all-gather for tensor parallelism's all-reduces."""

    bucket_bytes: int = 0
    prefetch: bool = False
    expert_chunks: int = 1
    sm_share: float = 0.0
    sequence_parallel: bool = False

    @staticmethod
    def of(job: dict[str, Any]) -> Overlap:
        """Return the overlap of a job. Raises DetourError: what is wrong."""
        values = {name: job[name] for name in Overlap.__dataclass_fields__ if name in job}
        for name, least in (("bucket_bytes", 0), ("expert_chunks", 1)):
            if type(values.get(name, least)) is not int or values.get(name, least) < least:
                raise DetourError(f"{name} is {values[name]!r}; it must be a whole number of at least {least}")
        for name in ("prefetch", "sequence_parallel"):
            if type(values.get(name, False)) is not bool:
                raise DetourError(f"{name} is {values[name]!r}; it must be true or false")
        if values.get("prefetch") and not job.get("zero"):
            raise DetourError(
                "prefetch gathers weights ahead; it needs zero of 1, 2 or 3, or each rank has all of them"
            )
        share = values.get("sm_share", 0)
        if type(share) not in (int, float) or not 0 <= share < 1:
            raise DetourError(f"sm_share is {share!r}; it must be a number from 0 to below 1")
        return Overlap(**values)


@dataclass
class TrainingStep:
    """Adds steps of a job. `over`: by what a flow is part of, see `Ranks`."""

    shape: TrainingShape
    times: StepTimes
    over: Callable[[str], Callable[[int, int], int]]
    overlap: Overlap = Overlap()
    steps: dict[str, JobStep] = field(default_factory=dict)
    """of the graph, by name"""
    passes: list[tuple[int, str]] = field(default_factory=list)
    """the first task of each pass, in order, and what it is called; what is behind the last one is called nothing"""

    def run(self, tasks: TaskList, ranks: Ranks) -> RankWaits:
        """Add one."""
        shape = self.shape
        slows = round(self.overlap.sm_share * FULL_RATE)
        self._streams = Streams(tasks, ranks, self.over, self.steps, slows)
        self._early = self._streams.now(range(shape.ranks))
        """before the last layer that each rank has computed"""
        self._gathered = self._gather_first() if self.overlap.prefetch and shape.zero in (1, 2) else {}
        came: dict[tuple[int, Pass], Waits] = {}
        todo = [deque(passes(shape, stage)) for stage in range(shape.pp)]
        while any(todo):
            for stage, ahead in enumerate(todo):
                while ahead:
                    which = ahead[0]
                    if not self._ends(stage, which.chunk, which.way == "forward") and (stage, which) not in came:
                        break
                    self._pass(stage, which, came.pop((stage, which), {}))
                    if not self._ends(stage, which.chunk, which.way == "backward"):
                        onward, onward_pass = self._onward(stage, which)
                        came[onward, onward_pass] = self._send(stage, onward, which.way)
                    ahead.popleft()
        self.passes.append((len(tasks), ""))
        self._finish()
        return self._streams.done()

    # -- passes -----------------------------------------------------------------------------------------

    def _ends(self, stage: int, chunk: int, first: bool) -> bool:
        """Return whether these are the model's first layers, or its last ones."""
        return (stage, chunk) == ((0, 0) if first else (self.shape.pp - 1, self.shape.interleave - 1))

    def _onward(self, stage: int, which: Pass) -> tuple[int, Pass]:
        step = 1 if which.way == "forward" else -1
        turns, onward = divmod(stage + step, self.shape.pp)
        return onward, which._replace(chunk=which.chunk + turns)

    def _pass(self, stage: int, which: Pass, came: Waits) -> None:
        """A microbatch at all ranks of a stage, after what has come from the stage before."""
        streams, members, backward = self._streams, self.shape.members(stage), which.way == "backward"
        chunk = f", chunk {which.chunk}" if self.shape.interleave > 1 else ""
        self.passes.append((len(streams.tasks), f"{which.way} {which.microbatch}{chunk}"))
        streams.wait(came)
        head_ps = self.times.head_ps if self._ends(stage, which.chunk, False) else 0
        if backward:
            streams.compute(members, 2 * head_ps)
        if self._by_layer(which):
            for layer in range(self.shape.layers // self.shape.interleave):
                self._layer(stage, which, layer)
        else:
            total_ps = self.times.backward_ps if backward else self.times.forward_ps
            streams.compute(members, total_ps // self.shape.interleave)
        if not backward:
            streams.compute(members, head_ps)

    def _by_layer(self, which: Pass) -> bool:
        """Return whether something is sent between layers."""
        gathers = self.shape.zero == 3 or (self._gathered and which.way == "forward" and not which.microbatch)
        return self._inside_layers or bool(gathers and self.shape.gradients) or self._reduces(which)

    @property
    def _inside_layers(self) -> bool:
        shape = self.shape
        return bool(shape.tensor_bytes or shape.expert_bytes) or shape.context > 1

    def _layer(self, stage: int, which: Pass, layer: int) -> None:
        """A layer of a chunk, by its number in the order of the pass."""
        shape, times, streams, members = self.shape, self.times, self._streams, self.shape.members(stage)
        passed = streams.now(members)
        self._fetch(stage, which, layer)
        total_ps, twice = (times.backward_ps, 2) if which.way == "backward" else (times.forward_ps, 1)
        attention_ps = twice * times.attention_ps if shape.context > 1 else 0
        halves = 2 if self._inside_layers else 1
        for half in range(halves):
            streams.compute(members, (total_ps - attention_ps) // (halves * shape.layers))
            if not half and shape.context > 1:
                self._attention(stage, attention_ps // shape.layers, twice * shape.context_bytes)
            if not half and shape.expert_bytes:
                self._experts(stage, twice * times.expert_ps // shape.layers)
            self._tensor(stage)
        self._early |= passed
        if self._reduces(which):
            for what, size in shape.gradients:
                for ready in self._buckets(size, self.overlap.bucket_bytes).complete(layer):
                    streams.start(shape.groups(what, stage), _reduction(shape, what, ready))

    def _send(self, stage: int, onward: int, way: str) -> Waits:
        """A microbatch's activations, or their gradients, from each rank to its place in another stage."""
        ends = zip(self.shape.members(stage), self.shape.members(onward), strict=True)
        return {other: self._streams.pair(way, rank, other, self.shape.stage_bytes) for rank, other in ends}

    # -- weights and gradients --------------------------------------------------------------------------

    def _buckets(self, size: int, bucket_bytes: int) -> Buckets:
        chunks = self.shape.interleave
        return Buckets(size // chunks, self.shape.layers // chunks, bucket_bytes)

    def _reduces(self, which: Pass) -> bool:
        """Return whether gradients are reduced while this pass is under way."""
        shape, every = self.shape, self.shape.zero >= 2
        at_all = bool(shape.gradients) and (every or self.overlap.bucket_bytes > 0) and which.way == "backward"
        return at_all and (every or which.microbatch == shape.microbatches - 1)

    def _gather_first(self) -> dict[tuple[int, int, str], list[Waits]]:
        """Gather weights that other ranks' optimizers changed in the step before; by stage, chunk and kind."""
        gathered: dict[tuple[int, int, str], list[Waits]] = {}
        for chunk in range(self.shape.interleave):
            for stage in range(self.shape.pp):
                for what, size in self.shape.gradients:
                    gathered[stage, chunk, what] = [
                        self._streams.start(self.shape.groups(what, stage), _gather(what, each))
                        for each in self._buckets(size, self.overlap.bucket_bytes).sizes
                    ]
        return gathered

    def _fetch(self, stage: int, which: Pass, layer: int) -> None:
        """Gather, and wait for, weights that a layer needs and its ranks do not have."""
        shape, streams = self.shape, self._streams
        for what, size in shape.gradients:
            buckets = self._gathered.get((stage, which.chunk, what))
            if buckets and which.way == "forward" and not which.microbatch:
                streams.wait(buckets[self._buckets(size, self.overlap.bucket_bytes).needed(layer) - 1])
            if shape.zero == 3:
                after = self._early if self.overlap.prefetch else None
                for each in self._buckets(size, 0).complete(layer):
                    streams.wait(streams.start(shape.groups(what, stage), _gather(what, each), after))

    def _finish(self) -> None:
        """Reduce what is not reduced yet, and gather weights for the next step unless that is done ahead."""
        shape, streams = self.shape, self._streams
        for stage in range(shape.pp):
            for what, size in shape.gradients if shape.zero < 2 and not self.overlap.bucket_bytes else ():
                streams.collective(shape.groups(what, stage), _reduction(shape, what, size))
        if shape.zero in (1, 2) and not self.overlap.prefetch:
            streams.join()
            for stage in range(shape.pp):
                for what, size in shape.gradients:
                    streams.collective(shape.groups(what, stage), _gather(what, size))

    # -- in a layer -------------------------------------------------------------------------------------

    def _tensor(self, stage: int) -> None:
        size, groups = self.shape.tensor_bytes, self.shape.groups("tensor", stage)
        if self.overlap.sequence_parallel:
            for run in (collectives.reduce_scatter, collectives.all_gather):
                self._streams.collective(groups, Operation("tensor", "tensor", size, run))
        else:
            operation = Operation("tensor", "tensor", size, collectives.ring_all_reduce, all_reduce_factor)
            self._streams.collective(groups, operation)

    def _attention(self, stage: int, time_ps: int, size: int) -> None:
        """Attend to the keys and values of all ranks of a group: while a rank computes with a block, it passes it on
        around the ring and gets the next one."""
        streams, members, blocks = self._streams, self.shape.members(stage), self.shape.context
        has = streams.now(members)
        for block in range(blocks):
            came: Waits = {}
            for group in self.shape.groups("context", stage) if block + 1 < blocks else ():
                came |= streams.start([group], Operation("context", "context", size, _pass_on, lambda ranks: 1.0), has)
            streams.compute(members, time_ps // blocks)
            streams.wait(came)
            has = came

    def _experts(self, stage: int, expert_ps: int) -> None:
        chunks = self.overlap.expert_chunks
        for group in self.shape.groups("expert", stage):
            if len(group) == 1:
                self._streams.compute(group, expert_ps)
            elif chunks == 1:
                operation = Operation("expert", "expert", 2 * self.shape.expert_bytes, self._exchange(expert_ps))
                self._streams.collective([group], operation)
            else:
                self._experts_in_chunks(group, expert_ps // chunks, chunks)

    def _exchange(self, expert_ps: int) -> Callable[[TaskList, Ranks, int], RankWaits]:
        tokens, step = self.shape.tokens.tolist(), self._streams.ranks.step
        return lambda tasks, ranks, size: collectives.experts(tasks, ranks, tokens, expert_ps, step)

    def _experts_in_chunks(self, group: list[int], expert_ps: int, chunks: int) -> None:
        """Send all chunks of tokens one after the other; each comes back when experts have computed it."""
        streams, size = self._streams, self.shape.expert_bytes // chunks
        tokens = [[collectives.parts(each, chunks) for each in row] for row in self.shape.tokens.tolist()]
        there = [[[each[chunk] for each in row] for row in tokens] for chunk in range(chunks)]
        back = [[list(column) for column in zip(*each, strict=True)] for each in there]
        sent = [streams.start([group], Operation("expert", "expert", size, _to_each(each))) for each in there]
        returned: list[Waits] = []
        for chunk in range(chunks):
            streams.wait(sent[chunk])
            streams.compute_each(group, collectives.expert_times_ps(there[chunk], expert_ps))
            returned.append(streams.start([group], Operation("expert", "expert", size, _to_each(back[chunk]))))
        for each in returned:
            streams.wait(each)


def _reduction(shape: TrainingShape, what: str, size: int) -> Operation:
    """With ZeRO a rank gets the sum of its own part only."""
    if shape.zero:
        return Operation(what, what, size, collectives.reduce_scatter)
    return Operation(what, what, size, collectives.ring_all_reduce, all_reduce_factor)


def _gather(what: str, size: int) -> Operation:
    return Operation(what.replace("gradient", "parameter"), what, size, collectives.all_gather)


def _to_each(sizes: list[list[int]]) -> Callable[[TaskList, Ranks, int], RankWaits]:
    return lambda tasks, ranks, size: collectives.all_to_all_v(tasks, ranks, sizes)


def _pass_on(tasks: TaskList, ranks: Ranks, size: int) -> RankWaits:
    """Let each rank send to the next one; a rank is done when it has got something."""
    n = len(ranks)
    sent = [ranks.send(tasks, rank, (rank + 1) % n, size, ranks.after[rank]) for rank in range(n)]
    return ranks.done([[sent[rank - 1]] for rank in range(n)])
