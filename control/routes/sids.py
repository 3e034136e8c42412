# SPDX-License-Identifier: Apache-2.0
"""Entries for a switch's own SRv6 uSIDs: its node (uN) and its links (uA)."""

from __future__ import annotations

from collections.abc import Iterator

from detour.control import schema
from detour.control.entries import Action, Lpm, TableEntry
from detour.topo import address
from detour.topo.topology import Switch


def plan_sids(switch: Switch, dead: frozenset[int]) -> Iterator[TableEntry]:
    """uN as /48; uA of every live port as /48 (local function) and as /64 (node and function).

    `dead` are links that carry nothing: a uA over one of them is no local SID, its packets are dropped and counted.
    """
    node = switch.node_id
    yield _sid(address.locator(node), 48, Action.of(schema.UN))
    for port, peer in enumerate(switch.ports, start=1):
        if peer is not None and peer.link not in dead:
            function = address.adjacency_function(port)
            yield _sid(address.locator(function), 48, Action.of(schema.UA, port=port))
            yield _sid(address.adjacency_sid(node, port), 64, Action.of(schema.NODE_UA, port=port))


def _sid(value: int, prefix_len: int, action: Action) -> TableEntry:
    return TableEntry(schema.LOCAL_SID, ((schema.DST_ADDR, Lpm(value, prefix_len)),), action)
