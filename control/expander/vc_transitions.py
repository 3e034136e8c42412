# SPDX-License-Identifier: Apache-2.0
"""Where the lossless priority of packets rises (FC+, section III-D), and the entries that let it.

The pair of in-port and out-port alone tells whether a packet has come down and goes up again, so a switch needs no more
than the set of these pairs: not the packet's path, nor its destination. A packet that goes back where it came from is
no exception: having come down, it goes up again.

Who would rise out of the last lossless priority goes on in a class that is not lossless (Tagger's principle, Hu et al.,
CoNEXT 2017). So in every lossless priority positions grow with every hop, whatever leads packets on: listed routes,
shortest paths by address, detours around what is down, and any mixture of them while routes change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from detour.control import schema
from detour.control.entries import Action, TableEntry, Ternary
from detour.topo.expander.network import Expander


def rising_ports(network: Expander, switch: int) -> list[tuple[int, int]]:
    """The (in-port, out-port) of a switch at which the lossless priority rises by one, ascending.

    Ports as in `network.topology`, those of links that are down left out; a packet that a host sends in never rises.
    """
    ch, first = network.channels, int(network.hosts[switch]) + 1
    columns = np.flatnonzero(ch.neighbour[switch] >= 0)
    entered = ch.enter[ch.neighbour[switch, columns], ch.back[switch, columns]]
    pairs = np.argwhere(ch.leave[switch, columns][None, :] < entered[:, None])
    return [(first + int(columns[i]), first + int(columns[o])) for i, o in pairs]


def plan_rising(network: Expander, switch: int, priorities: int) -> Iterator[TableEntry]:
    """The entries of `channel` that raise a packet's priority (its DSCP) by one at `rising_ports`: out of the last one
    into number `priorities`, which is not lossless. `routes.compute` makes no path that rises so far.
    """
    for into, out in rising_ports(network, switch):
        for v in range(priorities):
            match = {
                schema.DSCP_FIELD: v,
                schema.IN_PORT: Ternary(into, schema.PORT_MASK),
                schema.EGRESS_SPEC_FIELD: Ternary(out, schema.PORT_MASK),
            }
            action = Action.of(schema.SET_CHANNEL, dscp=v + 1, priority=v + 1)
            yield TableEntry.of(schema.CHANNEL, match, action, priority=1)
