# SPDX-License-Identifier: Apache-2.0
"""A training step as tasks: pipeline stages in the order of 1F1B, with tensor, data and expert parallelism.

A stage of p runs min(p - 1 - stage, microbatches) forward passes first, then one forward and one backward pass in turn,
then the backward passes that are left (PipeDream-flush: Narayanan et al., "Efficient Large-Scale Language Model
Training on GPU Clusters Using Megatron-LM", SC 2021, section 2.2). After its last backward pass a rank reduces its
gradients. Nothing overlaps but what different ranks do: a rank's own collectives come between its computations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from detour.control.placement.training import TrainingShape
from detour.fabric.workloads import collectives
from detour.fabric.workloads.collectives import JobStep, Ranks, RankWaits, all_reduce_factor, share_factor
from detour.fabric.workloads.tasks import TaskList

Pass = tuple[str, int]
"""`forward` or `backward`, and the number of the microbatch"""


def one_forward_one_backward(stages: int, stage: int, microbatches: int) -> list[Pass]:
    """List a stage's passes, in order."""
    ahead = min(stages - 1 - stage, microbatches)
    passes: list[Pass] = [("forward", number) for number in range(ahead)]
    for number in range(microbatches):
        if number + ahead < microbatches:
            passes.append(("forward", number + ahead))
        passes.append(("backward", number))
    return passes


@dataclass
class TrainingStep:
    """Adds steps of a job. Times are of a microbatch at a stage: `forward_ps`, `backward_ps`; `head_ps`: what the last
    stage computes in addition, twice as much backward; `expert_ps`: what experts compute if tokens are spread evenly,
    twice as much backward. `over`: by what a flow is part of, see `Ranks`."""

    shape: TrainingShape
    forward_ps: int
    backward_ps: int
    head_ps: int
    expert_ps: int
    over: Callable[[str], Callable[[int, int], int]]
    steps: dict[str, JobStep] = field(default_factory=dict)
    """of the graph, by name"""

    def run(self, tasks: TaskList, ranks: Ranks) -> RankWaits:
        """Adds one."""
        shape = self.shape
        self._tasks, self._ranks = tasks, ranks
        self._waits: RankWaits = [list(after) for after in ranks.after]
        came: dict[tuple[str, int, int], RankWaits] = {}
        todo = [deque(one_forward_one_backward(shape.pp, stage, shape.microbatches)) for stage in range(shape.pp)]
        while any(todo):
            for stage, passes in enumerate(todo):
                while passes:
                    way, number = passes[0]
                    first = stage == (0 if way == "forward" else shape.pp - 1)
                    if not first and (way, stage, number) not in came:
                        break
                    self._pass(stage, way, came.get((way, stage, number)))
                    onward = stage + (1 if way == "forward" else -1)
                    if 0 <= onward < shape.pp:
                        came[way, onward, number] = self._send(stage, onward, way)
                    passes.popleft()
        self._reduce()
        return ranks.done(self._waits)

    def _pass(self, stage: int, way: str, came: RankWaits | None) -> None:
        """A microbatch at all ranks of a stage, after what has come from the stage before."""
        shape, backward = self.shape, way == "backward"
        times = 2 if backward else 1
        members = self._members(stage)
        for place, rank in enumerate(members):
            self._waits[rank] += came[place] if came else []
        last = stage == shape.pp - 1
        if last and backward:
            self._compute(members, times * self.head_ps)
        total_ps = self.backward_ps if backward else self.forward_ps
        if not shape.tensor_bytes and not shape.expert_bytes:
            self._compute(members, total_ps)
        for _ in range(shape.layers if shape.tensor_bytes or shape.expert_bytes else 0):
            for half in (0, 1):
                self._compute(members, total_ps // (2 * shape.layers))
                if not half and shape.expert_bytes:
                    self._experts(stage, times * self.expert_ps // shape.layers)
                self._all_reduce("tensor", stage, shape.tensor_bytes)
        if last and not backward:
            self._compute(members, times * self.head_ps)

    def _reduce(self) -> None:
        """Gradients, of each rank when its last backward pass is over."""
        for stage in range(self.shape.pp):
            self._all_reduce("gradient", stage, self.shape.gradient_bytes)
            self._all_reduce("expert-gradient", stage, self.shape.expert_gradient_bytes)

    # -- parts ------------------------------------------------------------------------------------------

    def _members(self, stage: int) -> list[int]:
        return [self.shape.rank(t, d, stage) for d in range(self.shape.dp) for t in range(self.shape.tp)]

    def _some(self, members: list[int], step: str | None) -> Ranks:
        """Ranks that wait for what they have to by now."""
        return self._ranks.then(self._waits, step).some(members)

    def _then(self, members: list[int], waits: RankWaits) -> None:
        points = collectives.joined(self._tasks, self._some(members, self._ranks.step), waits)
        for rank, each in zip(members, points, strict=True):
            self._waits[rank] = list(each)

    def _step(self, name: str, ranks: int, size: int, factor: float) -> str:
        step = f"{self._ranks.step} {name} {len(self.steps)}"
        self.steps[step] = JobStep(0, name, ranks, size, factor)
        return step

    def _compute(self, members: list[int], time_ps: int) -> None:
        if time_ps:
            some = self._some(members, self._ranks.step)
            self._then(members, collectives.computed(self._tasks, some, [time_ps] * len(members)))

    def _all_reduce(self, what: str, stage: int, size: int) -> None:
        for group in self.shape.groups(what, stage) if size else ():
            if len(group) > 1:
                step = self._step(what, len(group), size, all_reduce_factor(len(group)))
                some = replace(self._some(group, step), over=self.over(what))
                self._then(group, collectives.ring_all_reduce(self._tasks, some, size))

    def _experts(self, stage: int, expert_ps: int) -> None:
        shape = self.shape
        tokens = shape.tokens.tolist()
        for group in shape.groups("expert", stage):
            if len(group) == 1:
                self._compute(group, expert_ps)
                continue
            size = 2 * shape.expert_bytes
            step = self._step("expert", len(group), size, share_factor(len(group)))
            some = replace(self._some(group, step), over=self.over("expert"))
            waits = collectives.experts(self._tasks, some, tokens, expert_ps, self._ranks.step)
            self._then(group, waits)

    def _send(self, stage: int, onward: int, way: str) -> RankWaits:
        """A microbatch's activations, or their gradients, from each rank to its place in another stage."""
        came: RankWaits = []
        for rank, other in zip(self._members(stage), self._members(onward), strict=True):
            step = self._step(way, 2, self.shape.stage_bytes, 1.0)
            pair = replace(self._some([rank, other], step), over=self.over(way))
            came.append([pair.send(self._tasks, 0, 1, self.shape.stage_bytes, self._waits[rank])])
        return came
