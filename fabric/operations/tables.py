# SPDX-License-Identifier: Apache-2.0
"""Operations on what switches hold: writing it, proving it, showing it."""

from __future__ import annotations

import time

from detour.base.errors import DetourError
from detour.control.describe import TABLE_NAMES, entity_text
from detour.control.verifier.verifier import verify
from detour.fabric.operations.control_plane import ControlPlane, since
from detour.fabric.operations.results import EntryRow, PathLengths, Provisioned, Verification


class Tables:
    """See the module. Methods may be called from several threads."""

    def __init__(self, control: ControlPlane) -> None:
        self._control, self._topology = control, control.topology

    def provision(self) -> Provisioned:
        """Plans for the present failures and writes what differs."""
        with self._control.changing:
            begin = time.monotonic()
            written = self._control.reconcile()
            return Provisioned(
                switches=len(self._topology.switches),
                seconds=since(begin),
                entries=written.entries,
                **written.as_dict(),
            )

    def verify(self) -> Verification:
        """Reads all tables back and proves that every pair of hosts is connected by them."""
        begin = time.monotonic()
        with self._control.changing:
            held = self._control.read_live()
        report = verify(held, self._topology, self._control.failures)
        return Verification(
            verified=report.ok,
            pairs=report.pairs,
            disconnected=report.disconnected,
            proofs=report.proofs,
            ways=report.ways,
            sids=report.sids,
            failed=report.failed,
            problems=report.problems,
            longest=PathLengths(*report.longest),
            bound=PathLengths(*report.bound),
            seconds=since(begin),
        )

    def entries(self, switch: str | None = None, table: str | None = None) -> dict[str, list[EntryRow]]:
        """What switches hold, by name."""
        if table is not None and table not in TABLE_NAMES and table not in TABLE_NAMES.values():
            raise DetourError(f"there is no table {table!r}; allowed: {', '.join(TABLE_NAMES)}")
        chosen = self._topology.switches if switch is None else (self._topology.switch(switch),)
        held = self._control.read([s.device_id for s in chosen])
        wanted = None if table is None else TABLE_NAMES.get(table, table)
        rows = {s.name: [EntryRow(*entity_text(entity)) for entity in held[s.device_id]] for s in chosen}
        return {name: [row for row in found if wanted in (None, row.table)] for name, found in rows.items()}
