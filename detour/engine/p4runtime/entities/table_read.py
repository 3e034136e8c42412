# SPDX-License-Identifier: Apache-2.0
"""Reading TableEntry, with the filters of the spec ("Wildcard Reads"), and which entries have been idle for too long
("Table Idle Timeout Notification")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from finsy.proto import p4r

from detour.engine.p4runtime.entities.common import Ids, fill_counter, fill_rates, no_colour_counters, selected
from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.store import EntityStore, Note, TableStore
from detour.engine.tables import Entry, GroupRef, NoSuchEntry

_NO_NOTE = Note()
_MESSAGE_BYTES = 256 << 10  # of a notification


def read(store: EntityStore, request: p4r.TableEntry, ids: Ids) -> Iterator[p4r.Entity | None]:
    """Entries of one table or of all, or default entries; None for an entry that was looked at in vain. With table_id 0
    no filter may be used. `is_default_action` is let through, since it selects another kind of entry and clients want
    all default entries at once."""
    filters = (request.match, request.priority, request.metadata, request.controller_metadata)
    if not request.table_id and (any(filters) or request.HasField("action")):
        raise invalid("reading table entries: without table_id nothing can be filtered")
    for table in selected(store.tables, request.table_id, "table", ids):
        if request.HasField("time_since_last_hit") and not table.info.ageing and request.table_id:
            raise invalid(f"{table.info.where} does not support idle time-outs")
        if table.info.meter is not None:
            no_colour_counters(request, "meter_counter_data")
        if request.is_default_action:
            yield from _default(table, request)
        else:
            yield from _entries(store, table, request)


def _entries(store: EntityStore, table: TableStore, request: p4r.TableEntry) -> Iterator[p4r.Entity | None]:
    action = _action_filter(table, request)
    metadata, cookie = request.metadata, request.controller_metadata
    for entry in entries(table, request):
        if entry is None:
            yield None
            continue
        if metadata or cookie:
            note = table.notes.get(entry.handle, _NO_NOTE)
            if (metadata and note.metadata != metadata) or (cookie and note.controller_metadata != cookie):
                yield None
                continue
        if action and (entry.action is None or entry.action.name != action):
            yield None
            continue
        yield show(store, table, entry, request)


def show(store: EntityStore, table: TableStore, entry: Entry, request: p4r.TableEntry) -> p4r.Entity:
    """An entry with what the request wants of it."""
    entity = p4r.Entity()
    out = entity.table_entry
    fill_key(table, entry, out)
    _fill_action(table, entry, out)
    _fill_note(table.notes.get(entry.handle, _NO_NOTE), out)
    if table.info.is_const:
        out.is_const = True
    _fill_resources(store, table, entry, request, out)
    return entity


def _action_filter(table: TableStore, request: p4r.TableEntry) -> str:
    """Name of the action that entries must run, "" for any."""
    if not request.HasField("action"):
        return ""
    if table.info.profile is not None or request.action.WhichOneof("type") != "action":
        raise invalid(f"{table.info.where}: entries can be filtered by an action_id of a direct table only")
    action_id = request.action.action.action_id
    if not action_id:
        return ""
    ref = table.info.actions.by_id.get(action_id)
    if ref is None:
        raise invalid(f"{table.info.where}: {action_id:#x} is not one of its actions")
    return ref.codec.name


def entries(table: TableStore, request: p4r.TableEntry, must_exist: bool = False) -> Iterator[Entry | None]:
    """The entries that match key and priority of a request, None for others that were looked at; `must_exist`:
    NOT_FOUND if a key has none."""
    info, engine, priority = table.info, table.engine, request.priority
    if priority < 0 or (priority and not info.key.prioritised):
        raise invalid(f"{info.where}: there are no entries with priority {priority}")
    if not request.match:
        yield from (e if not priority or e.priority == priority else None for e in engine.entries())
        return
    key = info.key.decode(request.match)
    if info.key.prioritised and not priority:
        # Entries of other priorities may have the same key; without a priority all of them are meant.
        some = False
        for e in engine.entries():
            matches = info.key.normal(e.key) == key
            some |= matches
            yield e if matches else None
        if must_exist and not some:
            raise NoSuchEntry(f"{info.where}: there is no entry {key}")
        return
    try:
        yield engine.get(engine.find(key, priority))
    except NoSuchEntry:
        if must_exist:
            raise


def _default(table: TableStore, request: p4r.TableEntry) -> Iterator[p4r.Entity]:
    info = table.info
    if request.match or request.priority:
        raise invalid(f"{info.where}: the default entry has neither match fields nor a priority")
    entity = p4r.Entity()
    out = entity.table_entry
    out.table_id, out.is_default_action = info.id, True
    entry = table.engine.default
    if entry is not None:
        _fill_action(table, entry, out)
    elif info.actions.no_action:  # an indirect table: p4c leaves its default out of the JSON, and BMv2 runs nothing
        out.action.action.action_id = info.actions.no_action
    note = table.default_note or _NO_NOTE
    _fill_note(note, out)
    if info.const_default or info.profile is not None:
        out.is_const = True
    action = _action_filter(table, request)
    if action and (entry is None or entry.action is None or entry.action.name != action):
        return
    if request.metadata in (b"", note.metadata) and request.controller_metadata in (0, note.controller_metadata):
        yield entity


def fill_key(table: TableStore, entry: Entry, out: p4r.TableEntry) -> None:
    """Fill in the fields that identify an entry."""
    out.table_id = table.info.id
    table.info.key.encode(entry.key, out.match)
    if entry.priority:
        out.priority = entry.priority


def _fill_action(table: TableStore, entry: Entry, out: p4r.TableEntry) -> None:
    if entry.action is not None:
        table.info.actions.encode(entry.action, entry.params, out.action.action)
        return
    one_shot = table.one_shots.get(entry.handle)
    if one_shot is not None:
        out.action.action_profile_action_set.CopyFrom(one_shot.message)
    elif isinstance(entry.target, GroupRef):
        out.action.action_profile_group_id = entry.target.group
    elif entry.target is not None:
        out.action.action_profile_member_id = entry.target.member


def _fill_note(note: Note, out: p4r.TableEntry) -> None:
    if note is not _NO_NOTE:
        out.metadata, out.controller_metadata = note.metadata, note.controller_metadata
        out.idle_timeout_ns = note.idle_timeout_ns


def _fill_resources(
    store: EntityStore, table: TableStore, entry: Entry, request: p4r.TableEntry, out: p4r.TableEntry
) -> None:
    """Direct resources and age, as far as the request has the fields set."""
    info = table.info
    if info.counter is not None and request.HasField("counter_data"):
        fill_counter(info.counter, table.engine.counter(entry.handle), out.counter_data)
    if info.meter is not None and request.HasField("meter_config"):
        fill_rates(table.engine.meter(entry.handle), out, "meter_config")
    if info.ageing and request.HasField("time_since_last_hit"):
        out.time_since_last_hit.elapsed_ns = idle_ns(store, table, entry.handle)


def idle_ns(store: EntityStore, table: TableStore, handle: int) -> int:
    """Return the time since a packet hit an entry. The engine's stamp of a new entry is the time of the switch's latest
    packet, which may be long ago; so an entry's own time begins with its note."""
    since = max(store.target.tick_to_ps(table.engine.last_hit(handle)), table.notes.get(handle, _NO_NOTE).since_ps)
    now = store.now_ps() if table.copied_ps is None else table.copied_ps
    return max(now - since, 0) // 1000


def any_ageing(store: EntityStore) -> bool:
    """Return whether any entry has an idle time-out."""
    return any(t.waiting for t in store.tables.values())


def idle_notifications(store: EntityStore, timestamp: int) -> list[p4r.IdleTimeoutNotification]:
    """Notifications for entries whose time has passed, of one table each and not too long; the time until the next one
    of an entry begins anew. `timestamp`: of the messages, ns. The caller keeps writers away. Packets may stamp entries
    meanwhile; a stamp is one word."""
    notifications, now = [], store.now_ps()
    for table in store.tables.values():
        message, size = p4r.IdleTimeoutNotification(timestamp=timestamp), 0
        for handle in sorted(table.waiting):
            note = table.notes[handle]
            if min(idle_ns(store, table, handle), (now - note.notified_ps) // 1000) < note.idle_timeout_ns:
                continue
            if size > _MESSAGE_BYTES:
                notifications.append(message)
                message, size = p4r.IdleTimeoutNotification(timestamp=timestamp), 0
            out = message.table_entry.add()
            fill_key(table, table.engine.get(handle), out)
            out.metadata, out.controller_metadata = note.metadata, note.controller_metadata
            out.idle_timeout_ns = note.idle_timeout_ns
            size += out.ByteSize()
            table.notes[handle] = replace(note, notified_ps=now)  # a Read may have a snapshot of the old one
        if message.table_entry:
            notifications.append(message)
    return notifications
