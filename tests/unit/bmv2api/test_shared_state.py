# SPDX-License-Identifier: Apache-2.0
"""What is done through P4Runtime is seen through BMv2's API, and the other way round."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.bmv2api.wire import ServiceError
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from tests.ptf.p4rt import clone_session
from tests.unit.p4runtime.harness import Client, Names, config, group, member, refusals

from .conftest import EVERYTHING, SWITCH, Do, doing

MAX_PRIORITY = 0x7FFFFFFF


def refused(do: Do, line: str) -> str:
    with pytest.raises(ServiceError) as error:
        do(line)
    return error.value.name


def test_entries(client: Client, both: Do, names: Names) -> None:
    both("table_add exact_two forward 1 5 => 3")
    entry = names.entry("exact_two", 1, 5, action=("forward", 3))
    assert client.read(names.entry("exact_two")) == [entry]
    client.modify(names.entry("exact_two", 1, 5, action=("forward", 4)))
    assert both("table_dump_entry exact_two 0")[-1] == "Action entry: MyIngress.forward - 04"
    client.insert(names.entry("exact_two", 2, 5, action=("drop",)))
    assert refused(both, "table_add exact_two forward 2 5 => 3") == "DUPLICATE_ENTRY"
    client.delete(entry)
    assert refused(both, "table_delete exact_two 0") == "INVALID_HANDLE"
    both("table_delete exact_two 1")
    assert client.read(names.entry("exact_two")) == []


def test_priorities_are_turned_round(client: Client, both: Do, names: Names) -> None:
    both("table_add acl drop 1&&&1 7&&&0xff 1->2 0x800 => 10")
    (entity,) = client.read(names.entry("acl"))
    assert entity.table_entry.priority == MAX_PRIORITY - 10
    client.insert(names.entry("acl", (2, 2), 7, (1, 2), 0x800, action=("drop",), priority=MAX_PRIORITY - 20))
    assert "Priority: 20" in both("table_dump_entry acl 1")


def test_default_entries(client: Client, both: Do, names: Names) -> None:
    both("table_set_default exact_two forward 9")
    entry = p4r.Entity()
    entry.table_entry.table_id, entry.table_entry.is_default_action = names.ids["exact_two"], True
    (entity,) = client.read(entry)
    assert entity.table_entry.action.action == names.action("forward", 9)
    client.modify(names.entry("exact_two", action=("drop",), is_default_action=True, metadata=b"mine"))
    assert "Action entry: MyIngress.drop - " in both("table_dump exact_two")
    both("table_reset_default exact_two")
    (entity,) = client.read(entry)
    assert entity.table_entry.action.action == names.action("NoAction")
    assert entity.table_entry.metadata == b""


def test_a_program_with_entries_that_may_be_changed(client: Client, both: Do, names: Names) -> None:
    """P4Info says so, not the JSON: once P4Runtime has set the pipeline, the API may change them as well."""
    assert both("table_num_entries preset") == ["2"]
    both("table_delete preset 0")
    assert len(client.read(names.entry("preset"))) == 1


def test_bits_beyond_a_prefix_are_shown_by_bmv2s_api_only(client: Client, both: Do, names: Names) -> None:
    both("table_add lpm_route to_cpu 2001:db8::2/32 => 7")
    assert "LPM       20010db8000000000000000000000002/32" in both("table_dump_entry lpm_route 0")[2]
    entry = names.entry("lpm_route", (0x20010DB8 << 96, 32), action=("to_cpu", 7))
    assert client.read(names.entry("lpm_route")) == [entry]
    assert refused(both, "table_add lpm_route to_cpu 2001:db8::3/32 => 7") == "DUPLICATE_ENTRY"
    client.delete(entry)
    client.insert(entry)
    assert "LPM       20010db8000000000000000000000000/32" in both("table_dump_entry lpm_route 0x1000000")[2]


def test_counters_go_with_entries(client: Client, both: Do, names: Names) -> None:
    both("table_add lpm_route to_cpu 2001:db8::/32 => 7")
    both("counter_write route_counter 0 5 600")
    request = names.entry("lpm_route", counter_data=p4r.CounterData())
    (entity,) = client.read(request)
    assert entity.table_entry.counter_data == p4r.CounterData(byte_count=600, packet_count=5)


def test_members_and_groups(client: Client, both: Do, names: Names) -> None:
    def made(number: int, port: int) -> p4r.Entity:
        return member(names.ids["ecmp"], number, names.action("forward", port))

    client.insert(made(1, 3))  # handle 0; so the next handle's own id, 2, is free and 1 is not
    assert both("act_prof_create_member ecmp forward 4") == ["Member has been created with handle 1"]
    client.insert(made(77, 5))
    assert both("act_prof_create_member ecmp forward 6") == ["Member has been created with handle 3"]
    read = client.read(member(names.ids["ecmp"], 0))
    assert [entity.action_profile_member.member_id for entity in read] == [1, 2, 4, 77]
    both("act_prof_create_group ecmp")
    both("act_prof_add_member_to_group ecmp 2 0")
    both("act_prof_add_member_to_group ecmp 1 0")
    (group_read,) = client.read(group(names.ids["ecmp"], 0))
    assert [m.member_id for m in group_read.action_profile_group.members] == [77, 2]
    both("table_indirect_add_with_group balanced 2001:db8::/32 => 0")
    (entity,) = client.read(names.entry("balanced"))
    assert entity.table_entry.action.action_profile_group_id == 1
    assert refusals(lambda: client.delete(group_read)) == [grpc.StatusCode.FAILED_PRECONDITION.value[0]]
    client.delete(entity)
    client.delete(group_read)
    assert refused(both, "act_prof_dump_group ecmp 0") == "INVALID_GRP_HANDLE"
    client.delete(made(77, 5))
    assert both("act_prof_create_member ecmp forward 1") == ["Member has been created with handle 2"]


def test_what_one_shots_made_is_theirs(client: Client, both: Do, names: Names) -> None:
    client.insert(names.one_shot((1 << 127, 8), actions=[(1, 1), (2, 1)]))
    assert "Members: [0, 1]" in both("act_prof_dump ecmp")
    assert refused(both, "act_prof_delete_member ecmp 0") == "INVALID_MBR_HANDLE"
    assert refused(both, "table_indirect_add_with_group balanced 2001:db8::/32 => 0") == "INVALID_GRP_HANDLE"
    both("table_indirect_delete balanced 0")
    assert both("act_prof_dump ecmp") == ["==========", "MEMBERS", "==========", "GROUPS"]
    # Nothing is left behind that would keep members and groups out.
    client.insert(member(names.ids["ecmp"], 1, names.action("forward", 3)))


def test_a_cleared_table_keeps_nothing(client: Client, both: Do, names: Names) -> None:
    client.insert(names.one_shot((1 << 127, 8), actions=[(1, 1), (2, 1)]))
    client.insert(names.entry("exact_two", 1, 1, action=("drop",), metadata=b"old"))
    both("table_clear balanced")
    both("table_clear exact_two")
    both("table_add exact_two drop 2 2 =>")
    (entity,) = client.read(names.entry("exact_two"))
    assert entity.table_entry.metadata == b""
    client.insert(names.one_shot((1 << 127, 8), actions=[(3, 1)]))


def multicast(number: int, *places: tuple[int, int]) -> p4r.Entity:
    """With ports as numbers, as the server says them of groups that the API has made."""
    entity = p4r.Entity()
    message = entity.packet_replication_engine_entry.multicast_group_entry
    message.multicast_group_id = number
    message.replicas.extend(p4r.Replica(egress_port=port, instance=rid) for port, rid in places)
    return entity


def test_multicast_groups(client: Client, both: Do, network: Network) -> None:
    for line in (
        "mc_mgrp_create 5",
        "mc_node_create 1 3 2 | 4",
        "mc_node_associate 5 0",
        "mc_set_lag_membership 4 7 8",
    ):
        both(line)
    assert client.read(multicast(5)) == [
        multicast(5, (2, 1), (3, 1), (8, 1))
    ]  # simple_switch's hash picks the second of two
    assert network.replication(SWITCH)[0] == {5: ((2, 1), (3, 1), (8, 1))}
    client.insert(multicast(6, (1, 0), (2, 9), (3, 0)))
    assert both("mc_dump")[6:11] == [
        "mgrp(6)",
        "  -> (L1h=1, rid=0) -> (ports=[1, 3], lags=[])",
        "  -> (L1h=2, rid=9) -> (ports=[2], lags=[])",
        "==========",
        "LAGS",
    ]
    client.modify(multicast(5, (1, 1)))
    assert both("mc_dump")[4] == "  -> (L1h=0, rid=1) -> (ports=[1], lags=[])"
    both("mc_node_update 1 7")
    assert client.read(multicast(6)) == [multicast(6, (7, 0), (2, 9))]
    client.delete(multicast(6))
    assert refused(both, "mc_node_destroy 1") == "INVALID_L1_HANDLE"
    both("mc_mgrp_destroy 5")
    assert network.replication(SWITCH)[0] == {}
    with pytest.raises(grpc.RpcError):
        client.read(multicast(5))


def test_mirroring_sessions(client: Client, both: Do, network: Network) -> None:
    both("mirroring_add 7 3")
    assert client.read(clone_session(7)) == [clone_session(7, (3, 0))]
    both("mirroring_add_mc 8 5")
    both("mc_mgrp_create 5")
    both("mc_node_create 2 1 2")
    both("mc_node_associate 5 0")  # the session follows its group
    assert client.read(clone_session(8)) == [clone_session(8, (1, 2), (2, 2))]
    client.insert(clone_session(9, (1, 0), (2, 0)), clone_session(10, (1, 0)))
    assert both("mirroring_get 9") == ["MirroringSessionConfig(port=None, mgid=65545)"]
    assert both("mirroring_get 10") == ["MirroringSessionConfig(port=1, mgid=None)"]
    # 32777 is the group that PI makes for session 9; here it is a multicast group like others.
    client.insert(multicast(32777, (4, 4)))
    both("mc_node_create 5 5")
    both("mc_node_associate 32777 2")
    assert client.read(clone_session(9)) == [clone_session(9, (1, 0), (2, 0))]
    assert network.replication(SWITCH)[1][9] == ((1, 0), (2, 0))
    assert refused(both, "mc_mgrp_create 65545") == "INVALID_MGID"
    client.delete(clone_session(10))
    assert refused(both, "mirroring_delete 10") == "SESSION_NOT_FOUND"
    both("mirroring_add 0 3")  # P4Runtime has no session 0
    assert network.replication(SWITCH)[1][0] == ((3, 0),)
    with pytest.raises(DetourError, match="port 600 is not 0 to 511"):
        both("mirroring_add 7 600")
    assert both("mirroring_get 7") == ["MirroringSessionConfig(port=3, mgid=None)"]


def test_time_outs(client: Client, both: Do, names: Names) -> None:
    both("table_add ageing NoAction 9 =>")
    both("table_set_timeout ageing 0 60000")
    (entity,) = client.read(names.entry("ageing"))
    assert entity.table_entry.idle_timeout_ns == 60_000_000_000
    assert both("table_dump_entry ageing 0")[-1] == "Life: 0ms since hit, timeout is 60000ms"
    client.modify(names.entry("ageing", 9, action=("NoAction",), idle_timeout_ns=5_000_000))
    assert both("table_dump_entry ageing 0")[-1] == "Life: 0ms since hit, timeout is 5ms"


def test_state_can_be_reset(client: Client, both: Do, names: Names) -> None:
    client.insert(names.one_shot((1 << 127, 8), actions=[(1, 1), (2, 1)]))
    client.insert(names.entry("exact_two", 1, 1, action=("drop",)), multicast(3, (1, 0)), clone_session(4, (1, 0)))
    both("register_write words 1 5")
    both("reset_state")
    assert client.read(names.entry("exact_two"), names.entry("balanced"), multicast(0)) == []
    assert both("register_read words 1") == ["words[1]= 0"]
    assert client.read(clone_session(4)) == [clone_session(4, (1, 0))]  # as in BMv2
    client.insert(member(names.ids["ecmp"], 1, names.action("forward", 3)))


def test_a_program_without_p4info_ends_the_pipeline(
    client: Client, both: Do, names: Names, server: P4RuntimeServer, network: Network
) -> None:
    api = BmRuntime(BmDevice(network, SWITCH, server))
    assert api.standard.bm_get_config() == EVERYTHING.read_text()
    api.standard.bm_load_new_config(EVERYTHING.read_text())
    api.standard.bm_swap_configs()
    with pytest.raises(grpc.RpcError, match="no forwarding pipeline config"):
        client.read(names.entry("exact_two"))
    assert doing(api)("table_num_entries exact_two") == ["0"]


def test_a_pipeline_of_p4runtime_is_followed(client: Client, both: Do, names: Names) -> None:
    both("table_add exact_two drop 1 1 =>")
    both("mc_mgrp_create 3")
    client.set_pipeline(config(cookie=5))
    assert both("table_num_entries exact_two") == ["0"]
    assert "mgrp(3)" not in both("mc_dump")
    both("table_add exact_two drop 1 1 =>")
    assert len(client.read(names.entry("exact_two"))) == 1


def test_prepared_programs_belong_to_their_api(network: Network, tmp_path: Path) -> None:
    device = BmDevice(network, SWITCH)
    device.load(EVERYTHING.read_bytes())
    assert not device.is_prepared
    device.prepare((EVERYTHING.parent / "meters.json").read_bytes())
    assert device.is_prepared
    assert device.state is not network.state(SWITCH)
