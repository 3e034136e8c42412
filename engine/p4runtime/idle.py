# SPDX-License-Identifier: Apache-2.0
"""Which entries have been idle for too long (spec, "Table Idle Timeout Notification")."""

from __future__ import annotations

from dataclasses import replace

from finsy.proto import p4r

from detour.engine.p4runtime.entities.table_read import fill_key, idle_ns
from detour.engine.p4runtime.store import EntityStore

_MESSAGE_BYTES = 256 << 10


def ageing(store: EntityStore) -> bool:
    """Whether any entry has an idle time-out."""
    return any(t.waiting for t in store.tables.values())


def scan(store: EntityStore, timestamp: int) -> list[p4r.IdleTimeoutNotification]:
    """Notifications for entries whose time has passed, of one table each and not too long; the time until the next
    one of an entry begins anew.

    `timestamp`: of the messages, ns. The caller keeps writers away. Packets may stamp entries meanwhile; a stamp is one
    word.
    """
    notifications, now = [], store.now_ps()
    for found in store.tables.values():
        message, size = p4r.IdleTimeoutNotification(timestamp=timestamp), 0
        for handle in sorted(found.waiting):
            note = found.notes[handle]
            if min(idle_ns(store, found, handle), (now - note.notified_ps) // 1000) < note.idle_timeout_ns:
                continue
            if size > _MESSAGE_BYTES:
                notifications.append(message)
                message, size = p4r.IdleTimeoutNotification(timestamp=timestamp), 0
            out = message.table_entry.add()
            fill_key(found, found.engine.get(handle), out)
            out.metadata, out.controller_metadata = note.metadata, note.controller_metadata
            out.idle_timeout_ns = note.idle_timeout_ns
            size += out.ByteSize()
            found.notes[handle] = replace(note, notified_ps=now)  # a Read may have a snapshot of the old one
        if message.table_entry:
            notifications.append(message)
    return notifications
