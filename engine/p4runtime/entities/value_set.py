# SPDX-License-Identifier: Apache-2.0
"""ValueSetEntry (spec, same title)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from detour.engine.p4runtime import schema
from detour.engine.p4runtime.entities.common import Ids, PendingUpdate, modify_only, selected
from detour.engine.p4runtime.errors import Code, Refused
from detour.engine.p4runtime.match import MatchCodec
from detour.engine.p4runtime.store import EntityStore


def prepare(store: EntityStore, kind: int, entry: p4r.ValueSetEntry) -> PendingUpdate:
    """MODIFY only: replaces all members."""
    info = schema.find(store.schema.value_sets, entry.value_set_id, "value set")
    what = f"value set {info.name}"
    modify_only(kind, what)
    if len(entry.members) > info.size:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"{what}: {len(entry.members)} members, it takes {info.size}")
    if info.key is None:
        raise Refused(Code.UNIMPLEMENTED, f"{what}: BMv2's value sets match exactly only")
    values = [_pack(info.key, m) for m in entry.members]
    if len(set(values)) < len(values):
        raise Refused(Code.ALREADY_EXISTS, f"{what}: a member is given twice")
    engine = store.state.value_sets[info.name]
    return lambda: engine.replace(values)


def _pack(key: MatchCodec, member: p4r.ValueSetMember) -> int:
    """The components side by side, first on the left, as the engine wants them."""
    value = 0
    for f, element in zip(key.fields, key.decode(member.match), strict=True):
        value = value << f.bits | element
    return value


def _unpack(key: MatchCodec, value: int) -> tuple[int, ...]:
    elements = []
    for f in reversed(key.fields):
        elements.append(value & ((1 << f.bits) - 1))
        value >>= f.bits
    return tuple(reversed(elements))


def read(store: EntityStore, entry: p4r.ValueSetEntry, ids: Ids) -> Iterator[p4r.Entity]:
    """One set or all sets, with all members."""
    for info in selected(store.schema.value_sets, entry.value_set_id, "value set", ids):
        entity = p4r.Entity()
        out = entity.value_set_entry
        out.value_set_id = info.id
        if info.key is not None:
            for value in store.state.value_sets[info.name].values:
                info.key.encode(_unpack(info.key, value), out.members.add().match)
        yield entity
