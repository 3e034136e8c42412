# SPDX-License-Identifier: Apache-2.0
"""Batches of read requests (spec, "Read RPC")."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice, starmap

from finsy.proto import p4r

from detour.engine.p4runtime.entities import ENTITIES
from detour.engine.p4runtime.entities.common import WHOLE_ENTRY, Ids
from detour.engine.p4runtime.errors import Code, Outcomes, Refused, invalid, refusal
from detour.engine.p4runtime.store import EntityStore
from detour.engine.tables import NoSuchEntry

# What packets change of a table entry.
_VOLATILE_FIELDS = ("counter_data", "time_since_last_hit")
_SLICE = 256
CHUNK_BYTES = 256 << 10
"""of a piece of an answer; clients take 4 MiB by default"""
WHOLE_STATE = (
    p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
    p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
    p4r.Entity(table_entry=WHOLE_ENTRY),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
    p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
    p4r.Entity(digest_entry=p4r.DigestEntry()),
    p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(meter_entry=p4r.MeterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
)
"""requests for all that a client has written, members before groups before entries"""
_SHORT = 8 * _SLICE  # entities looked at: 50 ms, a switch of a fabric of 512 whole
_TURN_S = 0.01


class Reader:
    """Answers one request in pieces. `errors` has one element a request when all pieces are taken. The caller keeps
    writers away until then, or gives a snapshot."""

    def __init__(self, store: EntityStore, requests: Sequence[p4r.Entity], ids: Ids = None) -> None:
        self._store, self._requests, self._ids = store, requests, ids
        self.errors = Outcomes(len(requests))

    def chunks(self) -> Iterator[p4r.ReadResponse]:
        """The responses."""
        for piece in self.pieces():
            if piece:
                yield p4r.ReadResponse.FromString(piece)

    def pieces(self) -> Iterator[bytes]:
        """The responses, serialised; an empty one now and then when there is nothing to send yet."""
        waiting: list[p4r.Entity] = []
        size, begun = 0, time.monotonic()
        for some in self._slices():
            for entity in some:
                if entity is None:
                    continue
                octets = entity.ByteSize()
                if waiting and size + octets > CHUNK_BYTES:
                    yield _serialised(waiting)
                    waiting, size, begun = [], 0, time.monotonic()
                waiting.append(entity)
                size += octets
            if time.monotonic() - begun > _TURN_S:
                yield b""
                begun = time.monotonic()
        if waiting:
            yield _serialised(waiting)

    def short_answer(self) -> bytes | None:
        """The whole answer, if that is one piece and soon found; else None, and the reader is used up."""
        answer: list[p4r.Entity] = []
        seen = size = 0
        for some in self._slices():
            seen += len(some)
            entities = [entity for entity in some if entity is not None]
            size += sum(entity.ByteSize() for entity in entities)
            if seen > _SHORT or size > CHUNK_BYTES:
                return None
            answer += entities
        return _serialised(answer) if answer else b""

    def _slices(self) -> Iterator[list[p4r.Entity | None]]:
        """Some entities at a time, None for those that were looked at and are not wanted. What packets change is read
        while no packet is processed. Requests for it that follow one another, like cells of counters, are answered
        together: such a visit costs more than a cell."""
        for volatile, group in groupby(enumerate(self._requests), lambda item: _is_volatile(item[1])):
            entities = chain.from_iterable(starmap(self._entities, group))

            def take(entities: Iterator[p4r.Entity | None] = entities) -> list[p4r.Entity | None]:
                return list(islice(entities, _SLICE))

            while some := self._store.run(take) if volatile else take():
                yield some
                if len(some) < _SLICE:
                    break

    def _entities(self, index: int, request: p4r.Entity) -> Iterator[p4r.Entity | None]:
        yield None  # a request counts, even if it finds nothing
        try:
            name = request.WhichOneof("entity")
            if name == "extern_entry" and not request.extern_entry.extern_type_id:
                return  # "all externs": there are none
            if name not in ENTITIES:
                raise unknown_entity(name)
            translation = self._store.translation
            try:
                message = getattr(translation.inward(request), name)
            except NoSuchEntry:
                if name == "table_entry":
                    return
                raise
            for entity in ENTITIES[name].read(self._store, message, self._ids):
                yield entity and translation.outward(entity)
        except Exception as e:
            self.errors[index] = refusal(e)


def _serialised(entities: list[p4r.Entity]) -> bytes:
    return p4r.ReadResponse(entities=entities).SerializeToString()


def _is_volatile(request: p4r.Entity) -> bool:
    name = request.WhichOneof("entity")
    if name == "table_entry":
        return any(request.table_entry.HasField(f) for f in _VOLATILE_FIELDS)
    return name in ENTITIES and ENTITIES[name].volatile


def everything(store: EntityStore) -> Iterator[p4r.Entity]:
    """All that a client has written but arrays of counters, meters and registers."""
    for response in Reader(store, WHOLE_STATE[:-3]).chunks():
        yield from response.entities


def unknown_entity(name: str | None) -> Refused:
    """The refusal of an entity that is not there, or of an extern."""
    if name is None:
        return invalid("the entity is empty")
    return Refused(Code.UNIMPLEMENTED, f"{name}: v1model has no externs of this kind")
