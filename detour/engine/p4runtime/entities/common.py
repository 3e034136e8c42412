# SPDX-License-Identifier: Apache-2.0
"""Helpers for all kinds of entities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from finsy.proto import p4i, p4r

from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.schema import Counter, MeterInfo, find
from detour.engine.tables import MeterRates

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
_MAX_COUNT = (1 << 63) - 1
WHOLE_ENTRY = p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
"""with these fields set, an entry is read back with all that belongs to it"""
_MeterType = p4i.MeterSpec.Type

PendingUpdate = Callable[[], object]
Ids = Collection[int] | None
"""P4Info ids that a role may see or write; None: all of them."""

T = TypeVar("T")


def modify_only(kind: int, what: str) -> None:
    """For entities that always exist."""
    if kind != MODIFY:
        raise invalid(f"{what} can only be modified, neither inserted nor deleted")


def selected(objects: dict[int, T], id_: int, kind: str, ids: Ids) -> Iterator[T]:
    """The object with that id, or all of them for id 0, as far as the role may see them."""
    if id_:
        value = find(objects, id_, kind)
        if ids is None or id_ in ids:
            yield value
        return
    for each, value in objects.items():
        if ids is None or each in ids:
            yield value


def indices(message: Any, size: int, what: str) -> range:
    """The index of an array entity, or all indices if it has none."""
    if not message.HasField("index"):
        return range(size)
    index = message.index.index
    if index < 0:
        raise invalid(f"{what}: the index {index} is negative")
    if index >= size:
        raise Refused(Code.OUT_OF_RANGE, f"{what}: index {index} is not in 0..{size - 1}")
    return range(index, index + 1)


def counts(data: p4r.CounterData, what: str) -> tuple[int, int]:
    """(packets, bytes) of a message."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"{what}: a counter cannot be negative")
    return data.packet_count, data.byte_count


def fill_counter(info: Counter, values: tuple[int, int], into: p4r.CounterData) -> None:
    """Show (packets, bytes); BMv2 counts both, the program asked for one or both."""
    into.SetInParent()
    into.packet_count = min(values[0], _MAX_COUNT) if info.packets else 0
    into.byte_count = min(values[1], _MAX_COUNT) if info.octets else 0


def decode_rates(info: MeterInfo, message: p4r.MeterConfig) -> MeterRates:
    """The rates of a message, checked against the meter's type in P4Info (spec, "MeterEntry")."""
    m, what = message, f"meter {info.name}"
    if min(m.cir, m.cburst, m.pir, m.pburst, m.eburst) < 0:
        raise invalid(f"{what}: rates and bursts cannot be negative")
    if info.type != _MeterType.TWO_RATE_THREE_COLOR and (m.cir != m.pir or m.cburst != m.pburst):
        raise invalid(f"{what} has a single rate: pir and pburst must equal cir and cburst")
    if m.eburst:
        if info.type == _MeterType.SINGLE_RATE_THREE_COLOR:
            raise Refused(Code.UNIMPLEMENTED, f"{what}: BMv2's meters have no excess burst")
        raise invalid(f"{what}: eburst is for single-rate three-colour meters")
    if m.cir > m.pir:
        raise invalid(f"{what}: cir {m.cir} exceeds pir {m.pir}")
    return MeterRates(m.cir, m.cburst, m.pir, m.pburst)


def fill_rates(rates: MeterRates | None, owner: Any, field: str) -> None:
    """Show rates in a message's field, which stays unset for a meter in its default state."""
    if rates is not None:
        out = getattr(owner, field)
        out.SetInParent()
        out.cir, out.cburst = min(round(rates.cir), _MAX_COUNT), rates.cburst
        out.pir, out.pburst = min(round(rates.pir), _MAX_COUNT), rates.pburst


def no_colour_counters(message: Any, field: str = "counter_data") -> None:
    """Counters per colour are optional in the spec."""
    if message.HasField(field):
        raise Refused(Code.UNIMPLEMENTED, "BMv2's meters have no per-colour counters")
