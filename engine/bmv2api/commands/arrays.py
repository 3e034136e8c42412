# SPDX-License-Identifier: Apache-2.0
"""Commands about counters, meters, registers and parser value sets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.program import NamedArray
from detour.engine.bmv2api.commands.registry import (
    CommandScope,
    CommandWork,
    Say,
    at_least,
    between,
    command,
    exactly,
    handle,
    whole,
)
from detour.engine.bmv2api.commands.values import hexadecimal, number
from detour.engine.bmv2api.interface import Api
from detour.engine.bmv2api.types import CounterValue, MeterRate

_INT64 = 1 << 63


def _index(array: NamedArray, text: str) -> int:
    """An index; of a direct array the handle of an entry."""
    if array.table is not None:
        return handle(text, "entry")
    found = whole(text, "index")
    if not 0 <= found < array.size:
        raise CommandError("Invalid index", f"{array.name} has 0 to {array.size - 1}, not {found}")
    return found


# -- counters


@command("counter_read", "COUNTER INDEX", "read a counter", "counter")
def counter_read(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    counter = scope.program.counters.find(words[0])
    index, table = _index(counter, words[1]), counter.table

    def work(api: Api, say: Say) -> None:
        if table is not None:
            say(f"this is the direct counter for table {table}")
            value = api.standard.bm_mt_read_counter(0, table, index)
        else:
            value = api.standard.bm_counter_read(0, counter.name, index)
        say(f"{words[0]}[{index}]= ({value.bytes} bytes, {value.packets} packets)")

    return work


@command("counter_write", "COUNTER INDEX PACKETS BYTES", "set a counter", "counter")
def counter_write(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 4)
    counter = scope.program.counters.find(words[0])
    index, table = _index(counter, words[1]), counter.table
    packets, octets = whole(words[2], "packets", 0, _INT64 - 1), whole(words[3], "bytes", 0, _INT64 - 1)

    def work(api: Api, say: Say) -> None:
        value = CounterValue(octets, packets)
        if table is not None:
            say(f"writing to direct counter for table {table}")
            api.standard.bm_mt_write_counter(0, table, index, value)
        else:
            api.standard.bm_counter_write(0, counter.name, index, value)
        say(f"{words[0]}[{index}] has been updated")

    return work


@command("counter_reset", "COUNTER", "set all of a counter's values to 0", "counter")
def counter_reset(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    counter = scope.program.counters.find(words[0])

    def work(api: Api, say: Say) -> None:
        if counter.table is not None:
            say(f"this is the direct counter for table {counter.table}")
            api.standard.bm_mt_reset_counters(0, counter.table)
        else:
            api.standard.bm_counter_reset_all(0, counter.name)

    return work


# -- meters


def _rates(meter: NamedArray, words: Sequence[str]) -> list[MeterRate]:
    """RATE:BURST for each rate, in units a microsecond and units."""
    if len(words) != meter.rates:
        raise CommandError(f"Invalid number of rates, expected {meter.rates} but got {len(words)}")
    found = []
    for word in words:
        rate, colon, burst = word.partition(":")
        try:
            found.append(MeterRate(float(rate), int(burst)))
        except ValueError:
            raise CommandError("Error while parsing rates", f"{word!r} is not RATE:BURST, like 0.001:100") from None
        if not colon or not 0 <= found[-1].units_per_micros < float("inf") or not 0 <= found[-1].burst_size < 1 << 31:
            raise CommandError("Error while parsing rates", f"{word!r} has a rate or a burst that is no quantity")
    if any(low.units_per_micros > high.units_per_micros for low, high in pairwise(found)):
        raise CommandError("Error while parsing rates", "they must not become smaller")
    return found


@command("meter_set_rates", "METER INDEX RATE:BURST RATE:BURST", "set a meter's rates, in units a microsecond", "meter")
def meter_set_rates(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 2)
    meter = scope.program.meters.find(words[0])
    index, rates, table = _index(meter, words[1]), _rates(meter, words[2:]), meter.table
    if table is not None:
        return lambda api, say: api.standard.bm_mt_set_meter_rates(0, table, index, rates)
    return lambda api, say: api.standard.bm_meter_set_rates(0, meter.name, index, rates)


@command("meter_array_set_rates", "METER RATE:BURST RATE:BURST", "set the rates of all meters of an array", "meter")
def meter_array_set_rates(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 1)
    meter = scope.program.meters.find(words[0])
    rates = _rates(meter, words[1:])
    return lambda api, say: api.standard.bm_meter_array_set_rates(0, meter.name, rates)


@command("meter_get_rates", "METER INDEX", "show a meter's rates", "meter")
def meter_get_rates(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    meter = scope.program.meters.find(words[0])
    index, table = _index(meter, words[1]), meter.table

    def work(api: Api, say: Say) -> None:
        if table is not None:
            rates = api.standard.bm_mt_get_meter_rates(0, table, index)
        else:
            rates = api.standard.bm_meter_get_rates(0, meter.name, index)
        if len(rates) != meter.rates:
            say(f"WARNING: expected {meter.rates} rates but only received {len(rates)}")
        for i, rate in enumerate(rates):
            say(f"{i}: info rate = {rate.units_per_micros}, burst size = {rate.burst_size}")

    return work


# -- registers


@command("register_read", "REGISTER [INDEX]", "read a register, or all of the array", "register")
def register_read(words: list[str], scope: CommandScope) -> CommandWork:
    between(words, 1, 2)
    register = scope.program.registers.find(words[0])
    if len(words) == 2:
        index = _index(register, words[1])
        return lambda api, say: say(f"{words[0]}[{index}]= {api.standard.bm_register_read(0, register.name, index)}")

    def work(api: Api, say: Say) -> None:
        print("register index omitted, reading entire array", file=sys.stderr)
        values = api.standard.bm_register_read_all(0, register.name)
        say(f"{words[0]}= {', '.join(str(value) for value in values)}")

    return work


@command("register_write", "REGISTER INDEX VALUE", "set a register", "register")
def register_write(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 3)
    register = scope.program.registers.find(words[0])
    index = _index(register, words[1])
    try:
        value = int(words[2], 0)
    except ValueError:
        raise CommandError("Bad format for value, must be an integer", repr(words[2])) from None
    if not -(1 << (register.bits - 1)) <= value < 1 << register.bits:
        raise CommandError("Bad value for value", f"{words[2]} does not fit {register.bits} bits")
    if not -_INT64 <= value < 1 << 64:
        raise CommandError("Bad value for value", f"BMv2's API carries 64 bits, {words[2]} has more; use P4Runtime")
    signed = value - (1 << 64) if value >= _INT64 else value  # Thrift has no other numbers
    return lambda api, say: api.standard.bm_register_write(0, register.name, index, signed)


@command("register_reset", "REGISTER", "set all registers of an array to 0", "register")
def register_reset(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    register = scope.program.registers.find(words[0])
    return lambda api, say: api.standard.bm_register_reset(0, register.name)


# -- parser value sets


@command("show_pvs", "", "list parser value sets")
def show_pvs(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)
    found = scope.program.value_sets

    def work(api: Api, say: Say) -> None:
        for name in sorted(found):
            say(f"{name:30} [compressed bitwidth:{found[name].bits}]")

    return work


def _member(words: list[str], scope: CommandScope) -> tuple[NamedArray, bytes]:
    exactly(words, 2)
    found = scope.program.value_sets.find(words[0])
    return found, number(words[1], found.bits).to_bytes((found.bits + 7) // 8, "big")


@command("pvs_add", "SET VALUE", "add a value to a parser value set", "value set")
def pvs_add(words: list[str], scope: CommandScope) -> CommandWork:
    found, value = _member(words, scope)
    return lambda api, say: api.standard.bm_parse_vset_add(0, found.name, value)


@command("pvs_remove", "SET VALUE", "remove a value from a parser value set", "value set")
def pvs_remove(words: list[str], scope: CommandScope) -> CommandWork:
    found, value = _member(words, scope)
    return lambda api, say: api.standard.bm_parse_vset_remove(0, found.name, value)


@command("pvs_get", "SET", "show the values of a parser value set", "value set")
def pvs_get(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    found = scope.program.value_sets.find(words[0])

    def work(api: Api, say: Say) -> None:
        for value in api.standard.bm_parse_vset_get(0, found.name):
            say(hexadecimal(value))

    return work


@command("pvs_clear", "SET", "remove all values from a parser value set", "value set")
def pvs_clear(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    found = scope.program.value_sets.find(words[0])
    return lambda api, say: api.standard.bm_parse_vset_clear(0, found.name)
