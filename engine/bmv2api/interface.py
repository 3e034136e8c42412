# SPDX-License-Identifier: Apache-2.0
"""The services of simple_switch: `standard`, `simple_pre_lag` and `simple_switch`, as BMv2 defines them.

`cxt_id` is a context of BMv2's, of which simple_switch has one, 0. Order and types of parameters are the wire format.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from detour.engine.bmv2api.types import (
    ActionEntry,
    BmEntry,
    CounterValue,
    Crc16Config,
    Crc32Config,
    EntryOptions,
    InvalidCounterOperation,
    InvalidCrcOperation,
    InvalidDevMgrOperation,
    InvalidIdLookup,
    InvalidLearnOperation,
    InvalidMcOperation,
    InvalidMeterOperation,
    InvalidMirroringOperation,
    InvalidParseVSetOperation,
    InvalidRegisterOperation,
    InvalidSwapOperation,
    InvalidTableOperation,
    InvalidToeplitzHashOperation,
    MatchParam,
    MeterRate,
    MirroringSessionConfig,
    PortInfo,
    ProfileGroup,
    ProfileMember,
    SwitchConfig,
)
from detour.engine.bmv2api.wire import I16, I32, I64, raises

_table = raises(InvalidTableOperation)
_counter = raises(InvalidCounterOperation)
_meter = raises(InvalidMeterOperation)
_register = raises(InvalidRegisterOperation)
_value_set = raises(InvalidParseVSetOperation)
_learn = raises(InvalidLearnOperation)
_swap = raises(InvalidSwapOperation)
_port = raises(InvalidDevMgrOperation)
_crc = raises(InvalidCrcOperation)
_multicast = raises(InvalidMcOperation)
_mirroring = raises(InvalidMirroringOperation)


class Standard(Protocol):
    """Tables, arrays, ports and programs."""

    SERVICE: ClassVar[str] = "standard"

    # -- tables

    @_table
    def bm_mt_get_num_entries(self, cxt_id: I32, table_name: str) -> I64: ...
    @_table
    def bm_mt_clear_entries(self, cxt_id: I32, table_name: str, reset_default_entry: bool) -> None: ...
    @_table
    def bm_mt_add_entry(
        self,
        cxt_id: I32,
        table_name: str,
        match_key: list[MatchParam],
        action_name: str,
        action_data: list[bytes],
        options: EntryOptions,
    ) -> I32: ...
    @_table
    def bm_mt_set_default_action(
        self, cxt_id: I32, table_name: str, action_name: str, action_data: list[bytes]
    ) -> None: ...
    @_table
    def bm_mt_reset_default_entry(self, cxt_id: I32, table_name: str) -> None: ...
    @_table
    def bm_mt_delete_entry(self, cxt_id: I32, table_name: str, entry_handle: I32) -> None: ...
    @_table
    def bm_mt_modify_entry(
        self, cxt_id: I32, table_name: str, entry_handle: I32, action_name: str, action_data: list[bytes]
    ) -> None: ...
    @_table
    def bm_mt_set_entry_ttl(self, cxt_id: I32, table_name: str, entry_handle: I32, timeout_ms: I32) -> None: ...

    # -- action profiles

    @_table
    def bm_mt_act_prof_add_member(
        self, cxt_id: I32, act_prof_name: str, action_name: str, action_data: list[bytes]
    ) -> I32: ...
    @_table
    def bm_mt_act_prof_delete_member(self, cxt_id: I32, act_prof_name: str, mbr_handle: I32) -> None: ...
    @_table
    def bm_mt_act_prof_modify_member(
        self, cxt_id: I32, act_prof_name: str, mbr_handle: I32, action_name: str, action_data: list[bytes]
    ) -> None: ...
    @_table
    def bm_mt_act_prof_create_group(self, cxt_id: I32, act_prof_name: str) -> I32: ...
    @_table
    def bm_mt_act_prof_delete_group(self, cxt_id: I32, act_prof_name: str, grp_handle: I32) -> None: ...
    @_table
    def bm_mt_act_prof_add_member_to_group(
        self, cxt_id: I32, act_prof_name: str, mbr_handle: I32, grp_handle: I32
    ) -> None: ...
    @_table
    def bm_mt_act_prof_remove_member_from_group(
        self, cxt_id: I32, act_prof_name: str, mbr_handle: I32, grp_handle: I32
    ) -> None: ...
    @_table
    def bm_mt_act_prof_get_members(self, cxt_id: I32, act_prof_name: str) -> list[ProfileMember]: ...
    @_table
    def bm_mt_act_prof_get_member(self, cxt_id: I32, act_prof_name: str, mbr_handle: I32) -> ProfileMember: ...
    @_table
    def bm_mt_act_prof_get_groups(self, cxt_id: I32, act_prof_name: str) -> list[ProfileGroup]: ...
    @_table
    def bm_mt_act_prof_get_group(self, cxt_id: I32, act_prof_name: str, grp_handle: I32) -> ProfileGroup: ...

    # -- tables whose entries point to members and groups

    @_table
    def bm_mt_indirect_add_entry(
        self, cxt_id: I32, table_name: str, match_key: list[MatchParam], mbr_handle: I32, options: EntryOptions
    ) -> I32: ...
    @_table
    def bm_mt_indirect_modify_entry(self, cxt_id: I32, table_name: str, entry_handle: I32, mbr_handle: I32) -> None: ...
    @_table
    def bm_mt_indirect_delete_entry(self, cxt_id: I32, table_name: str, entry_handle: I32) -> None: ...
    @_table
    def bm_mt_indirect_set_entry_ttl(
        self, cxt_id: I32, table_name: str, entry_handle: I32, timeout_ms: I32
    ) -> None: ...
    @_table
    def bm_mt_indirect_set_default_member(self, cxt_id: I32, table_name: str, mbr_handle: I32) -> None: ...
    @_table
    def bm_mt_indirect_reset_default_entry(self, cxt_id: I32, table_name: str) -> None: ...
    @_table
    def bm_mt_indirect_ws_add_entry(
        self, cxt_id: I32, table_name: str, match_key: list[MatchParam], grp_handle: I32, options: EntryOptions
    ) -> I32: ...
    @_table
    def bm_mt_indirect_ws_modify_entry(
        self, cxt_id: I32, table_name: str, entry_handle: I32, grp_handle: I32
    ) -> None: ...
    @_table
    def bm_mt_indirect_ws_set_default_group(self, cxt_id: I32, table_name: str, grp_handle: I32) -> None: ...

    # -- direct counters and meters

    @_table
    def bm_mt_read_counter(self, cxt_id: I32, table_name: str, entry_handle: I32) -> CounterValue: ...
    @_table
    def bm_mt_reset_counters(self, cxt_id: I32, table_name: str) -> None: ...
    @_table
    def bm_mt_write_counter(self, cxt_id: I32, table_name: str, entry_handle: I32, value: CounterValue) -> None: ...
    @_table
    def bm_mt_set_meter_rates(
        self, cxt_id: I32, table_name: str, entry_handle: I32, rates: list[MeterRate]
    ) -> None: ...
    @_table
    def bm_mt_get_meter_rates(self, cxt_id: I32, table_name: str, entry_handle: I32) -> list[MeterRate]: ...

    # -- reading tables

    @_table
    def bm_mt_get_entries(self, cxt_id: I32, table_name: str) -> list[BmEntry]: ...
    @_table
    def bm_mt_get_entry(self, cxt_id: I32, table_name: str, entry_handle: I32) -> BmEntry: ...
    @_table
    def bm_mt_get_default_entry(self, cxt_id: I32, table_name: str) -> ActionEntry: ...
    @_table
    def bm_mt_get_entry_from_key(
        self, cxt_id: I32, table_name: str, match_key: list[MatchParam], options: EntryOptions
    ) -> BmEntry: ...

    # -- counters

    @_counter
    def bm_counter_read(self, cxt_id: I32, counter_name: str, index: I32) -> CounterValue: ...
    @_counter
    def bm_counter_reset_all(self, cxt_id: I32, counter_name: str) -> None: ...
    @_counter
    def bm_counter_write(self, cxt_id: I32, counter_name: str, index: I32, value: CounterValue) -> None: ...

    # -- digests

    @_learn
    def bm_learning_ack(self, cxt_id: I32, list_id: I32, buffer_id: I64, sample_ids: list[I32]) -> None: ...
    @_learn
    def bm_learning_ack_buffer(self, cxt_id: I32, list_id: I32, buffer_id: I64) -> None: ...
    @_learn
    def bm_learning_set_timeout(self, cxt_id: I32, list_id: I32, timeout_ms: I32) -> None: ...
    @_learn
    def bm_learning_set_buffer_size(self, cxt_id: I32, list_id: I32, nb_samples: I32) -> None: ...

    # -- programs

    @_swap
    def bm_load_new_config(self, config_str: str) -> None: ...
    @_swap
    def bm_swap_configs(self) -> None: ...

    # -- meters

    @_meter
    def bm_meter_array_set_rates(self, cxt_id: I32, meter_array_name: str, rates: list[MeterRate]) -> None: ...
    @_meter
    def bm_meter_set_rates(self, cxt_id: I32, meter_array_name: str, index: I32, rates: list[MeterRate]) -> None: ...
    @_meter
    def bm_meter_get_rates(self, cxt_id: I32, meter_array_name: str, index: I32) -> list[MeterRate]: ...

    # -- registers

    @_register
    def bm_register_read(self, cxt_id: I32, register_array_name: str, idx: I32) -> I64: ...
    @_register
    def bm_register_read_all(self, cxt_id: I32, register_array_name: str) -> list[I64]: ...
    @_register
    def bm_register_write(self, cxt_id: I32, register_array_name: str, index: I32, value: I64) -> None: ...
    @_register
    def bm_register_write_range(
        self, cxt_id: I32, register_array_name: str, start_index: I32, end_index: I32, value: I64
    ) -> None: ...
    @_register
    def bm_register_reset(self, cxt_id: I32, register_array_name: str) -> None: ...

    # -- parser value sets

    @_value_set
    def bm_parse_vset_add(self, cxt_id: I32, parse_vset_name: str, value: bytes) -> None: ...
    @_value_set
    def bm_parse_vset_remove(self, cxt_id: I32, parse_vset_name: str, value: bytes) -> None: ...
    @_value_set
    def bm_parse_vset_get(self, cxt_id: I32, parse_vset_name: str) -> list[bytes]: ...
    @_value_set
    def bm_parse_vset_clear(self, cxt_id: I32, parse_vset_name: str) -> None: ...

    # -- ports

    @_port
    def bm_dev_mgr_add_port(self, iface_name: str, port_num: I32, pcap_path: str) -> None: ...
    @_port
    def bm_dev_mgr_remove_port(self, port_num: I32) -> None: ...
    @_port
    def bm_dev_mgr_show_ports(self) -> list[PortInfo]: ...

    # -- the switch itself

    def bm_mgmt_get_info(self) -> SwitchConfig: ...
    @_crc
    def bm_set_crc16_custom_parameters(self, cxt_id: I32, calc_name: str, crc16_config: Crc16Config) -> None: ...
    @_crc
    def bm_set_crc32_custom_parameters(self, cxt_id: I32, calc_name: str, crc32_config: Crc32Config) -> None: ...
    @raises(InvalidToeplitzHashOperation)
    def bm_set_toeplitz_hash_key(self, cxt_id: I32, calc_name: str, key: bytes) -> None: ...
    def bm_reset_state(self) -> None: ...
    def bm_get_config(self) -> str: ...
    def bm_get_config_md5(self) -> bytes: ...
    @raises(InvalidIdLookup)
    def bm_get_id_from_name(self, cxt_id: I32, resource_type: I32, resource_name: str) -> I32: ...
    def bm_serialize_state(self) -> bytes: ...


class SimplePreLag(Protocol):
    """Multicast: a group has nodes; a node is a replication id with ports and LAGs (strings of 0 and 1, the last
    character is port 0)."""

    SERVICE: ClassVar[str] = "simple_pre_lag"

    @_multicast
    def bm_mc_mgrp_create(self, cxt_id: I32, mgrp: I32) -> I32: ...
    @_multicast
    def bm_mc_mgrp_destroy(self, cxt_id: I32, mgrp_handle: I32) -> None: ...
    @_multicast
    def bm_mc_node_create(self, cxt_id: I32, rid: I32, port_map: str, lag_map: str) -> I32: ...
    @_multicast
    def bm_mc_node_associate(self, cxt_id: I32, mgrp_handle: I32, l1_handle: I32) -> None: ...
    @_multicast
    def bm_mc_node_dissociate(self, cxt_id: I32, mgrp_handle: I32, l1_handle: I32) -> None: ...
    @_multicast
    def bm_mc_node_destroy(self, cxt_id: I32, l1_handle: I32) -> None: ...
    @_multicast
    def bm_mc_node_update(self, cxt_id: I32, l1_handle: I32, port_map: str, lag_map: str) -> None: ...
    @_multicast
    def bm_mc_set_lag_membership(self, cxt_id: I32, lag_index: I16, port_map: str) -> None: ...
    @_multicast
    def bm_mc_get_entries(self, cxt_id: I32) -> str: ...


class SimpleSwitch(Protocol):
    """Mirroring sessions, egress queues, time."""

    SERVICE: ClassVar[str] = "simple_switch"

    def mirroring_mapping_add(self, mirror_id: I32, egress_port: I32) -> I32: ...
    def mirroring_mapping_delete(self, mirror_id: I32) -> I32: ...
    def mirroring_mapping_get_egress_port(self, mirror_id: I32) -> I32: ...
    @_mirroring
    def mirroring_session_add(self, mirror_id: I32, config: MirroringSessionConfig) -> None: ...
    @_mirroring
    def mirroring_session_delete(self, mirror_id: I32) -> None: ...
    @_mirroring
    def mirroring_session_get(self, mirror_id: I32) -> MirroringSessionConfig: ...
    def set_egress_priority_queue_depth(self, port_num: I32, priority: I32, depth_pkts: I32) -> I32: ...
    def set_egress_queue_depth(self, port_num: I32, depth_pkts: I32) -> I32: ...
    def set_all_egress_queue_depths(self, depth_pkts: I32) -> I32: ...
    def set_egress_priority_queue_rate(self, port_num: I32, priority: I32, rate_pps: I64) -> I32: ...
    def set_egress_queue_rate(self, port_num: I32, rate_pps: I64) -> I32: ...
    def set_all_egress_queue_rates(self, rate_pps: I64) -> I32: ...
    def get_time_elapsed_us(self) -> I64: ...
    def get_time_since_epoch_us(self) -> I64: ...


SERVICES: tuple[type, ...] = (Standard, SimplePreLag, SimpleSwitch)
"""those that simple_switch serves; its multicast engine is the one with LAGs, so there is no `simple_pre`"""


class Api(Protocol):
    """The services of one switch, here or at the other end of a connection."""

    @property
    def standard(self) -> Standard: ...
    @property
    def multicast(self) -> SimplePreLag: ...
    @property
    def target(self) -> SimpleSwitch: ...
