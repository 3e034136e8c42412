# SPDX-License-Identifier: Apache-2.0
"""Collective operations as tasks: who sends how much to whom, and after what.

Every function adds the tasks of one collective to a `TaskList` and returns what each rank then waits for to know that
its part is over. `Ranks` say where ranks are and what they wait for before they begin. Between the steps of a reduction
a rank computes for `reduce_ps`: it adds what came to what it has.

Ring: Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", JPDC 2009: 2(n - 1)
steps, in each of which every rank passes one of n parts on, after it has got the one before. Hierarchical: a ring
inside each group, then rings among the ranks of the same place in all groups, then rings inside the groups (Jia et al.,
"Highly Scalable Deep Learning Training System", 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from detour.base.errors import DetourError
from detour.control.placement.nccl.rules import double_trees
from detour.control.placement.training import Rails
from detour.fabric.workloads.tasks import TaskList

RankWaits = list[list[int]]
"""tasks that every rank waits for"""

TREE_CHUNKS = 8
"""that follow each other along double trees, so that all levels work at once"""
MAX_TASKS = 16_000_000
"""of a workload: memory and time are linear in it"""


def any_connection(source: int, destination: int) -> int:
    """Two hosts' messages take the connection that is idle."""
    return -1


@dataclass(frozen=True)
class Ranks:
    """`hosts`: where ranks are, each once. `after`: tasks that each waits for before it begins. `over`: which
    connection of two hosts takes their messages, and `unit`: of a host adds what came to what it has (`TASK_FIELDS`;
    None: the one that computes). `label`: what the collective is called in errors."""

    hosts: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]
    step: str | None = None
    reduce_ps: int = 0
    over: Callable[[int, int], int] = any_connection
    unit: int | None = None
    label: str | None = None

    @staticmethod
    def fresh(hosts: Sequence[int], step: str | None = None, reduce_ps: int = 0) -> Ranks:
        """Ranks that wait for nothing."""
        return Ranks(tuple(hosts), ((),) * len(hosts), step, reduce_ps)

    def then(self, waits: RankWaits, step: str | None = None) -> Ranks:
        """The same ranks after something."""
        return replace(self, after=tuple(map(tuple, waits)), step=step or self.step)

    def some(self, which: Sequence[int]) -> Ranks:
        """Some of the ranks, in this order."""
        return replace(self, hosts=tuple(self.hosts[k] for k in which), after=tuple(self.after[k] for k in which))

    def __len__(self) -> int:
        return len(self.hosts)

    def send(self, tasks: TaskList, a: int, b: int, size: int, after: Sequence[int], compute_ps: int = 0) -> int:
        """A message from rank `a` to rank `b`."""
        source, destination = self.hosts[a], self.hosts[b]
        return tasks.message(
            source,
            destination,
            size,
            after=after,
            compute_ps=compute_ps,
            step=self.step,
            connection=self.over(source, destination),
            unit=self.unit,
            label=self.label,
        )

    def done(self, waits: Sequence[Sequence[int]] = ()) -> RankWaits:
        """Return the ranks' waits once a part of the collective is over for each after `waits`: the earlier waits
        included, since data from others may come before they have begun."""
        return [list(dict.fromkeys((*own, *more))) for own, more in zip(self.after, waits or self.after, strict=True)]


def parts(size: int, count: int) -> list[int]:
    """`size` bytes in so many parts, as equal as can be; none is empty: there is no message of no bytes."""
    return [max(1, size // count + (k < size % count)) for k in range(count)]


def check_room(tasks: TaskList, more: int) -> None:
    """Refuse workloads that would take more memory than there is. Raises DetourError with the number of tasks."""
    if len(tasks) + more > MAX_TASKS:
        raise DetourError(f"{len(tasks) + more} tasks; a workload can have at most {MAX_TASKS}")


def _ring(tasks: TaskList, ranks: Ranks, size: list[int], steps: int, first: int, reduces: bool) -> RankWaits:
    """Steps around the ring; in step s rank r passes part r + `first` - s on."""
    n = len(ranks)
    check_room(tasks, n * steps)
    waits = ranks.done()
    before: list[int] = []
    for step in range(steps):
        # What a rank has got is reduced before it is passed on.
        compute_ps = ranks.reduce_ps if reduces and step else 0
        sent = [
            ranks.send(tasks, rank, (rank + 1) % n, size[(rank + first - step) % n], waits[rank], compute_ps)
            for rank in range(n)
        ]
        for rank in range(n):
            if before and ranks.after[rank]:
                # A neighbour may be ahead; a rank goes on only after its own step before.
                tasks.wait(sent[rank], before[rank], on_start=True)
        before = sent
        waits = [[sent[rank - 1]] for rank in range(n)]
    return waits


def _reduced(tasks: TaskList, ranks: Ranks, waits: RankWaits) -> RankWaits:
    """The last reduction, if it takes time: a task of its own."""
    if not ranks.reduce_ps:
        return waits
    return [
        [tasks.compute(host, ranks.reduce_ps, after=before, step=ranks.step, unit=ranks.unit, label=ranks.label)]
        for host, before in zip(ranks.hosts, waits, strict=True)
    ]


def reduce_scatter(tasks: TaskList, ranks: Ranks, size: int) -> RankWaits:
    """Each rank has `size` bytes, and gets its part of their sum: n - 1 steps around a ring."""
    if len(ranks) == 1:
        return ranks.done()
    waits = _ring(tasks, ranks, parts(size, len(ranks)), len(ranks) - 1, 0, True)
    return ranks.done(_reduced(tasks, ranks, waits))


def all_gather(tasks: TaskList, ranks: Ranks, size: int) -> RankWaits:
    """Each rank has a part, and gets all `size` bytes: n - 1 steps around a ring."""
    if len(ranks) == 1:
        return ranks.done()
    return ranks.done(_ring(tasks, ranks, parts(size, len(ranks)), len(ranks) - 1, 1, False))


def ring_all_reduce(tasks: TaskList, ranks: Ranks, size: int) -> RankWaits:
    """Each rank has `size` bytes, and gets their sum: reduce-scatter, then all-gather."""
    return all_gather(tasks, ranks.then(reduce_scatter(tasks, ranks, size)), size)


def tree_all_reduce(
    tasks: TaskList, ranks: Ranks, size: int, *, chunks: int = 1, parents: Sequence[int] | None = None
) -> RankWaits:
    """Each rank has `size` bytes, and gets their sum: up a binary tree to its root, and down again. `parents`: of the
    ranks in another tree (-1: it is the root)."""
    sizes, tree = parts(size, chunks), parents or _binary(len(ranks))
    return _down(tasks, ranks, sizes, _up(tasks, ranks, sizes, tree), tree)


def double_tree_all_reduce(
    tasks: TaskList, ranks: Ranks, size: int, *, chunks: int = 1,
    over: Sequence[Callable[[int, int], int]] = (any_connection, any_connection),
) -> RankWaits:  # fmt: skip
    """The same along two trees, each with a half. `over`: of each tree, see `Ranks`."""
    waits: RankWaits = [[] for _ in ranks.hosts]
    for half, parents, how in zip(parts(size, 2), double_trees(len(ranks)), over, strict=True):
        some = tree_all_reduce(tasks, replace(ranks, over=how), half, chunks=chunks, parents=parents)
        for rank, more in enumerate(some):
            waits[rank] += more
    return ranks.done(waits)


def broadcast(tasks: TaskList, ranks: Ranks, size: int, *, chunks: int = 1) -> RankWaits:
    """Rank 0 has `size` bytes, and all get them, down a binary tree."""
    return _down(tasks, ranks, parts(size, chunks), [list(ranks.after[0])] * chunks, _binary(len(ranks)))


def reduce(tasks: TaskList, ranks: Ranks, size: int, *, chunks: int = 1) -> RankWaits:
    """Rank 0 gets the sum, up a binary tree; the others are done when they have sent."""
    waits = ranks.done()
    sum_of = _up(tasks, ranks, parts(size, chunks), _binary(len(ranks)))
    waits[0] += [task for chunk in sum_of for task in chunk]
    return ranks.done(waits)


def _binary(count: int) -> list[int]:
    """Parents in a binary tree, level by level."""
    return [(rank - 1) // 2 for rank in range(count)]


def downward(parents: Sequence[int]) -> list[int]:
    """Ranks of a tree, each after its parent."""
    children: dict[int, list[int]] = {}
    for rank, parent in enumerate(parents):
        children.setdefault(parent, []).append(rank)
    ordered = list(children[-1])
    for rank in ordered:  # grows while it is gone through
        ordered += children.get(rank, [])
    return ordered


def _up(tasks: TaskList, ranks: Ranks, sizes: list[int], parents: Sequence[int]) -> RankWaits:
    """The sum of every chunk at the root: what that waits for, by chunk."""
    check_room(tasks, 2 * len(ranks) * len(sizes))
    sums: RankWaits = []
    for size in sizes:
        arrived: dict[int, list[int]] = {}
        for rank in reversed(downward(parents)):
            children, parent = arrived.get(rank, []), parents[rank]
            after = [*ranks.after[rank], *children]
            if parent < 0:
                sums.append(_reduced(tasks, ranks.some([rank]), [after])[0] if children else after)
                break
            sent = ranks.send(tasks, rank, parent, size, after, ranks.reduce_ps if children else 0)
            arrived.setdefault(parent, []).append(sent)
    return sums


def _down(tasks: TaskList, ranks: Ranks, sizes: list[int], root: RankWaits, parents: Sequence[int]) -> RankWaits:
    """Chunks from the root, which has each after what `root` says of it, to all."""
    check_room(tasks, len(ranks) * len(sizes))
    done: RankWaits = [[] for _ in ranks.hosts]
    first, *others = downward(parents)
    for size, has in zip(sizes, root, strict=True):
        got: dict[int, list[int]] = {first: has}
        done[first] += has
        for rank in others:
            parent = parents[rank]
            own = ranks.after[parent] if parent != first else ()
            sent = ranks.send(tasks, parent, rank, size, [*got[parent], *own])
            got[rank] = [sent]
            done[rank].append(sent)
    return ranks.done(done)


def all_to_all(tasks: TaskList, ranks: Ranks, size: int, *, at_once: int = 0) -> RankWaits:
    """Each rank has `size` bytes, and a part of it for every other one, and one for itself. It begins with the rank
    behind it; `at_once`: parts that it has under way at most (0: all)."""
    return all_to_all_v(tasks, ranks, [parts(size, len(ranks))] * len(ranks), at_once=at_once)


def all_to_all_v(tasks: TaskList, ranks: Ranks, sizes: Sequence[Sequence[int]], *, at_once: int = 0) -> RankWaits:
    """The same, with what each rank has for each other one."""
    n = len(ranks)
    check_room(tasks, n * (n - 1))
    waits: RankWaits = [[] for _ in range(n)]
    for rank in range(n):
        mine: list[int] = []
        for turn in range(1, n):
            other = (rank + turn) % n
            before = [mine[-at_once]] if at_once and len(mine) >= at_once else []
            sent = ranks.send(tasks, rank, other, sizes[rank][other], [*ranks.after[rank], *before])
            mine.append(sent)
            waits[other].append(sent)
    return ranks.done(waits)


def computed(tasks: TaskList, ranks: Ranks, times_ps: Sequence[int]) -> RankWaits:
    """Each rank computes for its time."""
    named = zip(ranks.hosts, times_ps, ranks.after, strict=True)
    return [[tasks.compute(host, time, after=after, step=ranks.step)] for host, time, after in named]


def joined(tasks: TaskList, ranks: Ranks, waits: RankWaits, most: int = 1) -> RankWaits:
    """The same, but ranks that would wait for more than so many tasks wait for one point in time after them: lists do
    not grow from collective to collective."""
    return [
        [tasks.compute(host, 0, after=some, step=ranks.step, unit=-1)] if len(some) > most else some
        for host, some in zip(ranks.hosts, waits, strict=True)
    ]


def experts(
    tasks: TaskList, ranks: Ranks, tokens: Sequence[Sequence[int]], expert_ps: int, computing: str | None = None
) -> RankWaits:
    """Tokens go to the experts of other ranks and, when these have computed, back. `tokens`: bytes from each rank to
    each other one; `expert_ps`: what a rank computes on average, so one that more goes to takes longer. `computing`:
    the step that this counts to."""
    there = ranks.then(all_to_all_v(tasks, ranks, tokens))
    if expert_ps:
        own = there.then(list(map(list, there.after)), computing)
        there = there.then(computed(tasks, own, expert_times_ps(tokens, expert_ps)))
    return all_to_all_v(tasks, there, [list(column) for column in zip(*tokens, strict=True)])


def expert_times_ps(tokens: Sequence[Sequence[int]], expert_ps: int) -> list[int]:
    """Return how long each rank computes what comes to it, if it is `expert_ps` on average."""
    come = [sum(row[rank] for row in tokens) for rank in range(len(tokens))]
    mean = max(sum(come) / len(come), 1)
    return [round(expert_ps * each / mean) for each in come]


def rails(
    tasks: TaskList, ranks: Ranks, layout: Rails, nvlink_bps: int, over: Callable[[str], Callable[[int, int], int]]
) -> RankWaits:
    """All-reduce of `layout.bytes` of each rank: a reduce-scatter inside machines, which takes its time at the rate of
    NVLink, an all-reduce of each channel's part across machines, and an all-gather inside. `over`: by what a channel,
    and a tree of it, is called."""
    inside_ps = layout.bytes * (layout.group - 1) // layout.group * 8 * 10**12 // nvlink_bps
    begun = ranks.then(computed(tasks, ranks, [inside_ps] * len(ranks))) if inside_ps else ranks
    waits: RankWaits = [list(after) for after in begun.after]
    for number, (place, part) in enumerate(
        zip(layout.channels, parts(layout.bytes, len(layout.channels)), strict=True)
    ):
        members = layout.members(place)
        some, name = begun.some(members), f"channel {number}"
        if layout.tree:
            both = [over(f"{name} tree {which}") for which in (0, 1)]
            done = double_tree_all_reduce(tasks, some, part, chunks=TREE_CHUNKS, over=both)
        else:
            done = ring_all_reduce(tasks, replace(some, over=over(name)), part)
        for rank, more in zip(members, done, strict=True):
            waits[rank] += more
    reduced = ranks.then([list(dict.fromkeys(each)) for each in waits])
    return ranks.done(computed(tasks, reduced, [inside_ps] * len(ranks)) if inside_ps else reduced.done())


def hierarchical(tasks: TaskList, ranks: Ranks, size: int, *, group: int) -> RankWaits:
    """All-reduce of ranks in groups of `group` that follow each other: reduce-scatter inside, all-reduce of each part
    among the ranks of its place, all-gather inside. Its steps are called after these. Raises DetourError if ranks do
    not make up whole groups."""
    n = len(ranks)
    if group < 1 or n % group:
        raise DetourError(f"{n} ranks cannot form whole groups of {group}")
    waits = ranks.done()
    groups = [range(first, first + group) for first in range(0, n, group)]
    rows = [range(place, n, group) for place in range(group)]
    part = parts(size, group)
    for which, name, what in ((groups, "reduce-scatter", 0), (rows, "all-reduce", 1), (groups, "all-gather", 2)):
        step = ranks.then(waits, f"{ranks.step} {name}" if ranks.step else name)
        after = waits.copy()
        for number, members in enumerate(which):
            some = step.some(members)
            if what == 0:
                waited_for = reduce_scatter(tasks, some, size)
            elif what == 1:
                waited_for = ring_all_reduce(tasks, some, part[(number + 1) % group])
            else:
                waited_for = all_gather(tasks, some, size)
            for rank, waited in zip(members, waited_for, strict=True):
                after[rank] = waited
        waits = after
    return waits


# -- bus bandwidth, as nccl-tests define it (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) -----


@dataclass(frozen=True)
class JobStep:
    """A step of a job's graph: its job (by number), name, number of ranks, bytes in nccl-tests' terms, and the factor
    from bytes over time to bus bandwidth (`factor`; 0: it is not a collective)."""

    job: int
    name: str
    ranks: int = 1
    bytes: int = 0
    factor: float = 0.0


def all_reduce_factor(ranks: int) -> float:
    """Return the factor of an all-reduce."""
    return 2 * (ranks - 1) / ranks


def share_factor(ranks: int) -> float:
    """Return the factor of collectives that leave each rank its own part: all-gather, reduce-scatter, all-to-all."""
    return (ranks - 1) / ranks
