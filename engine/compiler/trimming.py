# SPDX-License-Identifier: Apache-2.0
"""Metadata fields by which a program and the traffic manager speak of packet trimming (docs/traffic-manager.md)."""

from __future__ import annotations

from detour.engine.compiler.layout import Layout
from detour.engine.compiler.model import Model

_BITS = {"trim_to": 16, "trim_priority": 3, "trimmed": 16}


def trim_places(model: Model, layout: Layout) -> dict[str, int]:
    """Offsets of the fields in the PHV; all 0 if the program lacks one of them, in this width: it trims nothing."""
    found: dict[str, int] = {}
    for header in model.headers.values():
        for field in header.type.fields if header.metadata else ():
            struct, _, name = field.name.rpartition(".")
            if struct and _BITS.get(name) == field.bits:
                found[name] = layout.place(header, field).offset
    return found if len(found) == len(_BITS) else dict.fromkeys(_BITS, 0)
