# SPDX-License-Identifier: Apache-2.0
"""Deadlock freedom, checked: the channel dependency graph of the routes themselves (Dally and Seitz, 1988).

A channel is a link in one direction and a lossless priority: the buffer behind the link that PFC can block. It depends
on the channel that a packet in it wants next. Routes cannot deadlock if nothing depends on itself, however
indirectly. Nothing of how the routes were made is used here: priorities are followed hop by hop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from detour.base.arrays import BoolArray, Bools3, Bools4, Int32Array, Int64s1, UInt8Array, UInt8s1, UInt8s2
from detour.control.entries import Entity
from detour.control.expander.demand import hop_distances
from detour.control.expander.enumeration import native
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute
from detour.control.native import EXPANDER
from detour.control.verifier.cycles import cycle_of
from detour.control.verifier.dependencies import InstalledClasses, Waits, plain_choices, shortest_choices, wires_of
from detour.topo.address import MAX_USIDS
from detour.topo.expander.network import Channels, Expander
from detour.topo.failures import Failures, dead_switches


@dataclass(frozen=True)
class Layer:
    """One priority: channels in use, dependencies among them, and a cycle (channels in order) if there is one."""

    priority: int
    channels: int
    dependencies: int
    cycle: tuple[int, ...]

    @property
    def acyclic(self) -> bool:
        return not self.cycle


@dataclass(frozen=True)
class Proof:
    """Results for every priority, and whether a priority ever falls back to a lower one."""

    network: Expander
    priorities: tuple[Layer, ...]
    between: int  # dependencies of a channel on one of the next higher priority

    @property
    def deadlock_free(self) -> bool:
        """Every priority is acyclic; between priorities a packet only rises, which adds no cycle."""
        return all(layer.acyclic for layer in self.priorities)

    @property
    def channels(self) -> int:
        return sum(layer.channels for layer in self.priorities)

    @property
    def dependencies(self) -> int:
        return sum(layer.dependencies for layer in self.priorities) + self.between


@EXPANDER.entry
def _mark(
    source: Int64s1, length: UInt8s1, columns: UInt8s2, lane: UInt8s1, ch: Channels, flat: bool, inside: Bools4,
    rising: Bools4, used: Bools3,
) -> None:  # fmt: skip
    """Mark the dependencies of all paths, which begin in the priority `lane`; `flat`: and stay there. inside[p, x, c,
    d]: channel c of switch x in priority p depends on column d behind it in the same priority; rising: on that column
    in priority p + 1. used[p, x, c]: some path takes the channel."""
    for row in range(source.size):
        x, position, p = source[row], 0, np.int64(lane[row])
        before_x, before_c, before_p = -1, -1, 0
        for i in range(length[row]):
            c = columns[row, i]
            if not flat and ch.leave[x, c] < position:
                p += 1
            used[p, x, c] = True
            if before_x >= 0:
                if p == before_p:
                    inside[p, before_x, before_c, c] = True
                else:
                    rising[before_p, before_x, before_c, c] = True
            before_x, before_c, before_p = x, c, p
            position = ch.enter[x, c]
            x = ch.neighbour[x, c]


def find_cycle(depends: BoolArray, network: Expander) -> tuple[int, ...]:
    """A cycle of dependencies, () if there is none.

    `depends`: (switches, width, width) whether channel (x, c) depends on column d of the switch behind it; `network`:
    whose channels they are. Returns channel numbers x * width + c, each depending on the next, the last on the
    first."""
    width = depends.shape[1]
    cycle = cycle_of(depends[:, :, None, :, None], network.channels.neighbour)
    return tuple(x * width + c for x, c, _ in cycle)


def prove(routes: ExpanderRoutes, lane: UInt8Array | None = None) -> Proof:
    """Build the dependencies of every priority from the routes and look for cycles. `lane` (paths,): the priority in
    which each stays, whatever the policy of `routes` says; None: priorities are those of the policy."""
    network, ch = routes.network, native(routes.network.channels)
    count = max(1, routes.policy.priorities) if lane is None else int(lane.max(initial=0)) + 1
    flat = lane is not None or routes.policy.priorities == 0
    n, width = ch.neighbour.shape
    inside, rising = np.zeros((2, count, n, width, width), np.bool_)
    used = np.zeros((count, n, width), np.bool_)
    lane = np.zeros(routes.total, np.uint8) if lane is None else lane
    _mark(routes.sources, routes.length, routes.columns, lane, ch, flat, inside, rising, used)
    layers = tuple(
        Layer(p, int(used[p].sum()), int(inside[p].sum()), find_cycle(inside[p], network)) for p in range(count)
    )
    return Proof(network, layers, int(rising.sum()))


def channel_names(network: Expander, cycle: tuple[int, ...]) -> list[str]:
    """`s3>s17` for every channel."""
    neighbour = network.channels.neighbour
    width = neighbour.shape[1]
    ends = [(i // width, int(neighbour[i // width, i % width])) for i in cycle]
    return [f"{network.name_of(a)}>{network.name_of(b)}" for a, b in ends]


LIST_HOPS = MAX_USIDS - 1  # links of a path that a uSID list can name, switch by switch


class InstalledProof(NamedTuple):
    """Waits of what is followed, each with those before it. `lossy`: share of plain packets that leaves the lossless
    classes; `unrouted`: pairs of switches that no listed route joins."""

    listed: Waits
    senders: Waits
    plain: Waits
    lossy: float
    anywhere: Waits
    unrouted: int

    @property
    def cycle(self) -> tuple[str, ...]:
        """The first cycle of waits, () if there is none."""
        return next((w.cycle for w in (self.listed, self.senders, self.plain, self.anywhere) if w.cycle), ())


def prove_installed(
    checked: InstalledClasses, routes: ExpanderRoutes, choices: BoolArray, distance: Int32Array,
    senders: Sequence[Sequence[int]] = (),
) -> InstalledProof:  # fmt: skip
    """Follow all of them, one kind after the other.

    `checked`: the classes of packets, which nothing has been followed by yet. `routes`: those that are listed.
    `choices`: (switches, width, switches) columns that plain packets choose among, by target. `distance`: (switches,
    switches) links of shortest paths; every choice leads nearer, or does not count as lossy. `senders`: paths, switch
    by switch, that are in use."""
    source = np.ascontiguousarray(routes.pairs[:, 0].astype(np.int64))
    listed = checked.follow_listed(source, routes.first, routes.length, routes.columns)
    used = checked.follow_paths(senders)
    plain = checked.follow_choices(choices)
    nearer = choices & shortest_choices(routes.network.channels.neighbour, distance)
    lossy = round(checked.share_lossy(nearer, distance), 4)
    unrouted = int((np.diff(routes.first) == 0).sum())
    return InstalledProof(listed, used, plain, lossy, checked.follow_anywhere(), unrouted)


def prove_running(
    state: Mapping[int, Iterable[Entity]], network: Expander, failures: Failures, policy: PathPolicy, lossless: int,
    senders: Sequence[Sequence[int]] = (),
) -> InstalledProof:  # fmt: skip
    """The same of a fabric, from all that its switches hold: entities by device id, read back. Switches that are down
    hold nothing and forward nothing; links that are down count, for they may come back. Raises `DetourError`: the
    policy makes no sense for this network."""
    topology, live = network.topology, network.under(failures)
    wires = wires_of(topology, dead_switches(failures))
    checked = InstalledClasses(state, wires, lossless)
    choices = plain_choices(state, topology, wires)
    routes = compute(live, policy, partial=True)
    return prove_installed(checked, routes, choices, hop_distances(live, partial=True), senders)
