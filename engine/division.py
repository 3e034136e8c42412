# SPDX-License-Identifier: Apache-2.0
"""Dividing a fabric into nodes that the loop may execute one after the other (see `detour.engine.loop.entry`).

A switch and its native hosts are a node, or all switches of a domain with their hosts: those whose programs share
memory. Windows are as long as the shortest delay of a cable between nodes.
"""

from __future__ import annotations

import numpy as np

from detour.engine.loop import layout
from detour.engine.wiring import Wiring


def nodes_of_switches(wiring: Wiring) -> np.ndarray:
    """Node number of every switch, by index: consecutive numbers in order of the first switch."""
    keys = [("alone", s.index) if s.domain < 0 else ("domain", s.domain) for s in wiring.switches.values()]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64)


def nodes_of_entities(wiring: Wiring) -> np.ndarray:
    """Node number of every entity of the loop."""
    memory, nodes = wiring.memory, nodes_of_switches(wiring)
    if not len(nodes):
        return np.zeros(memory.count("entities"), np.int64)
    of_port = nodes[memory.column("ports", "switch")]
    up = memory.column("channels", "index")[memory.column("nics", "channel")]
    of_nic = of_port[up]
    kind, index = memory.column("channels", "kind"), memory.column("channels", "index")
    of_channel = np.zeros(len(kind), np.int64)
    for number, table in ((layout.TO_HOST, of_nic), (layout.TO_INPUT, nodes)):
        of_channel[kind == number] = table[index[kind == number]]
    for number in (layout.TO_PORT, layout.TO_CPU, layout.TO_SINK):
        of_channel[kind == number] = of_port[index[kind == number]]
    whose, which = memory.column("entities", "kind"), memory.column("entities", "index")
    result = np.zeros(len(whose), np.int64)
    tables = {layout.ON_CHANNEL: of_channel, layout.ON_PORT: of_port, layout.ON_NIC: of_nic, layout.ON_TIMER: of_nic}
    for number, table in tables.items():
        result[whose == number] = table[which[whose == number]]
    return result


def lookahead_ps(wiring: Wiring) -> int:
    """The shortest delay of a cable between two nodes; 0 if there is none, or none at all."""
    nodes = nodes_of_switches(wiring)
    delays = [
        int(wiring.memory.row("channels", cable.out_channel)["delay_ps"])
        for port, cable in wiring.cables.items()
        if cable.far is not None and nodes[wiring.switch(port[0]).index] != nodes[wiring.switch(cable.far[0]).index]
    ]
    # A frame's own time on the wire would make it longer, but a link of unlimited rate has next to none.
    return min(delays, default=0)


def divisible(wiring: Wiring) -> bool:
    """Whether nobody wants to see events in the order of time: controllers, sinks, captures, injected frames."""
    # Within a window one node runs ahead of another, so their records would come out of order.
    memory = wiring.memory
    wanted = memory.column("switches", "wants_packet_in").any() or memory.column("switches", "wants_digest").any()
    sinks = (memory.column("channels", "kind") == layout.TO_SINK).any()
    waiting = memory.row("channels", wiring.inject_channel)["count"] > 0
    return not (wanted or sinks or waiting or memory.g["capturing"])
