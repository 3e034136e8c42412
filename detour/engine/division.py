# SPDX-License-Identifier: Apache-2.0
"""Dividing a fabric into nodes that the loop may execute apart from each other (see `detour.engine.loop.windows`).

A switch and its native hosts are a node, or all switches of a domain with their hosts: those whose programs share
memory. Windows are as long as the shortest delay of a cable between nodes; switches at both ends of a cable that would
make them too short are one node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.engine.loop import layout
from detour.engine.loop.layout import MAX_TIME
from detour.engine.wiring import WiredSwitch, Wiring

_WORTH_PS = 100_000
"""a window of this length is longer than what it takes to begin one"""
_FEWEST_NODES = 8
"""so many must be left when short cables are taken out"""


class Division(NamedTuple):
    """Nodes of a fabric."""

    of_switch: Int64Array
    """(switches,) number of each one's node: consecutive numbers in order of the first switch"""
    lookahead_ps: int
    """the shortest delay of a cable between two nodes; 0 if there is none, or none at all"""
    side: Int64Array
    """(nodes,) 0 or 1 where every cable between two nodes joins one of either kind, else all 0"""


UNDIVIDED = Division(np.zeros(0, np.int64), 0, np.zeros(0, np.int64))


def divide(wiring: Wiring) -> Division:
    """The nodes of a fabric.

    Raises:
        DetourError: switches of two nodes write the same register.
    """
    switches = wiring.switches.values()
    first_of: dict[int, int] = {}
    joined = [(first_of.setdefault(s.domain, s.index), s.index) for s in switches if s.domain >= 0]
    cables = [
        (wiring.switch(port[0]).index, wiring.switch(cable.far[0]).index, cable.out_channel)
        for port, cable in wiring.cables.items()
        if cable.far is not None
    ]
    ends = np.array(cables, np.int64).reshape(-1, 3)
    ends, delay = ends[:, :2], wiring.memory.column("channels", "delay_ps")[ends[:, 2]]
    division = _division(len(switches), joined, ends, delay)
    while len(delay) and division.lookahead_ps < _WORTH_PS:
        joined += ends[delay <= division.lookahead_ps].tolist()
        longer = _division(len(switches), joined, ends, delay)
        if longer.lookahead_ps == 0 or longer.of_switch.max() + 1 < _FEWEST_NODES:
            break
        division = longer
    _check_registers(switches, division.of_switch)
    return division


def _division(count: int, joined: Iterable[tuple[int, int]], ends: Int64Array, delay: Int64Array) -> Division:
    """Divide `count` switches into nodes, of which joined switches are one; cables have `ends` (cables, 2)."""
    root = list(range(count))

    def root_of(switch: int) -> int:
        while root[switch] != switch:
            switch = root[switch] = root[root[switch]]
        return switch

    for a, b in joined:
        low, high = sorted((root_of(a), root_of(b)))
        root[high] = low
    roots = np.array([root_of(switch) for switch in range(count)], np.int64)
    of_switch = np.unique(roots, return_inverse=True)[1]
    # A frame's own time on the wire would make windows longer, but a link of unlimited rate has next to none.
    nodes = of_switch[ends]
    crosses = nodes[:, 0] != nodes[:, 1]
    lookahead_ps = int(delay[crosses].min(initial=MAX_TIME)) if crosses.any() else 0
    return Division(of_switch, lookahead_ps, _sides(int(of_switch.max(initial=-1)) + 1, nodes[crosses]))


def _sides(count: int, cables: Int64Array) -> Int64Array:
    """(nodes,) sides of nodes joined by `cables` (cables, 2): those an odd number of cables from the first one are 1;
    all 0 if that gives both ends of a cable the same side."""
    linked: list[list[int]] = [[] for _ in range(count)]
    for a, b in cables.tolist():
        linked[a].append(b)
        linked[b].append(a)
    side = np.full(count, -1)
    for first in range(count):
        reached = [first] if side[first] < 0 else []
        side[reached] = 0
        for node in reached:
            more = [other for other in linked[node] if side[other] < 0]
            side[more] = 1 - side[node]
            reached += more
    return side if (side[cables[:, 0]] != side[cables[:, 1]]).all() else np.zeros_like(side)


def _check_registers(switches: Iterable[WiredSwitch], of_switch: Int64Array) -> None:
    owners: dict[int, WiredSwitch] = {}
    for switch in switches:
        for name, register in getattr(switch.state, "registers", {}).items():
            owner = owners.setdefault(register.memory.ctypes.data, switch)
            if of_switch[owner.index] != of_switch[switch.index]:
                raise DetourError(
                    f"switches {owner.name} and {switch.name} share register {name}; they must have the same domain"
                )


def ends_of_channels(wiring: Wiring, of_switch: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(channels,) nodes of who sends into each channel and of who takes frames off it."""
    memory = wiring.memory
    of_port = of_switch[memory.column("ports", "switch")]
    uplink = memory.column("nics", "channel")
    kind, index = memory.column("channels", "kind"), memory.column("channels", "index")
    of_nic = of_port[index[uplink]]
    receiver = np.zeros(len(kind), np.int64)
    for number, table in ((layout.TO_HOST, of_nic), (layout.TO_INPUT, of_switch)):
        receiver[kind == number] = table[index[kind == number]]
    for number in (layout.TO_PORT, layout.TO_CPU, layout.TO_SINK):
        receiver[kind == number] = of_port[index[kind == number]]
    sender = receiver.copy()
    sender[memory.column("ports", "channel")] = of_port
    sender[uplink] = of_nic
    return sender, receiver


def nodes_of_entities(wiring: Wiring, of_switch: Int64Array) -> Int64Array:
    """(entities,) node of every entity of the loop."""
    memory = wiring.memory
    whose, which = memory.column("entities", "kind"), memory.column("entities", "index")
    result = np.zeros(len(whose), np.int64)
    if not len(of_switch):
        return result
    of_port = of_switch[memory.column("ports", "switch")]
    of_channel = ends_of_channels(wiring, of_switch)[1]
    of_nic = of_channel[memory.column("nics", "channel")]
    tables = {layout.ON_CHANNEL: of_channel, layout.ON_PORT: of_port, layout.ON_NIC: of_nic, layout.ON_TIMER: of_nic}
    for number, table in tables.items():
        result[whose == number] = table[which[whose == number]]
    return result


def divisible(wiring: Wiring) -> bool:
    """Return whether no controller, sink, capture or injected frame needs events in the order of time."""
    # Within a window one node runs ahead of another, so their records would come out of order.
    memory = wiring.memory  # asked before every run, and runs may be short: no copies
    switches, channels = (memory.table(name)[: memory.count(name)] for name in ("switches", "channels"))
    listeners = switches["wants_packet_in"].any() or switches["wants_digest"].any()
    sinks = (channels["kind"] == layout.TO_SINK).any()
    waiting = memory.row("channels", wiring.inject_channel)["count"] > 0
    return not (listeners or sinks or waiting or memory.g["capturing"])
