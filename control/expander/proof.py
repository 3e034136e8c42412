# SPDX-License-Identifier: Apache-2.0
"""Deadlock freedom, checked: the channel dependency graph of the routes themselves (Dally and Seitz, 1988).

A channel is a link in one direction and a lossless priority: the buffer behind the link that PFC can block. It depends
on the channel that a packet in it wants next. Routes cannot deadlock if nothing depends on itself, however
indirectly. Nothing of how the routes were made is used here: priorities are followed hop by hop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Bools3, Bools4, Int64s1, UInt8s1, UInt8s2
from detour.base.jit import allocating
from detour.control.expander.enumeration import native
from detour.control.expander.routes import ExpanderRoutes
from detour.control.native import EXPANDER
from detour.control.verifier.cycles import cycle_of
from detour.topo.expander.network import Channels, Expander


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
    """What was found for every priority, and whether a priority ever falls back to a lower one."""

    network: Expander
    priorities: tuple[Layer, ...]
    between: int
    """dependencies of a channel on one of the next higher priority"""

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


@allocating
def _mark(source, first, last, length, columns, ch, flat, inside, rising, used):
    """Marks the dependencies of rows first to last-1.

    inside[p, x, c, d]: channel c of switch x in priority p depends on column d behind it in the same priority;
    rising: on that column in priority p + 1. used[p, x, c]: some path takes the channel.
    """
    for row in range(first, last):
        x, position, p = source, 0, 0
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


@EXPANDER.entry
def _mark_all(
    source: Int64s1, first: Int64s1, length: UInt8s1, columns: UInt8s2, ch: Channels, flat: bool, inside: Bools4,
    rising: Bools4, used: Bools3,
) -> None:  # fmt: skip
    for i in range(source.size):
        _mark(source[i], first[i], first[i + 1], length, columns, ch, flat, inside, rising, used)


def find_cycle(depends: NDArray[np.bool_], network: Expander) -> tuple[int, ...]:
    """A cycle of dependencies, () if there is none.

    Args:
        depends: (switches, width, width) whether channel (x, c) depends on column d of the switch behind it.
        network: whose channels they are.

    Returns:
        Channel numbers x * width + c, each depending on the next, the last on the first.
    """
    width = depends.shape[1]
    found = cycle_of(depends[:, :, None, :, None], network.channels.neighbour)
    return tuple(x * width + c for x, c, _ in found)


def prove(routes: ExpanderRoutes) -> Proof:
    """Builds the dependencies of every priority from the routes and looks for cycles."""
    network, count = routes.network, max(1, routes.policy.priorities)
    ch = native(network.channels)
    n, width = ch.neighbour.shape
    inside = np.zeros((count, n, width, width), np.bool_)
    rising = np.zeros((count, n, width, width), np.bool_)
    used = np.zeros((count, n, width), np.bool_)
    flat = routes.policy.priorities == 0
    source = np.ascontiguousarray(routes.pairs[:, 0].astype(np.int64))
    _mark_all(source, routes.first, routes.length, routes.columns, ch, flat, inside, rising, used)
    layers = tuple(
        Layer(p, int(used[p].sum()), int(inside[p].sum()), find_cycle(inside[p], network)) for p in range(count)
    )
    return Proof(network, layers, int(rising.sum()))


@EXPANDER.entry
def _mark_lanes(
    source: Int64s1, columns: UInt8s2, length: UInt8s1, lane: UInt8s1, ch: Channels, inside: Bools4, used: Bools3
) -> None:
    """As `_mark`, for paths that stay in their lane."""
    for row in range(source.size):
        x, before_x, before_c, p = source[row], -1, -1, lane[row]
        for i in range(length[row]):
            c = columns[row, i]
            used[p, x, c] = True
            if before_x >= 0:
                inside[p, before_x, before_c, c] = True
            before_x, before_c = x, c
            x = ch.neighbour[x, c]


def prove_lanes(routes: ExpanderRoutes, lane: NDArray[np.uint8]) -> Proof:
    """The same for paths of which each stays in one lane, `lane` (paths,), whatever the policy of `routes` says."""
    network, ch = routes.network, native(routes.network.channels)
    shape = (int(lane.max(initial=0)) + 1, *ch.neighbour.shape)
    inside, used = np.zeros((*shape, shape[2]), np.bool_), np.zeros(shape, np.bool_)
    source = np.repeat(routes.pairs[:, 0].astype(np.int64), np.diff(routes.first))
    _mark_lanes(source, routes.columns, routes.length, lane, ch, inside, used)
    layers = tuple(
        Layer(p, int(used[p].sum()), int(inside[p].sum()), find_cycle(inside[p], network)) for p in range(shape[0])
    )
    return Proof(network, layers, 0)


def channel_names(network: Expander, cycle: tuple[int, ...]) -> list[str]:
    """`s3>s17` for every channel."""
    neighbour = network.channels.neighbour
    width = neighbour.shape[1]
    return [f"s{i // width}>s{neighbour[i // width, i % width]}" for i in cycle]
