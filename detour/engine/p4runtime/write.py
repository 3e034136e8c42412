# SPDX-License-Identifier: Apache-2.0
"""Batches of updates (spec, "Write RPC").

A batch goes in slices, and each slice through two stages. The first checks every update against P4Info and decodes
it; it looks at no state and holds up nobody. The second carries out what is left, between two packets. So a batch of
100,000 entries stops the fabric for some milliseconds at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Protocol

from finsy.proto import p4r

from detour.base.garbage import HELD_OFF
from detour.engine.p4runtime.entities import ENTITIES
from detour.engine.p4runtime.entities.common import Ids, PendingUpdate
from detour.engine.p4runtime.errors import Code, Outcomes, Refused, invalid, refusal
from detour.engine.p4runtime.read import everything, unknown_entity
from detour.engine.p4runtime.store import EntityStore

_SLICE = 256  # a few milliseconds
_KINDS = (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE)


class Updates(Protocol):
    """A list of updates, or what takes them out of a message when they are asked for."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[p4r.Update]: ...


def write(store: EntityStore, updates: Updates, ids: Ids = None) -> Outcomes:
    """Carry out a batch as CONTINUE_ON_ERROR wants it; return what became of each update."""
    errors = Outcomes(len(updates))
    each = enumerate(updates)
    with HELD_OFF:
        for _ in range(0, len(updates), _SLICE):
            ready: list[tuple[int, PendingUpdate]] = []
            store.translation.begin(partial(everything, store))
            for i, update in islice(each, _SLICE):
                try:
                    ready.append((i, prepare(store, update, ids)))
                except Exception as e:
                    errors[i] = refusal(e)
            if ready:
                store.run(partial(_carry_out, ready, errors))
    return errors


def _carry_out(ready: list[tuple[int, PendingUpdate]], errors: Outcomes) -> None:
    for i, operation in ready:
        try:
            operation()
        except Exception as e:
            errors[i] = refusal(e)


def prepare(store: EntityStore, update: p4r.Update, ids: Ids) -> PendingUpdate:
    """Check one update and return what carries it out."""
    kind = update.type
    if kind not in _KINDS:
        raise invalid(f"update type {kind} is not one of INSERT, MODIFY, DELETE")
    entity = update.entity
    # Most updates are of entries, and HasField is faster than WhichOneof.
    name = "table_entry" if entity.HasField("table_entry") else entity.WhichOneof("entity")
    if name not in ENTITIES:
        raise unknown_entity(name)
    message = getattr(entity, name)
    if ids is not None and ENTITIES[name].id_path:
        id_ = attrgetter(ENTITIES[name].id_path)(message)
        if id_ not in ids:
            raise Refused(Code.PERMISSION_DENIED, f"the role may not write the object with id {id_:#x}")
    operation = prepare_numbers(store, kind, store.translation.inward(entity, kind))
    store.schema.restrictions.check(update)
    return operation


def prepare_numbers(store: EntityStore, kind: int, entity: p4r.Entity) -> PendingUpdate:
    """The same for an entity with numbers of the data plane that has been checked before."""
    name = entity.WhichOneof("entity") or ""
    operation = ENTITIES[name].prepare(store, kind, getattr(entity, name))
    return store.references.guard(kind, entity, operation)
