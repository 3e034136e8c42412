# SPDX-License-Identifier: Apache-2.0
"""The ports at which the lossless priority rises."""

import pytest

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import DefaultAction, TableEntry
from detour.control.planner import plan
from detour.control.policy import Policy as FabricPolicy
from detour.control.routes.queueing import plan_transitions, transition_ports
from detour.topo.expander import fcplus

NETWORK = fcplus(24, 10, 4, hosts=2, seed=7)


def test_what_hosts_send_never_rises_and_what_turns_back_does_where_it_came_down():
    ch = NETWORK.channels
    for switch, hosts in enumerate(NETWORK.hosts.tolist()):
        rising = transition_ports(NETWORK, switch)
        assert all(i > hosts and o > hosts for i, o in rising)
        for c, peer in enumerate(ch.neighbour[switch].tolist()):
            came_down = ch.enter[peer, ch.back[switch, c]] > NETWORK.layers
            assert ((hosts + 1 + c, hosts + 1 + c) in rising) == came_down


def channel_entries(topology, policy):
    planned = plan(topology, policy)
    return [
        [e for e in planned[s.device_id] if isinstance(e, TableEntry) and e.table == schema.CHANNEL]
        for s in topology.switches
    ]


def test_the_planner_raises_every_priority_and_the_last_into_a_class_that_nothing_raises():
    topology = NETWORK.topology
    counts = [3 * len(transition_ports(NETWORK, switch)) for switch in range(24)]
    planned = channel_entries(topology, FabricPolicy(valiant=False, channels=3))
    assert [len(entries) for entries in planned] == counts
    assert planned[5] == list(plan_transitions(NETWORK, 5, 3))
    assert {(e.field(schema.DSCP_FIELD), e.members()[0]["priority"]) for e in planned[5]} == {(0, 1), (1, 2), (2, 3)}
    assert channel_entries(topology, FabricPolicy(valiant=False)) == [[]] * 24


@pytest.mark.parametrize("channels", [1, 2])
def test_other_packets_are_in_the_class_behind_the_last_one(channels):
    planned = plan(NETWORK.topology, FabricPolicy(valiant=False, channels=channels))[1]
    entries = [e for e in planned if isinstance(e, TableEntry) and e.table == schema.DSCP]
    classes = {e.field(schema.DSCP_FIELD): e.members()[0]["priority"] for e in entries}
    assert classes == {v: v for v in range(channels + 1)} | {48: 7}
    assert [e.action["priority"] for e in planned if isinstance(e, DefaultAction) and e.table == schema.DSCP] == [
        channels
    ]


def test_a_priority_of_the_operators_cannot_be_one_of_the_classes():
    for pair in ((30, 0), (30, 2), (2, 5)):
        with pytest.raises(DetourError, match="0 to 1 are lossless, and 2 is for packets"):
            plan(NETWORK.topology, FabricPolicy(valiant=False, channels=2, priorities=(pair,)))


def test_three_priorities_fit_the_table_of_the_papers_switch():
    network = fcplus(120, 22)
    most = max(len(list(plan_transitions(network, switch, 3))) for switch in range(network.size))
    assert 200 < most < schema.TABLE_SIZE[schema.CHANNEL]
