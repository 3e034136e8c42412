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
from detour.fabric.workloads.tasks import TaskList

RankWaits = list[list[int]]
"""tasks that every rank waits for"""

MAX_TASKS = 4_000_000
"""of a workload: memory and time are linear in it"""


def any_connection(source: int, destination: int) -> int:
    """Two hosts' messages take the connection that is idle."""
    return -1


@dataclass(frozen=True)
class Ranks:
    """`hosts`: where ranks are, each once. `after`: tasks that each waits for before it begins. `over`: which
    connection of two hosts takes their messages (`TASK_FIELDS`). `label`: what the collective is called in errors."""

    hosts: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]
    step: str | None = None
    reduce_ps: int = 0
    over: Callable[[int, int], int] = any_connection
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
            label=self.label,
        )

    def done(self, waits: Sequence[Sequence[int]] = ()) -> RankWaits:
        """What they wait for when a part of the collective is over for each after `waits`: for what they waited for
        before as well, since what comes from others may come before they have begun."""
        return [list(dict.fromkeys((*own, *more))) for own, more in zip(self.after, waits or self.after, strict=True)]


def parts(size: int, count: int) -> list[int]:
    """`size` bytes in so many parts, as equal as can be; none is empty: there is no message of no bytes."""
    return [max(1, size // count + (k < size % count)) for k in range(count)]


def check_room(tasks: TaskList, more: int) -> None:
    """Refuses workloads that would take more memory than there is. Raises DetourError with the number of tasks."""
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
        [tasks.compute(host, ranks.reduce_ps, after=before, step=ranks.step, label=ranks.label)]
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


def broadcast(tasks: TaskList, ranks: Ranks, size: int, *, chunks: int = 1) -> RankWaits:
    """`size` bytes from rank 0 down a binary tree, in chunks that follow each other."""
    return _down(tasks, ranks, parts(size, chunks), [list(ranks.after[0])] * chunks)


def tree_all_reduce(tasks: TaskList, ranks: Ranks, size: int, *, chunks: int = 1) -> RankWaits:
    """Each rank has `size` bytes, and gets their sum: up a binary tree to rank 0, and down again."""
    sizes = parts(size, chunks)
    return _down(tasks, ranks, sizes, _up(tasks, ranks, sizes))


def reduce(tasks: TaskList, ranks: Ranks, size: int, *, chunks: int = 1) -> RankWaits:
    """Rank 0 gets the sum, up a binary tree; the others are done when they have sent."""
    waits = ranks.done()
    sum_of = _up(tasks, ranks, parts(size, chunks))
    waits[0] += [task for chunk in sum_of for task in chunk]
    return ranks.done(waits)


def _up(tasks: TaskList, ranks: Ranks, sizes: list[int]) -> RankWaits:
    """The sum of every chunk at rank 0: what that waits for, by chunk."""
    check_room(tasks, 2 * len(ranks) * len(sizes))
    sums: RankWaits = []
    for size in sizes:
        arrived: dict[int, list[int]] = {}
        for rank in reversed(range(len(ranks))):
            children = arrived.get(rank, [])
            after = [*ranks.after[rank], *children]
            if rank == 0:
                sums.append(_reduced(tasks, ranks.some([0]), [after])[0] if children else after)
                break
            parent = (rank - 1) // 2
            sent = ranks.send(tasks, rank, parent, size, after, ranks.reduce_ps if children else 0)
            arrived.setdefault(parent, []).append(sent)
    return sums


def _down(tasks: TaskList, ranks: Ranks, sizes: list[int], root: RankWaits) -> RankWaits:
    """Chunks from rank 0, which has each after what `root` says of it, to all."""
    check_room(tasks, len(ranks) * len(sizes))
    done: RankWaits = [[] for _ in ranks.hosts]
    for size, has in zip(sizes, root, strict=True):
        got: dict[int, list[int]] = {0: has}
        done[0] += has
        for rank in range(1, len(ranks)):
            parent = (rank - 1) // 2
            own = ranks.after[parent] if parent else ()
            sent = ranks.send(tasks, parent, rank, size, [*got[parent], *own])
            got[rank] = [sent]
            done[rank].append(sent)
    return ranks.done(done)


def all_to_all(tasks: TaskList, ranks: Ranks, size: int, *, at_once: int = 0) -> RankWaits:
    """Each rank has `size` bytes, and a part of it for every other one, and one for itself. It begins with the rank
    behind it; `at_once`: parts that it has under way at most (0: all)."""
    n = len(ranks)
    check_room(tasks, n * (n - 1))
    sizes = parts(size, n)
    waits: RankWaits = [[] for _ in range(n)]
    for rank in range(n):
        mine: list[int] = []
        for turn in range(1, n):
            other = (rank + turn) % n
            before = [mine[-at_once]] if at_once and len(mine) >= at_once else []
            sent = ranks.send(tasks, rank, other, sizes[other], [*ranks.after[rank], *before])
            mine.append(sent)
            waits[other].append(sent)
    return ranks.done(waits)


def hierarchical(tasks: TaskList, ranks: Ranks, size: int, *, group: int) -> RankWaits:
    """All-reduce of ranks in groups of `group` that follow each other: reduce-scatter inside, all-reduce of each part
    among the ranks of its place, all-gather inside. Its steps are called after these. Raises DetourError if ranks do
    not make up whole groups."""
    n = len(ranks)
    if group < 1 or n % group:
        raise DetourError(f"{n} ranks do not make up whole groups of {group}")
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
