# SPDX-License-Identifier: Apache-2.0
"""DigestEntry: which digests are sent, and how they are bundled (spec, same title)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from detour.engine.p4runtime import schema
from detour.engine.p4runtime.entities.common import DELETE, INSERT, Ids, PendingUpdate, selected
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.store import EntityStore
from detour.engine.tables import EntryExists, NoSuchEntry


def prepare(store: EntityStore, kind: int, entry: p4r.DigestEntry) -> PendingUpdate:
    """INSERT enables a digest, MODIFY changes its parameters, DELETE disables it."""
    info = schema.find(store.schema.digests, entry.digest_id, "digest")
    what = f"digest {info.name}"
    if info.type is None:
        raise Refused(Code.UNIMPLEMENTED, f"{what}: its type cannot be shown as P4Data")
    config = p4r.DigestEntry.Config()
    config.CopyFrom(entry.config)
    if kind != DELETE and min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
        raise invalid(f"{what}: time-outs and sizes cannot be negative")

    def apply() -> None:
        enabled = info.id in store.digests
        if kind == INSERT and enabled:
            raise EntryExists(f"{what} is enabled")
        if kind != INSERT and not enabled:
            raise NoSuchEntry(f"{what} is not enabled")
        if kind == DELETE:
            del store.digests[info.id]
        else:
            store.digests[info.id] = config

    return apply


def read(store: EntityStore, entry: p4r.DigestEntry, ids: Ids) -> Iterator[p4r.Entity]:
    """The enabled digests."""
    for info in selected(store.schema.digests, entry.digest_id, "digest", ids):
        config = store.digests.get(info.id)
        if config is None:
            continue
        entity = p4r.Entity()
        out = entity.digest_entry
        out.digest_id = info.id
        out.config.CopyFrom(config)
        yield entity
