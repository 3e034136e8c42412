# SPDX-License-Identifier: Apache-2.0
"""Commands about counters, meters, registers and parser value sets."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import pairwise

from detour.engine.bmv2api.commands.arguments import INT31, INT63, constant, named, parse_handle, parse_integer
from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.program import NamedArray
from detour.engine.bmv2api.commands.registry import REST, Argument, Parsed, calls, command
from detour.engine.bmv2api.commands.values import value
from detour.engine.bmv2api.interface import Api, Standard
from detour.engine.bmv2api.types import CounterValue, MeterRate
from detour.engine.bmv2api.wire import signed


def _parse_index(words: list[str], parsed: Parsed) -> int:
    """An index; of a direct array the handle of an entry."""
    array: NamedArray = parsed.values[0]
    if array.table is not None:
        return parse_handle(words[0], "entry")
    index = parse_integer(words[0], "index", -INT31 - 1)
    if not 0 <= index < array.size:
        raise CommandError("Invalid index", f"{array.name} has 0 to {array.size - 1}, not {index}")
    return index


_INDEX = Argument("INDEX", _parse_index)

# -- counters

_COUNTER = named("COUNTER", lambda program: program.counters)


_DIRECT = "this is the direct counter for table {0.table}"
calls("counter_read", "read a counter", Standard.bm_counter_read, _COUNTER, _INDEX,
      direct=Standard.bm_mt_read_counter, before_direct=_DIRECT,
      result="{0.asked}[{1}]= ({answer.bytes} bytes, {answer.packets} packets)")  # fmt: skip


def _parse_count(words: list[str], parsed: Parsed) -> CounterValue:
    packets, octets = parse_integer(words[0], "packets", 0, INT63), parse_integer(words[1], "bytes", 0, INT63)
    return CounterValue(octets, packets)


calls("counter_write", "set a counter", Standard.bm_counter_write, _COUNTER, _INDEX,
      Argument("PACKETS BYTES", _parse_count, least=2, most=2), direct=Standard.bm_mt_write_counter,
      before_direct="writing to direct counter for table {0.table}", result="{0.asked}[{1}] has been updated",
      )  # fmt: skip
calls("counter_reset", "set all of a counter's values to 0", Standard.bm_counter_reset_all, _COUNTER,
      direct=Standard.bm_mt_reset_counters, before_direct=_DIRECT)  # fmt: skip

# -- meters


def _parse_rates(words: list[str], parsed: Parsed) -> list[MeterRate]:
    """RATE:BURST for each rate, in units a microsecond and units."""
    if len(words) != parsed.values[0].rates:
        raise CommandError(f"Invalid number of rates, expected {parsed.values[0].rates} but got {len(words)}")
    rates: list[MeterRate] = []
    for word in words:
        rate, colon, burst = word.partition(":")
        try:
            rates.append(MeterRate(float(rate), int(burst)))
        except ValueError:
            raise CommandError("Error while parsing rates", f"{word!r} is not RATE:BURST, like 0.001:100") from None
        if not colon or not 0 <= rates[-1].units_per_micros < float("inf") or not 0 <= rates[-1].burst_size < 1 << 31:
            raise CommandError("Error while parsing rates", f"{word!r} has a rate or a burst that is not a quantity")
    if any(low.units_per_micros > high.units_per_micros for low, high in pairwise(rates)):
        raise CommandError("Error while parsing rates", "they must not become smaller")
    return rates


_METER = named("METER", lambda program: program.meters)
_RATES = Argument("RATE:BURST RATE:BURST", _parse_rates, least=0, most=REST)


calls("meter_set_rates", "set a meter's rates, in units a microsecond", Standard.bm_meter_set_rates, _METER, _INDEX,
      _RATES, direct=Standard.bm_mt_set_meter_rates)  # fmt: skip
calls("meter_array_set_rates", "set the rates of all meters of an array", Standard.bm_meter_array_set_rates, _METER,
      _RATES)  # fmt: skip


def _shown_rates(rates: list[MeterRate], meter: NamedArray, index: int) -> Iterable[str]:
    if len(rates) != meter.rates:
        yield f"WARNING: expected {meter.rates} rates but only received {len(rates)}"
    for i, rate in enumerate(rates):
        yield f"{i}: info rate = {rate.units_per_micros}, burst size = {rate.burst_size}"


calls("meter_get_rates", "show a meter's rates", Standard.bm_meter_get_rates, _METER, _INDEX,
      direct=Standard.bm_mt_get_meter_rates, result=_shown_rates)  # fmt: skip

# -- registers


def _parse_register_value(words: list[str], parsed: Parsed) -> int:
    (text,), bits = words, parsed.values[0].bits
    try:
        number = int(text, 0)
    except ValueError:
        raise CommandError("Bad format for value, must be an integer", repr(text)) from None
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise CommandError("Bad value for value", f"{text} does not fit {bits} bits")
    if not -INT63 - 1 <= number < 1 << 64:
        raise CommandError("Bad value for value", f"BMv2's API carries 64 bits, {text} has more; use P4Runtime")
    return signed(number, 64)


_REGISTER = named("REGISTER", lambda program: program.registers)


_OPTIONAL_INDEX = Argument("[INDEX]", lambda words, parsed: _parse_index(words, parsed) if words else None, least=0)


@command("register_read", "read a register, or all of the array", _REGISTER, _OPTIONAL_INDEX)
def register_read(api: Api, register: NamedArray, index: int | None) -> Iterable[str]:
    if index is not None:
        yield f"{register.asked}[{index}]= {api.standard.bm_register_read(register.name, index)}"
        return
    print("register index omitted, reading entire array", file=sys.stderr)
    values = api.standard.bm_register_read_all(register.name)
    yield f"{register.asked}= {', '.join(str(value) for value in values)}"


calls("register_write", "set a register", Standard.bm_register_write, _REGISTER, _INDEX,
      Argument("VALUE", _parse_register_value))  # fmt: skip
calls("register_reset", "set all registers of an array to 0", Standard.bm_register_reset, _REGISTER)

# -- parser value sets


command("show_pvs", "list parser value sets", constant(lambda program: program.value_sets))(
    lambda api, sets: [f"{name:30} [compressed bitwidth:{sets[name].bits}]" for name in sorted(sets)]
)

_SET = named("SET", lambda program: program.value_sets)
_VALUE = Argument("VALUE", lambda words, parsed: value(words[0], parsed.values[0].bits))

calls("pvs_add", "add a value to a parser value set", Standard.bm_parse_vset_add, _SET, _VALUE)
calls("pvs_remove", "remove a value from a parser value set", Standard.bm_parse_vset_remove, _SET, _VALUE)
calls("pvs_clear", "remove all values from a parser value set", Standard.bm_parse_vset_clear, _SET)
calls("pvs_get", "show the values of a parser value set", Standard.bm_parse_vset_get, _SET,
      result=lambda answer, _: [each.hex() for each in answer])  # fmt: skip
