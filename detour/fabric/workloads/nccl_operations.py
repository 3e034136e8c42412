# SPDX-License-Identifier: Apache-2.0
"""NCCL's operations as tasks: rings, double binary trees and messages between pairs, on channels.

A channel is a block of a GPU that copies and reduces, one thing after the other (a unit of a host), and a connection to
each of its neighbours. It works on a chunk in slices: a slice goes on as soon as it has come, while the next one comes.
Each takes the block a step (waiting for flags, fences, setting flags) and a copy; both directions of a tree share it.
What came over the network is noticed after a step's latency (`rules.step_ps`), is passed from GPU to GPU inside the
machine, each of which takes a local step and a copy, and goes out by the NIC of the channel (PXN): a channel stays on
its rail. A message between two GPUs leaves by the NIC on the rail of its receiver, over at most `rules.STEPS` slots.

An operation repeats itself: steps around a ring, chunks along a tree, slots of a message. `units` are the bytes of each
of these, and `run` can carry out the first of them only.

GPUs of one machine are not hosts of the graph: what they do for a channel is added up where its NIC is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from detour.base.errors import DetourError
from detour.control.placement.nccl import rules
from detour.control.placement.nccl.machines import Cluster
from detour.control.placement.nccl.rules import PEER_OPERATIONS, SIMPLE, Choice
from detour.fabric.workloads.collectives import MAX_TASKS, Ranks, RankWaits, downward, joined, parts
from detour.fabric.workloads.tasks import TaskList

_COPY_LANES = 2
"""units of a channel: sending and, in trees and pairs, the other direction"""


def _time_ps(size: int, rate_bps: int) -> int:
    """Return the time of so many bytes at a rate."""
    return size * 8 * 10**12 // rate_bps


@dataclass
class _Channel:
    """Sends slices of one channel in order. `connection`: of two hosts; `unit`: of a host; `rate_bps`: of copies;
    `slice_ps`: what a slice takes the unit beside that."""

    tasks: TaskList
    ranks: Ranks
    cluster: Cluster
    protocol: rules.Protocol
    connection: int
    unit: int
    rate_bps: int
    slice_ps: int = 0
    last: dict[tuple[int, int], int] = field(default_factory=dict)

    def copy_ps(self, size: int) -> int:
        return _time_ps(size, self.rate_bps)

    def local_ps(self, size: int, hops: int) -> int:
        """The time of a slice over so many hops inside a machine: at the rate of the copies or of the channel's share
        of NVLink, whichever is less."""
        share = rules.local_bps(self.cluster) // rules.channels_of(self.cluster)
        return hops * (rules.local_step_ps(self.protocol) + _time_ps(size, min(self.rate_bps, share)))

    def send(
        self, a: int, b: int, size: int, after: Sequence[int], local_ps: int = 0, noticed: bool = True,
        copied: bool = False,
    ) -> int:  # fmt: skip
        """A slice from host `a` to host `b`, behind those that went before it. `noticed`: `after` came over the
        network, so noticing it takes a step. `copied`: together with the slice before, to another host."""
        wait_ps = local_ps + (rules.step_ps(self.cluster, self.protocol) if noticed else 0)
        if wait_ps:
            after = [self.tasks.compute(self.ranks.hosts[a], wait_ps, after=after, step=self.ranks.step, unit=-1)]
        named = self.ranks.over(self.ranks.hosts[a], self.ranks.hosts[b])
        connection = self.connection if named < 0 else named
        sent = self.tasks.message(
            self.ranks.hosts[a], self.ranks.hosts[b], self.protocol.on_wire(size), after=after, step=self.ranks.step,
            compute_ps=0 if copied else self.slice_ps + self.copy_ps(size), connection=connection, unit=self.unit,
            label=self.ranks.label,
        )  # fmt: skip
        if (a, b) in self.last:
            self.tasks.wait(sent, self.last[a, b], on_start=True)
        self.last[a, b] = sent
        return sent

    def end(self, host: int, size: int, after: Sequence[int], local_ps: int = 0) -> int:
        """The last slice has come: it is noticed and copied."""
        return self.part(host, rules.step_ps(self.cluster, self.protocol) + local_ps + self.copy_ps(size), after)

    def part(self, host: int, time_ps: int, after: Sequence[int]) -> int:
        """Work of GPUs beside sending over the network."""
        return self.tasks.compute(self.ranks.hosts[host], time_ps, after=after, step=self.ranks.step, unit=-1)


def units(op: str, size: int, cluster: Cluster, choice: Choice) -> list[int]:
    """Bytes of what an operation repeats, on each of its channels: of the steps of a ring, the chunks of a tree or a
    chain, the slots of a message (of the largest one)."""
    if op in PEER_OPERATIONS:
        most = max(each for *_, each in rules.peer_messages(op, size, cluster))
        return list(_pieces(_peer_parts(most, choice.channels)[0], _peer_chunk(most)))
    part, protocol = -(-size // choice.channels), choice.protocol
    if choice.algorithm != "ring":
        return list(_pieces(part, rules.tree_chunk(size, cluster, choice)))
    if op in ("broadcast", "reduce"):
        return list(_pieces(part, protocol.slot))
    return [
        chunk
        for chunk in _pieces(-(-part // cluster.ranks), protocol.slot * protocol.chunk_slots)
        for _ in range((2 if op == "all_reduce" else 1) * (cluster.ranks - 1))
    ]


def run(
    tasks: TaskList, ranks: Ranks, op: str, size: int, cluster: Cluster, choice: Choice | None = None,
    first: int | None = None,
) -> RankWaits:  # fmt: skip
    """An operation on `size` bytes, as nccl-tests count them. `ranks.hosts` are the NICs, machine by machine. `choice`
    None: NCCL's own. `first`: only so many `units`. Raises DetourError: it would be too many tasks."""
    choice = choice or rules.choose(op, size, cluster)
    repeated = units(op, size, cluster, choice)[:first]
    count = 2 * len(repeated) * cluster.machines * choice.channels
    if op not in PEER_OPERATIONS:
        count *= choice.protocol.slices
    elif op == "alltoall":
        count *= cluster.ranks - cluster.machine.gpus
    if len(tasks) + count > MAX_TASKS:
        raise DetourError(f"{op} of {size} bytes: about {count} tasks; a workload can have at most {MAX_TASKS}")
    launched = [
        [tasks.compute(host, rules.launch_ps(choice), after=after, step=ranks.step, unit=-1)]
        for host, after in zip(ranks.hosts, ranks.after, strict=True)
    ]
    begun = ranks.then(launched)
    if op in PEER_OPERATIONS:
        return joined(tasks, ranks, _Pairs(tasks, begun, cluster, len(repeated)).run(op, size))
    waits = [list(after) for after in begun.after]
    for number in range(choice.channels):
        for host, more in _on_channel(tasks, begun, op, repeated, cluster, choice, number):
            waits[host].append(more)
    return joined(tasks, ranks, waits)


def _on_channel(
    tasks: TaskList, ranks: Ranks, op: str, repeated: Sequence[int], cluster: Cluster, choice: Choice, number: int
) -> Iterator[tuple[int, int]]:
    """A channel's part of an operation: (host, task that it waits for)."""
    turn, nic = divmod(number, cluster.machine.nics)
    rate_bps = cluster.costs.nvls_bps if choice.algorithm == "nvls-tree" else cluster.costs.channel_bps
    channel = _Channel(
        tasks, ranks, cluster, choice.protocol, turn, _COPY_LANES * number,
        rate_bps // (1 if choice.algorithm == "ring" else 2), rules.local_step_ps(choice.protocol),
    )  # fmt: skip
    hosts = [cluster.host(machine, nic) for machine in range(cluster.machines)]
    if choice.algorithm != "ring":
        yield from _tree(channel, repeated, hosts, rules.double_trees(len(hosts))[turn % 2], choice.algorithm)
    elif op in ("broadcast", "reduce"):
        yield from _chain(channel, repeated, hosts if op == "broadcast" else hosts[1:] + hosts[:1])
    else:
        yield from _ring(channel, op, repeated, hosts)


# -- rings --------------------------------------------------------------------------------------------------


def _ring(channel: _Channel, op: str, chunks: Sequence[int], hosts: list[int]) -> Iterator[tuple[int, int]]:
    """Chunks around a ring of all GPUs, machine by machine: in a step every GPU passes one on. Of each machine only
    the GPU whose next one is elsewhere sends over the network; what it sends came into the machine as many steps
    before as there are GPUs, or is a chunk that one of them has."""
    gpus, machines = channel.cluster.machine.gpus, len(hosts)
    steps = (2 if op == "all_reduce" else 1) * (channel.cluster.ranks - 1)
    sent: list[list[list[int]]] = []
    size = 1
    for number, chunk in enumerate(chunks):
        slices, step = parts(chunk, min(channel.protocol.slices, chunk)), number % steps
        size = slices[0]
        local_ps = channel.local_ps(size, min(step, gpus - 1))
        row: list[list[int]] = []
        for machine, host in enumerate(hosts):
            came = sent[number - gpus][machine - 1] if step >= gpus else None
            row.append([
                channel.send(
                    host, hosts[(machine + 1) % machines], each, [came[k]] if came else channel.ranks.after[host],
                    local_ps, noticed=came is not None,
                )
                for k, each in enumerate(slices)
            ])  # fmt: skip
        sent.append(row)
    for machine, came in enumerate(sent[-1]):
        host = hosts[(machine + 1) % machines]
        # What came last goes no further; what other GPUs of the machine get last came earlier.
        yield host, channel.end(host, size, came)


def _chain(channel: _Channel, chunks: Sequence[int], hosts: list[int]) -> Iterator[tuple[int, int]]:
    """Chunks from the first machine to the last: a broadcast, or a reduction, which ends in the first one's place."""
    inside, size = channel.cluster.machine.gpus - 1, 1
    came: dict[int, int] = {}
    for size in chunks:
        for place, host in enumerate(hosts[:-1]):
            after = [came[host]] if place else channel.ranks.after[host]
            local_ps = channel.local_ps(size, inside)
            came[hosts[place + 1]] = channel.send(host, hosts[place + 1], size, after, local_ps, noticed=bool(place))
    # What sends is done when its last slice is in a slot, wherever that is on its way.
    own_ps = channel.local_ps(chunks[0], inside) + len(chunks) * channel.slice_ps + channel.copy_ps(sum(chunks))
    yield hosts[0], channel.part(hosts[0], own_ps, channel.ranks.after[hosts[0]])
    for host, last in came.items():
        yield host, channel.end(host, size, [last], channel.local_ps(size, inside))


def _pieces(size: int, most: int) -> Iterator[int]:
    """So many bytes in pieces of at most `most`."""
    for first in range(0, size, most):
        yield min(most, size - first)


# -- trees --------------------------------------------------------------------------------------------------


def _tree(
    channel: _Channel, chunks: Sequence[int], hosts: list[int], parents: list[int], algorithm: str
) -> Iterator[tuple[int, int]]:
    """Chunks up a tree of machines and down again. Inside a machine GPUs are a chain, or NVSwitches reduce and spread
    (NVLS): all machines do that at first, so it delays only what leaves take up, and in the end what all have got."""
    gpus = channel.cluster.machine.gpus
    hops = min(1, gpus - 1) if algorithm == "nvls-tree" else gpus - 1
    order = downward(parents)
    up, down = channel, replace(channel, unit=channel.unit + 1, last={})
    came: dict[int, int] = {}
    size = 1
    for size in chunks:
        arrived: dict[int, list[int]] = defaultdict(list)
        for machine in reversed(order[1:]):
            children = arrived[machine]
            after, host = children or up.ranks.after[hosts[machine]], hosts[machine]
            local_ps = 0 if children else channel.local_ps(size, hops)
            sent = up.send(host, hosts[parents[machine]], size, after, local_ps, noticed=bool(children))
            arrived[parents[machine]].append(sent)
        root = order[0]
        came, sending = {root: up.end(hosts[root], size, arrived[root])}, set[int]()
        for machine in order[1:]:
            parent = parents[machine]
            came[machine] = down.send(
                hosts[parent], hosts[machine], size, [came[parent]], noticed=parent != root, copied=parent in sending
            )
            sending.add(parent)
    inside_ps = channel.local_ps(size, hops)
    for machine, last in came.items():
        yield hosts[machine], last if parents[machine] < 0 else down.end(hosts[machine], size, [last], inside_ps)


# -- pairs --------------------------------------------------------------------------------------------------


def _peer_chunk(size: int) -> int:
    """Return the bytes of a slot of a message: less than the slot has room for if the message is short."""
    return rules.P2P_CHUNK // (4 if size < rules.P2P_CHUNK else 2 if size < 8 * rules.P2P_CHUNK else 1)


def _peer_parts(size: int, channels: int) -> list[int]:
    """A message on the channels of its pair: no part is less than half a slot."""
    return parts(size, max(1, min(channels, -(-size // (rules.P2P_CHUNK // 2)))))


class _Pairs:
    """Messages between GPUs with protocol Simple. A channel's block works for at most `rules.P2P_AT_ONCE` messages at a
    time, at the rate that NCCL counts on for one."""

    def __init__(self, tasks: TaskList, ranks: Ranks, cluster: Cluster, most: int) -> None:
        """`most`: slots of a message that are sent."""
        self._tasks, self._ranks, self._cluster, self._most = tasks, ranks, cluster, most
        self._channels, self._of_pair = rules.peer_channels(cluster)
        self._lanes: dict[tuple[int, int], _Channel] = {}
        self._before: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        """last slot of each message so far, by sender, channel and the host that it leaves by: rails of a machine
        share a GPU's blocks, but no host waits for what another one does"""
        self._next: dict[int, int] = defaultdict(int)

    def run(self, op: str, size: int) -> RankWaits:
        """Add all messages; those inside machines take the time of NVLink."""
        cluster, inside = self._cluster, [0] * self._cluster.ranks
        waits: RankWaits = [list(after) for after in self._ranks.after]
        for sender, receiver, each in rules.peer_messages(op, size, cluster):
            if cluster.machine_of(sender) == cluster.machine_of(receiver):
                inside[sender] += min(each, self._most * _peer_chunk(each) * self._of_pair)
                continue
            for host, task in self._message(sender, receiver, each):
                waits[host].append(task)
        for rank, each in enumerate(inside):
            if each:
                host = cluster.host(cluster.machine_of(rank), cluster.nic_of(rank))
                time_ps = _time_ps(each, rules.local_bps(cluster))
                waits[host].append(
                    self._tasks.compute(self._ranks.hosts[host], time_ps, after=self._ranks.after[host], unit=-1)
                )
        return waits

    def _message(self, sender: int, receiver: int, size: int) -> Iterator[tuple[int, int]]:
        """A message in parts, one on each of the pair's channels: (host, task that it waits for)."""
        cluster = self._cluster
        a, b = cluster.rail(sender, receiver)
        first = self._next[sender]
        self._next[sender] += self._of_pair
        chunk = _peer_chunk(size)
        for number, part in enumerate(_peer_parts(size, self._of_pair)):
            name = (first + number) % self._channels
            lane = self._lane(sender, name)
            before = self._before[sender, name, a]
            slots = before[-rules.P2P_AT_ONCE :][:1] if len(before) >= rules.P2P_AT_ONCE else self._ranks.after[a]
            sent = list[int]()
            local_ps = lane.local_ps(min(chunk, part), int(cluster.nic_of(sender) != cluster.nic_of(receiver)))
            for place, piece in enumerate(islice(_pieces(part, chunk), self._most)):
                free = [sent[place - rules.STEPS]] if place >= rules.STEPS else slots
                sent.append(lane.send(a, b, piece, free, 0 if place else local_ps, noticed=place >= rules.STEPS))
            before.append(sent[-1])
            yield b, lane.end(b, min(chunk, part), [sent[-1]])
            yield a, sent[-1]

    def _lane(self, sender: int, channel: int) -> _Channel:
        """A channel of a sender."""
        key = sender, channel
        if key not in self._lanes:
            unit = sender % self._cluster.machine.gpus * self._channels + channel
            self._lanes[key] = _Channel(
                self._tasks, self._ranks, self._cluster, SIMPLE, channel % self._of_pair, unit, rules.P2P_CHANNEL_BPS
            )
        return self._lanes[key]
