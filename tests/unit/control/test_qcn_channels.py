# SPDX-License-Identifier: Apache-2.0
"""qcn.p4 cannot deadlock: on every way that a packet may take, what waits for what is no circle of links and classes.

Every packet is walked through the entries that the planner makes: minimal, by way of every group or switch, and turned
at the switch that has the link, by way of every group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pytest

from detour.control import qcn, schema
from detour.control.entries import Action, DefaultAction, TableEntry, Ternary
from detour.control.qcn import MECHANISMS, OLM, PAR, QCN_COMPLETE, QCN_FAST, VAL_BY_SWITCH, Mechanism, plan_qcn
from detour.topo import parse_topology

NETWORK = parse_topology("dragonfly:p=1,a=3,h=1")
Hop = tuple[int, int, int]
"""switch, port, class"""


@dataclass
class Walker:
    """The entries that lead packets on."""

    mechanism: Mechanism
    minimal: dict[tuple[int, int], int] = field(default_factory=dict)
    towards: dict[tuple[int, int], int] = field(default_factory=dict)
    rises: dict[tuple[int, int, int], int] = field(default_factory=dict)
    arrival: int = 0

    def __post_init__(self) -> None:
        plan = plan_qcn(NETWORK, self.mechanism)
        for switch in NETWORK.switches:
            for entry in plan[switch.device_id]:
                if isinstance(entry, DefaultAction) and entry.action.name == qcn.ARRIVE_AND_RISE:
                    self.arrival = 1
                if isinstance(entry, TableEntry) and isinstance(entry.action, Action):
                    self._take(switch.index, entry, entry.action)

    def _take(self, switch: int, entry: TableEntry, action: Action) -> None:
        match: dict[str, Any] = dict(entry.match)
        if entry.table == qcn.MINIMAL_RULE:
            self.minimal[switch, match[schema.DESTINATION_GROUP]] = action["port"]
        elif entry.table == qcn.CONDITIONAL_TOWARDS_GROUP:
            self.towards[switch, match[schema.VIA]] = action["port"]
        elif entry.table == schema.CHANNEL:
            port = match[schema.IN_PORT]
            assert isinstance(port, Ternary)
            self.rises[switch, port.value, match[schema.DSCP_FIELD]] = action["priority"]

    def hops(self, switch: int, target: int, via: int | None, turn: int | None) -> Iterator[Hop]:
        """The way of a packet from a host of a switch to one of another, sent round by `via` and turned towards
        `turn`, if there is such a number."""
        channel, came_in = 0, 0
        while True:
            here = NETWORK.switches[switch]
            if via is not None and (switch, via) not in self.towards:
                via, channel = None, channel + (self.arrival if came_in else 0)
            channel = self.rises.get((switch, came_in, channel), channel)
            group = NETWORK.switches[target].group
            if via is None and switch == target:
                return
            if via is not None:
                port = self.towards[switch, via]
            elif group == here.group:
                port = next(
                    p for p, peer in enumerate(here.ports, 1) if peer and (peer.kind, peer.index) == ("local", target)
                )
            else:
                port = self.minimal[switch, group]
                if turn is not None and came_in and channel == 0:
                    via, turn, channel = turn, None, channel + 1
                    port = self.towards[switch, via]
            yield switch, port, channel
            peer = here.ports[port - 1]
            assert peer is not None
            switch, came_in = peer.index, peer.port


def ways(mechanism: Mechanism) -> Iterator[list[Hop]]:
    walker = Walker(mechanism)
    vias: list[int | None] = [None, *sorted({via for _, via in walker.towards})]
    for source in NETWORK.switches:
        for target in NETWORK.switches:
            ends = {source.group, target.group}
            if source is target or len(ends) == 1:
                continue
            allowed = [via for via in vias if mechanism.by == "switch" or via not in ends]
            yield from (list(walker.hops(source.index, target.index, via, None)) for via in allowed)
            if mechanism.turns:
                yield from (
                    list(walker.hops(source.index, target.index, None, turn)) for turn in allowed if turn is not None
                )


@pytest.mark.parametrize("mechanism", [QCN_COMPLETE, PAR, OLM, QCN_FAST, VAL_BY_SWITCH], ids=lambda each: each.name)
def test_what_waits_for_what_is_no_circle(mechanism: Mechanism) -> None:
    waits: dict[Hop, set[Hop]] = {}
    longest = 0
    for hops in ways(mechanism):
        longest = max(longest, len(hops))
        assert {channel for _, _, channel in hops} <= set(range(mechanism.channels))
        for before, after in itertools.pairwise(hops):
            waits.setdefault(before, set()).add(after)
    assert longest == (6 if mechanism.channels > qcn.CHANNELS else 5)
    TopologicalSorter(waits).prepare()


def test_with_a_channel_less_there_is_one() -> None:
    """The test can fail: without the rise at the turn the two local links of a group wait for each other."""
    waits: dict[Hop, set[Hop]] = {}
    for hops in ways(QCN_FAST):
        lowered = [(switch, port, max(channel - 1, 0)) for switch, port, channel in hops]
        for before, after in itertools.pairwise(lowered):
            waits.setdefault(before, set()).add(after)
    with pytest.raises(CycleError):
        TopologicalSorter(waits).prepare()


def test_only_those_that_need_it_have_a_fourth_channel() -> None:
    assert {m.name for m in MECHANISMS.values() if m.channels == 4} == {"VAL", "PAR", "OLM-like", "QCN-Switch-fast"}
