# SPDX-License-Identifier: Apache-2.0
"""`detour job nccl-tests`: the table that nccl-tests print, of a fabric in virtual time, packet by packet.

A row is one operation on an idle fabric. NCCL repeats the same thing many times: steps around a ring, chunks along a
tree, slots of a message (`operations.units`). Where an operation would put more bytes on the fabric than the limit,
only the first ones are simulated, and the second half of those tells how long each of the others takes. Such rows say
what share was simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from detour.base.arrays import FloatArray
from detour.base.errors import DetourError
from detour.base.times import MAX_TIME, US
from detour.control.placement.nccl import rules
from detour.control.placement.nccl.machines import Cluster
from detour.control.placement.nccl.rules import Choice
from detour.experiments.columns import row, shown
from detour.experiments.sim.settings import SimSettings
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.traffic.tasks import room_of, run_tasks
from detour.fabric.workloads import nccl_operations as operations
from detour.fabric.workloads.collectives import Ranks
from detour.fabric.workloads.tasks import TaskGraph, TaskList
from detour.topo import Topology

LIMIT_BYTES = 2_000_000_000
MTU = "4096"
"""of RDMA, as `--mtu`"""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LARGEST = 1 << 40
_ITERATIONS = 20
"""that nccl-tests take the mean of"""
_LEAST_UNITS = 16
"""so that all levels of a tree and all slots of a message are in use before the half that is continued"""


def size_of(text: str) -> int:
    """A size as nccl-tests write it: `8`, `64K`, `8G`, in powers of 1024. Raises DetourError: it is none."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    size = int(number) * _UNITS.get(unit, 0) if number.isascii() and number.isdigit() else 0
    if not 1 <= size <= _LARGEST:
        raise DetourError(f"{text!r} is not a size; expected 1 to 1024G, like 8, 64K or 8G (powers of 1024)")
    return size


def sizes_of(text: str) -> list[int]:
    """`A:B`: sizes from A to B, each twice the one before. Raises DetourError: it is none."""
    first, _, last = text.partition(":")
    size, most = size_of(first), size_of(last or first)
    if most < size:
        raise DetourError(f"sizes {text}: {last} is below {first}")
    sizes = [size]
    while 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    return sizes


@row
class NcclRow:
    """An operation of one size. Rates are in Gb/s, as everywhere here; the table has them in GB/s, as nccl-tests do.
    `simulated`: share of the bytes that was simulated; if not all, the time is continued at its last rate."""

    bytes: int = shown("size (B)")
    us: float = shown("time (us)", ".2f")
    algbw_gbps: float = shown("algbw (GB/s)", lambda rate: f"{rate / 8:.2f}")
    busbw_gbps: float = shown("busbw (GB/s)", lambda rate: f"{rate / 8:.2f}")
    algorithm: str = shown("algorithm")
    protocol: str = shown("protocol")
    channels: int = shown("channels", means="of an operation; p2p: of a pair of GPUs")
    simulated: float = shown("simulated", ".1%", means="share of the bytes; the others are continued at the same rate")


@dataclass(frozen=True)
class NcclTest:
    """An operation on a topology. `cluster.hosts` are the topology's first. `algorithm`, `protocol` None: NCCL's
    choice. `limit`: bytes that the fabric carries for one row at most. Raises DetourError: there are not enough hosts,
    or what is asked for does not exist."""

    op: str
    cluster: Cluster
    topology: Topology
    settings: SimSettings
    algorithm: str | None = None
    protocol: str | None = None
    limit: int = LIMIT_BYTES

    def __post_init__(self) -> None:
        have, need = len(self.topology.hosts), self.cluster.hosts
        if need > have:
            raise DetourError(
                f"{self.cluster.ranks} GPUs have {need} NICs; {self.topology.spec} has {have} hosts, one for each"
            )
        self.choice(1)

    def choice(self, size: int) -> Choice:
        """Return how NCCL carries it out."""
        return rules.choose(self.op, size, self.cluster, self.algorithm, self.protocol)

    def rows(self, sizes: Sequence[int], stop: Callable[[], bool] = lambda: False) -> Iterator[NcclRow]:
        """One row after the other, until `stop` says so."""
        known: dict[tuple[Choice, tuple[int, ...]], float] = {}
        for size in sizes:
            if stop():
                return
            choice = self.choice(size)
            us, share = self._time_us(size, choice, known)
            rate = size * 8 / us / 1e3
            factor = rules.bus_factor(self.op, self.cluster.ranks)
            yield NcclRow(
                bytes=size, us=round(us, 3), algbw_gbps=round(rate, 4), busbw_gbps=round(rate * factor, 4),
                algorithm=choice.algorithm, protocol=choice.protocol.name, channels=choice.channels,
                simulated=round(share, 6),
            )  # fmt: skip

    def _time_us(
        self, size: int, choice: Choice, known: dict[tuple[Choice, tuple[int, ...]], float]
    ) -> tuple[float, float]:
        """The time of an operation, and the share of it that was simulated. `known`: times by what was repeated; large
        operations begin alike."""
        repeated = operations.units(self.op, size, self.cluster, choice)
        sums = np.cumsum(repeated)
        total = int(sums[-1])

        def first_us(count: int) -> float:
            name = choice, tuple(repeated[:count])
            if name not in known:
                known[name] = self._mean_us(size, choice, count)
            return known[name]

        fits = int(self.limit / self._on_fabric(size) * total / repeated[0])
        count = min(max(fits, _LEAST_UNITS), len(repeated))
        us, half = first_us(count), count // 2
        if count == len(repeated):
            return us, 1.0
        slope = (us - first_us(half)) / int(sums[count - 1] - sums[half - 1])
        return us + slope * (total - int(sums[count - 1])), int(sums[count - 1]) / total

    def _on_fabric(self, size: int) -> int:
        """Bytes between machines, roughly: on all NICs together."""
        machines, gpus = self.cluster.machines, self.cluster.machine.gpus
        match self.op:
            case "sendrecv":
                return size * machines
            case "alltoall":
                return size * gpus * (machines - 1)
            case "all_reduce":
                return 2 * size * machines
        return size * machines

    def _mean_us(self, size: int, choice: Choice, first: int) -> float:
        """The mean time of operations that follow each other, and of machines, as nccl-tests have it (--average 1).
        After a broadcast or a reduction a GPU goes on before the others are done, until the slowest keeps it waiting;
        all other operations wait for everybody."""
        once = self.simulate_us(size, choice, first)
        if self.op not in ("broadcast", "reduce"):
            return float(once.mean())
        more = self.simulate_us(size, choice, first, 2).max() - once.max()
        return float(once.mean() + (_ITERATIONS - 1) * more) / _ITERATIONS

    def simulate_us(self, size: int, choice: Choice, first: int, times: int = 1) -> FloatArray:
        """(machines,) when each is done with the first `operations.units` of so many operations. Raises DetourError:
        they did not come to an end."""
        graph, ends = self._graph(size, choice, first, times)
        connections, host_ends = room_of(graph)
        chosen, scheme = self.settings.of_run(connections), self.settings.scheme
        with VirtualFabric(self.topology, scheme, chosen, queue_pairs=connections, host_ends=host_ends) as fabric:
            result = run_tasks(fabric, graph, MAX_TIME)
        if not result.completed:
            raise DetourError(f"{self.op} of {size} bytes did not come to an end; a connection has given up")
        done_ps = np.array([result.finish_ps[list(tasks)].max() for tasks in ends])
        return done_ps.reshape(self.cluster.machines, -1).max(axis=1) / US

    def _graph(self, size: int, choice: Choice, first: int, times: int) -> tuple[TaskGraph, Sequence[Sequence[int]]]:
        """The tasks, and with which of them each host is done."""
        tasks = TaskList(len(self.topology.hosts))
        ranks = Ranks.fresh(range(self.cluster.hosts), self.op)
        for _ in range(times):
            ranks = ranks.then(operations.run(tasks, ranks, self.op, size, self.cluster, choice, first))
        return tasks.graph(), ranks.after
