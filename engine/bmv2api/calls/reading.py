# SPDX-License-Identifier: Apache-2.0
"""`standard`: reading entries back. Of a table that does not exist BMv2 answers with nothing, not with an error."""

from __future__ import annotations

from collections.abc import Sequence

from detour.engine.bmv2api import types
from detour.engine.bmv2api.calls import keys
from detour.engine.bmv2api.calls.part import CallPart
from detour.engine.tables import Entry, GroupRef, MatchTable, NoSuchEntry, TableError

_PS_A_MS = 1_000_000_000
_LONGEST_MS = (1 << 31) - 1


class ReadingCalls(CallPart):
    """See the module."""

    def bm_mt_get_entries(self, table_name: str) -> list[types.BmEntry]:
        table = self.device.state.tables.get(table_name)
        return [] if table is None else [self._shown(table, entry) for entry in table.entries()]

    def bm_mt_get_entry(self, table_name: str, entry_handle: int) -> types.BmEntry:
        table = self.device.state.tables.get(table_name)
        return types.BmEntry() if table is None else self._shown(table, table.get(keys.place(table, entry_handle)))

    def bm_mt_get_entry_from_key(
        self, table_name: str, match_key: Sequence[types.MatchParam], options: types.EntryOptions
    ) -> types.BmEntry:
        table = self.device.state.tables.get(table_name)
        if not match_key:
            return types.BmEntry(action_entry=self.bm_mt_get_default_entry(table_name))
        if table is None:
            return types.BmEntry()
        key = keys.engine_key(table.spec, match_key)
        try:
            handle = table.find(key, keys.engine_priority(table.spec, options.priority))
        except (NoSuchEntry, TableError) as error:
            raise keys.refused(types.TableCode.BAD_MATCH_KEY) from error
        return self._shown(table, table.get(handle))

    def bm_mt_get_default_entry(self, table_name: str) -> types.ActionEntry:
        table = self.device.state.tables.get(table_name)
        if table is None or (entry := table.default) is None:
            return types.ActionEntry(types.ActionType.NONE)
        return _action(table, entry)

    def _shown(self, table: MatchTable, entry: Entry) -> types.BmEntry:
        return types.BmEntry(
            keys.match_params(table.spec, entry),
            types.EntryOptions(keys.bm_priority(table.spec, entry.priority)),
            keys.entry_handle(table, entry.handle),
            _action(table, entry),
            self._life(table, entry.handle),
        )

    def _life(self, table: MatchTable, handle: int) -> types.EntryLife | None:
        """Age of an entry with a time-out, whether that was set here or over P4Runtime."""
        timeout_ms, since_ps = self.device.timeouts.get((table.name, handle), (0, 0))
        store = self.device.table_store(table.name)
        if store is not None and (note := store.notes.get(handle)) is not None:
            timeout_ms, since_ps = note.idle_timeout_ns // 1_000_000, note.since_ps
        if not timeout_ms:
            return None
        since_ps = max(since_ps, self.device.target.tick_to_ps(table.last_hit(handle)))
        idle_ms = max(self.device.network.now_ps - since_ps, 0) // _PS_A_MS
        return types.EntryLife(min(timeout_ms, _LONGEST_MS), min(idle_ms, _LONGEST_MS))


def _action(table: MatchTable, entry: Entry) -> types.ActionEntry:
    if entry.action is not None:
        return types.ActionEntry(types.ActionType.ACTION_DATA, entry.action.name, keys.action_data(entry.params))
    assert table.profile is not None
    assert entry.target is not None
    if isinstance(entry.target, GroupRef):
        return types.ActionEntry(types.ActionType.GRP_HANDLE, grp_handle=table.profile.group_row(entry.target.group))
    return types.ActionEntry(types.ActionType.MBR_HANDLE, mbr_handle=table.profile.member_row(entry.target.member))
