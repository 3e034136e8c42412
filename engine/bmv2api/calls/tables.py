# SPDX-License-Identifier: Apache-2.0
"""`standard`: entries and default entries of tables, whether they run actions, members or groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from detour.engine.bmv2api.calls import keys
from detour.engine.bmv2api.calls.part import CallPart
from detour.engine.bmv2api.types import EntryOptions, InvalidTableOperation, MatchParam, TableCode
from detour.engine.p4runtime.entities import oneshot
from detour.engine.p4runtime.entities import table as p4runtime
from detour.engine.p4runtime.store import Note, TableStore
from detour.engine.tables import (
    ActionProfile,
    EntryExists,
    GroupRef,
    MatchTable,
    MemberRef,
    TableError,
    TableFull,
)

_HIDDEN = 1 << 32
"""ids from here on are of members and groups that came with an entry of P4Runtime's, and are its own"""


def table_error(error: TableError) -> InvalidTableOperation:
    """What BMv2 calls it."""
    if isinstance(error, EntryExists):
        return keys.refused(TableCode.DUPLICATE_ENTRY)
    if isinstance(error, TableFull):
        return keys.refused(TableCode.TABLE_FULL)
    return keys.refused(TableCode.ERROR)


class TableCalls(CallPart):
    """See the module."""

    # -- finding

    def direct(self, name: str) -> MatchTable:
        """A table whose entries run actions."""
        found = self.table(name)
        if found.profile is not None:
            raise keys.refused(TableCode.WRONG_TABLE_TYPE)
        return found

    def indirect(self, name: str, with_groups: bool = False) -> tuple[MatchTable, ActionProfile]:
        """A table whose entries point to members of an action profile, or to groups as well."""
        found = self.table(name)
        if found.profile is None or (with_groups and found.profile.spec.selector is None):
            raise keys.refused(TableCode.WRONG_TABLE_TYPE)
        return found, found.profile

    # -- all tables

    def bm_mt_get_num_entries(self, table_name: str) -> int:
        return len(self.table(table_name))

    def bm_mt_clear_entries(self, table_name: str, reset_default_entry: bool) -> None:
        table = self.table(table_name)
        store = self.device.table_store(table_name)
        if store is not None:
            for entry in list(table.entries()):
                if table.immutable:
                    break
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
        try:
            handle = table.insert(key, target, params, priority)
        except TableError as error:
            raise table_error(error) from error
        store = self.device.table_store(table.name)
        if store is not None:
            if table.spec.support_timeout:
                store.notes[handle] = Note(since_ps=self.device.network.now_ps)
            if store.profile is not None:
                store.profile.by_reference += 1
        return keys.entry_handle(table, handle)

    def _delete(self, table: MatchTable, handle: int) -> None:
        at = keys.place(table, handle)
        store = self.device.table_store(table.name)
        if store is not None:
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
            store.notes[at] = replace(store.notes.get(at, Note()), idle_timeout_ns=idle_ns, notified_ps=now)
            (store.waiting.add if idle_ns else store.waiting.discard)(at)

    bm_mt_indirect_set_entry_ttl = bm_mt_set_entry_ttl

    def _reset_default(self, table: MatchTable) -> None:
        store = self.device.table_store(table.name)
        if store is not None:
            p4runtime.reset_default(store)
        else:
            table.reset_default()

    # -- tables of actions

    def bm_mt_add_entry(
        self,
        table_name: str,
        match_key: Sequence[MatchParam],
        action_name: str,
        action_data: Sequence[bytes],
        options: EntryOptions,
    ) -> int:
        table = self.direct(table_name)
        action = keys.action_of(table.spec.actions, action_name)
        self._check_mutable(table)
        return self._insert(table, match_key, action.id, keys.arguments(action, action_data), options)

    def bm_mt_modify_entry(self, table_name: str, handle: int, action_name: str, action_data: Sequence[bytes]) -> None:
        table = self.direct(table_name)
        action = keys.action_of(table.spec.actions, action_name)
        self._check_mutable(table)
        params = keys.arguments(action, action_data)
        table.modify(keys.place(table, handle), action.id, params)

    def bm_mt_delete_entry(self, table_name: str, entry_handle: int) -> None:
        table = self.direct(table_name)
        self._check_mutable(table)
        self._delete(table, entry_handle)

    def _check_mutable(self, table: MatchTable) -> None:
        if table.immutable:
            raise keys.refused(TableCode.IMMUTABLE_TABLE_ENTRIES)

    def bm_mt_set_default_action(self, table_name: str, action_name: str, action_data: Sequence[bytes]) -> None:
        table = self.direct(table_name)
        action = keys.action_of(table.spec.actions, action_name)
        if table.spec.default_const:
            raise keys.refused(TableCode.DEFAULT_ENTRY_IS_CONST)
        default = table.spec.default
        if table.spec.default_action_const and default is not None and default.action is not action:
            raise keys.refused(TableCode.DEFAULT_ACTION_IS_CONST)
        table.set_default(action.id, keys.arguments(action, action_data))
        self._forget_default(table)

    def _forget_default(self, table: MatchTable) -> None:
        store = self.device.table_store(table.name)
        if store is not None:
            store.default_note = None

    def bm_mt_reset_default_entry(self, table_name: str) -> None:
        self._reset_default(self.direct(table_name))

    # -- tables of members and groups

    def _member(self, profile: ActionProfile, handle: int) -> MemberRef:
        return MemberRef(member_id(profile, handle))

    def _group(self, profile: ActionProfile, handle: int) -> GroupRef:
        group = group_id(profile, handle)
        if not profile.group(group)[0]:
            raise keys.refused(TableCode.EMPTY_GRP)
        return GroupRef(group)

    def bm_mt_indirect_add_entry(
        self, table_name: str, match_key: Sequence[MatchParam], mbr_handle: int, options: EntryOptions
    ) -> int:
        table, profile = self.indirect(table_name)
        return self._insert(table, match_key, self._member(profile, mbr_handle), (), options)

    def bm_mt_indirect_ws_add_entry(
        self, table_name: str, match_key: Sequence[MatchParam], grp_handle: int, options: EntryOptions
    ) -> int:
        table, profile = self.indirect(table_name, with_groups=True)
        return self._insert(table, match_key, self._group(profile, grp_handle), (), options)

    def bm_mt_indirect_modify_entry(self, table_name: str, entry_handle: int, mbr_handle: int) -> None:
        table, profile = self.indirect(table_name)
        self._point(table, keys.place(table, entry_handle), self._member(profile, mbr_handle))

    def bm_mt_indirect_ws_modify_entry(self, table_name: str, entry_handle: int, grp_handle: int) -> None:
        table, profile = self.indirect(table_name, with_groups=True)
        self._point(table, keys.place(table, entry_handle), self._group(profile, grp_handle))

    def _point(self, table: MatchTable, at: int, target: MemberRef | GroupRef) -> None:
        """Lets an entry point somewhere else; the group that came with it, if it was a one-shot, goes."""
        table.modify(at, target)
        store: TableStore | None = self.device.table_store(table.name)
        if store is not None and store.profile is not None and (gone := store.one_shots.pop(at, None)) is not None:
            oneshot.remove(store.profile, gone)
            store.profile.by_reference += 1

    def bm_mt_indirect_delete_entry(self, table_name: str, entry_handle: int) -> None:
        self._delete(self.indirect(table_name)[0], entry_handle)

    def bm_mt_indirect_set_default_member(self, table_name: str, mbr_handle: int) -> None:
        table, profile = self.indirect(table_name)
        self._set_default(table, self._member(profile, mbr_handle))

    def bm_mt_indirect_ws_set_default_group(self, table_name: str, grp_handle: int) -> None:
        table, profile = self.indirect(table_name, with_groups=True)
        self._set_default(table, self._group(profile, grp_handle))

    def _set_default(self, table: MatchTable, target: MemberRef | GroupRef) -> None:
        if table.spec.default_const:
            raise keys.refused(TableCode.DEFAULT_ENTRY_IS_CONST)
        table.set_default(target)
        self._forget_default(table)

    def bm_mt_indirect_reset_default_entry(self, table_name: str) -> None:
        self._reset_default(self.indirect(table_name)[0])


def member_id(profile: ActionProfile, handle: int) -> int:
    """The id of the member with that handle of BMv2's."""
    return _row_id(profile.member_id, handle, TableCode.INVALID_MBR_HANDLE)


def group_id(profile: ActionProfile, handle: int) -> int:
    """The id of the group with that handle of BMv2's."""
    return _row_id(profile.group_id, handle, TableCode.INVALID_GRP_HANDLE)


def _row_id(id_of: Callable[[int], int], handle: int, code: TableCode) -> int:
    try:
        found = id_of(handle)
    except KeyError:
        raise keys.refused(code) from None
    if found >= _HIDDEN:
        raise keys.refused(code)
    return found
