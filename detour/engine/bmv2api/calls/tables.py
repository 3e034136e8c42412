# SPDX-License-Identifier: Apache-2.0
"""`standard`: entries and default entries of tables, whether they run actions, members or groups.

P4Runtime's modules are imported where a table has entities of P4Runtime beside its entries (`BmDevice.table_store`):
they take a tenth of a second, and a switch without a server needs none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from detour.engine.bmv2api import types
from detour.engine.bmv2api.calls import keys
from detour.engine.bmv2api.calls.part import CallPart
from detour.engine.bmv2api.types import EntryOptions, MatchParam, TableCode
from detour.engine.compiler.model import ActionIr
from detour.engine.tables import ActionProfile, Entry, GroupRef, MatchTable, MemberRef

_PS_A_MS = 1_000_000_000
_LONGEST_MS = (1 << 31) - 1


class TableCalls(CallPart):
    """See the module."""

    # -- finding

    def direct(self, name: str) -> MatchTable:
        """A table whose entries run actions."""
        table = self.table(name)
        if table.profile is not None:
            raise keys.refused(TableCode.WRONG_TABLE_TYPE)
        return table

    def indirect(self, name: str, with_groups: bool = False) -> tuple[MatchTable, ActionProfile]:
        """A table whose entries point to members of an action profile, or to groups as well."""
        table = self.table(name)
        if table.profile is None or (with_groups and table.profile.spec.selector is None):
            raise keys.refused(TableCode.WRONG_TABLE_TYPE)
        return table, table.profile

    # -- all tables

    def bm_mt_get_num_entries(self, table_name: str) -> int:
        return len(self.table(table_name))

    def bm_mt_clear_entries(self, table_name: str, reset_default_entry: bool) -> None:
        table = self.table(table_name)
        store = self.device.table_store(table_name)
        if store is not None and not table.immutable:
            from detour.engine.p4runtime.entities import table as p4runtime

            for entry in list(table.entries()):
                p4runtime.delete(store, entry.handle)
        table.clear()
        if reset_default_entry:
            self._reset_default(table)

    def _insert(
        self,
        table: MatchTable,
        match_key: Sequence[MatchParam],
        target: int | MemberRef | GroupRef,
        params: tuple[int, ...],
        options: EntryOptions,
    ) -> int:
        key = keys.engine_key(table.spec, match_key)
        priority = keys.engine_priority(table.spec, options.priority)
        with keys.translated():
            handle = table.insert(key, target, params, priority)
        if table.spec.match_type == "lpm":
            table.keep_key(handle, key)
        store = self.device.table_store(table.name)
        if store is not None:
            from detour.engine.p4runtime import Note

            if table.spec.support_timeout:
                store.notes[handle] = Note(since_ps=self.device.network.now_ps)
            if store.profile is not None:
                store.profile.by_reference += 1
        return keys.entry_handle(table, handle)

    def _delete_entry(self, table: MatchTable, handle: int) -> None:
        at = keys.place(table, handle)
        store = self.device.table_store(table.name)
        if store is not None:
            from detour.engine.p4runtime.entities import table as p4runtime

            p4runtime.delete(store, at)
        else:
            table.delete(at)
        self.device.timeouts.pop((table.name, at), None)

    def bm_mt_set_entry_ttl(self, table_name: str, entry_handle: int, timeout_ms: int) -> None:
        table = self.table(table_name)
        if not table.spec.support_timeout:
            raise keys.refused(TableCode.AGEING_DISABLED)
        at = keys.place(table, entry_handle, any_version=True)
        idle_ns, now = (timeout_ms & 0xFFFFFFFF) * 1_000_000, self.device.network.now_ps
        self.device.timeouts[table.name, at] = (timeout_ms, now)
        store = self.device.table_store(table.name)
        if store is not None:
            from detour.engine.p4runtime import Note

            store.notes[at] = replace(store.notes.get(at, Note()), idle_timeout_ns=idle_ns, notified_ps=now)
            (store.waiting.add if idle_ns else store.waiting.discard)(at)

    bm_mt_indirect_set_entry_ttl = bm_mt_set_entry_ttl

    def _set_default(self, table: MatchTable, target: int | MemberRef | GroupRef, params: tuple[int, ...] = ()) -> None:
        table.set_default(target, params)
        store = self.device.table_store(table.name)
        if store is not None:
            store.default_note = None

    def _reset_default(self, table: MatchTable) -> None:
        store = self.device.table_store(table.name)
        if store is not None:
            from detour.engine.p4runtime.entities import table as p4runtime

            p4runtime.reset_default(store)
        else:
            table.reset_default()

    # -- tables of actions

    def _mutable(self, table_name: str, action_name: str) -> tuple[MatchTable, ActionIr]:
        """A table whose entries can be changed, and one of its actions."""
        table = self.direct(table_name)
        action = keys.action_of(table.spec.actions, action_name)
        if table.immutable:
            raise keys.refused(TableCode.IMMUTABLE_TABLE_ENTRIES)
        return table, action

    def bm_mt_add_entry(
        self,
        table_name: str,
        match_key: Sequence[MatchParam],
        action_name: str,
        action_data: Sequence[bytes],
        options: EntryOptions,
    ) -> int:
        table, action = self._mutable(table_name, action_name)
        return self._insert(table, match_key, action.id, keys.arguments(action, action_data), options)

    def bm_mt_modify_entry(self, table_name: str, handle: int, action_name: str, action_data: Sequence[bytes]) -> None:
        table, action = self._mutable(table_name, action_name)
        params = keys.arguments(action, action_data)
        table.modify(keys.place(table, handle), action.id, params)

    def bm_mt_delete_entry(self, table_name: str, entry_handle: int) -> None:
        table = self.direct(table_name)
        if table.immutable:
            raise keys.refused(TableCode.IMMUTABLE_TABLE_ENTRIES)
        self._delete_entry(table, entry_handle)

    def bm_mt_set_default_action(self, table_name: str, action_name: str, action_data: Sequence[bytes]) -> None:
        table = self.direct(table_name)
        action = keys.action_of(table.spec.actions, action_name)
        if table.spec.default_const:
            raise keys.refused(TableCode.DEFAULT_ENTRY_IS_CONST)
        default = table.spec.default
        if table.spec.default_action_const and default is not None and default.action is not action:
            raise keys.refused(TableCode.DEFAULT_ACTION_IS_CONST)
        self._set_default(table, action.id, keys.arguments(action, action_data))

    def bm_mt_reset_default_entry(self, table_name: str) -> None:
        self._reset_default(self.direct(table_name))

    # -- tables of members and groups

    def bm_mt_indirect_add_entry(
        self, table_name: str, match_key: Sequence[MatchParam], mbr_handle: int, options: EntryOptions
    ) -> int:
        table, profile = self.indirect(table_name)
        return self._insert(table, match_key, _member(profile, mbr_handle), (), options)

    def bm_mt_indirect_ws_add_entry(
        self, table_name: str, match_key: Sequence[MatchParam], grp_handle: int, options: EntryOptions
    ) -> int:
        table, profile = self.indirect(table_name, with_groups=True)
        return self._insert(table, match_key, _group(profile, grp_handle), (), options)

    def bm_mt_indirect_modify_entry(self, table_name: str, entry_handle: int, mbr_handle: int) -> None:
        table, profile = self.indirect(table_name)
        self._point(table, keys.place(table, entry_handle), _member(profile, mbr_handle))

    def bm_mt_indirect_ws_modify_entry(self, table_name: str, entry_handle: int, grp_handle: int) -> None:
        table, profile = self.indirect(table_name, with_groups=True)
        self._point(table, keys.place(table, entry_handle), _group(profile, grp_handle))

    def _point(self, table: MatchTable, at: int, target: MemberRef | GroupRef) -> None:
        """Let an entry point somewhere else; the group that came with it, if it was a one-shot, go."""
        table.modify(at, target)
        store = self.device.table_store(table.name)
        if store is not None and store.profile is not None and (gone := store.one_shots.pop(at, None)) is not None:
            from detour.engine.p4runtime.entities.profile import remove_one_shot

            remove_one_shot(store.profile, gone)
            store.profile.by_reference += 1

    def bm_mt_indirect_delete_entry(self, table_name: str, entry_handle: int) -> None:
        self._delete_entry(self.indirect(table_name)[0], entry_handle)

    def bm_mt_indirect_set_default_member(self, table_name: str, mbr_handle: int) -> None:
        table, profile = self.indirect(table_name)
        self._point_default(table, _member(profile, mbr_handle))

    def bm_mt_indirect_ws_set_default_group(self, table_name: str, grp_handle: int) -> None:
        table, profile = self.indirect(table_name, with_groups=True)
        self._point_default(table, _group(profile, grp_handle))

    def _point_default(self, table: MatchTable, target: MemberRef | GroupRef) -> None:
        if table.spec.default_const:
            raise keys.refused(TableCode.DEFAULT_ENTRY_IS_CONST)
        self._set_default(table, target)

    def bm_mt_indirect_reset_default_entry(self, table_name: str) -> None:
        self._reset_default(self.indirect(table_name)[0])

    # -- reading: of a table that does not exist BMv2 answers with nothing, not with an error

    def bm_mt_get_entries(self, table_name: str) -> list[types.BmEntry]:
        table = self.device.state.tables.get(table_name)
        return [] if table is None else [self._shown(table, entry) for entry in table.entries()]

    def bm_mt_get_entry(self, table_name: str, entry_handle: int) -> types.BmEntry:
        table = self.device.state.tables.get(table_name)
        return types.BmEntry() if table is None else self._shown(table, table.get(keys.place(table, entry_handle)))

    def bm_mt_get_entry_from_key(
        self, table_name: str, match_key: Sequence[MatchParam], options: EntryOptions
    ) -> types.BmEntry:
        table = self.device.state.tables.get(table_name)
        if not match_key:
            return types.BmEntry(action_entry=self.bm_mt_get_default_entry(table_name))
        if table is None:
            return types.BmEntry()
        key = keys.engine_key(table.spec, match_key)
        priority = keys.engine_priority(table.spec, options.priority)
        with keys.translated(TableCode.BAD_MATCH_KEY):
            handle = table.find(key, priority)
        return self._shown(table, table.get(handle))

    def bm_mt_get_default_entry(self, table_name: str) -> types.ActionEntry:
        table = self.device.state.tables.get(table_name)
        if table is None or (entry := table.default) is None:
            return types.ActionEntry(types.ActionType.NONE)
        return _action(table, entry)

    def _shown(self, table: MatchTable, entry: Entry) -> types.BmEntry:
        return types.BmEntry(
            keys.match_params(table.spec, table.written_key(entry.handle)),
            EntryOptions(keys.bm_priority(table.spec, entry.priority)),
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


def _member(profile: ActionProfile, handle: int) -> MemberRef:
    return MemberRef(keys.member_id(profile, handle))


def _group(profile: ActionProfile, handle: int) -> GroupRef:
    group = keys.group_id(profile, handle)
    if not profile.group(group)[0]:
        raise keys.refused(TableCode.EMPTY_GRP)
    return GroupRef(group)


def _action(table: MatchTable, entry: Entry) -> types.ActionEntry:
    if entry.action is not None:
        return types.ActionEntry(types.ActionType.ACTION_DATA, entry.action.name, keys.action_data(entry.params))
    assert table.profile is not None
    assert entry.target is not None
    if isinstance(entry.target, GroupRef):
        return types.ActionEntry(types.ActionType.GRP_HANDLE, grp_handle=table.profile.group_row(entry.target.group))
    return types.ActionEntry(types.ActionType.MBR_HANDLE, mbr_handle=table.profile.member_row(entry.target.member))
