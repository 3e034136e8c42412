# SPDX-License-Identifier: Apache-2.0
"""Meter rates in messages, of meters and in table entries."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4i, p4r

from detour.engine.p4runtime import schema
from detour.engine.p4runtime.entities.common import MAX_COUNT
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.tables import MeterRates

_Type = p4i.MeterSpec.Type


def decode(info: schema.MeterInfo, message: p4r.MeterConfig) -> MeterRates:
    """The rates of a message, checked against the meter's type in P4Info (spec, "MeterEntry")."""
    m, what = message, f"meter {info.name}"
    if min(m.cir, m.cburst, m.pir, m.pburst, m.eburst) < 0:
        raise invalid(f"{what}: rates and bursts cannot be negative")
    if info.type != _Type.TWO_RATE_THREE_COLOR and (m.cir != m.pir or m.cburst != m.pburst):
        raise invalid(f"{what} has a single rate: pir and pburst must equal cir and cburst")
    if m.eburst:
        if info.type == _Type.SINGLE_RATE_THREE_COLOR:
            raise Refused(Code.UNIMPLEMENTED, f"{what}: BMv2's meters have no excess burst")
        raise invalid(f"{what}: eburst is for single-rate three-colour meters")
    if m.cir > m.pir:
        raise invalid(f"{what}: cir {m.cir} exceeds pir {m.pir}")
    return MeterRates(m.cir, m.cburst, m.pir, m.pburst)


def fill(rates: MeterRates | None, owner: Any, field: str) -> None:
    """Shows rates in a message's field, which stays unset for a meter in its default state."""
    if rates is not None:
        out = getattr(owner, field)
        out.SetInParent()
        out.cir, out.cburst = min(round(rates.cir), MAX_COUNT), rates.cburst
        out.pir, out.pburst = min(round(rates.pir), MAX_COUNT), rates.pburst


def no_counters(message: Any, field: str = "counter_data") -> None:
    """Counters per colour are optional in the spec."""
    if message.HasField(field):
        raise Refused(Code.UNIMPLEMENTED, "BMv2's meters do not count per colour")
