# SPDX-License-Identifier: Apache-2.0
"""qcn.p4 cannot deadlock: on every way that a packet may take, waiting does not form a cycle of links and classes.

Every packet is walked through the entries that the planner makes: minimal, by way of every group or switch, and turned
at the switch that has the link, by way of every group; wherever it comes in from another group, straight and by every
neighbour that may be between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pytest

from detour.control import qcn, schema
from detour.control.entries import Action, DefaultAction, TableEntry, Ternary
from detour.control.qcn import MECHANISMS, OLM, PAR, QCN_COMPLETE, QCN_FAST, VAL_BY_SWITCH, Mechanism, plan_qcn
from detour.topo import parse_topology

NETWORK = parse_topology("dragonfly:p=1,a=5,h=1")
Hop = tuple[int, int, int]
"""switch, port, class"""


@dataclass
class Walker:
    """The entries that lead packets on."""

    mechanism: Mechanism
    minimal: dict[tuple[int, int], int] = field(default_factory=dict)
    towards: dict[tuple[int, int], int] = field(default_factory=dict)
    rises: dict[tuple[int, int, int], int] = field(default_factory=dict)
    beside: dict[tuple[int, int, int], tuple[int, ...]] = field(default_factory=dict)
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
        elif entry.table == qcn.NEIGHBOURS:
            others = tuple(action[name] for name in ("first", "second", "third"))
            self.beside[switch, match[schema.IN_PORT], match[schema.EGRESS_SPEC_FIELD]] = others

    def hops(self, switch: int, target: int, via: int | None, turn: int | None, aside: int | None) -> Iterator[Hop]:
        """The way of a packet from a host of a switch to one of another, sent round by `via` and turned towards
        `turn`, and in other groups by neighbour number `aside`, if there is such a number."""
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
            others = self.beside.get((switch, came_in, port))
            if others is not None and aside is not None:
                port = others[aside]
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
            choices: list[tuple[int | None, int | None]] = [(via, None) for via in allowed]
            choices += [(None, turn) for turn in allowed if mechanism.turns and turn is not None]
            for aside in (None, 0, 1, 2) if walker.beside else (None,):
                yield from (list(walker.hops(source.index, target.index, *choice, aside)) for choice in choices)


def check_order(packets: Iterable[list[Hop]]) -> None:
    """Raises `CycleError`: what waits for what is a cycle."""
    waits: dict[Hop, set[Hop]] = {}
    for hops in packets:
        for before, after in itertools.pairwise(hops):
            waits.setdefault(before, set()).add(after)
    TopologicalSorter(waits).prepare()


@pytest.mark.parametrize("mechanism", [QCN_COMPLETE, PAR, OLM, QCN_FAST, VAL_BY_SWITCH], ids=lambda each: each.name)
def test_what_waits_for_what_is_no_cycle(mechanism: Mechanism) -> None:
    packets = list(ways(mechanism))
    assert {channel for hops in packets for _, _, channel in hops} == set(range(mechanism.channels))
    longest = 6 if mechanism.channels > qcn.CHANNELS else 5
    assert max(map(len, packets)) == longest + (2 if mechanism is QCN_FAST else 0)
    check_order(packets)


def test_with_a_channel_less_there_is_one() -> None:
    """The test can fail: without the rise at the turn the two local links of a group wait for each other."""
    lowered = ([(switch, port, max(channel - 1, 0)) for switch, port, channel in hops] for hops in ways(QCN_FAST))
    with pytest.raises(CycleError):
        check_order(lowered)


def test_by_way_of_any_neighbour_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all local links of a group in one class."""
    monkeypatch.setattr(qcn, "_class", lambda here, there: 0)
    with pytest.raises(CycleError):
        check_order(ways(QCN_FAST))


def test_only_those_that_need_it_have_a_fourth_channel() -> None:
    assert {m.name for m in MECHANISMS.values() if m.channels == 4} == {"VAL", "PAR", "OLM-like", "QCN-Switch-fast"}
