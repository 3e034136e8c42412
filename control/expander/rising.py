# SPDX-License-Identifier: Apache-2.0
"""Where the lossless priority of packets rises (FC+, section III-D), and the entries that let it.

The pair of in-port and out-port alone tells whether a packet has come down and goes up again, so a switch needs no more
than the set of these pairs: not the packet's path, nor its destination.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from detour.control import schema
from detour.control.entries import Action, TableEntry, Ternary
from detour.topo.expander.network import Expander


def rising_ports(network: Expander, switch: int) -> list[tuple[int, int]]:
    """The (in-port, out-port) of a switch at which the lossless priority rises by one, ascending.

    Ports as in `network.topology`; a packet that a host sends in never rises.
    """
    ch, first = network.channels, int(network.hosts[switch]) + 1
    columns = np.flatnonzero(ch.neighbour[switch] >= 0)
    entered = ch.enter[ch.neighbour[switch, columns], ch.back[switch, columns]]
    pairs = np.argwhere(ch.leave[switch, columns][None, :] < entered[:, None])
    return [(first + int(columns[i]), first + int(columns[o])) for i, o in pairs if i != o]


def plan_rising(network: Expander, switch: int, priorities: int) -> Iterator[TableEntry]:
    """The entries of `channel` that raise a packet's priority (its DSCP) by one at `rising_ports`.

    A packet in the last priority keeps it; `routes.compute` makes no path that would need more.
    """
    for into, out in rising_ports(network, switch):
        for v in range(priorities - 1):
            match = {
                schema.DSCP_FIELD: v,
                schema.IN_PORT: Ternary(into, schema.PORT_MASK),
                schema.EGRESS_SPEC_FIELD: Ternary(out, schema.PORT_MASK),
            }
            action = Action.of(schema.SET_CHANNEL, dscp=v + 1, priority=v + 1)
            yield TableEntry.of(schema.CHANNEL, match, action, priority=1)
