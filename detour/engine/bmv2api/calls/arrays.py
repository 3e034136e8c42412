# SPDX-License-Identifier: Apache-2.0
"""`standard`: counters, meters, registers and parser value sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from detour.engine.bmv2api import types
from detour.engine.bmv2api.calls.keys import place, refused
from detour.engine.bmv2api.calls.part import CallPart
from detour.engine.bmv2api.wire import ServiceError, signed
from detour.engine.tables import CounterArray, MatchTable, MeterArray, MeterRates, RegisterArray, TableError, ValueSet

_US = 1_000_000
A = TypeVar("A", CounterArray, MeterArray, RegisterArray)


def _array(arrays: Mapping[str, A], name: str, index: int, error: type[ServiceError]) -> A:
    """An array that has that index. For what is wrong, counters, meters and registers have the same codes."""
    array = arrays.get(name)
    if array is None:
        raise error(types.CounterCode.INVALID_COUNTER_NAME)
    if not 0 <= index < array.size:
        raise error(types.CounterCode.INVALID_INDEX)
    return array


def _rates(rates: Sequence[types.MeterRate]) -> MeterRates:
    """Committed rate first, in units a microsecond."""
    if len(rates) != 2:
        raise types.InvalidMeterOperation(types.MeterCode.BAD_RATES_LIST)
    low, high = rates
    if low.units_per_micros > high.units_per_micros:
        raise types.InvalidMeterOperation(types.MeterCode.INVALID_INFO_RATE_VALUE)
    if min(low.burst_size, high.burst_size) < 0:
        raise types.InvalidMeterOperation(types.MeterCode.INVALID_BURST_SIZE_VALUE)
    if low.units_per_micros < 0:
        raise types.InvalidMeterOperation(types.MeterCode.INVALID_INFO_RATE_VALUE)
    return MeterRates(low.units_per_micros * _US, low.burst_size, high.units_per_micros * _US, high.burst_size)


def _shown(rates: MeterRates | None) -> list[types.MeterRate]:
    """The way back; nothing for a meter that was never set."""
    if rates is None:
        return []
    return [types.MeterRate(rates.cir / _US, rates.cburst), types.MeterRate(rates.pir / _US, rates.pburst)]


class ArrayCalls(CallPart):
    """See the module."""

    # -- direct counters and meters

    def _counted(self, name: str) -> MatchTable:
        table = self.table(name)
        if not table.spec.with_counters:
            raise refused(types.TableCode.COUNTERS_DISABLED)
        return table

    def bm_mt_read_counter(self, table_name: str, entry_handle: int) -> types.CounterValue:
        table = self._counted(table_name)
        packets, octets = table.counter(place(table, entry_handle, any_version=True))
        return types.CounterValue(signed(octets, 64), signed(packets, 64))

    def bm_mt_write_counter(self, table_name: str, entry_handle: int, value: types.CounterValue) -> None:
        table = self._counted(table_name)
        at = place(table, entry_handle, any_version=True)
        table.set_counter(at, value.packets & (1 << 64) - 1, value.bytes & (1 << 64) - 1)

    def bm_mt_reset_counters(self, table_name: str) -> None:
        table = self._counted(table_name)
        for entry in table.entries():
            table.set_counter(entry.handle, 0, 0)

    def _metered(self, name: str, entry_handle: int) -> tuple[MatchTable, int]:
        table = self.table(name)
        if table.spec.direct_meter is None:
            raise refused(types.TableCode.METERS_DISABLED)
        return table, place(table, entry_handle, any_version=True)

    def bm_mt_set_meter_rates(self, table_name: str, entry_handle: int, rates: Sequence[types.MeterRate]) -> None:
        table, at = self._metered(table_name, entry_handle)
        try:
            table.set_meter(at, _rates(rates))
        except (types.InvalidMeterOperation, TableError) as error:
            raise refused(types.TableCode.ERROR) from error

    def bm_mt_get_meter_rates(self, table_name: str, entry_handle: int) -> list[types.MeterRate]:
        table, at = self._metered(table_name, entry_handle)
        return _shown(table.meter(at))

    # -- counters

    def _counter(self, name: str, index: int = 0) -> CounterArray:
        return _array(self.device.state.counters, name, index, types.InvalidCounterOperation)

    def bm_counter_read(self, counter_name: str, index: int) -> types.CounterValue:
        packets, octets = self._counter(counter_name, index).read(index)
        return types.CounterValue(signed(octets, 64), signed(packets, 64))

    def bm_counter_write(self, counter_name: str, index: int, value: types.CounterValue) -> None:
        self._counter(counter_name, index).write(index, value.packets, value.bytes)

    def bm_counter_reset_all(self, counter_name: str) -> None:
        self._counter(counter_name).reset()

    # -- meters

    def _meter(self, name: str, index: int = 0) -> MeterArray:
        return _array(self.device.state.meters, name, index, types.InvalidMeterOperation)

    def _with_direct_meter(self, name: str) -> MatchTable | None:
        """The table whose entries have the meters of an array; None: it is not an array of direct ones."""
        return next((table for table in self.device.state.tables.values() if table.spec.direct_meter == name), None)

    def bm_meter_array_set_rates(self, meter_array_name: str, rates: Sequence[types.MeterRate]) -> None:
        table = self._with_direct_meter(meter_array_name)
        if table is not None:
            table.set_all_meters(_rates(rates))
            return
        meter, config = self._meter(meter_array_name), _rates(rates)
        for index in range(meter.size):
            meter.configure(index, config)

    def bm_meter_set_rates(self, meter_array_name: str, index: int, rates: Sequence[types.MeterRate]) -> None:
        self._meter(meter_array_name, index).configure(index, _rates(rates))

    def bm_meter_get_rates(self, meter_array_name: str, index: int) -> list[types.MeterRate]:
        return _shown(self._meter(meter_array_name, index).config(index))

    # -- registers

    def _register(self, name: str, index: int = 0) -> RegisterArray:
        return _array(self.device.state.registers, name, index, types.InvalidRegisterOperation)

    def bm_register_read(self, register_array_name: str, idx: int) -> int:
        return signed(self._register(register_array_name, idx).read(idx), 64)

    def bm_register_read_all(self, register_array_name: str) -> list[int]:
        return [signed(value, 64) for value in self._register(register_array_name).values()]

    def bm_register_write(self, register_array_name: str, index: int, value: int) -> None:
        self._register(register_array_name, index).write(index, value)

    def bm_register_write_range(self, register_array_name: str, start_index: int, end_index: int, value: int) -> None:
        register = self._register(register_array_name)
        if not 0 <= start_index <= end_index <= register.size:
            raise types.InvalidRegisterOperation(types.RegisterCode.INVALID_INDEX)
        for index in range(start_index, end_index):
            register.write(index, value)

    def bm_register_reset(self, register_array_name: str) -> None:
        self._register(register_array_name).reset()

    # -- parser value sets

    def _value_set(self, name: str) -> ValueSet:
        value_set = self.device.state.value_sets.get(name)
        if value_set is None:
            raise types.InvalidParseVSetOperation(types.ParseVSetCode.INVALID_PARSE_VSET_NAME)
        return value_set

    def bm_parse_vset_add(self, parse_vset_name: str, value: bytes) -> None:
        value_set = self._value_set(parse_vset_name)
        try:
            value_set.replace((*value_set.values, int.from_bytes(value, "big")))
        except TableError as error:
            raise types.InvalidParseVSetOperation(types.ParseVSetCode.ERROR) from error

    def bm_parse_vset_remove(self, parse_vset_name: str, value: bytes) -> None:
        value_set, gone = self._value_set(parse_vset_name), int.from_bytes(value, "big")
        value_set.replace(each for each in value_set.values if each != gone)

    def bm_parse_vset_get(self, parse_vset_name: str) -> list[bytes]:
        value_set = self._value_set(parse_vset_name)
        return [value.to_bytes((value_set.bits + 7) // 8, "big") for value in value_set.values]

    def bm_parse_vset_clear(self, parse_vset_name: str) -> None:
        self._value_set(parse_vset_name).replace(())
