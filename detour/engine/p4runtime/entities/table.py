# SPDX-License-Identifier: Apache-2.0
"""Writing TableEntry (spec, "TableEntry"). `table_read` reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from finsy.proto import p4r

from detour.engine.p4runtime.entities import common
from detour.engine.p4runtime.entities.common import DELETE, INSERT, PendingUpdate
from detour.engine.p4runtime.entities.profile import (
    OneShotActions,
    create_one_shot,
    decode_one_shot,
    remove_one_shot,
    replace_one_shot,
)
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.schema import TableSchema
from detour.engine.p4runtime.store import EntityStore, Note, TableStore
from detour.engine.tables import GroupRef, MemberRef, MeterRates

EntryKey = tuple[Any, ...]


class EntryAction(NamedTuple):
    """An entry's action: an action (the engine's id) with arguments, a member, a group or a one-shot."""

    target: Any
    params: tuple[int, ...] = ()


class Extras(NamedTuple):
    """Optional parts of an entry. `meter` None: green for all packets."""

    note: Note | None
    counter: tuple[int, int] | None
    meter: MeterRates | None


_NOTHING = Extras(None, None, None)


def prepare(store: EntityStore, kind: int, entry: p4r.TableEntry) -> PendingUpdate:
    """Check an update of an entry and return what carries it out."""
    table = store.table(entry.table_id)
    info = table.info
    if entry.is_const:
        raise invalid(f"{info.where}: is_const must not be set in updates")
    if entry.is_default_action:
        return _prepare_default(table, kind, entry)
    if info.is_const and (kind != p4r.Update.MODIFY or entry.HasField("action")):
        raise Refused(Code.PERMISSION_DENIED, f"{info.where}: its entries are const")
    key, priority = decode_key(info, entry)
    if kind == DELETE:  # nothing but the key counts
        return lambda: delete(table, table.engine.find(key, priority))
    run = _run(store, info, entry.action) if entry.HasField("action") else None
    extras = _extras(store, info, entry)
    if extras.meter is not None and run is not None and entry.action.action.action_id == info.actions.no_action:
        raise invalid(f"{info.where}: NoAction does not execute its direct meter")
    if kind == INSERT:
        if run is None:
            raise invalid(f"{info.where}: an entry needs an action")
        if extras is _NOTHING and table.profile is None:  # most entries
            return partial(table.engine.insert, key, run.target, run.params, priority)
        return partial(_insert, table, key, priority, run, extras)
    return partial(_modify, table, key, priority, run, extras)


def decode_key(info: TableSchema, entry: p4r.TableEntry) -> tuple[EntryKey, int]:
    """(key, priority) of an entry; priorities are for ternary, range and optional fields only."""
    key = info.key.decode(entry.match)
    priority = entry.priority
    if info.key.prioritised:
        if priority <= 0:
            raise invalid(f"{info.where}: priority {priority}; it must be positive in a table like this")
    elif priority:
        raise invalid(f"{info.where}: priority {priority}; it must be 0 where no field is ternary, range or optional")
    if not key:
        raise invalid(f"{info.where} has no key, so it has only a default entry")
    return key, priority


def locator(table: TableStore, entry: p4r.TableEntry) -> Callable[[], int]:
    """Find the entry of a direct resource; NOT_FOUND if there is none."""
    if entry.is_default_action:
        raise Refused(Code.UNIMPLEMENTED, f"{table.info.where}: BMv2 has no direct resources for default entries")
    return partial(table.engine.find, *decode_key(table.info, entry))


def _run(store: EntityStore, info: TableSchema, action: p4r.TableAction) -> EntryAction:
    """The action must be of the kind that the table's implementation asks for."""
    kind = action.WhichOneof("type")
    profile = info.profile
    if profile is None:
        if kind != "action":
            raise invalid(f"{info.where}: an action must be given, not {kind or 'nothing'}")
        return EntryAction(*info.actions.decode(action.action))
    if kind == "action_profile_member_id":
        return EntryAction(MemberRef(action.action_profile_member_id))
    if kind == "action_profile_group_id" and profile.selector:
        return EntryAction(GroupRef(action.action_profile_group_id))
    if kind == "action_profile_action_set":
        return EntryAction(decode_one_shot(store, profile, action.action_profile_action_set))
    also = ", a group or a one-shot" if profile.selector else ""
    raise invalid(f"{info.where}: a member of {profile.name}{also} must be given, not {kind or 'nothing'}")


def _extras(store: EntityStore, info: TableSchema, entry: p4r.TableEntry) -> Extras:
    counter = meter = None
    if entry.HasField("counter_data"):
        if info.counter is None:
            raise invalid(f"{info.where} has no direct counter")
        counter = common.counts(entry.counter_data, info.where)
    if entry.HasField("meter_config"):
        if info.meter is None:
            raise invalid(f"{info.where} has no direct meter")
        meter = common.decode_rates(info.meter, entry.meter_config)
    if entry.HasField("meter_counter_data"):
        if info.meter is None:
            raise invalid(f"{info.where} has no direct meter")
        common.no_colour_counters(entry, "meter_counter_data")
    note = _note(store, info, entry)
    if note is None and counter is None and meter is None:
        return _NOTHING
    return Extras(note, counter, meter)


def _note(store: EntityStore, info: TableSchema, entry: p4r.TableEntry) -> Note | None:
    ttl = entry.idle_timeout_ns
    if entry.HasField("time_since_last_hit"):
        raise invalid(f"{info.where}: time_since_last_hit can be read only")
    if info.ageing:
        if ttl < 0:
            raise invalid(f"{info.where}: the idle time-out {ttl} ns is negative")
        return Note(entry.metadata, entry.controller_metadata, ttl, store.now_ps())
    if ttl:
        raise invalid(f"{info.where} does not support idle time-outs")
    if entry.metadata or entry.controller_metadata:
        return Note(entry.metadata, entry.controller_metadata)
    return None


# -- carrying out


def _insert(table: TableStore, key: EntryKey, priority: int, run: EntryAction, extras: Extras) -> None:
    if table.profile is None:
        handle = table.engine.insert(key, run.target, run.params, priority)
    else:
        handle = _insert_indirect(table, key, priority, run)
    if extras is not _NOTHING:
        _apply_extras(table, handle, extras)


def _insert_indirect(table: TableStore, key: EntryKey, priority: int, run: EntryAction) -> int:
    profile = table.profile
    assert profile is not None
    if not isinstance(run.target, OneShotActions):
        profile.forbid_references()
        handle = table.engine.insert(key, run.target, (), priority)
        profile.by_reference += 1
        return handle
    table.engine.check_new(key, priority)  # that the entry exists comes before that the profile is full
    one_shot = create_one_shot(profile, run.target)
    try:
        handle = table.engine.insert(key, GroupRef(one_shot.group), (), priority)
    except Exception:
        remove_one_shot(profile, one_shot)
        raise
    table.one_shots[handle] = one_shot
    return handle


def _modify(table: TableStore, key: EntryKey, priority: int, run: EntryAction | None, extras: Extras) -> None:
    """Assigns: what is not in the message goes back to its default, but for action and counter."""
    handle = table.engine.find(key, priority)
    if run is not None:
        if table.profile is None:
            table.engine.modify(handle, run.target, run.params)
        elif isinstance(run.target, OneShotActions):
            if handle not in table.one_shots:
                table.profile.forbid_one_shots()
            table.one_shots[handle] = replace_one_shot(table.profile, table.one_shots[handle], run.target)
        else:
            table.profile.forbid_references()
            table.engine.modify(handle, run.target)
    if table.info.ageing and extras.note is not None and (before := table.notes.get(handle)) is not None:
        # The time-out begins anew; when the entry was hit does not change.
        extras = extras._replace(note=replace(extras.note, since_ps=before.since_ps, notified_ps=extras.note.since_ps))
    _apply_extras(table, handle, extras)


def _apply_extras(table: TableStore, handle: int, extras: Extras) -> None:
    if extras.note is not None:
        table.notes[handle] = extras.note
        (table.waiting.add if extras.note.idle_timeout_ns else table.waiting.discard)(handle)
    else:
        table.notes.pop(handle, None)
    if table.info.meter is not None:
        table.engine.set_meter(handle, extras.meter)
    if extras.counter is not None:
        table.engine.set_counter(handle, *extras.counter)


def delete(table: TableStore, handle: int) -> None:
    """Remove an entry, and with it whatever P4Runtime keeps of it."""
    table.engine.delete(handle)
    table.notes.pop(handle, None)
    table.waiting.discard(handle)
    if table.profile is not None:
        gone = table.one_shots.pop(handle, None)
        if gone is not None:
            remove_one_shot(table.profile, gone)
        else:
            table.profile.by_reference -= 1


# -- the default entry (spec, "Default Entry")


def _prepare_default(table: TableStore, kind: int, entry: p4r.TableEntry) -> PendingUpdate:
    info = table.info
    if kind != p4r.Update.MODIFY:
        raise invalid(f"{info.where}: the default entry can only be modified, neither inserted nor deleted")
    if entry.match or entry.priority:
        raise invalid(f"{info.where}: the default entry has neither match fields nor a priority")
    if entry.idle_timeout_ns or entry.HasField("time_since_last_hit"):
        raise invalid(f"{info.where}: the default entry has no idle time-out")
    if info.profile is not None:
        raise Refused(
            Code.PERMISSION_DENIED, f"{info.where}: the default entry of a table with an action profile is NoAction"
        )
    if info.const_default:
        raise Refused(Code.PERMISSION_DENIED, f"{info.where}: the default entry is const")
    for resource in ("counter_data", "meter_config", "meter_counter_data"):
        if entry.HasField(resource):
            raise Refused(Code.UNIMPLEMENTED, f"{info.where}: BMv2 has no direct resources for default entries")
    if not entry.HasField("action"):
        return partial(reset_default, table)
    if entry.action.WhichOneof("type") != "action":
        raise invalid(f"{info.where}: the default entry needs an action")
    action, params = info.actions.decode(entry.action.action, default=True)
    note = Note(entry.metadata, entry.controller_metadata)
    return partial(_set_default, table, action, params, note)


def _set_default(table: TableStore, action: int, params: tuple[int, ...], note: Note) -> None:
    table.engine.set_default(action, params)
    table.default_note = note


def reset_default(table: TableStore) -> None:
    """Back to what the program says."""
    table.engine.reset_default()
    table.default_note = None
