# SPDX-License-Identifier: Apache-2.0
"""The checks: tables of rows, by subject."""

from __future__ import annotations

from detour.conformance.checks import (
    arbitration,
    arrays,
    bytestrings,
    entities,
    packets,
    pipelines,
    profiles,
    replication,
    rpcs,
    tables,
    translation,
)
from detour.conformance.model import ConformanceCheck

_MODULES = (
    *(rpcs, arbitration, entities, arrays, bytestrings, packets),
    *(pipelines, profiles, replication, tables, translation),
)


def all_checks(sections: list[str] | None = None) -> list[ConformanceCheck]:
    """By section; of `sections` (5, 9.1, ...) and those below them only."""
    checks = [check for module in _MODULES for check in module.checks]
    chosen = [c for c in checks if sections is None or any(_below(c.section, s) for s in sections)]
    return sorted(chosen, key=lambda c: [int(part) for part in c.section.split(".")])


def _below(section: str, wide: str) -> bool:
    return f"{section}.".startswith(f"{wide.rstrip('.')}.")
