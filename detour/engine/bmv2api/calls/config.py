# SPDX-License-Identifier: Apache-2.0
"""`standard`: programs, ports, digests' lists, hash functions, and the switch as a whole."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.engine.bmv2api import types
from detour.engine.bmv2api.calls.part import CallPart, alone
from detour.engine.bmv2api.notifications import LearnList
from detour.engine.compiler.hashes import CrcParameters

if TYPE_CHECKING:
    from detour.engine.p4runtime import EntityStore

_LISTS = {
    types.ResourceType.MATCH_TABLE: "tables",
    types.ResourceType.ACTION_PROFILE: "action_profiles",
    types.ResourceType.COUNTER: "counter_arrays",
    types.ResourceType.METER: "meter_arrays",
    types.ResourceType.REGISTER: "register_arrays",
    types.ResourceType.LEARNING_LIST: "learn_lists",
}


class ConfigCalls(CallPart):
    """See the module."""

    # -- programs

    @alone
    def bm_load_new_config(self, config_str: str) -> None:
        """Until `bm_swap_configs` packets run on the old program, and all other calls act on the new one."""
        if self.device.is_prepared:
            raise types.InvalidSwapOperation(types.SwapCode.ONGOING_SWAP)
        self.device.prepare(config_str.encode())

    def bm_swap_configs(self) -> None:
        if not self.device.is_prepared:
            raise types.InvalidSwapOperation(types.SwapCode.NO_ONGOING_SWAP)
        self.device.swap()

    def bm_get_config(self) -> str:
        return self.device.config.decode()

    def bm_get_config_md5(self) -> bytes:
        return hashlib.md5(self.device.config, usedforsecurity=False).digest()

    def bm_get_id_from_name(self, resource_type: int, resource_name: str) -> int:
        source: Any = self.device.state.program.model.json
        if resource_type not in _LISTS:
            raise types.InvalidIdLookup(types.IdLookupCode.INVALID_RESOURCE_TYPE)
        kind = _LISTS[types.ResourceType(resource_type)]
        for part in (source, *source["pipelines"]):
            for resource in part.get(kind) or []:
                if resource["name"] == resource_name:
                    return resource["id"]
        raise types.InvalidIdLookup(types.IdLookupCode.INVALID_RESOURCE_NAME)

    # -- the switch

    def bm_mgmt_get_info(self) -> types.SwitchConfig:
        socket = self.device.notifications
        return types.SwitchConfig(self.device.id, self.device.thrift_port, "" if socket is None else socket.address)

    def bm_reset_state(self) -> None:
        """Tables, arrays and multicast as they were at first; mirroring sessions stay, as in BMv2."""
        state = self.device.state
        for table in state.tables.values():
            table.clear()
            table.reset_default()
        for profile in state.action_profiles.values():
            profile.clear()
        for array in (*state.counters.values(), *state.registers.values()):
            array.reset()
        for meter in state.meters.values():
            for index in range(meter.size):
                meter.configure(index, None)
        self.device.timeouts.clear()
        store = self.device.store
        if store is not None:
            _forget(store)
        self.replicas.clear()

    def bm_serialize_state(self) -> bytes:
        raise DetourError(
            "serialize_state is not supported: there is no --restore-state to read it; use table_dump or P4Runtime"
        )

    # -- ports

    def bm_dev_mgr_add_port(self, iface_name: str, port_num: int, pcap_path: str) -> None:
        """`pcap_path`: BMv2 then writes what passes; here nothing does, so it is refused."""
        if pcap_path:
            raise DetourError("port_add: a path for captures is not supported; start the switch with --pcap")
        try:
            self.device.network.attach_interface((self.device.switch, port_num), iface_name)
        except (DetourError, OSError) as error:
            raise types.InvalidDevMgrOperation(types.DevMgrCode.ERROR) from error
        self.device.interfaces[port_num] = iface_name
        self.queues.added(port_num)

    def bm_dev_mgr_remove_port(self, port_num: int) -> None:
        try:
            self.device.network.detach_interface((self.device.switch, port_num))
        except DetourError as error:
            raise types.InvalidDevMgrOperation(types.DevMgrCode.ERROR) from error
        self.device.interfaces.pop(port_num, None)

    def bm_dev_mgr_show_ports(self) -> list[types.PortInfo]:
        network, switch = self.device.network, self.device.switch
        stats = network.port_stats()
        up = {
            int(port): bool(is_up)
            for device, port, is_up in zip(stats["device_id"], stats["port"], stats["up"], strict=True)
            if device == switch
        }
        names = self.device.interfaces
        shown = (port for port in sorted(network.ports(switch)) if port in names)
        return [types.PortInfo(port, names[port], up.get(port, False)) for port in shown]

    # -- digests

    def _learn_list(self, list_id: int) -> LearnList:
        lists = self.device.state.program.model.json.get("learn_lists") or []
        if all(each["id"] != list_id for each in lists):
            raise types.InvalidLearnOperation(types.LearnCode.INVALID_LIST_ID)
        if self.device.learning is None:
            raise types.InvalidLearnOperation(types.LearnCode.ERROR)
        return self.device.learning.find(list_id)

    def bm_learning_ack(self, list_id: int, buffer_id: int, sample_ids: list[int]) -> None:
        self._learn_list(list_id).acknowledge(buffer_id, sample_ids)

    def bm_learning_ack_buffer(self, list_id: int, buffer_id: int) -> None:
        self._learn_list(list_id).acknowledge(buffer_id)

    def bm_learning_set_timeout(self, list_id: int, timeout_ms: int) -> None:
        self._learn_list(list_id).configure(timeout_ms=max(timeout_ms, 0))

    def bm_learning_set_buffer_size(self, list_id: int, nb_samples: int) -> None:
        self._learn_list(list_id).configure(most=nb_samples)

    # -- hash functions

    def _set_crc(self, name: str, bits: int, config: types.Crc16Config | types.Crc32Config) -> None:
        state, most = self.device.state, (1 << bits) - 1
        calculation = state.program.model.calculations.get(name)
        if calculation is None:
            raise types.InvalidCrcOperation(types.CrcCode.INVALID_CALCULATION_NAME)
        if calculation["algo"] != f"crc{bits}_custom":
            raise types.InvalidCrcOperation(types.CrcCode.WRONG_TYPE_CALCULATION)
        numbers = (config.polynomial, config.initial_remainder, config.final_xor_value)
        polynomial, initial, final_xor = (each & most for each in numbers)  # Thrift has them signed
        flags = config.data_reflected, config.remainder_reflected
        state.set_crc(name, CrcParameters(polynomial, initial, final_xor, *flags))

    def bm_set_crc16_custom_parameters(self, calc_name: str, crc16_config: types.Crc16Config) -> None:
        self._set_crc(calc_name, 16, crc16_config)

    def bm_set_crc32_custom_parameters(self, calc_name: str, crc32_config: types.Crc32Config) -> None:
        self._set_crc(calc_name, 32, crc32_config)

    def bm_set_toeplitz_hash_key(self, calc_name: str, key: bytes) -> None:
        """v1model has no such algorithm, so no calculation is one."""
        exists = calc_name in self.device.state.program.model.calculations
        raise types.InvalidToeplitzHashOperation(
            types.ToeplitzCode.WRONG_TYPE_CALCULATION if exists else types.ToeplitzCode.INVALID_CALCULATION_NAME
        )


def _forget(store: EntityStore) -> None:
    """Forget P4Runtime's data on entries, members and groups that are gone."""
    for table in store.tables.values():
        table.notes.clear()
        table.one_shots.clear()
        table.waiting.clear()
        table.default_note = None
    for profile in store.profiles.values():
        profile.one_shots = profile.by_reference = 0
        profile.sizes.clear()
